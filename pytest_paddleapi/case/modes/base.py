"""What a mode is, and what modes share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ...process import fatal
from ...process.messages import Measured, Stage, Verdict
from ..callables import ClosedApiError, MissingApiError
from ..prepared import PreparedCase
from ..results import error_text

Enter = Callable[[Stage], None]

NOTHING_MEASURED = Measured()


@dataclass(frozen=True)
class Judgement:
    """A verdict with its text; the runner adds time and token."""

    verdict: Verdict
    text: str = ""
    measured: Measured = NOTHING_MEASURED
    fatal: bool = False


class ModeRunner(Protocol):
    """One mode. ``enter`` must be called before each stage, so that a death is charged to it."""

    def __call__(self, case: PreparedCase, enter: Enter) -> Judgement: ...


def judge_exception(exc: BaseException, stage: Stage, side: str) -> Judgement:
    """The verdict on an exception that ``side`` raised, seen alone.

    Out-of-memory and fatal device errors are told by their text; a refusal for want of a kernel is
    ``not_supported``; the rest is the side's error.
    """
    text = error_text(exc)
    found = fatal.classify(f"{type(exc).__name__}: {exc}", stage)
    if found is not None:
        return Judgement(found.verdict, f"{side}: {text}", fatal=found.fatal)
    if stage is Stage.PADDLE:
        if isinstance(exc, MissingApiError):
            return Judgement(Verdict.NOT_SUPPORTED, str(exc))
        if isinstance(exc, ClosedApiError):
            return Judgement(Verdict.NOT_COMPARABLE, str(exc))
        if fatal.is_unsupported(str(exc)):
            return Judgement(Verdict.NOT_SUPPORTED, f"{side}: {text}")
        return Judgement(Verdict.PADDLE_ERROR, f"{side} raised {text}")
    return Judgement(Verdict.TORCH_ERROR, f"{side} raised {text}")
