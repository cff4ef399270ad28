"""The command line ``python -m pytest_paddleapi COMMAND``.

A command is a module of this package with two functions, ``add_arguments(parser)`` and ``run(arguments)``, and a
line in :data:`COMMANDS`. It is imported only when it is asked for.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Protocol, cast

from .. import __version__
from ..errors import PaddleApiError

__all__ = ["COMMANDS", "Command", "CommandUsageError", "main"]

#: Name of each command, which is also that of its module, and its line in the help.
COMMANDS = {
    "ledger": "who holds what on this host's devices; pause and resume sessions",
    "report": "write one offline HTML file of a folder of results; compare with an earlier one",
    "mutate": "write variants of configs: empty tensors, large tensors, other dtypes",
    "repro": "write a stand-alone script for one case, which needs Paddle, Torch and NumPy only",
    "shrink": "reduce a failing config to a small one that fails in the same way",
    "merge": "one folder of results, or one JUnit file, of those of several shards",
    "results": "what came of the cases: list, filter and export a folder of results",
}

#: Exit codes beside 0; argparse, too, ends with 2.
FAILED = 1
WRONG_USAGE = 2
INTERRUPTED = 130


class CommandUsageError(PaddleApiError):
    """An argument that argparse alone cannot see to be wrong."""


class Command(Protocol):
    """What the module of a command offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's own arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it; the exit code. A ``PaddleApiError`` becomes a line on stderr and exit code 1."""


def main(argv: Sequence[str]) -> int:
    """Run the command that ``argv`` (without the program's name) asks for; the exit code.

    0: done; 1: it failed, and stderr says why; 2: wrong usage; 130: interrupted.
    """
    try:
        arguments = _parser(argv).parse_args(argv)
        code = _load(arguments.command).run(arguments)
        sys.stdout.flush()
    except PaddleApiError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return WRONG_USAGE if isinstance(exc, CommandUsageError) else FAILED
    except BrokenPipeError:
        # Whoever read our output has seen enough (``| head``). Python would complain once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pytest_paddleapi",
        description="Tools around pytest-paddleapi. The cases themselves are run by pytest.",
    )
    parser.add_argument("--version", action="version", version=f"pytest-paddleapi {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    chosen = next((word for word in argv if not word.startswith("-")), None)
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        if name == chosen:
            _load(name).add_arguments(command)
    return parser


def _load(name: str) -> Command:
    return cast(Command, importlib.import_module(f"{__name__}.{name}"))
