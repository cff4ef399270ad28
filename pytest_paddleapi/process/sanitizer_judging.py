"""The verdict on a case whose sanitizer found something. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from .fatal import lost_device_verdict, where
from .messages import CaseResult, Stage, Verdict
from .sanitizer_reports import Kind, Report, real_findings, summary_errors

__all__ = ["judged", "judged_at_the_end", "leftovers"]

#: What says nothing about the case's correctness, or says more than a finding does, stays as it is.
_KEPT = frozenset({Verdict.DEFERRED, Verdict.OOM, Verdict.EXTERNAL_KILL, Verdict.TIMEOUT})
#: No finding on another side changes these.
_PADDLES = frozenset({Verdict.PADDLE_CUDA, Verdict.PADDLE_CRASH})
#: Reports whose whole text is shown; of the others their first lines.
_SHOWN = 5
#: Stages in the order in which a case is charged: with Paddle's finding, whatever else was found.
_CHARGED = (Stage.PADDLE, Stage.COMPARISON, Stage.REFERENCE, Stage.INPUTS, Stage.STARTING)


def judged(result: CaseResult, reports: Sequence[Report]) -> CaseResult:
    """The result with what the sanitizer printed while the case ran, and as it ended."""
    found = real_findings(reports, evidence=result.fatal)
    if not found:
        return result
    if all(report.kind is Kind.HARMLESS for report in found):
        beside = _text(found, f"the sanitizer printed {_count(len(found), 'report')} beside it")
        return msgspec.structs.replace(result, text=f"{result.text}\n{beside}")
    stage = _charged(found)
    mine = [report for report in found if (report.stage or Stage.PADDLE) is stage]
    what = _text(mine, f"the sanitizer found {_count(len(mine), 'error')} {where(stage)}")
    others = len(found) - len(mine)
    if others:
        what += f"\n(and {_count(others, 'report')} in other stages)"
    if result.verdict in _KEPT or (result.verdict in _PADDLES and stage not in (Stage.PADDLE, Stage.COMPARISON)):
        return msgspec.structs.replace(result, text=f"{result.text}\n{what}")
    before = f"\nwithout the sanitizer's findings it was {result.verdict.value}"
    before += f": {result.text}" if result.text else ""
    return msgspec.structs.replace(result, verdict=lost_device_verdict(stage), text=what + before)


def judged_at_the_end(result: CaseResult, text: str) -> CaseResult:
    """The result with :func:`leftovers` of the process that ran this case and no other."""
    if result.verdict in _KEPT | _PADDLES:
        return msgspec.structs.replace(result, text=f"{result.text}\n{text}")
    before = f"\nwithout that it was {result.verdict.value}" + (f": {result.text}" if result.text else "")
    return msgspec.structs.replace(result, verdict=Verdict.PADDLE_CUDA, text=text + before)


def leftovers(reports: Sequence[Report], seen: int, exit_code: int | None, error_code: int) -> str:
    """What belongs to no case, when the sanitizer has ended; empty where there is nothing to tell.

    Args:
        reports: what nobody took, summaries included.
        seen: how many findings and harmless reports there were in all.
        exit_code: what the sanitizer exited with; None where a signal ended it.
        error_code: what it exits with where it found anything.
    """
    # A harmless report of the start and a leak of the end have nothing to do with each other.
    found = [report for report in reports if report.kind is Kind.FINDING]
    counted = summary_errors(reports)
    parts = [_text(found, f"the sanitizer found {_count(len(found), 'error')} while no case ran")] if found else []
    if counted > seen:
        parts.append(f"the sanitizer counted {_count(counted, 'error')}, and printed {seen}")
    elif exit_code == error_code and not seen:
        parts.append(f"the sanitizer exited with {exit_code}, which says that it found errors, but printed none")
    leaks = [report for report in reports if "LEAK SUMMARY" in report.head and ": 0 bytes leaked" not in report.head]
    if leaks and not found:
        parts.append(_text(leaks, "the sanitizer found leaks when the process ended"))
    return "\n".join(parts)


def _charged(found: Sequence[Report]) -> Stage:
    # What comes as the process of a single case ends has no stage: it is charged as the call under test.
    stages = {report.stage or Stage.PADDLE for report in found if report.kind is Kind.FINDING}
    stages = stages or {report.stage or Stage.PADDLE for report in found}
    return next(stage for stage in _CHARGED if stage in stages)


def _text(reports: Sequence[Report], title: str) -> str:
    shown = "\n".join(report.text for report in reports[:_SHOWN])
    more = [f"  {report.head}" for report in reports[_SHOWN:]]
    rest = f"\n{len(more)} more:\n" + "\n".join(more[:20]) if more else ""
    return f"{title}: {reports[0].head}\n{shown}{rest}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
