"""What ``ledger`` makes of leases and readings."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_paddleapi.commands.host_memory import DeviceMemory
from pytest_paddleapi.commands.ledger import _rules
from pytest_paddleapi.commands.ledger_view import DeviceView, make_view
from pytest_paddleapi.devices.host import HostDevice
from pytest_paddleapi.devices.model import Holder, MemoryReading
from pytest_paddleapi.gpu_admission import DEVICE_RULES, GIB, AdmissionRules, Granted, Group, Ledger, Slot, read_ledger


class Gpu:
    """80 GiB, of which 60 are free."""

    uuid, index, model = "GPU-a", 0, "x"
    free_needs_holders = False

    def read(self, holders: Sequence[Holder] = ()) -> MemoryReading:
        return MemoryReading(80 * GIB, 60 * GIB)


def view_of(folder: Path, device: str, held: Mapping[Holder, int]) -> DeviceView:
    reading = MemoryReading(80 * GIB, 60 * GIB, held)
    memory = [DeviceMemory(device, 0, "x", reading)]
    (shown,) = make_view(read_ledger(folder), "nvidia", memory, [], time.time(), _rules).devices
    return shown


def test_a_device_is_shown_by_the_rules_of_devices_and_what_nobody_tells_as_unknown(tmp_path: Path) -> None:
    with Ledger([Gpu()], folder=tmp_path, rules=DEVICE_RULES) as ledger:
        granted = ledger.reserve(Slot("s", Group("GPU-a", ("GPU-a",))), "case", 30 * GIB)
        assert isinstance(granted, Granted)
        assert view_of(tmp_path, "GPU-a", {}).held == 0  # it has no process yet
        lease = ledger.attach(granted.lease, os.getpid())
        unknown = view_of(tmp_path, "GPU-a", {})
        # A lease that is alone on a device may have the reserve.
        assert (unknown.held, unknown.unrealised, unknown.available) == (None, 30 * GIB, 30 * GIB)
        assert lease.holder is not None
        known = view_of(tmp_path, "GPU-a", {lease.holder: 12 * GIB})
        assert known.held == 12 * GIB


def test_each_device_has_the_rules_of_its_kind() -> None:
    assert _rules("GPU-a") == DEVICE_RULES
    assert _rules(HostDevice().uuid) == AdmissionRules()
