"""``report``: what a folder of results holds, as one HTML file; with an earlier folder also what has changed.

Exit code 0: the file is written; 1: it cannot be; 2: wrong usage, or there is nothing that could be read.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..reports import Choice, check_path, collect, page_data, write_report
from ..results.errors import ResultsError
from ..results.reading import ResultsReader
from . import CommandUsageError
from .stores import add_folder, add_session

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``report``."""
    add_folder(parser)
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("report.html"), metavar="FILE", help="default: report.html"
    )
    parser.add_argument(
        "--compare", type=Path, metavar="OLD", help="an earlier folder of results: show what is new, fixed and changed"
    )
    add_session(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the file.

    Raises:
        CommandUsageError: no results can be read there.
        ReportError: the file cannot be written.
    """
    check_path(arguments.output)
    try:
        collected = collect(arguments.folder, _choice(arguments), arguments.compare)
    except ResultsError as exc:
        raise CommandUsageError(str(exc)) from None
    size = write_report(arguments.output, page_data(collected))
    print(f"{arguments.output}: {len(collected.cases)} cases, {size / 1e6:.1f} MB")
    return 0


def _choice(arguments: argparse.Namespace) -> Choice:
    if arguments.session == "all":
        return Choice()
    with ResultsReader(arguments.folder) as reader:
        sessions = reader.sessions()
    return Choice(sessions=[session["id"] for session in sessions[-1:]])
