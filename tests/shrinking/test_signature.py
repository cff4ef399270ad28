"""When two failures are the same one."""

from __future__ import annotations

import pytest

from pytest_paddleapi.process.messages import CaseResult
from pytest_paddleapi.results.verdicts import Verdict
from pytest_paddleapi.shrinking import signature_of

V = Verdict

SAME = [
    (
        V.PADDLE_ACCURACY,
        "gradient of xs[3]: 25 of 50 elements differ (50 %)\n  worst ...",
        "gradient of xs[1]: 1 of 2 elements differ (50 %)",
    ),
    (
        V.PADDLE_ACCURACY,
        "output 0: shape [2, 3] in Paddle, [2] in Torch",
        "output 0: shape [1, 1] in Paddle, [1] in Torch",
    ),
    (
        V.PADDLE_ERROR,
        "Paddle raised ValueError: (InvalidArgument) rank 3, expected 2 [Hint: 3 != 2]",
        "Paddle raised ValueError: (InvalidArgument) rank 7, expected 5 [Hint: 7 != 5]",
    ),
    (
        V.TIMEOUT,
        "over the time limit of 30 s in Paddle (stage: paddle); its process group was killed",
        "over the time limit of 5 s in Paddle (stage: paddle); its process group was killed",
    ),
]
DIFFERENT = [
    (V.PADDLE_ACCURACY, "output 0: 1 of 2 elements differ", "output 1: 1 of 2 elements differ"),
    (V.PADDLE_ACCURACY, "output 0: 1 of 2 elements differ", "gradient of x: 1 of 2 elements differ"),
    (V.PADDLE_ACCURACY, "output 0: shape [2] in Paddle, [1] in Torch", "output 0: dtype int64 in Paddle, ..."),
    (V.PADDLE_ERROR, "Paddle raised ValueError: rank 3", "Paddle raised TypeError: rank 3"),
    (V.PADDLE_ERROR, "Paddle raised ValueError: rank 3", "Paddle's backward raised ValueError: rank 3"),
    (
        V.PADDLE_CRASH,
        "the case process was killed by SIGSEGV (signal 11) in Paddle (stage: paddle)",
        "the case process was killed by SIGFPE (signal 8) in Paddle (stage: paddle)",
    ),
    (
        V.PADDLE_CRASH,
        "the case process was killed by SIGSEGV (signal 11) in Paddle (stage: paddle)",
        "the case process was killed by SIGSEGV (signal 11) while the results were compared (stage: comparison)",
    ),
    (
        V.TIMEOUT,
        "over the time limit of 30 s in Paddle (stage: paddle); its",
        "over the time limit of 30 s while the results were compared (stage: comparison); its",
    ),
]


@pytest.mark.parametrize(("verdict", "one", "other"), SAME)
def test_the_same(verdict: Verdict, one: str, other: str) -> None:
    assert signature_of(CaseResult(1, verdict, one)) == signature_of(CaseResult(2, verdict, other))


@pytest.mark.parametrize(("verdict", "one", "other"), DIFFERENT)
def test_different(verdict: Verdict, one: str, other: str) -> None:
    assert signature_of(CaseResult(1, verdict, one)) != signature_of(CaseResult(2, verdict, other))


def test_the_verdict_counts() -> None:
    assert signature_of(CaseResult(1, V.PADDLE_ERROR, "x")) != signature_of(CaseResult(1, V.TORCH_ERROR, "x"))
