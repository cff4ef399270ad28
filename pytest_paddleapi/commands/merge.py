"""``merge``: one folder of results of several, or one JUnit file of several, as if one session had run all of it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..results.junit_merging import merge_junit
from ..results.merging import merge_stores
from . import CommandUsageError

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``merge``."""
    parser.add_argument("out", type=Path, metavar="OUT", help="folder of results to make; with .xml at its end, a file")
    parser.add_argument(
        "sources", type=Path, nargs="+", metavar="SOURCE", help="folders of results; for OUT.xml, JUnit files"
    )
    parser.add_argument("--force", action="store_true", help="replace what is there")
    parser.add_argument(
        "--mixed",
        action="store_true",
        help="merge folders whose sessions ran under different conditions (device, versions, options) all the same",
    )


def run(arguments: argparse.Namespace) -> int:
    """Merge; 0.

    Raises:
        CommandUsageError: files and folders are mixed.
        ResultsError: a source cannot be read, or OUT not be written.
    """
    out: Path = arguments.out
    sources: list[Path] = arguments.sources
    odd = [path for path in sources if _is_xml(path) != _is_xml(out)]
    if odd:
        wanted = "a JUnit file, NAME.xml" if _is_xml(out) else "a folder of results; for JUnit files, OUT ends in .xml"
        raise CommandUsageError(f"{odd[0]}: into {out}, each source must be {wanted}")
    if _is_xml(out):
        if arguments.mixed:
            raise CommandUsageError("--mixed is about folders of results; JUnit files say nothing of conditions")
        xml = merge_junit(out, sources, force=arguments.force)
        print(f"{out}: {_counted(xml.testcases, 'testcase')} of {_counted(len(sources), 'file')}{_shared(xml.shared)}")
        return 0
    merged = merge_stores(out, sources, force=arguments.force, mixed=arguments.mixed)
    for warning in merged.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(
        f"{out}: {_counted(merged.cases, 'case')}, {_counted(merged.attempts, 'attempt')} of "
        f"{_counted(merged.sessions, 'session')}{_shared(merged.shared)}"
    )
    return 0


def _is_xml(path: Path) -> bool:
    return path.suffix.lower() == ".xml" and not path.is_dir()


def _shared(number: int) -> str:
    return f"; {number} stood in several, the last one counts" if number else ""


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
