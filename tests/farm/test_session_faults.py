"""Sessions on devices that go wrong: lost at start-up, hanging, crashing, unreadable."""

from __future__ import annotations

from typing import Any

import pytest

from .farm import MIB, Action, Event
from .support import wait_until

CONFIGS = [f'paddle.abs(Tensor([{size}, 300000],"float32"))' for size in range(1, 9)]


@pytest.mark.parametrize("code", [45, pytest.param(46, marks=pytest.mark.slow)])
def test_lost_device_is_quarantined_and_its_cases_run_on_the_other(make_farm: Any, start: Any, code: int) -> None:
    farm = make_farm(devices=2, mib=512, context_mib=16)
    farm.inject(Event.INIT, Action.FAIL, device=0, times=0, code=code)
    done = start(farm, CONFIGS[:4], "-n2").wait()
    assert done.code == 0, done.output
    assert done.verdicts() == dict.fromkeys(CONFIGS[:4], "pass")
    assert done.devices() == {farm.uuid(1)}


def test_without_another_device_the_run_stops_at_once(make_farm: Any, start: Any) -> None:
    farm = make_farm(devices=2, mib=512, context_mib=16)
    fault = farm.inject(Event.INIT, Action.FAIL, times=0, code=46)
    done = start(farm, CONFIGS[:3], "-n0").wait()
    assert done.code == 1, done.output
    assert fault.struck == 1
    assert "no slot is left that could run a case: the device is lost or unavailable" in done.output
    assert "3 cases were not run" in done.output
    assert 't.txt::paddle.abs[Tensor([3, 300000],"float32")]' in done.output.split("3 cases were not run")[1]


def test_hang_is_a_timeout_and_abort_a_crash(make_farm: Any, start: Any) -> None:
    farm = make_farm(devices=2, mib=512, context_mib=16)
    # Both in the process's first case, and not while it gets ready.
    farm.inject(Event.COPY, Action.HANG, device=0, nth=4)
    farm.inject(Event.ALLOCATE, Action.ABORT, device=1, nth=4)
    hanging = start(farm, CONFIGS[:2], "-n0", "--paddleapi-gpu-ids=0", "--paddleapi-timeout=4")
    crashing = start(farm, CONFIGS[:2], "-n0", "--paddleapi-gpu-ids=1")
    hung, crashed = hanging.wait(), crashing.wait()
    assert hung.code == crashed.code == 1
    assert list(hung.verdicts().values()) == ["timeout", "pass"], hung.output
    assert list(crashed.verdicts().values()) == ["paddle_crash", "pass"], crashed.output
    assert "SIGABRT" in crashed.output
    assert "over the time limit of 4 s" in hung.output


@pytest.mark.slow
def test_driver_that_cannot_be_read_for_a_while(make_farm: Any, start: Any) -> None:
    farm = make_farm(devices=1, mib=512, context_mib=16)
    memory = "nvmlDeviceGetMemoryInfo"
    failing = farm.inject(Event.NVML, Action.FAIL, call=memory, nth=6, times=5, code=999)
    hanging = farm.inject(Event.NVML, Action.HANG, call=memory, nth=12, times=1, milliseconds=2500)
    done = start(farm, CONFIGS, "-n0").wait()
    assert done.code == 0, done.output
    assert done.verdicts() == dict.fromkeys(CONFIGS, "pass")
    assert failing.struck == 5 and hanging.struck == 1
    assert farm.refusals(0) == []


@pytest.mark.slow
def test_crash_in_a_device_that_is_full_gives_all_back(make_farm: Any, start: Any) -> None:
    farm = make_farm(devices=1, mib=512, context_mib=16)
    farm.inject(Event.ALLOCATE, Action.SEGFAULT, nth=6, per_process=True)
    session = start(farm, CONFIGS[:1], "-n0")
    assert wait_until(lambda: farm.used(0) > 16 * MIB, 60)
    done = session.wait()
    assert list(done.verdicts().values()) == ["paddle_crash"], done.output
    assert farm.used(0) == 0


@pytest.mark.slow
def test_driver_that_fails_for_a_moment_at_the_start(make_farm: Any, start: Any) -> None:
    farm = make_farm(devices=1, mib=512, context_mib=16)
    memory = "nvmlDeviceGetMemoryInfo"
    failing = farm.inject(Event.NVML, Action.FAIL, call=memory, times=2, code=999)
    hanging = farm.inject(Event.NVML, Action.HANG, call=memory, nth=1, times=1, milliseconds=1500)
    done = start(farm, CONFIGS[:1], "-n0").wait()
    assert done.code == 0, done.output
    assert failing.struck == 2 and hanging.struck == 1


def test_device_that_the_driver_has_lost_is_left_out(make_farm: Any, start: Any) -> None:
    farm = make_farm(devices=2, mib=512, context_mib=16)
    # 15: GPU is lost.
    farm.inject(Event.NVML, Action.FAIL, call="nvmlDeviceGetMemoryInfo", device=0, times=0, code=15)
    done = start(farm, CONFIGS[:1], "-n0").wait()
    assert done.code == 0, done.output
    assert f"not usable: {farm.uuid(0)}: GPU is lost" in done.output
    assert done.devices() == {farm.uuid(1)}


def test_no_device_that_can_be_read_is_a_usage_error(make_farm: Any, start: Any) -> None:
    farm = make_farm(devices=1, mib=512, context_mib=16)
    farm.inject(Event.NVML, Action.FAIL, call="nvmlDeviceGetMemoryInfo", times=0, code=15)
    done = start(farm, CONFIGS[:1], "-n0").wait()
    assert done.code == 4, done.output
    assert "--paddleapi-device: no sim_gpu device can be read" in done.output and "GPU is lost" in done.output
