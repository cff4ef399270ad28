"""What a script for one case runs: the plugin's own comparison, without pytest, processes or rules' registries.

The functions here stand in for those that look something up in a registry; the rest of a script is the plugin's own
source. It is written with Paddle, Torch and NumPy alone.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import importlib
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import paddle
import torch

from ..adapters.registry import Adapter
from ..binding import Binding
from ..callables import MissingApiError
from ..compare.registry import Comparator
from ..record import Record
from ..reference.registry import Reference

#: bfloat16 and float8 travel as integers of the same size.
_CARRIERS: dict[str, Any] = {"bfloat16": np.uint16, "float8_e4m3fn": np.uint8, "float8_e5m2": np.uint8}
#: NumPy itself has all other dtypes.
NO_NUMPY_DTYPES: dict[str, Any] = {}
#: The adapter of the script's only call.
_adapter = [Adapter()]


class Carried(np.ndarray):  # type: ignore[type-arg]
    """Values of a dtype that NumPy does not have, by name, held as integers of the same size."""

    name = ""

    @property
    def dtype(self) -> Any:  # type: ignore[override]
        """Has the name of the real dtype."""
        return SimpleNamespace(name=self.name)

    def view(self, kind: Any = None) -> Any:  # type: ignore[override]
        """The integers, as ``kind``."""
        plain = np.ndarray.view(self, np.ndarray)
        return plain if kind is None or kind is np.ndarray else plain.view(kind)

    def astype(self, kind: Any, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        """The values as another dtype."""
        signed = np.int16 if self.itemsize == 2 else np.int8
        values = torch.from_numpy(self.view(signed)).view(getattr(torch, self.name)).to(torch.float64)
        return values.numpy().astype(kind, *args, **kwargs)


def array(dtype: str, shape: Sequence[int], data: bytes) -> Any:
    """Values from their bytes."""
    carrier = _CARRIERS.get(dtype)
    found = np.frombuffer(bytearray(data), dtype=carrier or dtype).reshape(tuple(shape))
    if carrier is None:
        return found
    carried = found.view(Carried)
    carried.name = dtype
    return carried


def stored(dtype: str, shape: Sequence[int], text: str) -> Any:
    """Values from the text that the script holds."""
    return array(dtype, shape, zlib.decompress(base64.b85decode(text)))


def drawn(dtype: str, shape: Sequence[int], seed: Sequence[int], digest: str) -> Any:
    """Ordinary values, drawn again; ``digest`` is the SHA-256 of their bytes.

    Raises:
        SystemExit: this NumPy draws others.
    """
    from ...config import TensorSpec
    from ..inputs.makers import ordinary
    from ..inputs.registry import CallValues, Draw

    rng = np.random.Generator(np.random.PCG64(list(seed)))
    made = np.asarray(
        ordinary(Draw(CallValues("", {}, {}, ordinary, ()), TensorSpec(tuple(shape), dtype), ("x",), rng))
    )
    if dtype in _CARRIERS:
        rounded = torch.from_numpy(np.ascontiguousarray(made)).to(getattr(torch, dtype))
        data = rounded.view(torch.int16 if rounded.itemsize == 2 else torch.int8).numpy().tobytes()
    else:
        data = np.ascontiguousarray(made.astype(dtype, copy=False)).tobytes()
    if hashlib.sha256(data).hexdigest() != digest:
        raise SystemExit(f"NumPy {np.__version__} draws other values than the NumPy that this script was made with")
    return array(dtype, shape, data)


def paddle_function(api: str) -> Any:
    """The Paddle object that ``api`` names.

    Raises:
        MissingApiError: there is none in this build.
    """
    parts = api.split(".")
    found: Any = paddle
    for index, part in enumerate(parts[1:], 1):
        if found is not paddle.Tensor:
            # A function may stand in front of the module of its name, as ``paddle.tensor`` does.
            found = sys.modules.get(".".join(parts[:index]), found)
            if not hasattr(found, part):
                with contextlib.suppress(ImportError):  # not a module either: the next line says so
                    importlib.import_module(".".join(parts[: index + 1]))
        if getattr(found, part, None) is None:
            raise MissingApiError(f"Paddle {paddle.__version__} has no {api}")
        found = getattr(found, part)
    return found


def find_adapter(api: str) -> Adapter:
    """The adapter of the script's call."""
    return _adapter[0]


@dataclass(frozen=True)
class Measured:
    """Numbers about the case."""

    compared_outputs: int | None = None
    compared_gradients: int | None = None
    compared_elements: int | None = None
    max_abs_diff: float | None = None
    max_rel_diff: float | None = None
    tolerance: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ToleranceOptions:
    """How close is equal: ``dtype`` (ten times Torch's table), ``fixed`` or ``bitwise``."""

    kind: str = "dtype"
    atol: float = 1e-2
    rtol: float = 1e-2
    per_api: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass
class Case:
    """The case of a script: what was called with what, and how its results are compared."""

    api: str
    config: str
    values: Mapping[str, Any]
    binding: Binding
    dtypes: Sequence[str]
    seed: tuple[int, ...]
    tolerance: ToleranceOptions
    comparator: Comparator
    reference: Reference | None = None
    adapter: Adapter = field(default_factory=Adapter)
    mutates: tuple[str, ...] = ()
    backward: bool = True
    gauges: Mapping[int, str] = field(default_factory=dict)
    constant: tuple[str, ...] = ()
    record: Record = field(default_factory=Record)

    @property
    def options(self) -> Any:
        """The options that the comparison asks for."""
        return SimpleNamespace(
            tolerance=self.tolerance,
            record_tolerance=False,
            torch_device="cpu",
            second_device="",
            amp=False,
            gpu_mode=False,
        )

    @property
    def landing(self) -> str:
        """Torch's name of the device that results are compared on."""
        return "cpu"

    @property
    def call(self) -> Any:
        """The dtypes of the call's tensors."""
        return SimpleNamespace(tensors=lambda: [SimpleNamespace(dtype=name) for name in self.dtypes])

    def rng(self, stream: int) -> np.random.Generator:
        """A generator that depends on the case and ``stream`` only."""
        return np.random.Generator(np.random.PCG64([*self.seed, 1 << 20, stream]))


def run(case: Case, mode: Callable[[Any, Any], Any]) -> int:
    """Run both sides, print the verdict and the numbers; 0 where the case passes, else 1."""
    paddle.set_device("cpu")
    # So that a crash ends this process by its signal.
    paddle.disable_signal_handler()
    torch.set_num_threads(1)
    _adapter[0] = case.adapter
    print(f"config: {case.config}")
    print(f"Paddle {paddle.__version__}, Torch {torch.__version__}, NumPy {np.__version__}, on the CPU")
    judgement = mode(case, lambda stage: print(f"stage: {stage.value}", flush=True))
    if judgement.text:
        print(judgement.text)
    measured = judgement.measured
    for name in ("compared_outputs", "compared_gradients", "compared_elements", "max_abs_diff", "max_rel_diff"):
        if (value := getattr(measured, name)) is not None:
            print(f"{name}: {value}")
    if measured.tolerance:
        print(f"tolerance: {measured.tolerance}")
    for note in measured.notes:
        print(f"note: {note}")
    print(f"verdict: {judgement.verdict.value}", flush=True)
    return 0 if judgement.verdict.value == "pass" else 1
