"""The result of a case whose process did not give one. Pure."""

from __future__ import annotations

import signal

from .fatal import Death, side_verdict, verdict_for_death, where
from .launcher import exit_text
from .messages import CaseDied, CaseResult, RunCase, Stage, Verdict

#: What a process with a damaged heap dies of, sooner or later.
_DAMAGE = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)


def may_be_anothers(died: CaseDied | None, served: int) -> bool:
    """It died as processes die whose memory was damaged, and ``served`` earlier cases may have done that."""
    return died is not None and served > 0 and Death(died.status).signal in _DAMAGE


def after_death(request: RunCase, died: CaseDied, stage: Stage, output: str) -> CaseResult:
    """The process died while it ran the case; ``output`` is what it wrote to stderr."""
    limited = bool(request.lease_bytes) and not request.whole_device
    verdict, text = verdict_for_death(stage, Death(died.status), output=output, limited=limited)
    needed = 2 * request.lease_bytes if verdict is Verdict.DEFERRED else None
    return CaseResult(request.token, verdict, text, needed_bytes=needed)


def after_deaths_before(request: RunCase, died: CaseDied, sendings: int) -> CaseResult:
    """That many processes died, one after the other, before they began with the case."""
    text = f"{sendings} case processes in a row ended before this case began in them"
    return CaseResult(request.token, Verdict.EXTERNAL_KILL, f"{text}; the last {Death(died.status)}")


def after_silence(request: RunCase, stage: Stage) -> CaseResult:
    """The process closed its channel, lived on, and was killed by us."""
    text = f"the case process closed its channel {where(stage)}, did not exit, and was killed"
    return CaseResult(request.token, side_verdict(stage), text)


def after_no_death(request: RunCase, stage: Stage) -> CaseResult:
    """The process went wrong and is still there."""
    text = f"the case process went wrong {where(stage)}, and does not die of SIGKILL"
    return CaseResult(request.token, side_verdict(stage), text)


def after_launcher_death(request: RunCase, stage: Stage, code: int) -> CaseResult:
    """The parent of the process ended with ``code`` (as of ``Popen``), and took it along.

    Whatever ended it was no doing of the case, which runs in another process.
    """
    text = f"the process that made the case process {exit_text(code)}, and the case process"
    return CaseResult(request.token, Verdict.EXTERNAL_KILL, f"{text} died with it {where(stage)}")


def over_time(stage: Stage) -> Verdict:
    """The verdict on a case that was killed at its time limit in this stage."""
    return Verdict.TIMEOUT if stage in (Stage.PADDLE, Stage.COMPARISON) else side_verdict(stage)
