"""``--accuracy``: Paddle with the Torch reference, outputs and then gradients."""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...process.messages import Stage, Verdict
from ..amp import coarsest, in_one_dtype
from ..callables import ClosedApiError, MissingApiError, paddle_function
from ..compare.comparison import Comparison, Observer
from ..holding import give_back_cache, received
from ..paddle_side import PaddleCall
from ..prepared import PreparedCase
from ..reference.registry import NoEquivalent, NoReference, Reference
from ..results import SideResult, first_line
from ..tensors import leaves
from ..torch_side import convert_named, run_torch
from .base import Enter, Judgement, judge_exception

_HOW_TO = "docs/adding-an-api.md in the plugin's repository tells how"


@dataclass(frozen=True)
class BothSides:
    """What Paddle gave, and the reference, where there is one."""

    actual: SideResult
    expected: SideResult | None

    def received(self, device: str) -> BothSides:
        """The same with each tensor one of Torch on the device of this name."""
        expected = None if self.expected is None else received(self.expected, device)
        return BothSides(received(self.actual, device), expected)


def run_accuracy(case: PreparedCase, enter: Enter) -> Judgement:
    """Torch first, then Paddle, then the comparison."""
    sides = run_both(case, enter)
    if isinstance(sides, Judgement):
        return sides
    enter(Stage.COMPARISON)
    return compare(case, sides)


def run_both(case: PreparedCase, enter: Enter) -> BothSides | Judgement:
    """The results of both frameworks, or the verdict where there is nothing to compare."""
    reference = case.reference
    if case.comparator.needs_reference and not isinstance(reference, Reference):
        return no_reference(case.api, reference)
    backward = case.backward

    expected: SideResult | None = None
    refusal: Judgement | None = None
    if isinstance(reference, Reference):
        enter(Stage.REFERENCE)
        try:
            expected = run_torch(case, reference, backward=backward)
            give_back_cache(case.options)
        except NoEquivalent as exc:
            if case.comparator.needs_reference:
                return Judgement(Verdict.CONFIG_CONVERT, f"no Torch reference for these arguments: {exc}")
        except Exception as exc:  # whatever Torch raises is compared with what Paddle does
            refusal = judge_exception(exc, Stage.REFERENCE, "Torch")
            if refusal.verdict is not Verdict.TORCH_ERROR:
                return refusal

    enter(Stage.PADDLE)
    call = PaddleCall(case, backward=backward)
    try:
        call.forward()
        actual = call.result()
    except Exception as exc:  # any failure of the API under test is a verdict
        failure = judge_exception(exc, Stage.PADDLE, "Paddle")
        return both_refuse(refusal, failure) if refusal else failure
    if refusal is not None:
        return refusal
    paddle_gradients(case, call, actual, expected)
    if actual.backward_error is not None:
        failure = judge_exception(actual.backward_error, Stage.PADDLE, "Paddle's backward")
        if failure.verdict is not Verdict.NOT_SUPPORTED:
            return failure
        actual.notes.append(f"gradients not compared: {first_line(failure.text)}")
    return BothSides(actual, expected)


def no_reference(api: str, found: NoReference | Reference | None) -> Judgement:
    """The verdict where there is nothing in Torch that the API's call could be held against."""
    if isinstance(found, NoReference):
        why = found.why
    else:
        try:
            is_class = inspect.isclass(paddle_function(api))
        except (MissingApiError, ClosedApiError) as exc:
            return Judgement(Verdict.CONFIG_CONVERT, str(exc))
        why = (
            "it is a class, and a config calls functions" if is_class else f"nobody has written a rule yet ({_HOW_TO})"
        )
    return Judgement(Verdict.CONFIG_CONVERT, f"no Torch reference for {api}: {why}")


def both_refuse(torch_side: Judgement, paddle_side: Judgement) -> Judgement:
    """The verdict where Torch has raised and Paddle did so too."""
    if paddle_side.verdict not in (Verdict.PADDLE_ERROR, Verdict.NOT_SUPPORTED):
        return paddle_side
    brief = f"{first_line(torch_side.text, 120)}; {first_line(paddle_side.text, 120)}"
    return Judgement(Verdict.BOTH_ERROR, f"both refuse the call: {brief}\n{torch_side.text}\n{paddle_side.text}")


def paddle_gradients(case: PreparedCase, call: PaddleCall, actual: SideResult, expected: SideResult | None) -> None:
    """Run Paddle's backward with the reference's output gradients (or, without one, with new ones)."""
    if expected is not None:
        fed = expected.cotangents
        possible = call.differentiable()
        if len(fed) != len(possible):
            return  # the structure differs, and the comparison will say so
        shapes_agree = all(
            grad is None or not can or list(grad.shape) == list(value.shape)
            for grad, can, value in zip(fed, possible, call.flat_outputs())
        )
        if not shapes_agree or expected.backward_error is not None:
            return
        silent = [i for i, (grad, can) in enumerate(zip(fed, possible)) if grad is not None and not can]
        if silent and any(grad is not None for grad in fed):
            actual.notes.append(f"Paddle gives no gradient for output {', '.join(map(str, silent))}")
    else:
        fed = call.own_cotangents()
    actual.cotangents = tuple(fed)
    try:
        actual.gradients = call.gradients(fed)
    except Exception as exc:  # judged by the caller like a failure of the call itself
        actual.backward_error = exc


def compare(
    case: PreparedCase,
    results: BothSides,
    observe: Observer | None = None,
    sides: tuple[str, str] = ("Paddle", "Torch"),
) -> Judgement:
    """The verdict on two results; ``observe`` is told of every pair that is compared by value, ``sides`` are the
    names of the two in texts."""
    device = case.landing
    results = results.received(device)
    # What comparators make without saying where must be beside what they compare.
    with torch.device(device) if case.options.torch_device != "cpu" else nullcontext():
        return _compare(case, results, observe, sides)


def _compare(case: PreparedCase, results: BothSides, observe: Observer | None, sides: tuple[str, str]) -> Judgement:
    actual, expected = results.actual, results.expected
    if expected is not None and case.options.amp:
        actual.outputs, expected.outputs = in_one_dtype(actual.outputs, expected.outputs)
    lowered = [] if expected is None else [actual.computed_in, expected.computed_in]
    comparison = Comparison(
        api=case.api,
        arguments=case.values,
        actual=actual.outputs,
        expected=expected.outputs if expected else None,
        sides=sides,
        lowered=coarsest(*lowered),
        lowered_once=len(set(lowered)) > 1,
        tolerances=case.options.tolerance,
        cotangents=actual.cotangents,
        actual_changed=actual.changed,
        expected_changed=expected.changed if expected else {},
        record_tolerance=case.options.record_tolerance,
        observe=observe,
    )
    for note in [*(expected.notes if expected else ()), *actual.notes]:
        comparison.note(note)
    if expected is not None:
        comparison.actual_gradients, comparison.expected_gradients = _aligned(actual.gradients, expected.gradients)
        undefined = [name for name in expected.gradients if name not in actual.gradients]
        if undefined and actual.gradients:
            comparison.note(f"{sides[0]} defines no gradient for {', '.join(undefined)}")
    else:
        comparison.actual_gradients = actual.gradients
    case.comparator.judge(comparison)
    _check_gradient_forms(case, comparison)
    if expected is not None and not comparison.changed_judged:
        wanted = dict(leaves(expected.changed))
        for path, value in leaves(actual.changed):
            if path in wanted:
                comparison.pair(f"changed argument {_argument(path)}", value, wanted[path])
                comparison.count(outputs=1)
    if case.comparator.meaning != "element by element":
        comparison.note(f"compared by: {case.comparator.meaning}")
    findings = comparison.findings
    measured = findings.measured()
    if findings.differences:
        text = "\n".join(findings.differences[:20])
        if len(findings.differences) > 20:
            text += f"\n... and {len(findings.differences) - 20} more differences"
        return Judgement(Verdict.PADDLE_ACCURACY, text, measured)
    if findings.outputs == 0 and findings.gradients == 0:
        return Judgement(Verdict.NOT_COMPARABLE, "the call gives nothing that could be compared", measured)
    return Judgement(Verdict.PASS, "", measured)


def _check_gradient_forms(case: PreparedCase, comparison: Comparison) -> None:
    """A gradient has the shape and the dtype of its input, whatever else a comparator asks of it."""
    wanted: dict[str, tuple[tuple[int, ...], torch.dtype]] = {}

    def see(name: str, value: Any) -> None:
        if name in comparison.actual_gradients and isinstance(value, np.ndarray):
            wanted[name] = (value.shape, getattr(torch, value.dtype.name))

    for name, value in case.values.items():
        convert_named(name, value, see)
    for name, (shape, dtype) in wanted.items():
        gradient, what = comparison.actual_gradients[name], f"gradient of {name}"
        if gradient.shape == shape and gradient.dtype == dtype:
            continue
        if not any(text.startswith(f"{what}:") for text in comparison.findings.differences):
            form = f"{gradient.dtype} of shape {list(gradient.shape)}"
            comparison.differs(what, f"{form}, its input is {dtype} of shape {list(shape)}")


def _argument(path: str) -> str:
    """``['xs'][2]``, where :func:`leaves` found it, as ``xs[2]``."""
    return path.replace("['", "", 1).replace("']", "", 1)


def _aligned(
    actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """The gradients that Paddle defines. Where Torch has none the result does not depend on the input."""
    return actual, {
        name: expected[name] if name in expected else torch.zeros_like(gradient) for name, gradient in actual.items()
    }
