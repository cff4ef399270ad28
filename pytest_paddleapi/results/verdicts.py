"""The one-word results of a case, and what each is to pytest."""

from __future__ import annotations

import enum


class Verdict(str, enum.Enum):
    """How a case ended. A case gets exactly one of these as its final verdict."""

    PASS = "pass"
    PADDLE_ACCURACY = "paddle_accuracy"
    PADDLE_ERROR = "paddle_error"
    PADDLE_CUDA = "paddle_cuda"
    PADDLE_CRASH = "paddle_crash"
    PADDLE_UNSTABLE = "paddle_unstable"
    NOT_SUPPORTED = "not_supported"
    TIMEOUT = "timeout"
    OOM = "oom"
    OVERSIZE = "oversize"
    TORCH_ERROR = "torch_error"
    CONFIG_PARSE = "config_parse"
    CONFIG_INPUT = "config_input"
    CONFIG_CONVERT = "config_convert"
    BOTH_ERROR = "both_error"
    NOT_COMPARABLE = "not_comparable"
    DEFERRED = "deferred"
    EXTERNAL_KILL = "external_kill"

    def __str__(self) -> str:
        return self.value


class Outcome(str, enum.Enum):
    """What pytest shows for a verdict."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    ERROR = "error"
    RERUN = "rerun"


_OUTCOMES: dict[Verdict, Outcome] = {
    Verdict.PASS: Outcome.PASSED,
    Verdict.PADDLE_ACCURACY: Outcome.FAILED,
    Verdict.PADDLE_ERROR: Outcome.FAILED,
    Verdict.PADDLE_CUDA: Outcome.FAILED,
    Verdict.PADDLE_CRASH: Outcome.FAILED,
    Verdict.PADDLE_UNSTABLE: Outcome.FAILED,
    Verdict.NOT_SUPPORTED: Outcome.SKIPPED,
    Verdict.TIMEOUT: Outcome.FAILED,
    Verdict.OOM: Outcome.FAILED,
    Verdict.OVERSIZE: Outcome.SKIPPED,
    Verdict.TORCH_ERROR: Outcome.ERROR,
    Verdict.CONFIG_PARSE: Outcome.ERROR,
    Verdict.CONFIG_INPUT: Outcome.ERROR,
    Verdict.CONFIG_CONVERT: Outcome.SKIPPED,
    Verdict.BOTH_ERROR: Outcome.SKIPPED,
    Verdict.NOT_COMPARABLE: Outcome.SKIPPED,
    Verdict.DEFERRED: Outcome.RERUN,
    Verdict.EXTERNAL_KILL: Outcome.RERUN,
}


def outcome_of(verdict: Verdict, *, unsupported_fails: bool = False) -> Outcome:
    """What pytest shows; ``unsupported_fails`` is ``--paddleapi-unsupported=fail``."""
    if verdict is Verdict.NOT_SUPPORTED and unsupported_fails:
        return Outcome.FAILED
    return _OUTCOMES[verdict]
