"""What NVML tells of a real GPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from pytest_paddleapi.devices.model import Device
from pytest_paddleapi.devices.processes import identify
from pytest_paddleapi.gpu_admission import GIB, MIB, AdmissionRules, Granted, Group, Ledger, Slot
from pytest_paddleapi.process.supervisor import Supervisor
from pytest_paddleapi.results.verdicts import Verdict


def settled(read: Callable[[], int], seconds: float = 20.0) -> int:
    """A reading that has not moved for a second."""
    end = time.monotonic() + seconds
    before = read()
    while time.monotonic() < end:
        time.sleep(1.0)
        now = read()
        if abs(now - before) < 16 * MIB:
            return now
        before = now
    return before


def test_sizes_make_sense(gpu: Device) -> None:
    reading = gpu.read()
    assert 1 * GIB < reading.total < 1024 * GIB
    assert 0 <= reading.free <= reading.total


def test_a_process_is_seen_with_what_it_holds_and_gone_when_it_is_killed(
    gpu: Device, slot: Supervisor, used: Callable[[], int]
) -> None:
    before = settled(used)
    assert slot.run("hold 512").result.verdict is Verdict.PASS
    assert slot.pid is not None
    holder = identify(slot.pid)
    assert holder is not None
    assert settled(used) - before >= 512 * MIB
    held = gpu.read((holder,)).held.get(holder)
    assert held is None or held >= 512 * MIB  # None in a container that hides process ids
    slot.close()
    assert settled(used) - before < 64 * MIB


def test_a_waiting_spare_holds_nothing(slot: Supervisor, used: Callable[[], int]) -> None:
    before = settled(used)
    slot.start()
    assert slot._launcher is not None
    slot._launcher.await_loaded(time.monotonic() + 180)
    assert settled(used) - before < 32 * MIB


def test_a_lease_counts_what_its_process_does_not_hold_yet(gpu: Device, slot: Supervisor, tmp_path: Path) -> None:
    rules = AdmissionRules(reserve_bytes=256 * MIB, reserve_fraction=0.0)
    place = Slot("slot", Group(gpu.uuid, (gpu.uuid,)))
    slot.ensure_ready()
    with Ledger([gpu], folder=tmp_path / "ledger", rules=rules) as ledger:
        answer = ledger.reserve(place, "a case", 2 * GIB)
        assert isinstance(answer, Granted), answer
        assert slot.pid is not None
        assert ledger.confirm(answer.lease, slot.pid)
        assert slot.run("hold 1024").result.verdict is Verdict.PASS
        # Everything that is left may be promised, and not a GiB less because one is held and promised too.
        rest = gpu.read().free - rules.reserve_of(gpu.read().total) - 1 * GIB
        other = ledger.reserve(Slot("other", place.group), "another", rest - 256 * MIB)
        holder = identify(slot.pid)
        if holder is not None and holder in gpu.read((holder,)).held:
            assert isinstance(other, Granted), other
        assert ledger.finish(answer.lease)
        slot.close()
        end = time.monotonic() + 60
        while any(lease.slot == "slot" for lease in ledger.leases) and time.monotonic() < end:
            ledger.settle(time.monotonic())
            time.sleep(0.5)
        assert not any(lease.slot == "slot" for lease in ledger.leases)
