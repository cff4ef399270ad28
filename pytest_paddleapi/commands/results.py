"""``results``: what a folder of results holds, listed, filtered and exported.

Reading locks nothing that a session needs, so it may be done while one runs. The exit code is for scripts: 0, nothing
failed among what is shown; 1, something did; 2, wrong usage, or there is nothing that could be read.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from ..results.errors import ResultsError
from ..results.reading import ResultsReader
from ..results.verdicts import Verdict
from . import FAILED, CommandUsageError
from .results_text import WRITERS
from .stores import add_folder, add_session

__all__ = ["add_arguments", "run"]

#: pytest's outcomes that make a run fail.
_FAILURES = frozenset({"failed", "error"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``results``."""
    add_folder(parser)
    parser.add_argument(
        "--format",
        choices=tuple(WRITERS),
        default="text",
        help="text (default); jsonl: one JSON object a line; csv; markdown: a table",
    )
    parser.add_argument("--verdict", metavar="A,B", help="only cases whose verdict is one of these")
    parser.add_argument("--api", metavar="GLOB", help="only cases of the APIs that match, such as 'paddle.nn.*'")
    parser.add_argument("--all-attempts", action="store_true", help="every attempt, not the last one of each case")
    add_session(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print what is asked for; 0 where nothing of it failed, 1 where something did.

    Raises:
        CommandUsageError: no such verdict, or no results can be read there.
    """
    verdicts = _verdicts(arguments.verdict)
    try:
        with ResultsReader(arguments.folder) as reader:
            sessions = reader.sessions()
            latest = arguments.session == "latest"
            shown = sessions[-1:] if latest else sessions
            failed = _Failures(
                reader.attempts(
                    # No session has the number 0.
                    session=(shown[0]["id"] if shown else 0) if latest else None,
                    every=arguments.all_attempts,
                    verdicts=verdicts,
                    api=arguments.api,
                )
            )
            WRITERS[arguments.format](failed, shown)
    except ResultsError as exc:
        raise CommandUsageError(str(exc)) from None
    return FAILED if failed.seen else 0


class _Failures:
    """Passes rows on, and remembers whether one of them failed."""

    def __init__(self, rows: Iterator[dict[str, Any]]) -> None:
        self._rows = rows
        self.seen = False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for row in self._rows:
            self.seen = self.seen or row["outcome"] in _FAILURES
            yield row


def _verdicts(text: str | None) -> frozenset[str]:
    if text is None:
        return frozenset()
    names = [name.strip() for name in text.split(",")]
    known = [verdict.value for verdict in Verdict]
    if unknown := [name for name in names if name not in known]:
        raise CommandUsageError(f"--verdict: {unknown[0]!r} is no verdict; they are {', '.join(known)}")
    return frozenset(names)
