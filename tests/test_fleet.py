"""Which worker gets which devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import pytest

from pytest_paddleapi.devices.host import KIND as HOST
from pytest_paddleapi.devices.model import Device, Holder, MemoryReading, Probe
from pytest_paddleapi.devices.registry import DeviceRegistry
from pytest_paddleapi.devices.selection import DeviceOptionError, DeviceOptions
from pytest_paddleapi.fleet import Fleet, Placement, build_fleet, devices_of, single
from pytest_paddleapi.process.messages import CaseOptions


@dataclass
class Chip:
    index: int
    model: str = "Chip 1"
    free_needs_holders: bool = False

    @property
    def uuid(self) -> str:
        return f"chip-{self.index}"

    def read(self, holders: Sequence[Holder] = ()) -> MemoryReading:
        return MemoryReading(8 << 30, 8 << 30)


@dataclass
class ChipKind:
    count: int
    name: str = "chip"
    priority: int = 50
    visibility_variable: str | None = "CHIP_VISIBLE"

    def probe(self, environ: Mapping[str, str]) -> Probe:
        return Probe(tuple(Chip(i) for i in range(self.count)), unusable=(("chip 9", "it smokes"),))

    def visible(self, devices: Sequence[Device]) -> str:
        return ",".join(str(device.index) for device in devices)

    def paddle_device(self, position: int) -> str:
        return f"chip:{position}"

    def torch_device(self, position: int) -> str:
        return "cpu"


def fleet(count: int = 2, **options: object) -> Fleet:
    registry = DeviceRegistry()
    registry.register(ChipKind(count))
    registry.register(HOST)
    return build_fleet("auto", DeviceOptions(**options), cores=4, registry=registry)  # type: ignore[arg-type]


def test_workers_are_spread_breadth_first_and_a_replacement_fills_the_gap() -> None:
    made = fleet(2)
    groups = [made.place(f"gw{i}").group for i in range(4)]
    assert groups == ["chip-0", "chip-1", "chip-0", "chip-1"]
    made.leave("gw1")
    assert made.place("gw4").group == "chip-1"
    assert made.group_of("gw4") == "chip-1"


def test_a_quarantined_device_gets_no_new_worker() -> None:
    made = fleet(2)
    assert {made.place(f"gw{i}", {"chip-0"}).group for i in range(3)} == {"chip-1"}


def test_a_placement_hides_the_other_devices_and_survives_the_wire() -> None:
    placement = fleet(3).placement("chip-2")
    assert placement.environment == {"CHIP_VISIBLE": "2"}
    assert (placement.paddle, placement.torch, placement.uuids) == (("chip:0",), ("cpu",), ("chip-2",))
    assert msgspec.convert(msgspec.to_builtins(placement), Placement) == placement


def test_pairs_are_one_group() -> None:
    made = fleet(4, pairs=True)
    assert list(made.groups) == ["chip-0+chip-1", "chip-2+chip-3"]
    assert made.placement("chip-2+chip-3").environment == {"CHIP_VISIBLE": "2,3"}
    assert made.placement("chip-2+chip-3").paddle == ("chip:0", "chip:1")
    assert (made.pairs, made.plan.workers, fleet(4).pairs) == (2, 2, 0)


def test_a_case_is_told_of_the_second_device_of_a_pair() -> None:
    told = fleet(2, pairs=True).placement("chip-0+chip-1").of_case(CaseOptions(seed=3))
    assert (told.device, told.second_device, told.torch_device, told.second_torch_device) == (
        "chip:0",
        "chip:1",
        "cpu",
        "cpu",
    )
    placement = Placement(paddle=("gpu:0", "gpu:1"), torch=("cuda:0", "cuda:1"))
    told = placement.of_case(CaseOptions(seed=3))
    assert (told.torch_device, told.second_torch_device, told.seed) == ("cuda:0", "cuda:1", 3)
    assert Placement().of_case(CaseOptions(seed=3)) == CaseOptions(seed=3)


def test_without_workers_there_is_one_group() -> None:
    assert list(single(fleet(3)).groups) == ["chip-0"]


def test_the_header_names_devices_and_what_is_not_usable() -> None:
    made = fleet(2)
    assert made.header(4) == "on 2 x Chip 1 (chip), 4 workers"
    assert list(made.notes()) == ["not usable: chip 9: it smokes"]


def test_the_host_is_one_group_called_cpu() -> None:
    registry = DeviceRegistry()
    registry.register(HOST)
    made = build_fleet("auto", DeviceOptions(), cores=4, memory_limit=1 << 30, registry=registry)
    assert list(made.groups) == ["cpu"]
    assert made.plan.workers == 4
    assert made.placement("cpu") == Placement(uuids=(made.plan.devices[0].uuid,))
    (host,) = devices_of(made.placement("cpu"), 1 << 30)
    assert host.read().total == 1 << 30


def test_a_memory_limit_is_for_the_host_only() -> None:
    registry = DeviceRegistry()
    registry.register(ChipKind(1))
    with pytest.raises(DeviceOptionError, match="host memory"):
        build_fleet("auto", DeviceOptions(), cores=1, memory_limit=1 << 30, registry=registry)


def test_auto_passes_over_gpus_that_the_installed_paddle_cannot_use() -> None:
    registry = DeviceRegistry()
    registry.register(ChipKind(1, name="nvidia", priority=100))
    registry.register(HOST)
    made = build_fleet("auto", DeviceOptions(), cores=1, registry=registry)
    assert made.kind.name == "cpu"
    assert "build for the CPU" in made.passed_over[0].why
    with pytest.raises(DeviceOptionError, match="nvidia cannot be used: the installed Paddle is a build for the CPU"):
        build_fleet("nvidia", DeviceOptions(), cores=1, registry=registry)
