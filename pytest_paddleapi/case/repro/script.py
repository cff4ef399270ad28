"""Writes the script of one case."""

from __future__ import annotations

import base64
import hashlib
import textwrap
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import paddle
import torch

from ... import __version__
from ...config import TensorSpec, parse_call, print_call
from ...process.messages import CaseOptions, Mode
from ..adapters.registry import PLAIN, find_adapter
from ..dtypes import CARRIER, numpy_dtype
from ..inputs.makers import ordinary
from ..inputs.registry import CallValues, Draw, InputError
from ..prepared import PreparedCase, prepare
from ..reference.registry import NoReference, Reference
from .bundle import Bundle
from .modules import PACKAGE

#: Compressed bytes of all tensors that a script holds itself; what is larger is drawn again, or stands beside it.
MOST_STORED = 48 << 10
_REPRO = f"{PACKAGE}.case.repro.runtime"
_SUBSTITUTES = {
    (f"{PACKAGE}.case.callables", "paddle_function"): (_REPRO, "paddle_function"),
    (f"{PACKAGE}.case.adapters.registry", "find_adapter"): (_REPRO, "find_adapter"),
    (f"{PACKAGE}.process.messages", "Measured"): (_REPRO, "Measured"),
    (f"{PACKAGE}.process.messages", "ToleranceOptions"): (_REPRO, "ToleranceOptions"),
    (f"{PACKAGE}.case.dtypes", "_NUMPY"): (_REPRO, "NO_NUMPY_DTYPES"),
}
_MODES = {
    Mode.ACCURACY: (f"{PACKAGE}.case.modes.accuracy", "run_accuracy"),
    Mode.PADDLE_ONLY: (f"{PACKAGE}.case.modes.paddle_only", "run_paddle_only"),
}


class ScriptError(Exception):
    """No script can be written for this case; the text says why."""


@dataclass
class Script:
    """The text, and the arrays of the file beside it (by name, as integers where NumPy has no such dtype)."""

    text: str
    arrays: dict[str, Any] = field(default_factory=dict)


def write_script(config: str, options: CaseOptions, archive: str) -> Script:
    """The script for ``config``; ``archive`` is the name of the file beside it, should there have to be one.

    Raises:
        ConfigSyntaxError: it is no config.
        ScriptError: the mode has no scripts, the inputs cannot be made, or there is nothing to compare with.
    """
    if options.mode not in _MODES:
        raise ScriptError(f"scripts are written for {' and '.join(mode.value for mode in _MODES)} alone")
    call = parse_call(config)
    try:
        case = prepare(call, options)
    except InputError as exc:
        raise ScriptError(f"the inputs cannot be made: {exc}") from None
    _check_reference(case)
    bundle = Bundle(_SUBSTITUTES)
    values = _Values(case, bundle, archive)
    try:
        text = _text(case, bundle, values)
    except LookupError as exc:
        raise ScriptError(f"the rule of {case.api} cannot stand alone: {exc}") from None
    return Script(text, values.arrays)


def _check_reference(case: PreparedCase) -> None:
    if isinstance(case.reference, Reference):
        return
    if case.options.mode is Mode.PADDLE_ONLY and case.reference is None:
        return
    if case.options.mode is Mode.ACCURACY and not case.comparator.needs_reference:
        return
    why = case.reference.why if isinstance(case.reference, NoReference) else "there is no reference rule"
    raise ScriptError(f"{case.api} has nothing to be compared with: {why}")


def _text(case: PreparedCase, bundle: Bundle, values: _Values) -> str:
    for name in ("stored", "array", "drawn"):
        bundle.need(_REPRO, name, later=True)
    runtime = {name: bundle.need(_REPRO, name, later=True) for name in ("Case", "run", "ToleranceOptions")}
    mode = bundle.need(*_MODES[case.options.mode], later=True)
    assignments = "".join(f"    {line}\n" for line in _case_lines(case, bundle, values))
    body = [
        *bundle.definitions,
        *values.definitions(),
        f"CASE = {runtime['Case']}(\n{assignments})",
        f'if __name__ == "__main__":\n    sys.exit({runtime["run"]}(CASE, {mode}))',
    ]
    imports = [line for line in bundle.imports if line != "import sys"]
    head = [
        "#!/usr/bin/env python3",
        _docstring(case, values),
        "from __future__ import annotations",
        "\n".join(["import sys", *imports]),
    ]
    return "\n\n".join(head) + "\n\n\n" + "\n\n\n".join(body) + "\n"


def _docstring(case: PreparedCase, values: _Values) -> str:
    beside = f" and the file {values.archive} beside it" if values.arrays else ""
    lines = textwrap.wrap(
        f"Written by pytest-paddleapi {__version__} (Apache-2.0) with Paddle {paddle.__version__}, Torch "
        f"{torch.__version__} and NumPy {np.__version__}. It needs Paddle, Torch and NumPy alone{beside}. It makes "
        f"the inputs of one call, bit by bit those of the plugin (seed {case.options.seed}), runs it under "
        f"{case.options.mode.value}, prints the verdict, and exits with 0 if it is pass, else with 1.",
        width=110,
    )
    config = print_call(case.call).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'"""{config}\n\n' + "\n".join(lines) + '\n"""'


def _case_lines(case: PreparedCase, bundle: Bundle, values: _Values) -> Iterator[str]:
    write, need = bundle.expression, bundle.need
    tolerance = case.options.tolerance
    yield f"api={case.api!r},"
    yield f"config={print_call(case.call)!r},"
    yield "values={"
    for name, value in case.values.items():
        yield f"    {name!r}: {values.expression(name, value)},"
    yield "},"
    keywords = write(case.binding.keywords)
    binding = need(f"{PACKAGE}.case.binding", "Binding")
    yield f"binding={binding}(arguments={{}}, positions={write(case.binding.positions)}, keywords={keywords}),"
    yield f"dtypes={sorted({spec.dtype for spec in case.call.tensors()})!r},"
    yield f"seed={case.seed!r},"
    yield (
        f"tolerance=ToleranceOptions({tolerance.kind!r}, {tolerance.atol!r}, {tolerance.rtol!r}, "
        f"{write(dict(tolerance.per_api))}),"
    )
    comparator = need(f"{PACKAGE}.case.compare.registry", "Comparator")
    judge = write(case.comparator.judge)
    yield f"comparator={comparator}({judge}, {case.comparator.meaning!r}, {case.comparator.needs_reference}),"
    if isinstance(case.reference, Reference):
        yield f"reference={_reference(case.reference, bundle)},"
    adapter = find_adapter(case.api)
    if adapter is not PLAIN:
        name = need(f"{PACKAGE}.case.adapters.registry", "Adapter")
        yield f"adapter={name}({write(adapter.arguments)}, {write(adapter.results)}),"
    yield f"mutates={case.mutates!r},"
    yield f"backward={case.backward!r},"
    yield f"gauges={write(dict(case.gauges))},"
    yield f"constant={case.constant!r},"


def _reference(found: Reference, bundle: Bundle) -> str:
    name = bundle.need(f"{PACKAGE}.case.reference.registry", "Reference")
    rule = _renamed(found, bundle) if found.kind == "rename" else bundle.expression(found.rule)
    return (
        f"{name}({found.api!r}, {rule}, None, mutates={found.mutates!r}, constant={found.constant!r}, "
        f"no_gradient={found.no_gradient!r}, gauges={bundle.expression(dict(found.gauges))}, "
        f"returns_changed={found.returns_changed!r})"
    )


def _renamed(found: Reference, bundle: Bundle) -> str:
    """A rule of the table of names, as a function of its own."""
    held = dict(zip(found.rule.__code__.co_freevars, (cell.cell_contents for cell in found.rule.__closure__ or ())))
    defaults = {
        name: parameter.default
        for name, parameter in found.signature.parameters.items()
        if name != "name" and isinstance(parameter.default, (bool, int, float, str, type(None), list, tuple))
    }
    names = [name for name in found.signature.parameters if name != "name"]
    target = bundle.expression(held["function"])
    return bundle.define(
        "reference_rule",
        lambda own: (
            f"def {own}(*args, **kwargs):\n"
            f'    """{found.api} is {target} under another name."""\n'
            f"    given = {{**{bundle.expression(defaults)}, **dict(zip({names!r}, args)), **kwargs}}\n"
            f"    torch_names = {held['torch_names']!r}\n"
            f"    return {target}(**{{torch_names[name]: value for name, value in given.items() if name != 'name'}})"
        ),
    )


class _Values:
    """Writes the arguments: tensors by name, everything else as it is."""

    def __init__(self, case: PreparedCase, bundle: Bundle, archive: str) -> None:
        self.archive = archive
        self.arrays: dict[str, Any] = {}
        self._case = case
        self._bundle = bundle
        self._lines: list[str] = []
        self._left = MOST_STORED

    def definitions(self) -> list[str]:
        """What opens the file beside the script, where there is one."""
        if not self.arrays:
            return []
        return [f"ARCHIVE = np.load(Path(__file__).with_name({self.archive!r}), allow_pickle=False)"]

    def expression(self, name: str, value: Any) -> str:
        """Source of one argument."""
        index = list(self._case.binding.arguments).index(name)
        return self._write(value, self._case.binding.arguments[name], name, (*self._case.seed, index))

    def _write(self, value: Any, spec: Any, name: str, seed: tuple[int, ...]) -> str:
        if isinstance(spec, TensorSpec):
            return self._tensor(value, spec, name, seed)
        if isinstance(value, (list, tuple)):
            items = [self._write(v, s, f"{name}.{i}", (*seed, i)) for i, (v, s) in enumerate(zip(value, spec))]
            inside = ", ".join(items)
            if isinstance(value, list):
                return f"[{inside}]"
            return f"({inside},)" if len(items) == 1 else f"({inside})"
        if isinstance(value, dict):
            pairs = [
                f"{key!r}: {self._write(item, spec[key], f'{name}.{key}', (*seed, i))}"
                for i, (key, item) in enumerate(value.items())
            ]
            return "{" + ", ".join(pairs) + "}"
        if isinstance(value, slice):
            parts = [
                self._write(getattr(value, part), getattr(spec, part), f"{name}.{part}", (*seed, i))
                for i, part in enumerate(("start", "stop", "step"))
            ]
            return f"slice({', '.join(parts)})"
        for kind in ("DtypeRef", "TypeRef"):
            if type(value).__name__ == kind:
                self._bundle.need(f"{PACKAGE}.config.model", kind)
        return self._bundle.expression(value)

    def _tensor(self, value: Any, spec: TensorSpec, name: str, seed: tuple[int, ...]) -> str:
        data = carried(value).tobytes()
        head = f"{spec.dtype!r}, {list(spec.shape)}"
        packed = zlib.compress(data, 9) if len(data) <= 64 * MOST_STORED else None
        if packed is not None and len(packed) <= self._left and len(packed) <= 4096:
            self._left -= len(packed)
            return f"stored({head}, {base64.b85encode(packed).decode()!r})"
        if _is_ordinary(value, spec, seed):
            return f"drawn({head}, {list(seed)}, {hashlib.sha256(data).hexdigest()!r})"
        if packed is not None and len(packed) <= self._left:
            self._left -= len(packed)
            return f"stored({head}, {base64.b85encode(packed).decode()!r})"
        self._bundle.use("import numpy as np")
        self._bundle.use("from pathlib import Path")
        self.arrays[name] = carried(value)
        return f"array({head}, ARCHIVE[{name!r}].tobytes())"


def carried(value: Any) -> Any:
    """The array as NumPy alone can store it: bfloat16 and float8 as integers."""
    carrier = CARRIER.get(value.dtype.name)
    return value if carrier is None else value.view(carrier)


def _is_ordinary(value: Any, spec: TensorSpec, seed: tuple[int, ...]) -> bool:
    """The values are what :func:`ordinary` draws from this seed, so that the script can draw them too."""
    rng = np.random.Generator(np.random.PCG64(list(seed)))
    made = np.asarray(ordinary(Draw(CallValues("", {}, {}, ordinary, ()), spec, ("x",), rng)))
    made = made.astype(numpy_dtype(spec.dtype), copy=False)
    return made.shape == value.shape and made.tobytes() == value.tobytes()
