"""What share of the variants that ``python -m pytest_paddleapi mutate`` makes can be run.

Variants with empty tensors and with other dtypes are run for real: a variant counts where its inputs can be made and
one framework at least takes the call. Variants with large tensors are followed by the estimator alone, which runs the
reference without memory.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from _shared import table

from pytest_paddleapi.config import Call, ConfigSyntaxError, parse_call, print_call
from pytest_paddleapi.config.sizes import estimate_host_bytes
from pytest_paddleapi.mutating import variants
from pytest_paddleapi.process.estimator import Estimator
from pytest_paddleapi.process.estimator_messages import EstimatorOptions
from pytest_paddleapi.process.messages import CaseOptions
from pytest_paddleapi.process.supervisor import Supervisor

#: Neither framework takes the call, or there are no values for it.
REFUSED = frozenset({"both_error", "config_input", "config_parse"})
#: Configs that may take more than this are passed over: nothing here asks the ledger for memory.
MOST_BYTES = 1 << 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--verbose", action="store_true", help="name what was refused")
    arguments = parser.parse_args()
    calls = list(_calls(arguments.file, arguments.count))
    verdicts: dict[str, Counter[str]] = defaultdict(Counter)
    supervisor = Supervisor(CaseOptions(threads=1))
    for kind, variant in variants(calls, ("zero", "dtype")):
        if estimate_host_bytes(variant) > MOST_BYTES:
            verdicts[kind]["(passed over)"] += 1
            continue
        result = supervisor.run(print_call(variant), timeout=30.0).result
        verdicts[kind][result.verdict.value] += 1
        if arguments.verbose and result.verdict.value in REFUSED:
            print(f"{kind}: {result.verdict}: {result.text.partition(chr(10))[0][:300]}\n    {print_call(variant)}")
    supervisor.close()
    _show(len(calls), verdicts)
    large: Counter[str] = Counter()
    _estimate_large(calls, large, arguments.verbose)
    _show(len(calls), {"large": large})


def _show(count: int, verdicts: Mapping[str, Counter[str]]) -> None:
    rows = []
    for kind, counts in verdicts.items():
        run = sum(counts.values()) - counts["(passed over)"]
        refused = sum(counts[name] for name in (*REFUSED, "not followed"))
        rows.append((kind, run, run - refused, f"{100 * (run - refused) / max(run, 1):.1f} %", _listed(counts)))
    table((f"{count} configs", "variants", "accepted", "share", "verdicts"), rows)


def _estimate_large(calls: list[Call], counts: Counter[str], verbose: bool) -> None:
    """In the estimating process of sessions, with its limits: some rules make values as large as the tensors."""
    configs = [print_call(variant) for _, variant in variants(calls, ("large",))]
    estimator = Estimator(EstimatorOptions(case=CaseOptions(threads=1))).start()
    try:
        estimator.submit(configs)
        while estimator.pending:
            estimator.poll()
            time.sleep(0.05)
        estimator.poll()
        for config in configs:
            followed = estimator.way(config) == "operator"
            counts["followed" if followed else "not followed"] += 1
            if verbose and not followed:
                print(f"large, not followed: {config}")
    finally:
        estimator.close()


def _calls(file: Path, count: int) -> Iterator[Call]:
    lines = sorted({line.strip() for line in file.read_text().splitlines() if line.startswith("paddle.")})
    random.Random(0).shuffle(lines)
    taken = 0
    for line in lines:
        try:
            call = parse_call(line)
        except ConfigSyntaxError:
            continue
        if taken < count and estimate_host_bytes(call) < MOST_BYTES:
            taken += 1
            yield call


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())


if __name__ == "__main__":
    main()
