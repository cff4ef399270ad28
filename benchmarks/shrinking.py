"""How small failing configs become, and in how many runs.

Takes the failures that a baseline file lists (and configs of other files that are found to fail, up to ``--count``),
shrinks each, and prints elements before and after, and the runs that it took.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from _shared import table

from pytest_paddleapi.config import ConfigSyntaxError, canonical_text, parse_call
from pytest_paddleapi.config.sizes import estimate_host_bytes
from pytest_paddleapi.process.messages import CaseOptions
from pytest_paddleapi.results.verdicts import Verdict
from pytest_paddleapi.shrinking import Limits, Shrunk, shrink, signature_of
from pytest_paddleapi.shrinking.prober import Prober
from pytest_paddleapi.shrinking.signature import FINE

#: Cases that may take more than this are passed over: nothing here asks the ledger for memory.
MOST_BYTES = 1 << 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("baseline", type=Path)
    parser.add_argument("others", nargs="*", type=Path)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--looked-at", type=int, default=600, help="other configs that are run, at most")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--timeout", type=float, default=5.0, help="seconds of a run")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    found: list[tuple[Verdict, Shrunk, float]] = []
    with Prober(CaseOptions(threads=1), timeout=arguments.timeout) as probe:
        for config in _configs(arguments):
            if len(found) >= arguments.count:
                break
            first = probe(config)
            if first.verdict in FINE or first.verdict in (Verdict.NOT_SUPPORTED, Verdict.BOTH_ERROR, Verdict.OOM):
                continue
            start = time.perf_counter()
            shrunk = shrink(config, signature_of(first), probe, Limits(arguments.runs, arguments.seconds))
            found.append((first.verdict, shrunk, time.perf_counter() - start))
            if arguments.verbose:
                print(f"{shrunk.signature}\n    {config[:200]}\n    {shrunk.config}", flush=True)
    rows = [
        _row(verdict.value, [f for f in found if f[0] is verdict]) for verdict in dict.fromkeys(v for v, _, _ in found)
    ]
    table(
        (
            "failures",
            "configs",
            "elements before",
            "after (median)",
            "runs (median)",
            "runs (most)",
            "s (median)",
            "done",
        ),
        [*rows, _row("all", found)],
    )


def _configs(arguments: argparse.Namespace) -> Iterator[str]:
    seen = set()
    for line in arguments.baseline.read_text().splitlines():
        if line.startswith("paddle."):
            seen.add(config := canonical_text(line.split("\t")[0].strip()))
            yield config
    lines = sorted(
        {
            line.strip()
            for file in arguments.others
            for line in file.read_text().splitlines()
            if line.startswith("paddle.")
        }
    )
    for line in random.Random(0).sample(lines, min(arguments.looked_at, len(lines))):
        try:
            config = canonical_text(line)
        except ConfigSyntaxError:
            continue
        if config not in seen and estimate_host_bytes(parse_call(config)) < MOST_BYTES:
            yield config


def _row(name: str, found: list[tuple[Verdict, Shrunk, float]]) -> tuple[object, ...]:
    median = statistics.median
    return (
        name,
        len(found),
        f"{median(s.elements[0] for _, s, _ in found):g}",
        f"{median(s.elements[1] for _, s, _ in found):g}",
        f"{median(s.runs for _, s, _ in found):g}",
        max(s.runs for _, s, _ in found),
        f"{median(seconds for _, _, seconds in found):.1f}",
        sum(s.complete for _, s, _ in found),
    )


if __name__ == "__main__":
    main()
