"""The operations of the ledger, in one process."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_paddleapi.devices.model import DeviceReadingError, Holder
from pytest_paddleapi.devices.processes import identify
from pytest_paddleapi.gpu_admission import (
    Granted,
    LeaseError,
    LeaseState,
    Ledger,
    LedgerError,
    Refusal,
    Refused,
    read_ledger,
)

from .simulated import SMALL, MemoryDevice, slot

OpenLedger = Callable[..., Ledger]


def granted(answer: object) -> Granted:
    assert isinstance(answer, Granted), answer
    return answer


def refused(answer: object) -> Refused:
    assert isinstance(answer, Refused), answer
    return answer


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A case process that does nothing; what it "holds" is up to the test."""
    running = subprocess.Popen(["sleep", "600"])
    yield running
    running.kill()
    running.wait()


@pytest.fixture
def holder(process: subprocess.Popen[bytes]) -> Holder:
    found = identify(process.pid)
    assert found is not None
    return found


class TestReserve:
    def test_grants_all_but_the_reserve_and_no_more(self, ledger: Ledger) -> None:
        assert refused(ledger.reserve(slot(), "c", 91)).available == 90
        answer = granted(ledger.reserve(slot(), "c", 90))
        assert answer.available == 90
        assert (answer.lease.slot, answer.lease.bytes, answer.lease.state) == ("s0", 90, LeaseState.ACTIVE)

    def test_counts_what_anybody_else_uses(self, ledger: Ledger, device: MemoryDevice) -> None:
        device.other = 50
        answer = refused(ledger.reserve(slot(), "c", 41))
        assert (answer.reason, answer.available, answer.needed) == (Refusal.MEMORY, 40, 41)

    def test_counts_what_is_promised_in_this_session_and_in_others(self, open_ledger: OpenLedger) -> None:
        first, second = open_ledger(), open_ledger()
        granted(first.reserve(slot("s0"), "c", 30))
        granted(second.reserve(slot("s0"), "c", 30))
        assert refused(first.reserve(slot("s1"), "c", 31)).available == 30
        granted(first.reserve(slot("s1"), "c", 30))
        assert refused(second.reserve(slot("s1"), "c", 1)).available == 0

    def test_gives_a_slot_one_lease(self, ledger: Ledger) -> None:
        granted(ledger.reserve(slot(), "c", 1))
        with pytest.raises(LeaseError, match="slot s0 has a lease"):
            ledger.reserve(slot(), "c", 1)

    def test_refuses_a_device_that_the_ledger_does_not_have(self, ledger: Ledger) -> None:
        with pytest.raises(LeaseError, match="GPU-9; it has GPU-0"):
            ledger.reserve(slot("s0", "GPU-9"), "c", 1)

    @pytest.mark.parametrize("size", [0, -1])
    def test_refuses_a_size_that_is_none(self, ledger: Ledger, size: int) -> None:
        with pytest.raises(ValueError, match="bytes"):
            ledger.reserve(slot(), "c", size)

    def test_takes_an_unreadable_device_for_unknown_not_for_empty_or_full(
        self, ledger: Ledger, device: MemoryDevice
    ) -> None:
        device.error = DeviceReadingError("GPU-0", "Insufficient Permissions")
        answer = refused(ledger.reserve(slot(), "c", 1))
        assert (answer.reason, answer.available) == (Refusal.READING, None)
        assert "GPU-0: Insufficient Permissions" in answer.text
        assert ledger.leases == ()

    def test_asks_about_holders_only_when_it_might_not_fit_otherwise(
        self, ledger: Ledger, device: MemoryDevice, holder: Holder
    ) -> None:
        ledger.confirm(granted(ledger.reserve(slot("s0"), "c", 40)).lease, holder.pid)
        device.held[holder] = 40
        device.asked.clear()
        granted(ledger.reserve(slot("s1"), "c", 10))
        assert device.asked == [()]
        granted(ledger.reserve(slot("s2"), "c", 40))
        assert device.asked == [(), (), (holder,)]

    def test_always_tells_holders_to_a_device_that_needs_them(
        self, ledger: Ledger, device: MemoryDevice, holder: Holder
    ) -> None:
        device.free_needs_holders = True
        ledger.attach(granted(ledger.reserve(slot("s0"), "c", 10)).lease, holder.pid)
        device.asked.clear()
        granted(ledger.reserve(slot("s1"), "c", 10))
        assert device.asked == [(holder,)]

    def test_a_long_case_is_kept_short(self, ledger: Ledger, folder: Path) -> None:
        lease = granted(ledger.reserve(slot(), "x" * 33_000, 1)).lease
        assert len(lease.case) < 200


class TestPairs:
    @pytest.fixture
    def devices(self) -> list[MemoryDevice]:
        return [MemoryDevice("GPU-0"), MemoryDevice("GPU-1", total=60)]

    def test_the_tightest_device_decides(self, open_ledger: OpenLedger, devices: list[MemoryDevice]) -> None:
        ledger = open_ledger(devices=devices)
        assert refused(ledger.reserve(slot("s0", "GPU-0", "GPU-1"), "c", 51)).available == 50

    def test_a_lease_counts_on_both(self, open_ledger: OpenLedger, devices: list[MemoryDevice]) -> None:
        ledger = open_ledger(devices=devices)
        granted(ledger.reserve(slot("s0", "GPU-0", "GPU-1"), "c", 50))
        assert refused(ledger.reserve(slot("s1", "GPU-0"), "c", 41)).available == 40
        assert refused(ledger.reserve(slot("s2", "GPU-1"), "c", 1)).available == 0

    def test_what_is_usable_is_so_on_the_smallest(self, open_ledger: OpenLedger, devices: list[MemoryDevice]) -> None:
        assert open_ledger(devices=devices).usable(("GPU-0", "GPU-1")) == 50


class TestAttach:
    def test_makes_what_the_process_takes_count_once(
        self, ledger: Ledger, device: MemoryDevice, holder: Holder
    ) -> None:
        device.held[holder] = 20  # its context, before the case
        lease = granted(ledger.reserve(slot("s0"), "c", 40)).lease
        assert ledger.attach(lease, holder.pid).baseline == (20,)
        assert refused(ledger.reserve(slot("s1"), "c", 31)).available == 30
        device.held[holder] = 60  # the case takes all of its lease
        assert refused(ledger.reserve(slot("s1"), "c", 31)).available == 30
        device.held[holder] = 75  # and more than that
        assert refused(ledger.reserve(slot("s1"), "c", 16)).available == 15

    def test_counts_in_full_what_cannot_be_measured(self, ledger: Ledger, device: MemoryDevice, holder: Holder) -> None:
        lease = granted(ledger.reserve(slot("s0"), "c", 40)).lease
        ledger.attach(lease, holder.pid)
        device.held[holder] = 40
        device.hidden.add(holder)
        assert refused(ledger.reserve(slot("s1"), "c", 11)).available == 10
        ledger.report(lease, 30)
        assert refused(ledger.reserve(slot("s1"), "c", 41)).available == 40

    def test_without_a_baseline_counts_in_full(self, ledger: Ledger, device: MemoryDevice, holder: Holder) -> None:
        lease = granted(ledger.reserve(slot("s0"), "c", 40)).lease
        device.hidden.add(holder)
        assert ledger.attach(lease, holder.pid).baseline == (None,)
        device.hidden.clear()
        device.held[holder] = 40
        assert refused(ledger.reserve(slot("s1"), "c", 11)).available == 10

    def test_is_seen_by_other_sessions(self, open_ledger: OpenLedger, device: MemoryDevice, holder: Holder) -> None:
        first, second = open_ledger(), open_ledger()
        first.attach(granted(first.reserve(slot(), "c", 40)).lease, holder.pid)
        device.held[holder] = 40
        assert refused(second.reserve(slot(), "c", 51)).available == 50

    def test_needs_a_living_process(self, ledger: Ledger) -> None:
        lease = granted(ledger.reserve(slot(), "c", 40)).lease
        gone = subprocess.Popen(["true"])
        gone.wait()
        with pytest.raises(LeaseError, match=f"no process {gone.pid}"):
            ledger.attach(lease, gone.pid)
        assert ledger.leases == (lease,)

    def test_needs_an_active_lease(self, ledger: Ledger) -> None:
        lease = granted(ledger.reserve(slot(), "c", 40)).lease
        ledger.finish(lease)
        with pytest.raises(LeaseError, match="not active"):
            ledger.attach(lease, os.getpid())

    def test_a_process_with_the_same_id_and_another_start_is_not_the_holder(
        self, open_ledger: OpenLedger, device: MemoryDevice, holder: Holder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The id was used again: what the new process holds says nothing about the lease."""
        first, second = open_ledger(), open_ledger()
        before = Holder(holder.pid, holder.started - 1, holder.namespace)
        monkeypatch.setattr("pytest_paddleapi.admission.ledger.identify", lambda pid: before)
        first.attach(granted(first.reserve(slot(), "c", 40)).lease, holder.pid)
        device.held[holder] = 40
        assert refused(second.reserve(slot(), "c", 11)).available == 10


class TestConfirm:
    def test_holds_while_everything_fits(self, ledger: Ledger, device: MemoryDevice) -> None:
        lease = granted(ledger.reserve(slot(), "c", 40)).lease
        device.other = 50
        assert ledger.confirm(lease)
        assert ledger.leases == (lease,)

    def test_gives_the_lease_up_when_somebody_took_the_memory(self, ledger: Ledger, device: MemoryDevice) -> None:
        lease = granted(ledger.reserve(slot(), "c", 40)).lease
        device.other = 51
        assert not ledger.confirm(lease)
        (left,) = ledger.leases
        assert (left.id, left.state) == (lease.id, LeaseState.RELEASE_PENDING)

    def test_attaches_first_when_told_the_process(self, ledger: Ledger, device: MemoryDevice, holder: Holder) -> None:
        lease = granted(ledger.reserve(slot(), "c", 40)).lease
        device.held[holder] = 25
        assert ledger.confirm(lease, holder.pid)
        assert [(found.holder, found.baseline) for found in ledger.leases] == [(holder, (25,))]

    def test_counts_a_context_that_was_not_planned_for(
        self, ledger: Ledger, device: MemoryDevice, holder: Holder
    ) -> None:
        lease = granted(ledger.reserve(slot(), "c", 70)).lease
        device.held[holder] = 21
        assert not ledger.confirm(lease, holder.pid)

    def test_is_false_where_the_memory_cannot_be_read(self, ledger: Ledger, device: MemoryDevice) -> None:
        lease = granted(ledger.reserve(slot(), "c", 40)).lease
        device.error = DeviceReadingError("GPU-0", "hangs")
        assert not ledger.confirm(lease)

    def test_of_an_ended_lease_is_false(self, ledger: Ledger) -> None:
        lease = granted(ledger.reserve(slot(), "c", 40)).lease
        ledger.finish(lease)
        assert not ledger.confirm(lease)
        ledger.release("s0")
        assert not ledger.confirm(lease)


class TestFinishAndReplace:
    def test_a_finished_lease_still_counts(self, open_ledger: OpenLedger) -> None:
        first, second = open_ledger(), open_ledger()
        assert first.finish(granted(first.reserve(slot(), "c", 60)).lease)
        assert refused(second.reserve(slot(), "c", 31)).available == 30

    def test_finishing_twice_or_late_changes_nothing(self, ledger: Ledger) -> None:
        old = granted(ledger.reserve(slot(), "c", 60)).lease
        assert ledger.finish(old)
        assert not ledger.finish(old)
        new = granted(ledger.replace(slot(), "d", 50)).lease
        assert not ledger.finish(old)
        assert ledger.leases == (new,)

    def test_the_same_slot_replaces_its_own_in_one_step(self, ledger: Ledger) -> None:
        ledger.finish(granted(ledger.reserve(slot(), "c", 60)).lease)
        assert granted(ledger.replace(slot(), "d", 90)).lease.case == "d"
        assert [(lease.case, lease.bytes) for lease in ledger.leases] == [("d", 90)]

    def test_a_refused_replacement_leaves_the_old_one(self, ledger: Ledger) -> None:
        ledger.finish(granted(ledger.reserve(slot(), "c", 60)).lease)
        before = ledger.leases
        assert refused(ledger.replace(slot(), "d", 91)).available == 90
        assert ledger.leases == before

    def test_an_active_lease_is_not_replaced(self, ledger: Ledger) -> None:
        granted(ledger.reserve(slot(), "c", 60))
        with pytest.raises(LeaseError, match="still runs 'c'"):
            ledger.replace(slot(), "d", 1)

    def test_a_case_that_ended_is_finished_and_replaced_in_one_step(self, ledger: Ledger) -> None:
        granted(ledger.reserve(slot(), "c", 60))
        assert granted(ledger.replace(slot(), "d", 90, ended=True)).lease.case == "d"
        assert [(lease.case, lease.bytes) for lease in ledger.leases] == [("d", 90)]

    def test_where_its_replacement_is_refused_an_ended_case_is_finished_all_the_same(
        self, ledger: Ledger, open_ledger: OpenLedger
    ) -> None:
        granted(ledger.reserve(slot(), "c", 60))
        assert refused(ledger.replace(slot(), "d", 91, ended=True)).available == 90
        assert [(lease.case, lease.state) for lease in ledger.leases] == [("c", LeaseState.RELEASE_PENDING)]
        assert refused(open_ledger().reserve(slot(), "e", 31)).available == 30

    def test_replacing_nothing_is_reserving(self, ledger: Ledger) -> None:
        assert granted(ledger.replace(slot(), "d", 90)).available == 90

    def test_memory_that_is_not_back_yet_is_not_promised_again(
        self, ledger: Ledger, device: MemoryDevice, holder: Holder
    ) -> None:
        lease = granted(ledger.reserve(slot(), "c", 60)).lease
        ledger.attach(lease, holder.pid)
        device.held[holder] = 60
        ledger.finish(lease)
        assert refused(ledger.replace(slot(), "d", 60)).available == 30

    def test_a_cache_that_the_process_kept_is_reused(
        self, ledger: Ledger, device: MemoryDevice, holder: Holder
    ) -> None:
        device.held[holder] = 5
        lease = granted(ledger.reserve(slot(), "c", 60)).lease
        ledger.attach(lease, holder.pid)
        device.held[holder] = 65
        ledger.finish(lease)
        new = granted(ledger.replace(slot(), "d", 80, reuse=True)).lease
        assert ledger.attach(new, holder.pid).baseline == (5,)
        assert refused(ledger.reserve(slot("s1"), "c", 6)).available == 5
        device.held[holder] = 5  # it gave the cache back after all: the same room is left
        assert refused(ledger.reserve(slot("s1"), "c", 6)).available == 5

    def test_memory_on_its_way_back_is_not_taken_for_a_cache(
        self, open_ledger: OpenLedger, device: MemoryDevice, holder: Holder
    ) -> None:
        ledger = open_ledger(rules=replace(SMALL, inherit_held=False))
        lease = granted(ledger.reserve(slot(), "c", 60)).lease
        ledger.attach(lease, holder.pid)
        device.held[holder] = 60
        ledger.finish(lease)
        assert refused(ledger.replace(slot(), "d", 31)).available == 30
        new = granted(ledger.replace(slot(), "d", 30)).lease
        assert ledger.attach(new, holder.pid).baseline == (60,)

    def test_another_process_does_not_inherit_the_cache(
        self, ledger: Ledger, device: MemoryDevice, holder: Holder
    ) -> None:
        lease = granted(ledger.reserve(slot(), "c", 60)).lease
        ledger.attach(lease, holder.pid)
        ledger.finish(lease)
        new = granted(ledger.replace(slot(), "d", 60, reuse=True)).lease
        own = identify(os.getpid())
        assert own is not None
        device.held[own] = 7
        assert ledger.attach(new, own.pid).baseline == (7,)


class TestFallingBaselines:
    """What was left of a process's last case is gone while its next one runs."""

    @pytest.fixture
    def draining(self, open_ledger: OpenLedger) -> Ledger:
        return open_ledger(rules=replace(SMALL, inherit_held=False))

    def after_another(self, ledger: Ledger, device: MemoryDevice, holder: Holder) -> None:
        """A case of 60 bytes has ended, and one of 30 begins while they are still there."""
        lease = granted(ledger.reserve(slot(), "c", 60)).lease
        ledger.attach(lease, holder.pid)
        device.held[holder] = 60
        ledger.finish(lease)
        assert ledger.attach(granted(ledger.replace(slot(), "d", 30)).lease, holder.pid).baseline == (60,)

    def test_the_new_cases_bytes_count_once(
        self, draining: Ledger, open_ledger: OpenLedger, device: MemoryDevice, holder: Holder
    ) -> None:
        self.after_another(draining, device, holder)
        device.held[holder] = 0
        assert refused(draining.reserve(slot("s1"), "e", 61)).available == 60
        assert draining.leases[0].baseline == (0,)
        device.held[holder] = 30
        assert refused(draining.reserve(slot("s1"), "e", 61)).available == 60
        other = open_ledger(rules=replace(SMALL, inherit_held=False))
        assert refused(other.reserve(slot("s1"), "e", 61)).available == 60
        assert [lease.baseline for state in read_ledger(Path(draining.folder)).sessions for lease in state.leases] == [
            (0,)
        ]

    def test_a_look_that_measures_nobody_changes_nothing(
        self, draining: Ledger, device: MemoryDevice, holder: Holder
    ) -> None:
        self.after_another(draining, device, holder)
        device.held[holder] = 0
        asked = len(device.asked)
        granted(draining.reserve(slot("s1"), "e", 60))
        assert device.asked[asked:] == [()]
        assert draining.lease_of("s0").baseline == (60,)  # type: ignore[union-attr]

    def test_only_its_own_session_lowers_a_lease(
        self, draining: Ledger, open_ledger: OpenLedger, device: MemoryDevice, holder: Holder
    ) -> None:
        self.after_another(draining, device, holder)
        device.held[holder] = 0
        other = open_ledger(rules=replace(SMALL, inherit_held=False))
        assert refused(other.reserve(slot("s1"), "e", 61)).available == 60
        assert draining.lease_of("s0").baseline == (60,)  # type: ignore[union-attr]

    def test_a_process_that_keeps_its_memory_keeps_its_baseline(
        self, ledger: Ledger, device: MemoryDevice, holder: Holder
    ) -> None:
        self.after_another(ledger, device, holder)
        device.held[holder] = 0
        refused(ledger.reserve(slot("s1"), "e", 61))
        assert ledger.lease_of("s0").baseline == (60,)  # type: ignore[union-attr]

    def test_a_new_process_has_a_baseline_of_its_own(
        self, draining: Ledger, device: MemoryDevice, holder: Holder
    ) -> None:
        self.after_another(draining, device, holder)
        lease = draining.lease_of("s0")
        own = identify(os.getpid())
        assert lease is not None and own is not None
        device.held[holder] = 0
        device.held[own] = 8
        assert draining.confirm(lease, own.pid)
        refused(draining.reserve(slot("s1"), "e", 90))
        assert draining.lease_of("s0").baseline == (8,)  # type: ignore[union-attr]

    def test_who_listens_is_told_what_each_process_was_seen_to_hold(
        self, open_ledger: OpenLedger, device: MemoryDevice, holder: Holder
    ) -> None:
        seen: list[tuple[str, str, int]] = []
        ledger = open_ledger(seen=lambda lease, device, held: seen.append((lease.case, device, held)))
        lease = granted(ledger.reserve(slot(), "c", 60)).lease
        ledger.attach(lease, holder.pid)
        device.held[holder] = 50
        assert seen == []
        refused(ledger.reserve(slot("s1"), "e", 61))
        refused(ledger.replace(slot(), "d", 60, ended=True))  # of the case that has ended, too
        assert seen == [("c", "GPU-0", 50)] * 2


class TestSettle:
    def test_drops_what_has_come_to_rest_and_names_it(self, ledger: Ledger, device: MemoryDevice) -> None:
        lease = granted(ledger.reserve(slot("s0"), "c", 60)).lease
        active = granted(ledger.reserve(slot("s1"), "d", 10)).lease
        ledger.finish(lease)
        assert ledger.settle(100.0) == ()
        device.other = 20
        assert ledger.settle(101.0) == ()
        (dropped,) = ledger.settle(102.0)
        assert (dropped.id, dropped.state) == (lease.id, LeaseState.RELEASE_PENDING)
        assert ledger.leases == (active,)
        assert ledger.settle(103.0) == ()

    def test_waits_for_a_device_that_cannot_be_read(self, ledger: Ledger, device: MemoryDevice) -> None:
        ledger.finish(granted(ledger.reserve(slot(), "c", 60)).lease)
        ledger.settle(0.0)
        device.error = DeviceReadingError("GPU-0", "hangs")
        assert ledger.settle(1.0) == ()
        device.error = None
        assert len(ledger.settle(2.0)) == 1

    def test_reads_no_device_while_nothing_is_pending(self, ledger: Ledger, device: MemoryDevice) -> None:
        granted(ledger.reserve(slot(), "c", 60))
        device.asked.clear()
        ledger.settle(0.0)
        assert device.asked == []


class TestRelease:
    @pytest.mark.parametrize("finished", [True, False])
    def test_drops_the_lease_of_a_slot_whose_process_is_gone(self, ledger: Ledger, finished: bool) -> None:
        with subprocess.Popen(["sleep", "600"]) as process:
            lease = granted(ledger.reserve(slot(), "c", 60)).lease
            ledger.attach(lease, process.pid)
            if finished:
                ledger.finish(lease)
            with pytest.raises(LeaseError, match=f"process {process.pid} is still there"):
                ledger.release("s0")
            assert len(ledger.leases) == 1
            process.kill()
        assert ledger.release("s0")
        assert ledger.leases == ()
        assert not ledger.release("s0")

    def test_takes_a_zombie_for_gone(self, ledger: Ledger) -> None:
        process = subprocess.Popen(["sleep", "600"])
        ledger.attach(granted(ledger.reserve(slot(), "c", 60)).lease, process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert ledger.release("s0")
        process.wait()

    def test_drops_a_lease_that_never_had_a_process(self, ledger: Ledger) -> None:
        granted(ledger.reserve(slot(), "c", 60))
        assert ledger.release("s0")


class TestReport:
    def test_of_a_lease_that_is_gone_is_false(self, ledger: Ledger) -> None:
        lease = granted(ledger.reserve(slot(), "c", 60)).lease
        ledger.release("s0")
        assert not ledger.report(lease, 5)

    def test_of_less_than_nothing_is_refused(self, ledger: Ledger) -> None:
        with pytest.raises(ValueError, match="-5"):
            ledger.report(granted(ledger.reserve(slot(), "c", 60)).lease, -5)


class TestSessions:
    def test_a_snapshot_shows_everybody_with_labels_and_leases(self, open_ledger: OpenLedger) -> None:
        first, second = open_ledger(label="nightly"), open_ledger()
        lease = granted(first.reserve(slot(), "c", 60)).lease
        sessions = {state.name: state for state in second.snapshot().sessions}
        assert sessions.keys() == {first.session, second.session}
        assert sessions[first.session].leases == (lease,)
        header = sessions[first.session].header
        assert header is not None
        assert (header.label, header.pid) == ("nightly", os.getpid())

    def test_an_observer_sees_the_same_and_writes_nothing(self, open_ledger: OpenLedger, folder: Path) -> None:
        ledger = open_ledger()
        lease = granted(ledger.reserve(slot(), "c", 60)).lease
        before = sorted(file.name for file in folder.iterdir())
        (state,) = read_ledger(folder).sessions
        assert state.leases == (lease,)
        assert sorted(file.name for file in folder.iterdir()) == before

    def test_closing_gives_everything_up(self, open_ledger: OpenLedger) -> None:
        first, second = open_ledger(), open_ledger()
        granted(first.reserve(slot(), "c", 90))
        first.close()
        first.close()
        granted(second.reserve(slot(), "c", 90))
        with pytest.raises(LedgerError, match="is closed"):
            first.reserve(slot(), "c", 1)

    def test_a_lease_id_is_never_used_again(self, ledger: Ledger) -> None:
        ids = set()
        for _ in range(5):
            ids.add(granted(ledger.reserve(slot(), "c", 1)).lease.id)
            ledger.release("s0")
        assert len(ids) == 5

    def test_hundreds_of_slots(self, open_ledger: OpenLedger) -> None:
        device = MemoryDevice(total=100_010)
        first, second = open_ledger(devices=[device]), open_ledger(devices=[device])
        for number in range(300):
            granted(first.reserve(slot(f"s{number}"), "c", 200))
            granted(second.reserve(slot(f"s{number}"), "c", 100))
        assert refused(second.reserve(slot("one more"), "c", 10_001)).available == 10_000
        assert sum(len(state.leases) for state in second.snapshot().sessions) == 600

    def test_threads_may_share_a_ledger(self, open_ledger: OpenLedger) -> None:
        ledger = open_ledger(rules=replace(SMALL, mutex_seconds=60))
        answers: list[object] = []

        def work(name: str) -> None:
            for number in range(20):
                answers.append(ledger.reserve(slot(f"{name}{number}"), "c", 2))

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(isinstance(answer, Granted) for answer in answers) == 45
        assert sum(lease.bytes for lease in ledger.leases) == 90
