"""Devices are read within a time limit, and one that fails does not hide the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from pytest_paddleapi.commands import CommandUsageError
from pytest_paddleapi.commands.host_memory import HostMemory
from pytest_paddleapi.devices.host import HostDevice
from pytest_paddleapi.devices.model import Device, DeviceReadingError, Holder, MemoryReading, Probe
from pytest_paddleapi.devices.registry import DeviceRegistry


class Third:
    """A third party's device without any limit of its own."""

    model, free_needs_holders = "third", False

    def __init__(self, index: int, answer: Callable[[], MemoryReading]) -> None:
        self.uuid, self.index, self._answer = f"third-{index}", index, answer

    def read(self, holders: Sequence[Holder] = ()) -> MemoryReading:
        return self._answer()


class Kind:
    name, priority = "third", 9
    visibility_variable: str | None = None

    def __init__(self, probe: Callable[[], Probe]) -> None:
        self._probe = probe
        self.probed = 0

    def probe(self, environ: Mapping[str, str]) -> Probe:
        self.probed += 1
        return self._probe()

    def visible(self, devices: Sequence[Device]) -> str:
        return ""

    def paddle_device(self, position: int) -> str:
        return f"third:{position}"

    def torch_device(self, position: int) -> str:
        return "cpu"


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def memory_of(kind: Kind, name: str = "auto") -> HostMemory:
    registry = DeviceRegistry()
    registry.register(kind)
    return HostMemory(name, registry)


def test_one_that_hangs_takes_no_time_from_the_others(gate: threading.Event) -> None:
    def hang() -> MemoryReading:
        gate.wait()
        return MemoryReading(1, 1)

    kind = Kind(lambda: Probe((Third(0, hang), Third(1, hang), Third(2, lambda: MemoryReading(100, 60)))))
    began = time.monotonic()
    first, second, third = memory_of(kind).read((), 0.6)
    assert time.monotonic() - began < 5
    assert (first.reading, second.reading) == (None, None)
    assert first.error.startswith("no answer within 0.")
    assert third.reading == MemoryReading(100, 60)


def test_looks_at_a_hanging_device_do_not_pile_up_threads(gate: threading.Event) -> None:
    def hang() -> MemoryReading:
        gate.wait()
        return MemoryReading(1, 1)

    memory = memory_of(Kind(lambda: Probe((Third(0, hang),))))
    memory.read((), 0.5)
    before = threading.active_count()
    for _ in range(5):
        (device,) = memory.read((), 0.5)
        assert "the driver has not answered for" in device.error
    assert threading.active_count() <= before


def test_whatever_a_device_raises_is_its_error() -> None:
    def refuse() -> MemoryReading:
        raise DeviceReadingError("third-0", "it is asleep")

    def fail() -> MemoryReading:
        raise RuntimeError("symbol not found")

    kind = Kind(lambda: Probe((Third(0, refuse), Third(1, fail))))
    assert [device.error for device in memory_of(kind).read((), 2.0)] == [
        "it is asleep",
        "RuntimeError: symbol not found",
    ]


def test_a_probe_that_hangs_ends_in_a_note(gate: threading.Event) -> None:
    def hang() -> Probe:
        gate.wait()
        return Probe()

    memory = memory_of(Kind(hang))
    began = time.monotonic()
    assert memory.read((), 1.0) == []
    assert time.monotonic() - began < 5
    assert "third: its driver did not answer within 0.2 s" in memory.trouble[0]


def test_devices_are_looked_for_once() -> None:
    kind = Kind(lambda: Probe((Third(0, lambda: MemoryReading(100, 60)),)))
    memory = memory_of(kind)
    for _ in range(3):
        memory.read((), 2.0)
    assert (kind.probed, memory.kind) == (1, "third")


def test_without_devices_they_are_not_looked_for_with_every_refresh() -> None:
    kind = Kind(lambda: Probe(why_not="it is switched off"))
    memory = memory_of(kind)
    for _ in range(3):
        assert memory.read((), 2.0) == []
    assert kind.probed == 1
    assert "it is switched off" in memory.trouble[0]


def test_a_device_that_cannot_be_used_is_noted() -> None:
    kind = Kind(lambda: Probe((HostDevice(),), unusable=(("third 7", "it fell off the bus"),)))
    memory = memory_of(kind)
    memory.read((), 2.0)
    assert memory.trouble == ("third 7: it fell off the bus",)


def test_a_kind_that_does_not_exist_is_wrong_usage() -> None:
    with pytest.raises(CommandUsageError, match="'fourth'; there are: auto, third"):
        memory_of(Kind(Probe), "fourth").check()
