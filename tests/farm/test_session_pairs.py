"""Sessions on pairs of devices: one computes, results are on the other."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pytest_paddleapi.gpu_admission import LeaseState, read_ledger

from .farm import MIB, Action, Event, Farm
from .sessions import FarmSession

#: The mode of a session on a farm is an option of its own command line.
DUAL, STABLE_DUAL = "--accuracy-dual-gpu", "--accuracy-stable-dual-gpu"
CASE = 'paddle.abs(Tensor([2, 3],"float32"))'
#: One input, one result and one gradient of 8 MiB.
BIG = 'paddle.abs(Tensor([8, 262144],"float32"))'
CONTEXT = 16 * MIB


def watched_leases(session: FarmSession) -> set[tuple[str, ...]]:
    """The devices of every active lease that was seen while the session ran."""
    seen: set[tuple[str, ...]] = set()
    while session.running:
        if session.ledger.exists():
            for state in read_ledger(session.ledger).sessions:
                seen |= {lease.devices for lease in state.leases if lease.state is LeaseState.ACTIVE}
        time.sleep(0.02)
    return seen


@pytest.mark.parametrize(("mode", "results"), [pytest.param(DUAL, 2, marks=pytest.mark.slow), (STABLE_DUAL, 4)])
def test_results_are_on_the_second_device(make_farm: Any, start: Any, mode: str, results: int) -> None:
    farm: Farm = make_farm(devices=2, mib=512, context_mib=16)
    session = start(farm, [BIG, CASE], "-n0", mode=mode)
    leases = watched_leases(session)
    done = session.wait()
    assert done.code == 0, done.output
    assert set(done.verdicts().values()) == {"pass"}
    assert done.devices() == {f"{farm.uuid(0)}+{farm.uuid(1)}"}
    assert "in pairs, 1 worker" in done.output
    assert leases == {(farm.uuid(0), farm.uuid(1))}
    # Output and gradient of each run, and nothing that the computation took: not even its input.
    held = farm.peak(1) - CONTEXT
    assert results * 8 * MIB <= held < results * 8 * MIB + 1 * MIB
    # Input, output, both gradients at least, of one run at a time.
    assert 32 * MIB <= farm.peak(0) - CONTEXT <= 56 * MIB
    (estimated,) = {int(found["estimated_bytes"]) for found in done.properties if found["config"] == BIG}
    assert estimated >= max(farm.peak(0), farm.peak(1)) - CONTEXT
    assert farm.refusals(0) == farm.refusals(1) == []


@pytest.mark.slow
def test_four_devices_are_two_pairs_with_a_worker_each(make_farm: Any, start: Any) -> None:
    farm = make_farm(devices=4, mib=512, context_mib=16)
    cases = [f'paddle.abs(Tensor([{8 + i}, 262144],"float32"))' for i in range(6)]
    done = start(farm, cases, "-nauto", mode=DUAL).wait()
    assert done.code == 0, done.output
    assert "on 4 x Simulated GPU (sim_gpu) in pairs, 2 workers," in done.output
    assert done.verdicts() == dict.fromkeys(cases, "pass")
    assert done.devices() == {f"{farm.uuid(0)}+{farm.uuid(1)}", f"{farm.uuid(2)}+{farm.uuid(3)}"}
    for first, second in ((0, 1), (2, 3)):
        assert farm.peak(first) > farm.peak(second) >= 2 * 8 * MIB


@pytest.mark.parametrize(
    ("devices", "arguments", "says"),
    [
        (1, ["-n0"], "this mode takes devices in pairs, and there is only one"),
        (4, ["-n3"], "-n 3: this mode has one worker for each pair of devices, and there are 2 pairs; give -n 2, or"),
    ],
)
def test_what_is_no_pair_is_a_usage_error(
    make_farm: Any, start: Any, devices: int, arguments: list[str], says: str
) -> None:
    done = start(make_farm(devices=devices), [CASE], "--collect-only", *arguments, mode=DUAL).wait()
    assert done.code == 4 and says in done.output, done.output


@pytest.mark.slow
def test_a_death_frees_both_devices(make_farm: Any, start: Any) -> None:
    farm = make_farm(devices=2, mib=512, context_mib=16)
    # Dies while it brings a result to the second device. Preparing that took three: a tensor, and one for each counter.
    farm.inject(Event.ALLOCATE, Action.ABORT, device=1, nth=5)
    done = start(farm, [BIG, CASE], "-n0", mode=DUAL).wait()
    assert done.code == 1, done.output
    # Which of them is first depends on whose estimate is there first.
    assert sorted(done.verdicts().values()) == ["paddle_crash", "pass"]
    assert "SIGABRT" in done.output
    assert farm.used(0) == farm.used(1) == 0


@pytest.mark.parametrize("lost", [0, pytest.param(3, marks=pytest.mark.slow)])
def test_a_lost_device_takes_its_pair_out(make_farm: Any, start: Any, lost: int) -> None:
    farm = make_farm(devices=4, mib=512, context_mib=16)
    farm.inject(Event.INIT, Action.FAIL, device=lost, times=0, code=46)
    done = start(farm, [CASE, BIG], "-n2", mode=DUAL).wait()
    assert done.code == 0, done.output
    assert set(done.verdicts().values()) == {"pass"} and len(done.verdicts()) == 2
    left = (2, 3) if lost < 2 else (0, 1)
    assert done.devices() == {"+".join(farm.uuid(device) for device in left)}


@pytest.mark.slow
def test_a_second_device_that_is_full_puts_the_case_off(make_farm: Any, start: Any) -> None:
    farm = make_farm(devices=2, mib=256, context_mib=16)
    farm.foreign(1, 200 * MIB)
    done = start(farm, [BIG], "-n0", "--paddleapi-pressure-timeout=2", mode=DUAL).wait()
    assert done.code == 1, done.output
    assert "wait for memory that other processes hold" in done.output
    assert farm.refusals(0) == farm.refusals(1) == []
