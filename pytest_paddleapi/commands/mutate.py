"""``mutate``: variants of configs, with empty and with large tensors and with other dtypes."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ..config import Call, ConfigFileError, ConfigSyntaxError, parse_call, print_call
from ..config.files import LineKind, find_files, read_lines
from ..errors import PaddleApiError
from ..mutating import KINDS, variants
from . import CommandUsageError

__all__ = ["add_arguments", "run"]


class VariantsNotWrittenError(PaddleApiError):
    """The file of variants could not be written."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``mutate``."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="as for pytest's --paddleapi-configs")
    parser.add_argument(
        "--kinds", default=",".join(KINDS), metavar="A,B", help=f"of {', '.join(KINDS)} (default: all of them)"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the file to write (default: stdout)")


def run(arguments: argparse.Namespace) -> int:
    """Write the variants, a config a line; what was read and made is said on stderr.

    Raises:
        CommandUsageError: a path or a kind is wrong.
        VariantsNotWrittenError: FILE cannot be written.
    """
    kinds = [kind.strip() for kind in arguments.kinds.split(",")]
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise CommandUsageError(f"--kinds: {unknown[0]!r} is no kind; they are {', '.join(KINDS)}")
    try:
        files = find_files(arguments.files, Path.cwd())
    except ConfigFileError as exc:
        raise CommandUsageError(str(exc)) from None
    counts: Counter[str] = Counter()
    try:
        calls = list(_calls(files, counts))
    except ConfigFileError as exc:
        raise CommandUsageError(str(exc)) from None
    lines = []
    for kind, variant in variants(calls, kinds):
        counts[kind] += 1
        lines.append(f"{print_call(variant)}\n")
    _write(arguments.output, "".join(lines))
    made = ", ".join(f"{counts[kind]} {kind}" for kind in kinds)
    passed = f" ({counts['unread']} lines are not in the language)" if counts["unread"] else ""
    print(f"{len(calls)} configs{passed}: {made}", file=sys.stderr)
    return 0


def _calls(files: list[Path], counts: Counter[str]) -> Iterator[Call]:
    for file in files:
        for line in read_lines(file):
            if line.kind is LineKind.CONFIG:
                try:
                    yield parse_call(line.text)
                except ConfigSyntaxError:
                    counts["unread"] += 1


def _write(path: Path | None, text: str) -> None:
    if path is None:
        sys.stdout.write(text)
        return
    new = path.with_name(f".{path.name}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, flags, 0o600), "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
        new.replace(path)
    except OSError as exc:
        raise VariantsNotWrittenError(f"-o {path}: {exc.strerror}") from None
