"""The performance modes: the forward and the backward time of each framework, and their ratio.

Results are not compared: a case passes when it was timed.
"""

from __future__ import annotations

from ...process.messages import Measured, Stage, Verdict
from ..prepared import PreparedCase
from ..reference.registry import NoEquivalent, NoReference, Reference
from ..timed import TimedSide, ratios
from ..timed_paddle import time_paddle
from ..timed_torch import time_torch
from ..torch_side import NO_KERNEL
from .accuracy import both_refuse, no_reference
from .base import Enter, Judgement, judge_exception


def run_paddle_performance(case: PreparedCase, enter: Enter) -> Judgement:
    """``--paddle-gpu-performance``. As in ``--paddle-only``, what has no values is not called."""
    if isinstance(case.reference, NoReference):
        return Judgement(Verdict.NOT_COMPARABLE, f"{case.api} is not called: {case.reference.why}")
    side = _paddle(case, enter)
    return side if isinstance(side, Judgement) else _passed(case, side)


def run_torch_performance(case: PreparedCase, enter: Enter) -> Judgement:
    """``--torch-gpu-performance``."""
    side = _torch(case, enter)
    return side if isinstance(side, Judgement) else _passed(case, side)


def run_paddle_torch_performance(case: PreparedCase, enter: Enter) -> Judgement:
    """``--paddle-torch-gpu-performance``: Torch first, then Paddle, so that only one of them holds memory."""
    torch = _torch(case, enter)
    if isinstance(torch, Judgement) and torch.verdict is not Verdict.TORCH_ERROR:
        return torch
    paddle = _paddle(case, enter)
    if isinstance(torch, Judgement):
        return both_refuse(torch, paddle) if isinstance(paddle, Judgement) else torch
    return paddle if isinstance(paddle, Judgement) else _passed(case, torch, paddle)


def _paddle(case: PreparedCase, enter: Enter) -> TimedSide | Judgement:
    enter(Stage.PADDLE)
    try:
        return time_paddle(case)
    except Exception as exc:  # any failure of the API under test is a verdict
        return judge_exception(exc, Stage.PADDLE, "Paddle")


def _torch(case: PreparedCase, enter: Enter) -> TimedSide | Judgement:
    if not isinstance(case.reference, Reference):
        return no_reference(case.api, case.reference)
    enter(Stage.REFERENCE)
    try:
        return time_torch(case, case.reference)
    except NoEquivalent as exc:
        return Judgement(Verdict.CONFIG_CONVERT, f"no Torch reference for these arguments: {exc}")
    except Exception as exc:  # whatever Torch raises is a verdict
        if NO_KERNEL.search(str(exc)):
            return Judgement(Verdict.NOT_SUPPORTED, f"Torch has no kernel to be timed here: {exc}")
        return judge_exception(exc, Stage.REFERENCE, "Torch")


def _passed(case: PreparedCase, *sides: TimedSide) -> Judgement:
    more: dict[str, int | float | str] = {"threads": case.options.threads or 1}
    notes: list[str] = []
    for side in sides:
        more.update(side.properties())
        notes += [*side.notes, *side.imprecise(case.options.timing.precision)]
    if len(sides) > 1:
        torch, paddle = sides
        more.update(ratios(paddle, torch))
    peaks = [side.peak_bytes for side in sides if side.peak_bytes is not None]
    measured = Measured(peak_bytes=max(peaks, default=None), notes=tuple(notes), more=more)
    return Judgement(Verdict.PASS, measured=measured)
