"""Cases a second with two workers against one process, and the time to the first verdict."""

from __future__ import annotations

import argparse
import statistics

from _shared import run_pytest, small_configs, table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    lines = small_configs(args.cases)
    rows, ratios = [], []
    for number in range(args.rounds):
        alone = run_pytest(lines, "-n0", "--paddleapi-threads=1")
        pair = run_pytest(lines, "-n2", "--paddleapi-threads=1")
        ratios.append(alone.per_case / pair.per_case)
        rows.append(
            (
                f"round {number + 1}",
                f"{1 / alone.per_case:.0f}",
                f"{1 / pair.per_case:.0f}",
                f"{ratios[-1]:.2f}",
                f"{alone.first:.1f}",
                f"{pair.first:.1f}",
            )
        )
    rows.append(("median", "", "", f"{statistics.median(ratios):.2f}", "", ""))
    print(f"{args.cases} small configs; start to first verdict in seconds")
    table(("", "-n0 cases/s", "-n2 cases/s", "-n2 / -n0", "first -n0", "first -n2"), rows)


if __name__ == "__main__":
    main()
