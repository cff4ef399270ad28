"""Estimates of memory against what cases really need on the host.

Every config of the files gets an estimate. A sample of those between two sizes is then run in a real case process,
without a limit, and its peak is compared with the estimate.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from pathlib import Path

from _shared import table

from pytest_paddleapi.config import ConfigSyntaxError, parse_call
from pytest_paddleapi.config.files import find_files, read_lines
from pytest_paddleapi.config.sizes import estimate_host_bytes
from pytest_paddleapi.process.messages import CaseOptions, Verdict
from pytest_paddleapi.process.supervisor import Supervisor

MIB = 1 << 20


def estimate_all(paths: list[str]) -> dict[str, int]:
    """Estimated bytes of every config of the files; prints how long one takes."""
    found: dict[str, int] = {}
    refused = 0
    started = time.perf_counter()
    for path in find_files(paths, Path.cwd()):
        for line in read_lines(path):
            try:
                found[line.text] = estimate_host_bytes(parse_call(line.text))
            except ConfigSyntaxError:
                refused += 1
    seconds = time.perf_counter() - started
    count = max(len(found), 1)
    print(f"{len(found)} configs have an estimate, {refused} are no config; {1e6 * seconds / count:.0f} us each")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("configs", nargs="+", help="files or folders")
    parser.add_argument("--compare", type=int, default=50, help="how many are run")
    parser.add_argument("--least-mib", type=float, default=64)
    parser.add_argument("--most-mib", type=float, default=4096)
    parser.add_argument("--timeout", type=float, default=60, help="seconds a case")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    estimates = estimate_all(args.configs)
    fitting = sorted(c for c, size in estimates.items() if args.least_mib * MIB <= size <= args.most_mib * MIB)
    print(f"{len(fitting)} of them are estimated between {args.least_mib:g} and {args.most_mib:g} MiB")
    random.Random(args.seed).shuffle(fitting)
    rows, ratios, passed_over = [], [], 0
    slot = Supervisor(CaseOptions(threads=1))
    try:
        for config in fitting:
            if len(rows) == args.compare:
                break
            result = slot.run(config, timeout=args.timeout).result
            peak = result.measured.peak_bytes
            # What was cut short, or was refused before any work, did not show its peak.
            if not peak or result.verdict not in (Verdict.PASS, Verdict.PADDLE_ACCURACY):
                passed_over += 1
                continue
            ratios.append(estimates[config] / peak)
            rows.append((config[:90], f"{estimates[config] / MIB:.0f}", f"{peak / MIB:.0f}", f"{ratios[-1]:.2f}"))
    finally:
        slot.close()
    table(("config", "estimated MiB", "peak MiB", "ratio"), rows)
    if not ratios:
        raise SystemExit("no case showed its peak")
    print(f"passed over, for they did not end with results: {passed_over}")
    low = sum(ratio < 1 for ratio in ratios)
    print(
        f"estimate / peak: least {min(ratios):.2f}, median {statistics.median(ratios):.2f}, "
        f"most {max(ratios):.2f}; below 1: {low} of {len(ratios)}"
    )


if __name__ == "__main__":
    main()
