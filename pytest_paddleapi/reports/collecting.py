"""From a folder of results to the cases, attempts and sessions that a report shows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..results.reading import ResultsReader
from .comparing import BAD, Comparison, compare
from .texts import MOST_CHARACTERS, command_of, cut, said

__all__ = ["Choice", "Collected", "collect"]

#: Columns of an attempt that the time line needs.
_OF_TRY = ("session", "device", "slot", "outcome", "started", "ended", "seconds", "lease_bytes", "estimated_bytes")
_BULKY = ("text", "stdout", "stderr")


@dataclass(frozen=True)
class Choice:
    """What of a folder is shown: of these sessions (None: of all), these canonical configs (None: all)."""

    sessions: Collection[int] | None = None
    configs: Collection[str] | None = None


@dataclass(frozen=True)
class Collected:
    """``cases`` are the last attempts, in the order in which the cases first ended, with ``said``, ``command`` and
    ``takes_config`` in place of the texts; ``tries`` are all attempts, reruns included, with what a time line needs."""

    folder: Path
    sessions: list[dict[str, Any]]
    cases: list[dict[str, Any]]
    tries: list[dict[str, Any]]
    earlier: Path | None = None
    comparison: Comparison | None = None
    earlier_sessions: list[dict[str, Any]] = field(default_factory=list)


def collect(folder: Path, choice: Choice | None = None, earlier: Path | None = None) -> Collected:
    """Read a folder, and with ``earlier`` what became of each case since that one.

    Raises:
        ResultsError: one of them is no folder of results, or cannot be read.
    """
    sessions, cases, tries = _read(folder, choice or Choice())
    if earlier is None:
        return Collected(folder, sessions, cases, tries)
    earlier_sessions, earlier_cases, _ = _read(earlier, Choice())
    return Collected(folder, sessions, cases, tries, earlier, compare(cases, earlier_cases), earlier_sessions)


def _read(folder: Path, choice: Choice) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    cases: dict[tuple[int, str], dict[str, Any]] = {}
    tries: list[dict[str, Any]] = []
    texts: dict[str, str] = {}
    with ResultsReader(folder) as reader:
        sessions = {session["id"]: session for session in reader.sessions()}
        for row in reader.attempts(every=True, numbered=True):
            # A session may begin between the two looks.
            session = sessions.get(row["session"])
            if session is None or (choice.sessions is not None and row["session"] not in choice.sessions):
                continue
            if choice.configs is not None and row["canonical"] not in choice.configs:
                continue
            tries.append(_try(row))
            cases[row["case"], row["mode"]] = _case(row, session, texts)
    shown = [session for number, session in sessions.items() if choice.sessions is None or number in choice.sessions]
    return shown, list(cases.values()), tries


def _case(row: dict[str, Any], session: dict[str, Any], texts: dict[str, str]) -> dict[str, Any]:
    text = cut(said(row, captured=row["outcome"] in BAD), MOST_CHARACTERS)
    command, takes_config = command_of(row, session)
    kept = {name: value for name, value in row.items() if name not in _BULKY}
    # Thousands of cases say the same, and must not be held thousands of times.
    return {**kept, "said": texts.setdefault(text, text), "command": command, "takes_config": takes_config}


def _try(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row.get(name) for name in (*_OF_TRY, "peak_bytes")}
