"""How well cases are packed on many devices: the real engine and rules on simulated devices, in simulated time.

Three policies: the rules on the host ("present"), those on devices (:data:`PROPOSED`), and what tools do today
(leases counted in full beside what is used, estimates by the sum of the inputs, concurrency from 1). All have the same
engine, cases, truth and neighbours. The cost model stands in ``_packing_cases.py`` and ``_packing_devices.py``.

``/ bound`` is the makespan over a bound that holds whatever the scheduler knows; ``/ whole`` over one that holds for
those who keep a case's true peak free for it; ``/ leases`` for those who keep to leases by the estimates: see
``Bounds``. With ``--learned`` the estimates are what an earlier run has measured.

    python benchmarks/packing.py big.txt small.txt --workers-per-gpu 1 4 8
    python benchmarks/packing.py small.txt --devices 1000 --cases 1000000 --seeds 1 --policies proposed

Cases that no policy could run (the estimate or the true peak is above what a device can give) are left out for all.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path

from _packing_cases import CONTEXT_BYTES, GIB, RELEASE_SECONDS, Line, SimulatedCase, bounds_of, draw_cases, passes_of
from _packing_policies import FullLeases
from _packing_run import Outcome, Setting, Simulation
from _shared import table

from pytest_paddleapi.config import Call, ConfigSyntaxError, parse_call
from pytest_paddleapi.config.device_sizes import guess_device_bytes
from pytest_paddleapi.config.files import find_files, read_lines
from pytest_paddleapi.gpu_admission import DEVICE_RULES, AdmissionRules
from pytest_paddleapi.process.estimator import Estimator
from pytest_paddleapi.process.estimator_messages import EstimatorOptions
from pytest_paddleapi.process.messages import CaseOptions
from pytest_paddleapi.scheduling.xdist_controller import TICK_SECONDS

POLICIES = ("present", "proposed", "peer")
HEADER = (
    "policy",
    "workers",
    "seed",
    "bound s",
    "by",
    "makespan s",
    "/ bound",
    "/ whole",
    "/ leases",
    "OOM",
    "reruns",
    "slots busy",
    "memory used",
    "undecided",
    "events/CPU s",
)


def read_calls(paths: Sequence[str]) -> dict[str, Call]:
    """Every config of the files once, by its text."""
    found: dict[str, Call] = {}
    for path in find_files(list(paths), Path.cwd()):
        for line in read_lines(path):
            try:
                found[line.text] = parse_call(line.text)
            except ConfigSyntaxError:
                continue
    return found


def operator_estimates(configs: Sequence[str], cache: Path) -> dict[str, int]:
    """Estimates that know the operator; those in ``cache`` are not asked for again."""
    known: dict[str, int] = json.loads(cache.read_text()) if cache.exists() else {}
    options = EstimatorOptions(case=CaseOptions(test_backward=True))
    estimator = Estimator(options).start()
    try:
        estimator.submit(config for config in configs if config not in known)
        while estimator.pending:
            estimator.poll()
            time.sleep(0.05)
        known.update(estimator.poll())
        known.update({c: size for c in configs if c not in known and (size := estimator.get(c)) is not None})
    finally:
        estimator.close()
    cache.write_text(json.dumps(known))
    return known


def lines_of(calls: dict[str, Call], estimates: dict[str, int]) -> list[Line]:
    """What the simulation knows of each config."""
    return [
        Line(
            estimates[config] if config in estimates else guess_device_bytes(call, backward=True),
            sum(spec.nbytes for spec in call.tensors()),
            passes_of(call.api),
        )
        for config, call in calls.items()
    ]


def runnable(cases: Sequence[SimulatedCase], rules: AdmissionRules, total: int) -> list[SimulatedCase]:
    """Those that a device can run at all, by their estimate and in truth."""
    usable = rules.usable([total])
    return [c for c in cases if rules.admission_bytes(c.estimate) <= usable and c.peak + CONTEXT_BYTES <= usable]


def row_of(
    policy: str, cases: Sequence[SimulatedCase], setting: Setting, outcome: Outcome
) -> tuple[tuple[str, ...], float]:
    """One row of the table, and makespan / bound."""
    needs = [setting.rules.admission_bytes(case.estimate) for case in cases]
    usable = setting.rules.usable([setting.total])
    bounds = bounds_of(cases, needs, setting.devices, setting.workers, setting.total, usable)
    slots_time = setting.devices * setting.workers * max(outcome.makespan, 1e-9)
    memory_time = setting.devices * setting.total * max(outcome.makespan, 1e-9)
    ratio = outcome.makespan / bounds.least
    row = (
        policy,
        str(setting.workers),
        str(setting.seed),
        f"{bounds.least:.1f}",
        bounds.kind,
        f"{outcome.makespan:.1f}",
        f"{ratio:.2f}",
        f"{outcome.makespan / max(bounds.least, bounds.whole):.2f}",
        f"{outcome.makespan / max(bounds.least, bounds.whole, bounds.leases):.2f}",
        str(outcome.out_of_memory),
        str(outcome.reruns),
        f"{outcome.busy_seconds / slots_time:.0%}",
        f"{outcome.memory_seconds / memory_time:.0%}",
        str(len(cases) - len(outcome.verdicts)) + (" stopped" if outcome.stop_reason else ""),
        f"{outcome.events / outcome.cpu_seconds:.0f}",
    )
    return row, ratio


#: Rules that do better here than the present ones; ``--rule`` is added to both.
PROPOSED = {name: getattr(DEVICE_RULES, name) for name in (f.name for f in fields(AdmissionRules))}


def settings_of(args: argparse.Namespace) -> Iterator[tuple[str, Setting]]:
    """Every policy that was asked for."""
    total = int(args.gib * GIB)
    given = Setting(args.devices, total, 1, 0, AdmissionRules(**args.rules), foreign=args.foreign, tick=args.tick)
    proposed = replace(given, rules=AdmissionRules(**{**PROPOSED, **args.rules}))
    peer = replace(given, rules=AdmissionRules(), admission=FullLeases, by_inputs=True)
    every = {"present": given, "proposed": proposed, "peer": peer}
    for policy in args.policies:
        yield policy, every[policy]


def rule(text: str) -> tuple[str, int | float | str | bool]:
    """``name=value`` of :class:`AdmissionRules`."""
    name, _, value = text.partition("=")
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    return name, {"true": True, "false": False}.get(value.lower(), value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="*", default=["example_configs"], help="files or folders")
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--gib", type=float, default=80, help="of each device")
    parser.add_argument("--workers-per-gpu", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=POLICIES)
    parser.add_argument("--rule", dest="rules", type=rule, action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--largest-first", action="store_true", help="give the cases in that order, not in the files'")
    parser.add_argument("--release", choices=RELEASE_SECONDS, default="prompt", help="how fast memory comes back")
    parser.add_argument("--learned", action="store_true", help="the cases have been run and measured before")
    parser.add_argument("--no-foreign", dest="foreign", action="store_false", help="nobody else uses the devices")
    parser.add_argument("--tick", type=float, default=TICK_SECONDS, help="seconds between two looks when nothing ends")
    parser.add_argument("--operator", type=Path, metavar="CACHE", help="estimates that know the operator, kept there")
    args = parser.parse_args()
    args.rules = dict(args.rules)
    calls = read_calls(args.configs)
    lines = lines_of(calls, operator_estimates(list(calls), args.operator) if args.operator else {})
    if not lines:
        parser.error(f"no config in {', '.join(args.configs)}")
    rows: list[tuple[str, ...]] = []
    totals: dict[tuple[str, int], list[tuple[float, float, int]]] = {}
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        drawn = draw_cases(lines, args.cases, seed, release=args.release, learned=args.learned)
        cases = runnable(drawn, AdmissionRules(), int(args.gib * GIB))
        print(f"seed {seed}: {len(cases)} cases, {len(drawn) - len(cases)} that no device can run are left out")
        if args.largest_first:
            cases.sort(key=lambda case: -case.estimate)
        for workers in args.workers_per_gpu:
            for policy, base in settings_of(args):
                setting = replace(base, workers=workers, seed=seed)
                outcome = Simulation(cases, setting).run()
                row, ratio = row_of(policy, cases, setting, outcome)
                rows.append(row)
                totals.setdefault((policy, workers), []).append((ratio, outcome.makespan, outcome.out_of_memory))
    table(HEADER, rows)
    print()
    table(
        ("policy", "workers", "makespan / bound, mean", "makespan s, mean", "OOM, sum"),
        [
            (
                policy,
                workers,
                f"{statistics.mean(r for r, _, _ in each):.2f}",
                f"{statistics.mean(m for _, m, _ in each):.1f}",
                sum(o for _, _, o in each),
            )
            for (policy, workers), each in totals.items()
        ],
    )


if __name__ == "__main__":
    main()
