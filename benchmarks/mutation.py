"""How much of what is wrong with Paddle's results is seen: a mutation test of inputs, references and comparators.

For each API of the config files some small configs are run; what Paddle gave is then made wrong in one place after
the other (see ``pytest_paddleapi/case/mutations.py``) and compared again. Every config has a forked process of its
own and 20 seconds.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import select
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from _shared import table

from pytest_paddleapi.config import ConfigSyntaxError, parse_call, print_call
from pytest_paddleapi.config.files import find_files, read_lines

GOAL = 0.99
LIMIT_SECONDS = 20.0
#: Smaller inputs come first, but below this many elements there is little that could go wrong.
FEW_ELEMENTS, MOST_ELEMENTS = 12, 1 << 22
#: Configs that do not pass are passed over, up to so many for each that is wanted.
TRIES = 8


@dataclass
class Tally:
    """What became of the mutants of one API, or of one kind."""

    applied: int = 0
    caught: int = 0
    equivalent: int = 0
    missed: int = 0

    def add(self, outcome: dict[str, Any]) -> None:
        self.applied += 1
        self.caught += outcome["caught"]
        self.equivalent += bool(outcome["equivalent"])
        self.missed += not outcome["caught"] and not outcome["equivalent"]

    def share(self) -> str:
        judged = self.caught + self.missed
        return f"{100 * self.caught / judged:.2f} %" if judged else "-"

    def row(self, name: str) -> tuple[object, ...]:
        return name, self.applied, self.equivalent, self.caught, self.missed, self.share()


@dataclass
class Report:
    """Everything that was found."""

    by_api: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    by_kind: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    total: Tally = field(default_factory=Tally)
    reasons: Counter[str] = field(default_factory=Counter)
    misses: list[str] = field(default_factory=list)
    raised: list[str] = field(default_factory=list)
    not_passing: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, api: str, config: str, outcomes: Iterable[dict[str, Any]]) -> None:
        self.by_api[api].applied += 0
        for outcome in outcomes:
            for tally in (self.by_api[api], self.by_kind[outcome["kind"]], self.total):
                tally.add(outcome)
            line = f"{outcome['kind']}, {outcome['place']}: {outcome['text']}\n    {config}"
            if outcome["raised"]:
                self.raised.append(f"{line}\n    {outcome['raised']}")
            elif outcome["equivalent"]:
                self.reasons[outcome["equivalent"]] += 1
            elif not outcome["caught"]:
                self.misses.append(line)


def candidates(files: Iterable[str]) -> dict[str, list[str]]:
    """Configs by API, those of small inputs first, empty and huge ones left out."""
    found: dict[str, dict[str, tuple[bool, int]]] = defaultdict(dict)
    for path in find_files(list(files), Path.cwd()):
        for line in read_lines(path):
            try:
                call = parse_call(line.text)
            except ConfigSyntaxError:
                continue
            sizes = [spec.numel for spec in call.tensors()]
            if sum(sizes) <= MOST_ELEMENTS and (not sizes or min(sizes) > 0):
                found[call.api][print_call(call)] = (max(sizes, default=0) < FEW_ELEMENTS, sum(sizes))
    return {api: sorted(configs, key=configs.__getitem__) for api, configs in sorted(found.items())}


def in_fork(config: str) -> dict[str, Any]:
    """Examine one config in a process of its own; one that dies or hangs gives a verdict too."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _answer(config, writer)
    os.close(writer)
    deadline, parts = time.monotonic() + LIMIT_SECONDS, []
    try:
        while select.select([reader], [], [], max(deadline - time.monotonic(), 0.0))[0]:
            part = os.read(reader, 1 << 16)
            if not part:
                break
            parts.append(part)
        else:
            os.kill(child, signal.SIGKILL)
            return {"verdict": f"over {LIMIT_SECONDS:g} s", "outcomes": []}
    finally:
        os.close(reader)
        _, status = os.waitpid(child, 0)
    if status or not parts:
        return {"verdict": f"died (wait status {status})", "outcomes": []}
    return dict(json.loads(b"".join(parts)))


def _answer(config: str, writer: int) -> None:
    from pytest_paddleapi.case.mutations import examine
    from pytest_paddleapi.process.messages import CaseOptions

    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    try:
        answer: dict[str, Any] = asdict(examine(config, CaseOptions(threads=1)))
    except Exception as exc:
        answer = {"verdict": f"{type(exc).__name__}: {exc}"[:200], "outcomes": []}
    with os.fdopen(writer, "w") as file:
        json.dump(answer, file)
    os._exit(0)


def examined(configs: Iterable[str], wanted: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Results of configs until ``wanted`` of them passed."""
    passed = 0
    for number, config in enumerate(configs):
        if passed == wanted or number == wanted * TRIES:
            return
        answer = in_fork(config)
        passed += answer["verdict"] == "pass"
        yield config, answer


def run(files: Iterable[str], per_api: int, only: str) -> Report:
    import torch

    from pytest_paddleapi.case import mutations  # noqa: F401 - loaded once, for all forks
    from pytest_paddleapi.case.runner import CaseRunner

    torch.set_num_threads(1)
    CaseRunner.warm_up()
    gc.collect()
    gc.freeze()
    report = Report()
    for api, configs in candidates(files).items():
        if only not in api:
            continue
        for config, answer in examined(configs, per_api):
            if answer["verdict"] == "pass":
                report.add(api, config, answer["outcomes"])
            else:
                report.not_passing[api].append(f"{answer['verdict']}: {answer.get('text', '')}\n    {config}")
    return report


def show(report: Report, *, verbose: bool) -> None:
    header = ("", "mutants", "equivalent", "caught", "missed", "share caught")
    table(("API", *header[1:]), [tally.row(api) for api, tally in report.by_api.items()])
    print()
    table(("kind", *header[1:]), [tally.row(kind) for kind, tally in sorted(report.by_kind.items())])
    for title, lines in (("missed", report.misses), ("caught by an exception of the comparator", report.raised)):
        print(f"\n{title}: {len(lines)}")
        for line in lines:
            print(f"  {line}")
    print(f"\nequivalent: {sum(report.reasons.values())}")
    for reason, count in report.reasons.most_common():
        print(f"  {count:6} {reason}")
    without = sorted(set(report.not_passing) - set(report.by_api))
    print(f"\nAPIs with no config that passes: {len(without)}")
    for api in without if not verbose else sorted(report.not_passing):
        for line in report.not_passing[api][: None if verbose else 1]:
            print(f"  {line}")
    print()
    table(("all", *header[1:]), [report.total.row(f"{len(report.by_api)} APIs")])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", help="config files, folders or globs")
    parser.add_argument("--per-api", type=int, default=2, help="configs of each API (2)")
    parser.add_argument("--only", default="", help="APIs whose name holds this")
    parser.add_argument("--verbose", action="store_true", help="name every config that did not pass")
    args = parser.parse_args()
    started = time.monotonic()
    report = run(args.files, args.per_api, args.only)
    show(report, verbose=args.verbose)
    share = report.total.caught / max(report.total.caught + report.total.missed, 1)
    met = "met" if share >= GOAL else "NOT met"
    print(f"goal: at least {100 * GOAL:g} % caught: {met} ({time.monotonic() - started:.0f} s)")
    sys.exit(share < GOAL)


if __name__ == "__main__":
    main()
