"""Random lives of processes whose last case's memory drains while the next one runs: never over-promised.

The truth is what each running case has taken itself, which no reading tells apart from what is left of earlier ones.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pytest_paddleapi.devices.model import Holder, MemoryReading
from pytest_paddleapi.gpu_admission import AdmissionRules, Granted, Group, Ledger, Slot

RULES = AdmissionRules(reserve_bytes=10, reserve_fraction=0.0, settle_bytes=1, inherit_held=False)
TOTALS = {"d0": 150, "d1": 120}
GROUPS = (Group("g0", ("d0",)), Group("pair", ("d0", "d1")))


@dataclass(eq=False)
class Process:
    """``context`` for itself, ``left`` of ended cases, ``taken`` by the case that runs; on each of its devices."""

    ledger: Ledger
    slot: Slot
    pid: int
    size: int = 0
    context: int = 4
    left: int = 0
    taken: int = 0

    def holds(self, device: str) -> int:
        return self.context + self.left + self.taken if device in self.slot.group.devices else 0


@dataclass
class Device:
    processes: list[Process]
    uuid: str
    index: int = 0
    model: str = "modelled"
    free_needs_holders: bool = False

    def read(self, holders: Sequence[Holder] = ()) -> MemoryReading:
        free = TOTALS[self.uuid] - sum(process.holds(self.uuid) for process in self.processes)
        by_pid = {process.pid: process.holds(self.uuid) for process in self.processes}
        return MemoryReading(TOTALS[self.uuid], free, {h: by_pid[h.pid] for h in holders if h.pid in by_pid})


numbers = st.integers(0, 3)
parts = st.integers(1, 60)


class DrainingMachine(RuleBasedStateMachine):
    """Two sessions of two processes each."""

    @initialize(count_ended=st.booleans())
    def begin(self, count_ended: bool) -> None:
        self.processes: list[Process] = []
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("pytest_paddleapi.admission.ledger.identify", self.identify)
        self.patch.setattr("pytest_paddleapi.admission.store.check_lock", lambda folder, name: None)
        base = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.folder = Path(tempfile.mkdtemp(prefix="paddleapi-model-", dir=base))
        rules = replace(RULES, count_ended=count_ended)
        devices = [Device(self.processes, uuid) for uuid in TOTALS]
        self.ledgers = [Ledger(devices, folder=self.folder, rules=rules) for _ in range(2)]
        self.next_pid = 1
        for ledger in self.ledgers:
            for group in GROUPS:
                self.processes.append(Process(ledger, Slot(group.name, group), self.new_pid()))

    def teardown(self) -> None:
        for ledger in self.ledgers:
            ledger.close()
        shutil.rmtree(self.folder)
        self.patch.undo()

    def new_pid(self) -> int:
        self.next_pid += 1
        return self.next_pid

    def identify(self, pid: int) -> Holder | None:
        return Holder(pid, pid, 0) if any(process.pid == pid for process in self.processes) else None

    @rule(number=numbers, size=parts)
    def begins_its_next_case(self, number: int, size: int) -> None:
        """What it has of the last one, which ends with this, begins to drain."""
        process = self.processes[number]
        process.left, process.taken, process.size = process.left + process.taken, 0, 0
        answer = process.ledger.replace(process.slot, "case", size, ended=True)
        if isinstance(answer, Granted):
            process.ledger.attach(answer.lease, process.pid)
            process.size = size

    @rule(number=numbers, part=parts)
    def takes_memory(self, number: int, part: int) -> None:
        process = self.processes[number]
        process.taken += min(part, process.size - process.taken)

    @rule(number=numbers, part=parts)
    def gives_memory_back(self, number: int, part: int) -> None:
        process = self.processes[number]
        process.taken -= min(part, process.taken)

    @rule(number=numbers, part=parts)
    def drains(self, number: int, part: int) -> None:
        process = self.processes[number]
        process.left -= min(part, process.left)

    @rule(number=numbers)
    def is_started_anew(self, number: int) -> None:
        """And confirmed: where its context is too much beside all that is promised, its case does not run."""
        process = self.processes[number]
        process.left = process.taken = 0
        process.pid = self.new_pid()
        lease = process.ledger.lease_of(process.slot.name)
        if process.size and lease is not None and not process.ledger.confirm(lease, process.pid):
            process.size = 0

    @rule(number=numbers)
    def somebody_looks(self, number: int) -> None:
        """A request that is too large for any device measures everybody."""
        process = self.processes[number]
        assert not isinstance(process.ledger.reserve(Slot("probe", process.slot.group), "probe", 500), Granted)

    @invariant()
    def never_more_than_there_is(self) -> None:
        for device, total in TOTALS.items():
            claims = sum(p.holds(device) + p.size - p.taken for p in self.processes if device in p.slot.group.devices)
            assert claims <= total - RULES.reserve_bytes


TestDraining = DrainingMachine.TestCase
TestDraining.settings = settings(
    max_examples=100, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
