"""The kind ``sim_gpu``, found by the plugin's entry points as any third party's."""

from __future__ import annotations

from pytest_paddleapi.devices.model import DeviceKind

from .farm import Farm
from .kind import KIND
from .support import ask_nvml


def test_it_is_found_by_its_entry_point_and_chosen_first(farm: Farm) -> None:
    found = ask_nvml(farm, "select")
    assert (found["kind"], found["priority"], found["devices"]) == ("sim_gpu", 200, 2)
    assert found["names"] == ["sim_gpu:1", "cpu", f"{farm.uuid(0)},{farm.uuid(1)}"]


def test_it_is_a_kind_of_device() -> None:
    assert isinstance(KIND, DeviceKind)


def test_it_finds_nothing_outside_a_farm() -> None:
    probe = KIND.probe({})
    assert probe.devices == () and "SIMFARM_FILE is not set" in probe.why_not
