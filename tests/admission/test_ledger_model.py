"""Random sequences of operations on several sessions, against a model that is a few lines of arithmetic.

What must hold whatever happens: on each device, what is used and what is promised beyond it never exceed the device
less its reserve; every lease of a living session is in the ledger exactly as it was given; none is given up twice.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pytest_paddleapi.devices.model import Holder, MemoryReading
from pytest_paddleapi.gpu_admission import (
    AdmissionRules,
    Granted,
    Group,
    Lease,
    LeaseState,
    Ledger,
    LedgerWarning,
    Refusal,
    Refused,
    Slot,
    read_ledger,
)

RULES = AdmissionRules(reserve_bytes=10, reserve_fraction=0.0, settle_bytes=1)
TOTALS = {"d0": 110, "d1": 60}
GROUPS = [Group("g0", ("d0",)), Group("g1", ("d1",)), Group("pair", ("d0", "d1"))]


@dataclass(eq=False)
class World:
    """Devices and processes. A process holds its context, and what a case has taken."""

    held: dict[int, dict[str, int]] = field(default_factory=dict)
    next_pid: int = 1

    def holder(self, pid: int) -> Holder | None:
        return Holder(pid, pid, 0) if pid in self.held else None

    def used(self, device: str) -> int:
        return sum(held.get(device, 0) for held in self.held.values())


@dataclass
class Device:
    world: World
    uuid: str
    index: int = 0
    model: str = "modelled"
    free_needs_holders: bool = False

    def read(self, holders: Sequence[Holder] = ()) -> MemoryReading:
        held = {h: self.world.held[h.pid].get(self.uuid, 0) for h in holders if h.pid in self.world.held}
        return MemoryReading(TOTALS[self.uuid], TOTALS[self.uuid] - self.world.used(self.uuid), held)


@dataclass(eq=False)
class Session:
    ledger: Ledger
    damaged: bool = False


@dataclass(eq=False)
class Promise:
    """What the model knows about a lease."""

    session: Session
    slot: Slot
    size: int
    lease: Lease | None = None
    active: bool = True
    pid: int | None = None
    baseline: dict[str, int] = field(default_factory=dict)


def one_of(candidates: Callable[[LedgerMachine], Sequence[Any]]) -> st.SearchStrategy[Any]:
    """One of the things that the machine has now; use it with a precondition that there is one."""
    return st.runner().flatmap(lambda machine: st.sampled_from(candidates(machine)))


def having(candidates: Callable[[LedgerMachine], Sequence[Any]]) -> Any:
    return precondition(lambda machine: bool(candidates(machine)))


def running(machine: LedgerMachine) -> list[Promise]:
    return [p for p in machine.model if p.active]


def unattached(machine: LedgerMachine) -> list[Promise]:
    return [p for p in running(machine) if p.pid not in machine.world.held]


def attached(machine: LedgerMachine) -> list[Promise]:
    return [p for p in machine.model if p.pid in machine.world.held]


def without_process(machine: LedgerMachine) -> list[Promise]:
    return [p for p in machine.model if p.pid not in machine.world.held]


def ended(machine: LedgerMachine) -> list[Promise]:
    return [p for p in machine.model if not p.active]


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.world = World()
        # Processes are the model's. That a lock is real is tested with real processes elsewhere.
        self.patch.setattr("pytest_paddleapi.admission.ledger.identify", self.world.holder)
        self.patch.setattr("pytest_paddleapi.admission.ledger.is_running", lambda h: self.world.holder(h.pid) == h)
        self.patch.setattr("pytest_paddleapi.admission.store.check_lock", lambda folder, name: None)
        base = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.folder = Path(tempfile.mkdtemp(prefix="paddleapi-model-", dir=base))
        self.now = 0.0
        self.sessions: list[Session] = []
        self.model: list[Promise] = []
        self.past: list[Promise] = []
        self.begins()
        self.begins()

    def teardown(self) -> None:
        for session in self.sessions:
            session.ledger.close()
        left = read_ledger(self.folder).sessions, [file.name for file in self.folder.iterdir()]
        shutil.rmtree(self.folder)
        self.patch.undo()
        assert left == ((), ["ledger.mutex"])

    # -- the model

    def claim(self, promise: Promise, device: str) -> int:
        """What the holder may still take on ``device``."""
        if promise.pid not in self.world.held or device not in promise.baseline:
            return promise.size
        taken = max(0, self.world.held[promise.pid].get(device, 0) - promise.baseline[device])
        return max(0, promise.size - taken)

    def room(self, device: str, without: Promise | None = None) -> int:
        claims = sum(self.claim(p, device) for p in self.model if device in p.slot.group.devices and p is not without)
        return TOTALS[device] - RULES.reserve_bytes - self.world.used(device) - claims

    def of_slot(self, session: Session, name: str) -> Promise | None:
        return next((p for p in self.model if p.session is session and p.slot.name == name), None)

    def drop(self, promise: Promise) -> None:
        assert promise not in self.past
        self.past.append(promise)
        self.model.remove(promise)

    def someone_else_is_unknown(self, session: Session) -> bool:
        return any(other.damaged for other in self.sessions if other is not session)

    # -- sessions

    @precondition(lambda self: len(self.sessions) < 4)
    @rule()
    def begins(self) -> None:
        devices = [Device(self.world, uuid) for uuid in TOTALS]
        self.sessions.append(Session(Ledger(devices, folder=self.folder, rules=RULES)))

    @having(lambda self: self.sessions[1:])
    @rule(session=one_of(lambda self: self.sessions), killed=st.booleans())
    def ends(self, session: Session, killed: bool) -> None:
        if killed:
            session.ledger._store._drop_descriptors()
        else:
            session.ledger.close()
        self.sessions.remove(session)
        for promise in [p for p in self.model if p.session is session]:
            self.world.held.pop(promise.pid or -1, None)
            self.drop(promise)

    # -- leases

    @rule(
        session=one_of(lambda self: self.sessions),
        group=st.sampled_from(GROUPS),
        number=st.integers(0, 1),
        size=st.integers(1, 60),
    )
    def reserves(self, session: Session, group: Group, number: int, size: int) -> None:
        slot = Slot(f"{group.name}-{number}", group)
        if self.of_slot(session, slot.name) is None:
            promise = Promise(session, slot, size)
            self.check_answer(promise, None, session.ledger.reserve(slot, "case", size))

    @having(ended)
    @rule(old=one_of(ended), size=st.integers(1, 60), reuse=st.booleans())
    def replaces(self, old: Promise, size: int, reuse: bool) -> None:
        promise = Promise(old.session, old.slot, size)
        if reuse:
            promise.pid, promise.baseline = old.pid, old.baseline
        self.check_answer(promise, old, old.session.ledger.replace(old.slot, "case", size, reuse=reuse))

    def check_answer(self, promise: Promise, old: Promise | None, answer: Granted | Refused) -> None:
        devices = promise.slot.group.devices
        fits = all(self.room(device, without=old) >= self.claim(promise, device) for device in devices)
        if self.someone_else_is_unknown(promise.session):
            assert isinstance(answer, Refused)
            assert answer.reason is Refusal.UNKNOWN_LEASES
        elif not fits:
            assert isinstance(answer, Refused)
            assert answer.reason is Refusal.MEMORY
        else:
            assert isinstance(answer, Granted)
            promise.lease = answer.lease
            assert all(answer.lease.id != p.lease.id for p in [*self.model, *self.past] if p.lease)
            if old is not None:
                self.drop(old)
            self.model.append(promise)

    @having(unattached)
    @rule(promise=one_of(unattached), context=st.integers(0, 8), confirm=st.booleans())
    def gets_a_process(self, promise: Promise, context: int, confirm: bool) -> None:
        """Its context is memory that no lease planned for; confirm sees whether it all still fits."""
        devices = promise.slot.group.devices
        if any(self.room(device) < context for device in devices) and not confirm:
            return
        pid, self.world.next_pid = self.world.next_pid, self.world.next_pid + 1
        self.world.held[pid] = dict.fromkeys(devices, context)
        promise.pid, promise.baseline = pid, dict.fromkeys(devices, context)
        if not confirm:
            promise.session.ledger.attach(promise.lease, pid)
            return
        promise.active = all(self.room(device) >= 0 for device in devices)
        promise.active = promise.active and not self.someone_else_is_unknown(promise.session)
        assert promise.session.ledger.confirm(promise.lease, pid) is promise.active
        if not promise.active:
            del self.world.held[pid]  # the slot is let go

    @having(attached)
    @rule(promise=one_of(attached), part=st.integers(1, 60))
    def takes_memory(self, promise: Promise, part: int) -> None:
        for device in promise.slot.group.devices:
            self.world.held[promise.pid][device] += min(part, self.claim(promise, device))

    @having(attached)
    @rule(promise=one_of(attached), part=st.integers(1, 60))
    def gives_memory_back(self, promise: Promise, part: int) -> None:
        held = self.world.held[promise.pid]
        for device in promise.slot.group.devices:
            held[device] -= min(part, max(0, held[device] - promise.baseline[device]))

    @having(attached)
    @rule(promise=one_of(attached))
    def loses_its_process(self, promise: Promise) -> None:
        del self.world.held[promise.pid]

    @having(running)
    @rule(promise=one_of(running), stolen=st.integers(0, 40))
    def is_confirmed(self, promise: Promise, stolen: int) -> None:
        """While somebody outside has taken ``stolen`` bytes, which are gone again afterwards."""
        self.world.held[-5] = dict.fromkeys(TOTALS, stolen)
        fits = all(self.room(device) >= 0 for device in promise.slot.group.devices)
        promise.active = fits and not self.someone_else_is_unknown(promise.session)
        assert promise.session.ledger.confirm(promise.lease) is promise.active
        del self.world.held[-5]

    @having(running)
    @rule(promise=one_of(running))
    def finishes(self, promise: Promise) -> None:
        assert promise.session.ledger.finish(promise.lease)
        promise.active = False

    @having(lambda self: [p for p in [*ended(self), *self.past] if p.session in self.sessions])
    @rule(promise=one_of(lambda self: [p for p in [*ended(self), *self.past] if p.session in self.sessions]))
    def is_finished_or_confirmed_too_late(self, promise: Promise) -> None:
        assert not promise.session.ledger.finish(promise.lease)
        assert not promise.session.ledger.confirm(promise.lease)

    @having(ended)
    @rule(session=one_of(lambda self: [p.session for p in ended(self)]))
    def comes_to_rest(self, session: Session) -> None:
        self.now += 100
        session.ledger.settle(self.now)
        dropped = {lease.id for lease in session.ledger.settle(self.now + 1.0)}
        pending = [p for p in ended(self) if p.session is session]
        # The first of the two may have dropped what an earlier settle had seen.
        assert dropped <= {p.lease.id for p in pending}
        assert all(lease.state is LeaseState.ACTIVE for lease in session.ledger.leases)
        for promise in pending:
            self.drop(promise)

    @having(without_process)
    @rule(promise=one_of(without_process))
    def is_released(self, promise: Promise) -> None:
        assert promise.session.ledger.release(promise.slot.name)
        self.drop(promise)

    # -- accidents

    @rule(session=one_of(lambda self: self.sessions))
    def file_is_damaged(self, session: Session) -> None:
        file = self.folder / f"{session.ledger.session}.leases"
        if file.exists():
            file.write_bytes(file.read_bytes()[:-3] + b"???")

    @rule(session=one_of(lambda self: self.sessions))
    def file_is_written_again(self, session: Session) -> None:
        session.ledger.snapshot()

    # -- what always holds

    @invariant()
    def never_more_than_there_is(self) -> None:
        for device in TOTALS:
            assert self.room(device) >= 0

    @invariant()
    def every_lease_is_known_to_everybody(self) -> None:
        known = {}
        for session in self.sessions:
            session.damaged = not self.is_sound(session)
        states = read_ledger(self.folder).sessions
        assert {state.name for state in states} == {session.ledger.session for session in self.sessions}
        for state in states:
            session = next(s for s in self.sessions if s.ledger.session == state.name)
            assert bool(state.unknown) == session.damaged
            known.update({lease.id: (lease.bytes, lease.state) for lease in state.leases})
        assert known == {
            p.lease.id: (p.size, LeaseState.ACTIVE if p.active else LeaseState.RELEASE_PENDING)
            for p in self.model
            if not p.session.damaged
        }

    def is_sound(self, session: Session) -> bool:
        """Any operation of a session writes its file again if it was damaged."""
        file = self.folder / f"{session.ledger.session}.leases"
        return file.exists() and not file.read_bytes().endswith(b"???")


LedgerMachine.TestCase.settings = settings(
    max_examples=120, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)


class TestLedgerAgainstModel(LedgerMachine.TestCase):
    @pytest.fixture(autouse=True)
    def _damage_is_wanted(self) -> Iterator[None]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LedgerWarning)
            yield
