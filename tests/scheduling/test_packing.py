"""The packing simulation, small: the real engine on simulated devices decides every case and promises no byte twice."""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_paddleapi.gpu_admission import DEVICE_RULES, GIB, MIB, AdmissionRules
from pytest_paddleapi.results.verdicts import Verdict
from pytest_paddleapi.scheduling.engine import GIVE_WAY_SECONDS

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MODULES = ("_packing_cases", "_packing_devices", "_packing_policies", "_packing_run")
#: Estimates of a mixed load on devices of 20 GiB, from nothing to one that leaves no room for another.
ESTIMATES = [0, 0, 100 * MIB, 300 * MIB, GIB, 2 * GIB, 3 * GIB, 5 * GIB, 8 * GIB, 13 * GIB]


@pytest.fixture(scope="module")
def packing() -> Iterator[Any]:
    """The simulation's modules, which are no package."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        cases, devices, policies, run = map(importlib.import_module, MODULES)
        yield SimpleNamespace(cases=cases, devices=devices, policies=policies, run=run)
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name in MODULES:
            sys.modules.pop(name, None)


def draw(packing: Any, count: int, seed: int) -> list[Any]:
    lines = [packing.cases.Line(size, size // 3, 4) for size in ESTIMATES]
    return [case for case in packing.cases.draw_cases(lines, count, seed, release="slow") if case.peak < 17 * GIB]


def setting(packing: Any, seed: int, workers: int, **changes: Any) -> Any:
    return packing.run.Setting(devices=3, total=20 * GIB, workers=workers, seed=seed, **changes)


RULES = {
    "present": AdmissionRules(),
    "proposed": DEVICE_RULES,
    "present by size": AdmissionRules(largest_first=True),
    "proposed in order": replace(DEVICE_RULES, largest_first=False),
}


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize(("seed", "workers"), [(0, 1), (1, 3), (2, 6)])
def test_every_case_is_decided_once_and_nothing_is_over_promised(
    packing: Any, rules: str, seed: int, workers: int
) -> None:
    cases = draw(packing, 300, seed)
    simulation = packing.run.Simulation(cases, setting(packing, seed, workers, rules=RULES[rules], audit=True))
    outcome = simulation.run()
    assert outcome.stop_reason is None
    assert sorted(outcome.verdicts) == list(range(len(cases)))
    assert set(outcome.verdicts.values()) <= {Verdict.PASS, Verdict.OOM}
    assert all(0 <= device.used <= device.total for device in simulation.devices)
    # No schedule is faster than the bound: neither it nor the clock of the simulation is wrong.
    needs = [RULES[rules].admission_bytes(case.estimate) for case in cases]
    usable = RULES[rules].usable([20 * GIB])
    assert outcome.makespan >= packing.cases.bounds_of(cases, needs, 3, workers, 20 * GIB, usable).least


def test_the_same_seed_gives_the_same_run(packing: Any) -> None:
    def once() -> tuple[float, int, int]:
        outcome = packing.run.Simulation(draw(packing, 200, 7), setting(packing, 7, 4)).run()
        return outcome.makespan, outcome.attempts, outcome.out_of_memory

    assert once() == once()


@pytest.mark.parametrize(("largest_first", "part"), [(False, 8), (True, 4)])
def test_the_proposed_rules_run_out_of_memory_less_often(packing: Any, largest_first: bool, part: int) -> None:
    """Where the largest goes first memory is fuller, so that one that takes more than was estimated finds less left."""

    def count(**changes: Any) -> int:
        total: int = 0
        for seed in (3, 4, 5):
            fleet = setting(packing, seed, 4, foreign=False, **changes)
            total += packing.run.Simulation(draw(packing, 800, seed), fleet).run().out_of_memory
        return total

    peer = count(admission=packing.policies.FullLeases, by_inputs=True)
    assert peer > 30
    assert count(rules=replace(RULES["proposed"], largest_first=largest_first)) <= peer / part


@pytest.mark.parametrize("workers", [1, 4])
def test_a_case_as_large_as_a_lease_can_be_starts_beside_idle_contexts(packing: Any, workers: int) -> None:
    """With the whole reserve kept, the contexts of idle processes are in its way until they are ended."""
    usable = AdmissionRules().usable([20 * GIB])
    large = packing.cases.SimulatedCase(int(usable / 1.25) - MIB, GIB, 10 * GIB, 0.1, 0.3)
    small = packing.cases.SimulatedCase(0, 0, 0, 0.1, 0.3)

    def run(lone_reserve: float) -> Any:
        rules = AdmissionRules(lone_reserve=lone_reserve, first_target=64, count_ended=False)
        fleet = packing.run.Setting(1, 20 * GIB, workers, 0, rules, foreign=False, audit=True)
        return packing.run.Simulation([*[small] * 20, large], fleet).run()

    kept, used = run(1.0), run(0.0)
    for outcome in (kept, used):
        assert outcome.stop_reason is None and len(outcome.verdicts) == 21
        assert outcome.out_of_memory == 0
    assert (used.confirms_failed, kept.confirms_failed) == (0, 1)
    assert used.makespan < kept.makespan - GIVE_WAY_SECONDS


def test_the_ratios_are_those_that_were_measured(packing: Any) -> None:
    rng = random.Random(0)
    ratios = sorted(packing.cases.ratio_of(rng) for _ in range(20_000))
    assert ratios[len(ratios) // 2] == pytest.approx(1.5, rel=0.02)
    assert ratios[0] >= 0.36 and ratios[-1] <= 7.5
    assert sum(ratio < 0.8 for ratio in ratios) / len(ratios) == pytest.approx(0.005, abs=0.002)


@pytest.mark.parametrize(("release", "prompt"), [("prompt", True), ("slow", False)])
def test_what_is_held_counts_only_where_memory_was_seen_to_come_back_at_once(
    packing: Any, release: str, prompt: bool
) -> None:
    lines = [packing.cases.Line(size, size // 3, 20) for size in (6 * GIB, 9 * GIB, 12 * GIB)]
    cases = packing.cases.draw_cases(lines, 150, 5, release=release)
    cases = [case for case in cases if case.peak < case.estimate]
    simulation = packing.run.Simulation(cases, setting(packing, 5, 4, rules=DEVICE_RULES, foreign=False))
    granted: list[bool] = []
    begins = simulation.admission._promptness.begins

    def note(lease: Any, *, inherited: bool = False) -> None:
        granted.append(inherited)
        begins(lease, inherited=inherited)

    simulation.admission._promptness.begins = note
    outcome = simulation.run()
    assert any(granted) is prompt
    assert outcome.out_of_memory == 0 or prompt
    assert len(outcome.verdicts) == len(cases)
