"""The engine's view of a real ledger, where the ledger cannot be written for a while."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_paddleapi.devices.host import HostDevice
from pytest_paddleapi.devices.model import DeviceLostError, DeviceReadingError, Holder, MemoryReading
from pytest_paddleapi.gpu_admission import DEVICE_RULES, GIB, AdmissionRules, LeaseState, Setback
from pytest_paddleapi.scheduling.admission import LedgerAdmission
from pytest_paddleapi.scheduling.dispatching import Grant, NoRoom
from pytest_paddleapi.scheduling.engine import Engine
from pytest_paddleapi.scheduling.queue import CaseQueue


@contextmanager
def no_room_on_disk() -> Iterator[None]:
    """Every write to a file fails, as the kernel makes it fail for a full quota."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_a_full_disk_refuses_for_a_while_and_loses_nothing(tmp_path: Path) -> None:
    admission = LedgerAdmission({"cpu": [HostDevice(64 * GIB)]}, workers=2, folder=tmp_path / "ledger")
    for slot in "ab":
        admission.place(slot, "cpu")
    try:
        need = admission.need(0)
        assert isinstance(admission.reserve("a", "case 1", need, grown=False), Grant)
        with no_room_on_disk():
            assert isinstance(admission.reserve("b", "case 2", need, grown=False), NoRoom)
            assert "File too large" in admission.trouble
            admission.finished("a", pid=os.getpid())
            admission.flush()
            admission.housekeep(1.0)
            assert isinstance(admission.reserve("a", "case 3", need, grown=False), NoRoom)
        (lease,) = admission.ledger.leases
        assert (lease.slot, lease.case, lease.state) == ("a", "case 1", LeaseState.ACTIVE)
        assert isinstance(admission.reserve("b", "case 2", need, grown=False), Grant)
        assert admission.trouble == ""
        assert isinstance(admission.reserve("a", "case 3", need, grown=False), Grant)
        assert sorted(lease.case for lease in admission.ledger.leases) == ["case 2", "case 3"]
        for slot in "ab":
            admission.finished(slot, pid=None)
        admission.flush()
        assert {lease.state for lease in admission.ledger.leases} == {LeaseState.RELEASE_PENDING}
    finally:
        admission.close()


@dataclass
class Numbers:
    """A device whose memory is numbers."""

    total: int
    used: int = 0
    uuid: str = "GPU-0"
    index: int = 0
    model: str = "numbers"
    free_needs_holders: bool = False
    sick: bool = False
    lost: bool = False

    def read(self, holders: Sequence[Holder] = ()) -> MemoryReading:
        if self.lost:
            raise DeviceLostError(self.uuid, "it fell off the bus")
        if self.sick:
            raise DeviceReadingError(self.uuid, "it is sick")
        return MemoryReading(self.total, self.total - self.used, dict.fromkeys(holders, 0))


def test_a_known_context_is_left_out_of_a_lease_of_the_whole_device(tmp_path: Path) -> None:
    device = Numbers(100)
    rules = AdmissionRules(reserve_bytes=10, reserve_fraction=0.0, minimum_bytes=1, margin_bytes=0)
    admission = LedgerAdmission({"g": [device]}, workers=1, folder=tmp_path / "ledger", rules=rules)
    admission.place("a", "g")
    try:
        grant = admission.reserve("a", "case", 88, grown=False)
        assert isinstance(grant, Grant) and (grant.nbytes, grant.whole_device) == (88, False)
        device.used = 8  # the context, so that 82 are left
        with subprocess.Popen(["sleep", "60"]) as process:
            assert not admission.confirm("a", process.pid)
            process.kill()
        admission.finished("a", pid=None)
        admission.note_context("a", 8)
        # The process was ended, but its memory is not seen back: the next one's context would have no place.
        assert isinstance(admission.reserve("a", "case", 88, grown=False), NoRoom)
        device.used = 0
        grant = admission.reserve("a", "case", 88, grown=False)
        assert isinstance(grant, Grant) and (grant.nbytes, grant.whole_device) == (80, True)
        device.used = 8
        assert admission.confirm("a", os.getpid())
    finally:
        admission.close()


def test_a_device_that_cannot_be_read_is_told_of_and_no_want_of_memory(tmp_path: Path) -> None:
    device = Numbers(100 * GIB)
    admission = LedgerAdmission({"g": [device]}, workers=1, folder=tmp_path / "ledger")
    admission.place("a", "g")
    try:
        device.sick = True
        assert isinstance(admission.reserve("a", "case", GIB, grown=False), NoRoom)
        assert "it is sick" in admission.trouble
        assert admission.take_lost() == {}
        device.sick = False
        assert isinstance(admission.reserve("a", "case", GIB, grown=False), Grant)
        assert admission.trouble == ""
    finally:
        admission.close()


def test_a_lost_device_is_told_of_once(tmp_path: Path) -> None:
    devices = [Numbers(100 * GIB), Numbers(100 * GIB, uuid="GPU-1")]
    admission = LedgerAdmission({"g": devices}, workers=1, folder=tmp_path / "ledger")
    admission.place("a", "g")
    try:
        devices[1].lost = True
        assert isinstance(admission.reserve("a", "case", GIB, grown=False), NoRoom)
        (why,) = admission.take_lost().values()
        assert "GPU-1: it fell off the bus" in why
        assert admission.take_lost() == {}
    finally:
        admission.close()


@pytest.mark.parametrize(
    ("lost", "slots", "starts"), [("GPU-0", {"a": "GPU-0", "b": "GPU-1"}, "b"), ("GPU-1", {"a": "GPU-0"}, "a")]
)
def test_a_device_that_is_lost_before_the_first_case_leaves_the_others(
    tmp_path: Path, lost: str, slots: dict[str, str], starts: str
) -> None:
    """Whether a slot is on it or not."""
    devices = {name: [Numbers(100 * GIB, uuid=name, lost=name == lost)] for name in ("GPU-0", "GPU-1")}
    admission = LedgerAdmission(devices, workers=1, folder=tmp_path / "ledger")
    engine = Engine(CaseQueue(range(2)), admission, lambda case: GIB, str)
    try:
        for slot, group in slots.items():
            engine.add_slot(slot, group)
        assert [dispatch.slot for dispatch in engine.poll(0.0)] == [starts]
        assert list(engine.quarantined) == [lost]
        assert "it fell off the bus" in engine.quarantined[lost]
        assert engine.stop_reason is None
    finally:
        admission.close()


def test_a_driver_that_hangs_for_a_while_before_the_first_case_ends_no_session(tmp_path: Path) -> None:
    device = Numbers(100 * GIB, sick=True)
    well = threading.Timer(6.0, setattr, (device, "sick", False))
    well.start()
    admission = LedgerAdmission({"g": [device]}, workers=1, folder=tmp_path / "ledger")
    admission.close()
    well.join()
    assert 90 * GIB < admission.capacity < 100 * GIB


def test_where_every_device_is_lost_the_session_is_told(tmp_path: Path) -> None:
    devices = {name: [Numbers(100 * GIB, uuid=name, lost=True)] for name in ("GPU-0", "GPU-1")}
    with pytest.raises(DeviceLostError, match="fell off the bus"):
        LedgerAdmission(devices, workers=1, folder=tmp_path / "ledger")


def test_a_case_that_outgrew_a_small_device_is_given_all_of_the_largest(tmp_path: Path) -> None:
    small, large = Numbers(100), Numbers(200, uuid="GPU-1")
    rules = AdmissionRules(reserve_bytes=10, reserve_fraction=0.0, minimum_bytes=1, margin_bytes=0)
    admission = LedgerAdmission({"s": [small], "l": [large]}, workers=1, folder=tmp_path / "ledger", rules=rules)
    admission.place("a", "s")
    admission.place("b", "l")
    try:
        assert isinstance(admission.reserve("a", "case", 500, grown=True), NoRoom)
        grant = admission.reserve("b", "case", 500, grown=True)
        assert isinstance(grant, Grant) and (grant.nbytes, grant.whole_device) == (190, True)
        admission.drop_group("l")
        grant = admission.reserve("a", "case", 500, grown=True)
        assert isinstance(grant, Grant) and (grant.nbytes, grant.whole_device) == (90, True)
    finally:
        admission.close()


@dataclass
class Holding(Numbers):
    """And that of each process is one."""

    held: int = 0

    def read(self, holders: Sequence[Holder] = ()) -> MemoryReading:
        return MemoryReading(self.total, self.total - self.used - self.held, dict.fromkeys(holders, self.held))


def test_what_is_left_of_the_last_case_counts_once_it_was_seen_back_at_once_three_times(tmp_path: Path) -> None:
    now = 0.0
    device = Holding(80 * GIB)
    admission = LedgerAdmission(
        {"g": [device]}, workers=2, folder=tmp_path / "ledger", rules=DEVICE_RULES, clock=lambda: now
    )
    for slot in "ab":
        admission.place(slot, "g")

    def run_and_end() -> None:
        """Somebody else asks for too much while the case runs, so that its process is measured."""
        device.held = 50 * GIB
        assert isinstance(admission.reserve("b", "too much", 40 * GIB, grown=False), NoRoom)
        admission.finished("a", pid=os.getpid())

    try:
        assert isinstance(admission.reserve("a", "case", 50 * GIB, grown=False), Grant)
        assert admission.confirm("a", os.getpid())
        for _ in range(3):
            run_and_end()
            assert isinstance(admission.reserve("a", "next", 50 * GIB, grown=False), NoRoom)  # the memory is still out
            device.held = 0
            now += 0.05
            assert isinstance(admission.reserve("a", "next", 50 * GIB, grown=False), Grant)
            now += 1.0
        run_and_end()
        assert isinstance(admission.reserve("a", "next", 50 * GIB, grown=False), Grant)  # it will be back
        admission.finished("a", pid=os.getpid())
        admission.failed("next", "a", Setback.DEFERRED, now)
        assert isinstance(admission.reserve("a", "next", 50 * GIB, grown=False), NoRoom)
    finally:
        admission.close()


def test_a_case_that_outgrew_its_lease_waits_for_the_memory_of_its_last_attempt(tmp_path: Path) -> None:
    device = Holding(100)
    rules = AdmissionRules(
        reserve_bytes=10, reserve_fraction=0.0, minimum_bytes=1, margin_bytes=0, inherit_held=False, settle_bytes=1
    )
    admission = LedgerAdmission({"g": [device]}, workers=1, folder=tmp_path / "ledger", rules=rules)
    admission.place("a", "g")
    try:
        assert isinstance(admission.reserve("a", "case", 40, grown=False), Grant)
        assert admission.confirm("a", os.getpid())
        device.held = 40
        admission.finished("a", pid=os.getpid())
        assert isinstance(admission.reserve("a", "case", 80, grown=True), NoRoom), "40 would be its final share"
        device.held = 0
        grant = admission.reserve("a", "case", 80, grown=True)
        assert isinstance(grant, Grant)
        assert grant.nbytes == 80
    finally:
        admission.close()
