"""``--custom-device-vs-gpu``: Paddle here with Paddle on another machine, by results that are stored.

The store is read and written here, in the case process, in a stage of its own: a client that hangs is killed with the
process at the case's time limit, and large results cross no other process.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import paddle
import torch

from ... import __version__
from ...config import print_call
from ...config.files import printable
from ...golden.errors import DamagedGoldenError, NotStorableError, StoreError
from ...golden.names import deciding_options, object_name
from ...golden.record import FORMAT, MOST_BYTES, Header, Record, decode, encode
from ...golden.store import Store, open_store
from ...process.messages import GoldenOptions, Measured, Stage, Verdict
from ..holding import received
from ..paddle_side import PaddleCall
from ..prepared import PreparedCase
from ..reference.registry import NoReference
from ..results import SideResult, first_line
from ..stored_values import Packer, digest_of_inputs, digest_of_tensors, form, unpack
from ..tensors import leaves
from ..torch_side import cotangent
from .accuracy import BothSides, compare, paddle_gradients
from .base import Enter, Judgement, judge_exception

#: One case process has one store.
open_golden = lru_cache(maxsize=1)(open_store)

_AGAIN = "upload it again with --paddleapi-golden-overwrite"
_RETEST = "with --paddleapi-resume, --paddleapi-retest=config_input runs it again"
_NAMES = ("Paddle here", "the golden result")
#: A stored note is shown as it is, so not at any length.
_LONGEST_NOTE = 500


def run_golden(case: PreparedCase, enter: Enter) -> Judgement:
    """Store what Paddle gives here, or compare it with what is stored."""
    golden = case.options.golden
    if golden is None:
        raise ValueError("this mode needs CaseOptions.golden")
    if isinstance(case.reference, NoReference):
        return Judgement(Verdict.NOT_COMPARABLE, f"{case.api} is not called: {case.reference.why}")
    name = object_name(print_call(case.call), case.options)
    try:
        store = open_golden(golden)
        return _upload(case, enter, golden, store, name) if golden.upload else _download(case, enter, store, name)
    except DamagedGoldenError as exc:
        # Charged to what was stored, as an input of the case: no kernel has run, or none is in doubt.
        return Judgement(Verdict.CONFIG_INPUT, f"the golden result cannot be used: {exc}; {_AGAIN}")
    except StoreError as exc:
        return Judgement(Verdict.CONFIG_INPUT, f"the golden result: {exc}; {_RETEST}")
    except NotStorableError as exc:
        return Judgement(Verdict.NOT_COMPARABLE, str(exc))


# Upload ---------------------------------------------------------------------------------------


def _upload(case: PreparedCase, enter: Enter, golden: GoldenOptions, store: Store, name: str) -> Judgement:
    digest = digest_of_inputs(case.values)
    if not golden.overwrite:
        enter(Stage.GOLDEN)
        if (there := _valid(store, name, digest)) is not None:
            outputs, gradients = _counts(there)
            note = "stored by an earlier upload, and whole; nothing was run"
            return Judgement(Verdict.PASS, measured=_measured(outputs, gradients, note, "kept"))
    result = _run(case, enter)
    if isinstance(result, Judgement):
        return result
    enter(Stage.GOLDEN)
    packer = Packer()
    header = Header(
        format=FORMAT,
        name=name,
        config=print_call(case.call).encode("utf-8", "backslashreplace").decode(),
        seed=case.options.seed,
        options=deciding_options(case.options),
        made_by=_here(case),
        inputs_digest=digest,
        fed=tuple(map(form, result.cotangents)),
        fed_digest=digest_of_tensors(result.cotangents),
        outputs=packer.pack(result.outputs, "the output"),
        changed=packer.pack(result.changed, "a changed argument"),
        gradients=packer.pack(result.gradients, "a gradient"),
        notes=tuple(result.notes),
        payload_bytes=0,
        payload_digest="",
    )
    outputs, gradients = _counts(header)
    if not outputs and not gradients:
        return Judgement(Verdict.NOT_COMPARABLE, "the call gives nothing that could be compared, so nothing is stored")
    pieces = encode(header, packer.values)
    store.write(name, pieces)
    size = sum(memoryview(piece).nbytes for piece in pieces)
    measured = _measured(outputs, gradients, "stored; nothing is compared by an upload", "uploaded", size)
    notes = (*measured.notes, *result.notes)
    return Judgement(Verdict.PASS, measured=Measured(notes=notes, more=measured.more))


def _valid(store: Store, name: str, inputs_digest: str) -> Header | None:
    """What is stored, if it is whole and of these inputs; anything else is written anew."""
    try:
        record = _read(store, name)
    except DamagedGoldenError:
        return None
    return record.header if record is not None and record.header.inputs_digest == inputs_digest else None


def _run(case: PreparedCase, enter: Enter) -> SideResult | Judgement:
    """What Paddle gives, with gradients for output gradients that the other machine can make too."""
    enter(Stage.PADDLE)
    call = PaddleCall(case, backward=case.backward)
    try:
        call.forward()
        result = call.result()
    except Exception as exc:  # any failure of the API under test is a verdict
        return judge_exception(exc, Stage.PADDLE, "Paddle")
    try:
        fed = call.own_cotangents()
        result.gradients = call.gradients(fed)
        result.cotangents = fed
        wrong = [name for name, grad in result.gradients.items() if list(grad.shape) != list(call.inputs[name].shape)]
        if wrong:
            text = f"not stored: the gradient of {', '.join(wrong)} has not the shape of its input"
            return Judgement(Verdict.PADDLE_ACCURACY, text)
    except Exception as exc:
        failure = judge_exception(exc, Stage.PADDLE, "Paddle's backward")
        if failure.verdict is not Verdict.NOT_SUPPORTED:
            return failure
        result.notes.append(f"gradients not stored: {first_line(failure.text)}"[:_LONGEST_NOTE])
    # In gpu-mode results are held where they were computed.
    return received(result, "cpu")


def _counts(header: Header) -> tuple[int, int]:
    """How many values can be compared, and how many gradients are among them."""
    return header.outputs.leaves() + header.changed.leaves(), len(header.gradients.items) // 2


def _measured(outputs: int, gradients: int, note: str, what: str, size: int = 0) -> Measured:
    more: dict[str, int | float | str] = {"golden": what, "golden_outputs": outputs, "golden_gradients": gradients}
    return Measured(notes=(note,), more=more | ({"golden_bytes": size} if size else {}))


def _here(case: PreparedCase) -> dict[str, str]:
    return {
        "pytest-paddleapi": __version__,
        "paddle": str(paddle.__version__),
        "numpy": np.__version__,
        "device": case.options.device.partition(":")[0],
    }


# Download -------------------------------------------------------------------------------------


def _download(case: PreparedCase, enter: Enter, store: Store, name: str) -> Judgement:
    enter(Stage.GOLDEN)
    record = _read(store, name)
    if record is None:
        text = (
            f"no golden result is stored ({name}): run --paddleapi-golden-mode=upload with the same config, seed and "
            "options first; if it was, its report says why the case had no result"
        )
        return Judgement(Verdict.NOT_COMPARABLE, text, Measured(more={"golden": "missing"}))
    expected = _expected(case, record)
    if isinstance(expected, Judgement):
        return expected
    enter(Stage.PADDLE)
    call = PaddleCall(case, backward=case.backward)
    try:
        call.forward()
        actual = call.result()
    except Exception as exc:  # any failure of the API under test is a verdict
        return judge_exception(exc, Stage.PADDLE, "Paddle")
    if expected.cotangents:
        paddle_gradients(case, call, actual, expected)
    if actual.backward_error is not None:
        failure = judge_exception(actual.backward_error, Stage.PADDLE, "Paddle's backward")
        if failure.verdict is not Verdict.NOT_SUPPORTED:
            return failure
        actual.notes.append(f"gradients not compared: {first_line(failure.text)}")
    enter(Stage.COMPARISON)
    judged = compare(case, BothSides(actual, expected), sides=_NAMES)
    made = ", ".join(f"{key} {value}" for key, value in _shown(record.header.made_by).items())
    notes = (*judged.measured.notes, f"golden result by {made}")
    more: dict[str, int | float | str] = {**judged.measured.more, "golden": "compared"}
    return replace(judged, measured=msgspec.structs.replace(judged.measured, notes=notes, more=more))


def _read(store: Store, name: str) -> Record | None:
    data = store.read(name, MOST_BYTES)
    return None if data is None else decode(data, name)


def _expected(case: PreparedCase, record: Record) -> SideResult | Judgement:
    """The stored side; the verdict where it was made of other inputs.

    Raises:
        DamagedGoldenError: it has not the form of a result.
    """
    header = record.header
    if header.inputs_digest != digest_of_inputs(case.values):
        return _differs(header, case, "inputs")
    outputs, changed, gradients = (unpack(node, record) for node in (header.outputs, header.changed, header.gradients))
    fit = isinstance(changed, dict) and isinstance(gradients, dict)
    if not fit or not all(isinstance(value, torch.Tensor) for value in gradients.values()):
        raise DamagedGoldenError(f"{header.name} is damaged: its gradients are none")
    # The gradients that were fed in are as large as the outputs: what is made here for one is bounded by what is there.
    stored = [v for v in (x for part in (outputs, changed) for _, x in leaves(part)) if isinstance(v, torch.Tensor)]
    forms = {(str(value.dtype).removeprefix("torch."), tuple(value.shape)) for value in stored}
    if len(header.fed) > len(list(leaves(outputs))) + len(list(leaves(changed))) or any(
        node is not None and (node.dtype, node.shape) not in forms for node in header.fed
    ):
        raise DamagedGoldenError(f"{header.name} is damaged: output gradients of other forms than its outputs")
    fed = tuple(
        None if node is None else cotangent(case, index, torch.Size(node.shape), getattr(torch, node.dtype))
        for index, node in enumerate(header.fed)
    )
    if digest_of_tensors(fed) != header.fed_digest:
        return _differs(header, case, "output gradients")
    notes = [printable(note[:_LONGEST_NOTE]) for note in header.notes[:20]]
    return SideResult(outputs, changed, gradients, fed, notes)


def _differs(header: Header, case: PreparedCase, what: str) -> Judgement:
    there, here = _shown(header.made_by), _here(case)
    versions = "; ".join(f"{key} {there.get(key, '?')} there, {value} here" for key, value in here.items())
    text = (
        f"the {what} that are made of this config here are not those that the golden result was made of ({versions}): "
        f"use the same versions of this plugin and NumPy on both machines, or {_AGAIN}"
    )
    return Judgement(Verdict.CONFIG_INPUT, text)


def _shown(made_by: dict[str, str]) -> dict[str, Any]:
    return {printable(key[:40]): printable(value[:80]) for key, value in list(made_by.items())[:8]}
