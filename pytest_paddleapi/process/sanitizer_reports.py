"""What a sanitizer printed, cut into reports, and what each report is. Pure.

The format is that of NVIDIA's ``compute-sanitizer``, whose manual shows examples of every tool's reports: each line
begins ``=========``, a report is a line with a text and the indented lines below it.
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from .messages import Stage

__all__ = ["END", "Kind", "Report", "ReportParser", "mark", "real_findings", "summary_errors"]

_PREFIX = "========="
_MARK = "@@paddleapi"
#: The mark behind the last stage of a case.
END = "end"
#: Escape sequences of terminals.
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
#: A host backtrace through two frameworks and Python has hundreds of lines, and says most at its beginning.
_LONGEST_REPORT = 120
#: More of one case say no more.
_MOST_REPORTS = 200


class Kind(enum.Enum):
    """What a report says."""

    #: Something is wrong in what the process did.
    FINDING = "finding"
    #: An API error that a library provokes itself in order to learn what the driver can do.
    HARMLESS = "harmless"
    #: Counts, when the process has ended.
    SUMMARY = "summary"
    #: The sanitizer about itself, or about how the process ended; that is judged by its own status.
    NOTE = "note"


_SUMMARY = re.compile(r"\b(?:ERROR|LEAK|RACECHECK|SYNCCHECK|INITCHECK) SUMMARY\b")
_ERROR_SUMMARY = re.compile(r"ERROR SUMMARY: (\d+) errors?")
_NOTES = re.compile(
    r"COMPUTE-SANITIZER"
    r"|Error: process didn't terminate successfully"
    r"|(?:Error: )?Target application (?:terminated before|returned an error)"
    r"|Error: No attachable process"
    r"|Tracking kernels launched by child processes requires"
    r"|(?:Internal )?Warning: (?!Race)"
)
#: Frameworks and cuBLAS ask the driver for functions of newer versions, and for its version, and take no for an answer.
_HARMLESS = re.compile(
    r"Program hit .*\bon CUDA API call to "
    r"(?:cuGetProcAddress(?:_v2)?|cu(?:da)?DriverGetVersion|cudaRuntimeGetVersion)\b"
)
#: The first lines of what the tools memcheck, racecheck, initcheck and synccheck find.
_FINDING = re.compile(
    r"Error:|.*\bError: |Program hit |Invalid |Uninitialized |Misaligned |Barrier error|Divergent thread|Leaked "
    r"|Stack overflow|Malloc/Free |Double free|(?:Warning: )?Race reported|.*hazard|Host API memory access error"
)
#: A report of a kind that this module does not know has one of these below it.
_EVIDENCE = re.compile(r"\s+(?:Saved host backtrace|by thread |Address 0x|Device Frame)")


@dataclass
class Report:
    """One report. ``token`` and ``stage`` are those of the case that ran when it was printed.

    ``token`` is 0 before the first case. ``stage`` is None where no case ran.
    """

    head: str
    token: int
    stage: Stage | None
    lines: list[str] = field(default_factory=list)
    cut: int = 0

    @property
    def kind(self) -> Kind:
        """What it says."""
        if _SUMMARY.search(self.head):
            return Kind.SUMMARY
        if _NOTES.match(self.head):
            return Kind.NOTE
        if _HARMLESS.match(self.head):
            return Kind.HARMLESS
        if _FINDING.match(self.head) or any(_EVIDENCE.match(line) for line in self.lines):
            return Kind.FINDING
        return Kind.NOTE

    @property
    def text(self) -> str:
        """As it was printed."""
        more = [f"{_PREFIX}     ... {self.cut} more lines"] if self.cut else []
        return "\n".join([f"{_PREFIX} {self.head}", *(f"{_PREFIX}{line}" for line in self.lines), *more])


def mark(token: int, place: str) -> bytes:
    """The line that says which case, and which stage of it (or :data:`END`), begins here.

    It begins with a line break, so that it stands alone also where something else has left its line open.
    """
    return f"\n{_MARK} {token} {place}\n".encode()


class ReportParser:
    """Takes the lines of a sanitizer's output, one after the other.

    Attributes:
        reports: what nobody took yet.
        ended: the token of the last case that said that it had ended.
        counts: reports by their kind, since the beginning; the last one is not counted while it may still grow.
    """

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.ended = 0
        self.counts: Counter[Kind] = Counter()
        self._open: Report | None = None
        self._token = 0
        self._stage: Stage | None = None

    def feed(self, line: str) -> str | None:
        """Take a line without its end; returns it where it is nobody's: a program has printed it."""
        line = _ESCAPES.sub("", line).rstrip("\r")
        if line.startswith(_MARK):
            self._see_mark(line.split()[1:])
            return None
        if not line.startswith(_PREFIX):
            return line
        text = line[len(_PREFIX) :]
        if not text.strip():
            self.close()
        elif text.startswith(("  ", "\t")):
            if self._open is not None:
                self._grow(self._open, text)
        else:
            self.close()
            self._open = Report(text.strip(), self._token, self._stage)
        return None

    def close(self) -> None:
        """Nothing more belongs to the last report."""
        report, self._open = self._open, None
        if report is None:
            return
        kind = report.kind
        self.counts[kind] += 1
        same = sum(1 for other in self.reports if other.token == report.token)
        if kind is Kind.SUMMARY or (kind is not Kind.NOTE and same < _MOST_REPORTS):
            self.reports.append(report)

    def take(self, token: int) -> list[Report]:
        """The reports of one case; they are not given again."""
        self.close()
        taken = [report for report in self.reports if report.token == token and report.stage is not None]
        self.reports = [report for report in self.reports if report.token != token or report.stage is None]
        return taken

    def take_rest(self) -> list[Report]:
        """Every report that belongs to no case that was asked for."""
        self.close()
        taken, self.reports = self.reports, []
        return taken

    def _grow(self, report: Report, line: str) -> None:
        if len(report.lines) < _LONGEST_REPORT:
            report.lines.append(line)
        else:
            report.cut += 1

    def _see_mark(self, words: list[str]) -> None:
        self.close()
        if len(words) != 2 or not words[0].isdigit():
            return
        token, place = int(words[0]), words[1]
        self._token = token
        if place == END:
            self.ended, self._stage = token, None
        elif place in {stage.value for stage in Stage}:
            self._stage = Stage(place)


def real_findings(reports: Iterable[Report], *, evidence: bool = False) -> list[Report]:
    """What is wrong, among the reports of one case: nothing, where all are harmless.

    A harmless report that stands beside a finding, or beside other ``evidence`` that the device is lost, may be a
    part of the same trouble, and is kept.
    """
    known = [report for report in reports if report.kind in (Kind.FINDING, Kind.HARMLESS)]
    found = any(report.kind is Kind.FINDING for report in known)
    return known if found or evidence else []


def summary_errors(reports: Iterable[Report]) -> int:
    """How many errors the sanitizer has counted, by its ``ERROR SUMMARY``; 0 where it printed none."""
    numbers = (_ERROR_SUMMARY.search(report.head) for report in reports)
    return max((int(number[1]) for number in numbers if number), default=0)
