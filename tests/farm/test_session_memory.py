"""Sessions whose cases want more of a device than there is: they are put off, given more, or refused."""

from __future__ import annotations

import time
from typing import Any

import pytest

from .farm import MIB, Action, Event, Farm
from .sessions import FACTOR, SMALL, FarmSession
from .support import wait_until

SMALL_CASE = 'paddle.abs(Tensor([2, 3],"float32"))'


def big_case(mib: int) -> str:
    """A call with one input and one result of so many MiB each, and with their gradients."""
    return f'paddle.abs(Tensor([{mib}, 262144],"float32"))'


def refusals(farm: Farm, device: int = 0, *, injected: bool = False) -> int:
    return sum(found.injected is injected for found in farm.refusals(device))


@pytest.mark.slow
def test_case_that_needs_more_than_its_estimate_grows_until_it_passes_or_had_all(make_farm: Any, start: Any) -> None:
    farm = make_farm(devices=1, mib=256, context_mib=16)
    fits, too_big = big_case(32), big_case(96)
    farm.foreign(0, 180 * MIB)
    session: FarmSession = start(farm, [fits, too_big], "-n0", numbers={**SMALL, FACTOR: 0.0})
    assert wait_until(lambda: refusals(farm) > 0, 60), session.output
    farm.foreign(0, 0)
    done = session.wait()
    assert done.code == 1, done.output
    assert done.verdicts() == {fits: "pass", too_big: "oom"}
    attempts = {found["config"]: int(found["attempts"]) for found in done.properties}
    # Leases of 16, 32, 64 and 128 MiB, and then of all that is left beside the reserve.
    assert attempts[too_big] >= 5
    assert attempts[fits] >= 2
    assert "reruns" in done.output and "ran out of its lease of 16 MiB" not in done.output.split("FAILURES")[0]


def test_case_that_fits_on_no_device_is_skipped_with_its_numbers(make_farm: Any, start: Any) -> None:
    farm = make_farm(devices=1, mib=256, context_mib=16)
    done = start(farm, [big_case(256), SMALL_CASE], "-n0", "-rs").wait()
    assert done.code == 0, done.output
    assert done.verdicts() == {big_case(256): "oversize", SMALL_CASE: "pass"}
    oversize = next(found for found in done.properties if found["verdict"] == "oversize")
    assert int(oversize["estimated_bytes"]) > 256 * MIB
    assert "oversize: it is estimated to need" in done.output
    assert "more than the 0.2 GiB" in done.output
    assert 't.txt::paddle.abs[Tensor([256, 262144],"float32")] SKIPPED' in done.output
    assert farm.peak(0) < 64 * MIB


@pytest.mark.slow
def test_two_sessions_on_one_device_share_it_without_a_refusal(make_farm: Any, start: Any) -> None:
    farm = make_farm(devices=1, mib=320, context_mib=16)
    # The last one takes nearly all: it fits only once the other session's idle process has given its context back.
    configs = [big_case(mib) for mib in (4, 5, 10)]
    sessions = [start(farm, configs, "-n0") for _ in range(2)]
    for session in sessions:
        done = session.wait()
        assert done.code == 0, done.output
        assert set(done.verdicts().values()) == {"pass"} and len(done.verdicts()) == len(configs)
    assert farm.refusals(0) == []


def test_cases_wait_for_memory_that_somebody_else_holds(make_farm: Any, start: Any) -> None:
    farm = make_farm(devices=1, mib=256, context_mib=16)
    farm.foreign(0, 230 * MIB)
    session = start(farm, [SMALL_CASE], "-n0")
    assert wait_until(lambda: "collected 1 item" in session.output, 60)
    time.sleep(2)
    assert session.running and "PASSED" not in session.output
    farm.foreign(0, 0)
    done = session.wait()
    assert done.code == 0 and done.verdicts() == {SMALL_CASE: "pass"}, done.output


@pytest.mark.parametrize("workers", ["-n0", pytest.param("-n2", marks=pytest.mark.slow)])
def test_memory_that_never_comes_stops_the_run_and_names_what_waits(make_farm: Any, start: Any, workers: str) -> None:
    farm = make_farm(devices=1, mib=256, context_mib=16)
    farm.foreign(0, 230 * MIB)
    done = start(farm, [SMALL_CASE, big_case(4)], workers, "--paddleapi-pressure-timeout=2").wait()
    assert done.code == 1, done.output
    assert "wait for memory that other processes hold" in done.output
    assert "2 cases were not run" in done.output
    assert 't.txt::paddle.abs[Tensor([2, 3],"float32")]' in done.output.split("2 cases were not run")[1]
    assert done.verdicts() == {}


@pytest.mark.slow
def test_case_that_needs_all_but_the_context_runs_after_others(make_farm: Any, start: Any) -> None:
    farm = make_farm(devices=1, mib=300, context_mib=16)
    done = start(farm, [big_case(8), big_case(10)], "-n0", "--paddleapi-pressure-timeout=15").wait()
    assert done.code == 0, done.output
    assert done.verdicts() == {big_case(8): "pass", big_case(10): "pass"}


@pytest.mark.slow
def test_memory_that_is_slow_to_come_back_is_not_promised(make_farm: Any, start: Any) -> None:
    farm = make_farm(devices=1, mib=256, context_mib=16, release_seconds=1.5)
    # A lease of nearly all, so that after a crash the next one must wait until the dead process's memory is back.
    crash = farm.inject(Event.ALLOCATE, Action.ABORT, nth=5)
    configs = [f'paddle.abs(Tensor([8, {262144 + i}],"float32"))' for i in range(4)]
    done = start(farm, configs, "-n0", "--paddleapi-no-backward").wait()
    assert len(done.verdicts()) == len(configs)
    assert list(done.verdicts().values()).count("pass") >= 3, done.output
    assert crash.struck == 1
    assert farm.refusals(0) == []
