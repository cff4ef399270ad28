"""``shrink``: the smallest config that still fails in the same way."""

from __future__ import annotations

import argparse

from ..errors import PaddleApiError
from ..process.errors import StartError
from ..shrinking import Limits, Shrunk, shrink, signature_of
from ..shrinking.prober import Prober
from ..shrinking.search import Step
from ..shrinking.signature import FINE
from . import FAILED, CommandUsageError
from .repro import add_case_arguments, canonical_config, case_options

__all__ = ["add_arguments", "run"]


class NoCaseProcessError(PaddleApiError):
    """The frameworks cannot be loaded here; the text says why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``shrink``."""
    add_case_arguments(parser)
    parser.add_argument("--max-runs", type=int, default=200, metavar="N", help="runs at most (default: 200)")
    parser.add_argument("--max-seconds", type=float, default=300.0, metavar="S", help="seconds in all (default: 300)")
    parser.add_argument("--timeout", type=float, default=30.0, metavar="S", help="seconds of one run (default: 30)")
    parser.add_argument("-q", "--quiet", action="store_true", help="print the result alone")


def run(arguments: argparse.Namespace) -> int:
    """Print each step that helped and then, as the last line, the config; 1 where CONFIG does not fail.

    Raises:
        CommandUsageError: CONFIG or an option is wrong.
        NoCaseProcessError: Paddle or Torch cannot be loaded.
    """
    config, options = canonical_config(arguments.config), case_options(arguments)
    if arguments.max_runs < 1 or not arguments.max_seconds > 0 or not arguments.timeout > 0:
        raise CommandUsageError("--max-runs, --max-seconds and --timeout must be more than 0")
    try:
        with Prober(options, timeout=arguments.timeout) as probe:
            first = probe(config)
            if first.verdict in FINE:
                print(f"nothing to shrink, the verdict is {first.verdict}: {first.text}".rstrip(": "))
                return FAILED
            signature = signature_of(first)
            say = (lambda text: None) if arguments.quiet else print
            say(f"fails: {signature}")
            limits = Limits(arguments.max_runs, arguments.max_seconds)
            found = shrink(config, signature, probe, limits, told=lambda step: say(step_line(step)))
    except StartError as exc:
        raise NoCaseProcessError(f"no case process could be started: {exc}") from None
    say(summary_line(found))
    print(found.config)
    return 0


def step_line(step: Step) -> str:
    """One step that helped."""
    return f"  run {step.runs}, {step.kind}: {step.config}"


def summary_line(found: Shrunk) -> str:
    """What came of it."""
    end = "nothing smaller fails alike" if found.complete else "stopped at a limit"
    return f"{found.elements[0]} elements became {found.elements[1]} in {found.runs} runs; {end}"
