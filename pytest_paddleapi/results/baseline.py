"""Files of known verdicts: ``config<TAB>verdict[<TAB>why]``, one case a line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..config import ConfigSyntaxError
from ..config.canonical import canonical_text
from .verdicts import Verdict


class BaselineError(Exception):
    """A baseline that cannot be read; the text names file and line."""


@dataclass(frozen=True)
class Known:
    """What a baseline says of one case. ``config`` is as written."""

    config: str
    verdict: Verdict
    why: str = ""


@dataclass(frozen=True)
class Baseline:
    """The entries of a file by canonical config, and the comments at its head."""

    entries: Mapping[str, Known]
    head: tuple[str, ...] = ()

    def updated(self, outcomes: Mapping[str, Known | None]) -> Baseline:
        """With the outcomes of a run, by canonical config: None takes an entry out, one without a reason keeps
        the old one's. What did not run stays."""
        entries = dict(self.entries)
        for canonical, known in outcomes.items():
            old = entries.get(canonical)
            if known is None:
                entries.pop(canonical, None)
            elif old is None:
                entries[canonical] = known
            else:
                entries[canonical] = Known(old.config, known.verdict, known.why or old.why)
        return Baseline(entries, self.head)


def read_baseline(path: Path) -> Baseline:
    """Read a file; blank lines and lines that begin with ``#`` are passed over.

    Raises:
        BaselineError: it cannot be read, or a line is not of the form above.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    except OSError as exc:
        raise BaselineError(f"{path}: {exc.strerror}") from None
    entries: dict[str, Known] = {}
    head: list[str] = []
    for number, line in enumerate((line.rstrip("\r") for line in lines), 1):
        if not line.strip() or line.startswith("#"):
            if not entries and line.strip():
                head.append(line)
            continue
        known = _entry(line, f"{path}:{number}")
        canonical = canonical_or_written(known.config)
        if canonical in entries:
            raise BaselineError(f"{path}:{number}: this config is listed twice")
        entries[canonical] = known
    return Baseline(entries, tuple(head))


def canonical_or_written(config: str) -> str:
    """The canonical text; of a line that is no config (a verdict too), the line."""
    try:
        return canonical_text(config)
    except ConfigSyntaxError:
        return config


def _entry(line: str, place: str) -> Known:
    config, *rest = line.split("\t", 2)
    if not rest:
        raise BaselineError(f"{place}: a tab and a verdict must stand behind the config")
    try:
        verdict = Verdict(rest[0].strip())
    except ValueError:
        known = ", ".join(verdict.value for verdict in Verdict if verdict is not Verdict.PASS)
        raise BaselineError(f"{place}: {rest[0].strip()!r} is no verdict; it is one of {known}") from None
    if verdict is Verdict.PASS:
        raise BaselineError(f"{place}: a baseline lists what does not pass; take this line out")
    return Known(config.strip(), verdict, rest[1].strip() if len(rest) > 1 else "")


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Replace the file at once, so that a reader or a full disk never leaves half of one.

    Raises:
        OSError: it cannot be written; the old file stands.
    """
    lines = [*baseline.head, *(_line(known) for known in baseline.entries.values())]
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8", errors="surrogateescape") as file:
            file.write("".join(f"{line}\n" for line in lines))
        os.replace(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def _line(known: Known) -> str:
    return "\t".join((known.config, known.verdict.value, *([known.why] if known.why else [])))
