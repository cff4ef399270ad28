"""``--accuracy-stable``: both frameworks twice; across frameworks as ``--accuracy``, each with itself bit by bit."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np

from ...process import fatal
from ...process.messages import Measured, Stage, Verdict
from ..compare.bitwise import RepeatComparison
from ..prepared import PreparedCase
from ..results import SideResult
from ..tensors import map_leaves
from .accuracy import BothSides, compare, run_both
from .base import Enter, Judgement

__all__ = ["run_accuracy_stable"]

ACROSS, PADDLE_ITSELF, TORCH_ITSELF = "paddle-torch", "paddle-paddle", "torch-torch"
#: The most differences of one framework with itself that a text has.
_MOST_DIFFERENCES = 10
#: A second run that ends in one of these differs from a first one that gave results. The rest (out of memory, a lost
#: device) says something of the device, not of the framework.
_REFUSALS = {
    Verdict.TORCH_ERROR: (TORCH_ITSELF,),
    Verdict.CONFIG_CONVERT: (TORCH_ITSELF,),
    Verdict.PADDLE_ERROR: (PADDLE_ITSELF,),
    Verdict.NOT_SUPPORTED: (PADDLE_ITSELF,),
    Verdict.NOT_COMPARABLE: (PADDLE_ITSELF,),
    Verdict.BOTH_ERROR: (PADDLE_ITSELF, TORCH_ITSELF),
}


def run_accuracy_stable(case: PreparedCase, enter: Enter) -> Judgement:
    """Torch, Paddle, Torch, Paddle, each from fresh copies of the same inputs and the same seeds; then compare."""
    runs: list[BothSides] = []
    for _ in range(2):
        sides = run_both(_fresh(case), enter)
        if isinstance(sides, Judgement):
            return _second_refused(sides) if runs else sides
        runs.append(sides)
        # What the first run left in reference cycles would be beside the second one.
        gc.collect()
    enter(Stage.COMPARISON)
    return _judge(case, *runs)


def _fresh(case: PreparedCase) -> PreparedCase:
    """The same case with values of its own: Torch's tensors on the host are over the arrays' memory."""
    return replace(case, values=map_leaves(dict(case.values), _copy))


def _copy(value: object) -> object:
    return value.copy() if isinstance(value, np.ndarray) else value


def _second_refused(judgement: Judgement) -> Judgement:
    """The verdict where the first runs gave results and one of the second ones did not."""
    failed = _REFUSALS.get(judgement.verdict)
    if failed is None or fatal.is_memory_shortage(judgement.text, limited=True):
        return judgement
    text = f"{' and '.join(failed)}: the first run gave a result, the second one did not: {judgement.text}"
    return _failure(Verdict.PADDLE_UNSTABLE, text, failed, Measured())


def _judge(case: PreparedCase, first: BothSides, second: BothSides) -> Judgement:
    device = case.landing
    first, second = first.received(device), second.received(device)
    across = compare(case, first)
    sections: list[str] = []
    failed: list[str] = []
    compared = [ACROSS]
    for name, one, other in (
        (PADDLE_ITSELF, first.actual, second.actual),
        (TORCH_ITSELF, first.expected, second.expected),
    ):
        if one is None or other is None:
            continue
        compared.append(name)
        if differences := _repeat_differences(case, one, other):
            failed.append(name)
            sections.append(_section(name, differences))
    verdict = Verdict.PADDLE_UNSTABLE if failed else Verdict.PADDLE_ACCURACY
    pairs = [(ACROSS, across)]
    if failed or not case.comparator.repeatable:
        # Otherwise the second runs have the bits of the first ones, and so the same verdict.
        pairs.append((f"{ACROSS} (second runs)", compare(case, second)))
    for name, judgement in pairs:
        if judgement.verdict is Verdict.PADDLE_ACCURACY:
            failed.append(ACROSS)
            sections.append(f"{name}: {judgement.text}")
    measured = _with_more(across.measured, comparisons=", ".join(compared))
    if not failed:
        return replace(across, measured=measured)
    return _failure(verdict, "\n".join(sections), tuple(dict.fromkeys(failed)), measured)


def _repeat_differences(case: PreparedCase, first: SideResult, second: SideResult) -> list[str]:
    comparison = RepeatComparison(case.api, case.values, None, None, case.options.tolerance)
    return comparison.judge(first, second, values=case.comparator.repeatable)


def _section(name: str, differences: list[str]) -> str:
    more = len(differences) - _MOST_DIFFERENCES
    shown = [f"{name}: {text}" for text in differences[:_MOST_DIFFERENCES]]
    return "\n".join([*shown, *([f"{name}: ... and {more} more differences"] if more > 0 else [])])


def _failure(verdict: Verdict, text: str, failed: Sequence[str], measured: Measured) -> Judgement:
    names = ", ".join(failed)
    return Judgement(verdict, f"{text}\nfailed comparisons: {names}", _with_more(measured, failed_comparisons=names))


def _with_more(measured: Measured, **more: str) -> Measured:
    return msgspec.structs.replace(measured, more={**measured.more, **more})
