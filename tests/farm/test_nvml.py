"""The stand-in for NVML, through the real nvidia-ml-py and the plugin's NVIDIA kind."""

from __future__ import annotations

import time
from typing import Any

import pytest

from .farm import MIB, Action, Event, Farm
from .support import PaddleProcesses, ask_nvml

CONTEXT = 64 * MIB
GIB = 1024 * MIB
#: NVML's numbers.
NO_PERMISSION, FUNCTION_NOT_FOUND, GPU_IS_LOST, RESET_REQUIRED, VERSION_MISMATCH, UNKNOWN = 4, 13, 15, 16, 18, 999


def test_devices_are_listed_with_uuid_and_name(farm: Farm) -> None:
    found = ask_nvml(farm, "probe")
    assert found["devices"] == [[farm.uuid(i), i, "Simulated GPU"] for i in range(2)]


def test_the_visibility_variable_orders_and_hides(farm: Farm) -> None:
    found = ask_nvml(farm, "probe", visible=f"{farm.uuid(1)}")
    assert [entry[1] for entry in found["devices"]] == [1]


def test_memory_and_processes_are_read(farm: Farm, paddle: PaddleProcesses) -> None:
    farm.foreign(0, 100 * MIB)
    children = [paddle.start("hold", size=size * MIB) for size in (50, 150)]
    for child in children:
        child.wait_for(1)
    reading = ask_nvml(farm, "read", uuid=farm.uuid(0), pids=[child.pid for child in children])
    assert reading["total"] == GIB
    assert reading["held"] == {str(pid): size for pid, size in farm.by_process(0).items()}
    assert reading["free"] == GIB - 100 * MIB - sum(reading["held"].values())
    other = ask_nvml(farm, "read", uuid=farm.uuid(1), pids=[children[0].pid])
    assert (other["free"], other["held"]) == (GIB, {})


def test_a_killed_process_is_gone(farm: Farm, paddle: PaddleProcesses) -> None:
    child = paddle.start("hold", size=50 * MIB)
    child.wait_for(1)
    child.kill()
    assert ask_nvml(farm, "read", uuid=farm.uuid(0), pids=[child.pid]) == {"total": GIB, "free": GIB, "held": {}}


def test_slow_release_is_seen_as_used_by_nobody(farm: Farm, paddle: PaddleProcesses) -> None:
    farm.slow_release(0, 30)
    child = paddle.start("hold", size=50 * MIB)
    child.wait_for(1)
    child.kill()
    reading = ask_nvml(farm, "read", uuid=farm.uuid(0), pids=[child.pid])
    assert reading["held"] == {}
    assert reading["free"] == pytest.approx(GIB - CONTEXT - 50 * MIB, abs=512)


@pytest.mark.parametrize(
    ("code", "error", "says"),
    [
        (GPU_IS_LOST, "DeviceLostError", "GPU is lost"),
        (RESET_REQUIRED, "DeviceLostError", "requires restart"),
        (NO_PERMISSION, "DeviceReadingError", "Insufficient Permissions"),
        (UNKNOWN, "DeviceReadingError", "Unknown Error"),
    ],
    ids=["lost", "reset required", "no permission", "unknown"],
)
def test_an_error_of_one_device_for_a_number_of_calls(farm: Farm, code: int, error: str, says: str) -> None:
    farm.inject(Event.NVML, Action.FAIL, device=0, code=code, times=2, call="nvmlDeviceGetMemoryInfo")
    found = ask_nvml(farm, "read_errors", uuid=farm.uuid(0), count=3)
    assert [entry[0] for entry in found[:2]] == [error, error]
    assert says in found[0][1] and farm.uuid(0) in found[0][1]
    assert found[2] == "ok"


def test_an_error_of_one_device_leaves_the_other_alone(farm: Farm) -> None:
    farm.inject(Event.NVML, Action.FAIL, device=0, code=GPU_IS_LOST, times=0)
    assert ask_nvml(farm, "read_errors", uuid=farm.uuid(1), count=1) == ["ok"]
    found = ask_nvml(farm, "probe")
    assert [entry[1] for entry in found["devices"]] == [1]
    assert found["unusable"] == [["GPU 0", "GPU is lost"]]


def test_a_driver_and_library_that_do_not_match(farm: Farm) -> None:
    farm.inject(Event.NVML, Action.FAIL, code=VERSION_MISMATCH, call="nvmlInit")
    found = ask_nvml(farm, "probe")
    assert found["devices"] == [] and "updated while loaded" in found["why_not"]


def test_a_driver_that_does_not_tell_of_processes(farm: Farm, paddle: PaddleProcesses) -> None:
    farm.inject(Event.NVML, Action.FAIL, code=NO_PERMISSION, times=0, call="nvmlDeviceGetComputeRunningProcesses")
    child = paddle.start("hold", size=50 * MIB)
    child.wait_for(1)
    reading = ask_nvml(farm, "read", uuid=farm.uuid(0), pids=[child.pid])
    assert reading["held"] == {} and reading["free"] < GIB - 50 * MIB


def test_a_reading_that_hangs_is_a_timeout(farm: Farm) -> None:
    farm.inject(Event.NVML, Action.HANG, call="nvmlDeviceGetMemoryInfo")
    found = ask_nvml(farm, "read_errors", uuid=farm.uuid(0), count=2, patience=0.3)
    assert [entry[0] for entry in found] == ["DeviceReadingTimeoutError"] * 2
    assert "no answer within 0.3 s" in found[0][1]


def test_a_driver_that_hangs_at_the_start_is_passed_over(farm: Farm) -> None:
    farm.inject(Event.NVML, Action.HANG, call="nvmlInit", times=0)
    begun = time.monotonic()
    found = ask_nvml(farm, "late_probe", seconds=0.5)
    assert found["kind"] == "cpu"
    assert [entry[0] for entry in found["passed_over"]][:2] == ["sim_gpu", "nvidia"]
    assert "did not answer within 0.5 s" in found["passed_over"][0][1]
    assert time.monotonic() - begun < 20


def test_mig_instances_are_devices_of_their_own(make_farm: Any) -> None:
    farm = make_farm(devices=2, mib=1024, mig={1: [256, 512]})
    raw = ask_nvml(farm, "raw_mig", index=1)
    assert raw["mode"] == 1
    assert raw["instances"] == [[farm.uuid(2), 256 * MIB, 1], [farm.uuid(3), 512 * MIB, 1]]
    found = [(uuid, index) for uuid, index, _ in ask_nvml(farm, "probe")["devices"]]
    assert found == [(farm.uuid(0), 0), (farm.uuid(2), 2), (farm.uuid(3), 3)]
    named = ask_nvml(farm, "probe", visible=f"{farm.uuid(3)},0")
    assert [entry[0] for entry in named["devices"]] == [farm.uuid(3), farm.uuid(0)]
    assert ask_nvml(farm, "read", uuid=farm.uuid(3), pids=[])["total"] == 512 * MIB
    ((error, text),) = ask_nvml(farm, "read_errors", uuid=farm.uuid(1), count=1)
    assert error == "DeviceReadingError" and "MIG" in text


def test_a_gpu_without_mig_has_no_instances(farm: Farm) -> None:
    assert ask_nvml(farm, "raw_mig", index=0) == {"mode": 0, "most": 0, "instances": []}
