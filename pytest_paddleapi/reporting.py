"""One attempt at a case as one pytest report."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

import pytest
from _pytest._code.code import ReprEntryNative, ReprExceptionInfo, ReprFileLocation, ReprTraceback

from .config.manifest import Case
from .items import CaseItem, session_key
from .options.repeating import decisive
from .process.messages import CaseResult, Mode
from .results.verdicts import Outcome, Verdict, outcome_of


@dataclass(frozen=True)
class AttemptInfo:
    """What a report says beside the result itself; travels on the report as plain data."""

    token: int = 0
    attempt: int = 1
    external: bool = False
    pid: int | None = None
    retired: str | None = None
    device_lost: bool = False
    estimated_bytes: int | None = None
    #: What the ledger promised the attempt.
    lease_bytes: int | None = None
    #: What its process holds of the device before any case, where that was looked at.
    context_bytes: int | None = None
    #: The most that one case can be given on the worker's host, where the controller cannot see that itself.
    capacity_bytes: int | None = None
    stdout: str = ""
    stderr: str = ""


def make_report(item: CaseItem, result: CaseResult, info: AttemptInfo, start: float, stop: float) -> pytest.TestReport:
    """The report of one attempt; for a verdict that is not final its outcome is ``rerun``."""
    session = item.config.stash[session_key]
    outcome = outcome_of(result.verdict, unsupported_fails=session.options.unsupported_fails)
    text = "" if outcome is Outcome.PASSED else failure_text(item, result)
    longrepr: Any = None
    if outcome is Outcome.SKIPPED:
        longrepr = (item.case.file, item.case.line, f"Skipped: {result.verdict}: {_summary(result.text)}")
    elif outcome in (Outcome.FAILED, Outcome.ERROR):
        crash = ReprFileLocation(item.location[0], item.case.line, f"{result.verdict}: {_summary(result.text)}")
        longrepr = ReprExceptionInfo(
            reprcrash=crash, reprtraceback=ReprTraceback([ReprEntryNative([text])], None, "native")
        )
    elif outcome is Outcome.RERUN:
        longrepr = text
    shown: Any = {Outcome.ERROR: "failed"}.get(outcome, outcome.value)
    report = pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords={str(key): 1 for key in item.keywords},
        outcome=shown,
        longrepr=longrepr,
        when="setup" if outcome is Outcome.ERROR else "call",
        sections=[
            (f"Captured {name} call", out) for name, out in (("stdout", info.stdout), ("stderr", info.stderr)) if out
        ],
        duration=stop - start,
        start=start,
        stop=stop,
        user_properties=properties(item, result, info),
        paddleapi={
            "token": info.token,
            "verdict": result.verdict.value,
            "needed_bytes": result.needed_bytes,
            "external": info.external,
            "pid": info.pid,
            "retired": info.retired,
            "device_lost": info.device_lost,
            "context_bytes": info.context_bytes,
            "lease_bytes": info.lease_bytes,
            "capacity_bytes": info.capacity_bytes,
        },
    )
    if outcome is not Outcome.RERUN:
        _mark_known(item, report, result.verdict)
    return report


def _mark_known(item: CaseItem, report: pytest.TestReport, verdict: Verdict) -> None:
    """Make an expected failure of what the baseline lists, in pytest's own way."""
    baseline = item.config.stash[session_key].options.baseline
    known = baseline.entries.get(item.case.canonical) if baseline is not None else None
    if known is None:
        return
    reason = f"the baseline lists {known.verdict}{f': {known.why}' if known.why else ''}"
    if verdict is known.verdict:
        report.outcome = "skipped"
        report.wasxfail = reason
    elif verdict is Verdict.PASS and item.config.getini("xfail_strict"):
        report.outcome = "failed"
        report.longrepr = f"[XPASS(strict)] {reason}, and it passes"
    elif verdict is Verdict.PASS:
        report.wasxfail = reason
    else:
        report.sections.append(("Baseline", f"{reason}; this time it is {verdict}"))


def oversize_report(
    nodeid: str, case: Case, text: str, mode: Mode, kind: str, estimated_bytes: int
) -> pytest.TestReport:
    """The report of a case that fits on no device of this ``kind`` and never ran."""
    api, _, arguments = case.name.partition("[")
    return pytest.TestReport(
        nodeid=nodeid,
        # As an item has it.
        location=(nodeid.split("::", 1)[0], None, f"{api}({arguments.removesuffix(']')})"),
        keywords={nodeid: 1},
        outcome="skipped",
        longrepr=(case.file, case.line, f"Skipped: {text}"),
        when="call",
        duration=0.0,
        user_properties=[
            ("verdict", Verdict.OVERSIZE.value),
            ("api", case.api),
            ("config", case.printable_text),
            ("mode", mode.value),
            ("device", kind),
            ("attempts", 0),
            ("estimated_bytes", estimated_bytes),
        ],
        paddleapi={"token": 0, "verdict": Verdict.OVERSIZE.value},
    )


def describe_worker_crash(report: pytest.TestReport, case: Case, mode: Mode, device: str) -> None:
    """Make xdist's report of a case that took its worker down twice one of ours."""
    report.when = "call"
    report.longrepr = (
        f"{Verdict.PADDLE_CRASH}: the xdist worker that ran this case died, twice\n\nconfig: {case.printable_text}\n"
    )
    report.user_properties = [
        ("verdict", Verdict.PADDLE_CRASH.value),
        ("api", case.api),
        ("config", case.printable_text),
        ("mode", mode.value),
        ("device", device),
        ("attempts", 2),
    ]
    report.paddleapi = {"token": 0, "verdict": Verdict.PADDLE_CRASH.value}  # type: ignore[attr-defined]


def properties(item: CaseItem, result: CaseResult, info: AttemptInfo) -> list[tuple[str, Any]]:
    """The item's ``user_properties``; what does not apply is left out."""
    measured = result.measured
    options = item.config.stash[session_key].options
    found: list[tuple[str, Any]] = [
        ("verdict", result.verdict.value),
        ("api", item.case.api),
        ("config", item.case.printable_text),
        ("mode", options.mode.value),
        ("device", item.config.stash[session_key].placement.group),
        ("attempts", info.attempt),
        ("max_abs_diff", measured.max_abs_diff),
        ("max_rel_diff", measured.max_rel_diff),
        ("estimated_bytes", info.estimated_bytes),
        ("peak_bytes", measured.peak_bytes),
        ("seconds", round(result.seconds, 6)),
        ("compared_outputs", measured.compared_outputs),
        ("compared_gradients", measured.compared_gradients),
        ("compared_elements", measured.compared_elements),
        ("tolerance", measured.tolerance),
        ("notes", "; ".join(measured.notes) or None),
        *measured.more.items(),
    ]
    return [*item.user_properties, *((name, value) for name, value in found if value is not None)]


def failure_text(item: CaseItem, result: CaseResult) -> str:
    """What differs, the tolerance, the config, and the command that reproduces it."""
    lines = [f"{result.verdict}: {result.text}".rstrip()]
    if result.measured.tolerance and "tolerance:" not in result.text and result.verdict is Verdict.PADDLE_ACCURACY:
        lines.append(f"tolerance: {result.measured.tolerance}")
    lines += [f"note: {note}" for note in result.measured.notes]
    lines += [
        "",
        f"config: {item.case.printable_text}",
        f"from: {item.case.place}",
        f"reproduce: {repro_command(item)}",
    ]
    return "\n".join(lines) + "\n"


def repro_command(item: CaseItem) -> str:
    """One line that runs this case alone, with the options that decide its verdict."""
    parts = ["pytest", *decisive(item.config, item.config.stash[session_key].options)]
    if item.case.error is not None:
        return shlex.join([*parts, item.nodeid])
    return shlex.join([*parts, f"--paddleapi-config={item.case.canonical}"])


def _summary(text: str) -> str:
    line = text.strip().split("\n", 1)[0]
    return line if len(line) <= 300 else line[:297] + "..."


def teststatus(report: Any) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
    """How the terminal shows a rerun, the way pytest-rerunfailures does."""
    if getattr(report, "outcome", None) == "rerun":
        return "rerun", "R", ("RERUN", {"yellow": True})
    return None
