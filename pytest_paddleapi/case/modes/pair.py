"""Paddle against Paddle: two ways to run one call, in one process, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ...process.messages import Stage, Verdict
from ..callables import ClosedApiError, MissingApiError
from ..paddle_side import PaddleCall
from ..prepared import PreparedCase
from ..reference.registry import NoReference
from ..results import SideResult, first_line
from .accuracy import BothSides, compare
from .base import Enter, Judgement, judge_exception

Cotangents = tuple[torch.Tensor | None, ...]


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Side:
    """One way to run a call."""

    #: As texts call it.
    name: str
    call: Callable[[], PaddleCall]
    #: Called before anything is made on this side.
    prepare: Callable[[], None] = _nothing
    #: Looks at the call when it has run; a judgement ends the case.
    inspect: Callable[[PaddleCall], Judgement | None] = lambda call: None


@dataclass(frozen=True)
class Ran:
    """What one side gave; ``fed`` are the output gradients that it was given."""

    result: SideResult
    fed: Cotangents


def run_pair(case: PreparedCase, enter: Enter, standard: Side, tested: Side) -> Judgement:
    """``standard`` first, then ``tested`` with the same values, seed and output gradients, then the comparison.

    What the reference rules know to have no values (state of the process, files, gradient machinery) is not called.
    """
    if isinstance(case.reference, NoReference):
        return Judgement(Verdict.NOT_COMPARABLE, f"{case.api} is not called: {case.reference.why}")
    enter(Stage.PADDLE)
    expected = _run(case, standard, None)
    if isinstance(expected, Judgement) and _ends(expected):
        return expected
    actual = _run(case, tested, expected.fed if isinstance(expected, Ran) else ())
    if isinstance(expected, Judgement) or isinstance(actual, Judgement):
        return _refused(expected, actual, standard, tested)
    failure = _backward_failure(expected.result, actual.result, standard, tested)
    if failure is not None:
        return failure
    enter(Stage.COMPARISON)
    return compare(case, BothSides(actual.result, expected.result), sides=(tested.name, standard.name))


def _run(case: PreparedCase, side: Side, cotangents: Cotangents | None) -> Ran | Judgement:
    """Run one side; output gradients are made after its own results where none are given."""
    try:
        side.prepare()
        call = side.call()
        call.forward()
        judged = side.inspect(call)
        if judged is not None:
            return judged
        result = call.result()
        fed = call.own_cotangents() if cotangents is None else cotangents[: len(call.flat_outputs())]
    except (MissingApiError, ClosedApiError) as exc:
        judged = judge_exception(exc, Stage.PADDLE, side.name)
        # Neither side has it.
        return Judgement(Verdict.NOT_COMPARABLE, judged.text) if isinstance(exc, ClosedApiError) else judged
    except Exception as exc:  # any failure of the API under test is a verdict
        return judge_exception(exc, Stage.PADDLE, side.name)
    result.cotangents = fed
    try:
        result.gradients = call.gradients(fed) if case.backward else {}
    except Exception as exc:  # judged together with what the other side does
        result.backward_error = exc
    return Ran(result, fed)


def _ends(judgement: Judgement) -> bool:
    """No use to try the other side."""
    return judgement.verdict not in (Verdict.PADDLE_ERROR, Verdict.NOT_SUPPORTED)


def _refused(expected: Ran | Judgement, actual: Ran | Judgement, standard: Side, tested: Side) -> Judgement:
    """One of the sides, or both, did not run."""
    if isinstance(actual, Judgement) and (isinstance(expected, Ran) or _ends(actual)):
        return actual
    assert isinstance(expected, Judgement)
    if isinstance(actual, Ran):
        if expected.verdict is Verdict.NOT_SUPPORTED:
            why = f"nothing to compare {tested.name} with: {first_line(expected.text)}"
            return Judgement(Verdict.NOT_COMPARABLE, f"{why}\n{expected.text}")
        return Judgement(expected.verdict, f"{expected.text}\n{tested.name} did not refuse the call")
    texts = f"{expected.text}\n{actual.text}"
    if Verdict.NOT_SUPPORTED in (expected.verdict, actual.verdict):
        return Judgement(Verdict.NOT_SUPPORTED, texts)
    brief = f"{first_line(expected.text, 120)}; {first_line(actual.text, 120)}"
    return Judgement(Verdict.BOTH_ERROR, f"both refuse the call: {brief}\n{texts}")


def _backward_failure(expected: SideResult, actual: SideResult, standard: Side, tested: Side) -> Judgement | None:
    """The verdict where a backward run raised and that decides; otherwise a note says what is not compared."""
    failures = [
        judge_exception(result.backward_error, Stage.PADDLE, f"{side.name}, backward")
        for result, side in ((actual, tested), (expected, standard))
        if result.backward_error is not None
    ]
    if not failures:
        return None
    serious = [f for f in failures if f.verdict is not Verdict.NOT_SUPPORTED]
    ending = [f for f in serious if f.verdict is not Verdict.PADDLE_ERROR]
    if ending or (serious and len(failures) == 1):
        return (ending or serious)[0]
    reasons = "; ".join(first_line(failure.text) for failure in failures)
    actual.notes.append(f"gradients not compared: {reasons}")
    actual.gradients, expected.gradients = {}, {}
    return None
