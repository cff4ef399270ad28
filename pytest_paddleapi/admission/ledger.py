"""The ledger: the one place that promises device memory, for every session on the host."""

from __future__ import annotations

import enum
import getpass
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from ..devices.model import Device, DeviceReadingError, Holder, MemoryReading
from ..devices.processes import identify, is_running
from .accounting import holders_on, lowered, room, room_at_least, sightings
from .errors import LeaseError
from .observing import LedgerSnapshot
from .records import Lease, LeaseState, SessionHeader, Slot, case_label, encode_line
from .rules import AdmissionRules
from .settling import Settling
from .store import SESSION_PREFIX, LedgerStore, SessionState

__all__ = [
    "Admission",
    "Granted",
    "Ledger",
    "Refusal",
    "Refused",
]


class Refusal(str, enum.Enum):
    """Why nothing was promised."""

    #: The device has not so much left.
    MEMORY = "memory"
    #: The device's memory could not be read. Try in the next round.
    READING = "reading"
    #: A live session's leases are not known. They will be after its next transaction.
    UNKNOWN_LEASES = "unknown_leases"


@dataclass(frozen=True, slots=True)
class Granted:
    """The promise stands until it is finished and settled, released, or its session ends.

    ``available`` is what there was at least before it (bytes, on the tightest device of the group).
    """

    lease: Lease
    available: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was promised and nothing has changed. ``available`` and ``needed`` in bytes; None where unknown."""

    reason: Refusal
    available: int | None
    needed: int
    text: str


Admission = Granted | Refused


class _Draft:
    """One transaction: the other sessions as they are, and this one's leases as they are going to be."""

    def __init__(self, others: tuple[SessionState, ...], own: dict[str, Lease]) -> None:
        self.others = others
        self.own = dict(own)

    def leases(self) -> list[Lease]:
        return [*self.own.values(), *(lease for state in self.others for lease in state.leases)]

    def unknown(self) -> str:
        return "; ".join(f"session {state.name}: {state.unknown}" for state in self.others if state.unknown)


class Ledger:
    """This session's part in the host's ledger, and the view of all others'.

    Each operation is one transaction: it takes the host's mutex, reads what other sessions promise, drops the
    sessions that have died, and writes this session's leases if they changed. If writing fails, nothing has
    changed. Memory is read inside the transaction, because an older reading would not show what a session held
    that has died since.

    ``devices`` are those that slots may name. Without ``folder`` the ledger is the user's own on this host. A slot
    has at most one lease. Threads may share a ledger; the caller keeps it for as long as the session lives, and
    closes it at the end. If the session just dies, its leases are gone as soon as anybody looks.

    ``seen`` is called, inside the transaction, with a lease of this session, a device and the bytes that the lease's
    holder has there, whenever an operation has measured that to see what fits.

    Raises:
        LedgerFolderError, LedgerBusyError: see their docs. Every operation may raise LedgerBusyError, and those
            that change something LedgerWriteError.
    """

    def __init__(
        self,
        devices: Iterable[Device],
        *,
        folder: Path | None = None,
        rules: AdmissionRules | None = None,
        label: str = "",
        clock: Callable[[], float] = time.time,
        seen: Callable[[Lease, str, int], None] | None = None,
    ) -> None:
        self.rules = rules or AdmissionRules()
        self._devices = {device.uuid: device for device in devices}
        self._clock = clock
        self._seen = seen
        self._lock = threading.RLock()
        self._leases: dict[str, Lease] = {}
        self._lines: dict[str, tuple[Lease, bytes]] = {}
        self._settling = Settling(self.rules)
        #: When the readings were taken that settling saw last, of devices whose readings may be old.
        self._taken: dict[str, float] = {}
        self._next = 0
        session = f"{SESSION_PREFIX}{os.getpid()}-{secrets.token_hex(6)}"
        self._header = _header(session, label, clock())
        self._store = LedgerStore(
            folder, wait=self.rules.mutex_seconds, session=session, header=encode_line(self._header)
        )

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def session(self) -> str:
        """The name of this session in the ledger."""
        return self._store.session or ""

    @property
    def folder(self) -> str:
        """Where the ledger is."""
        return self._store.path

    @property
    def leases(self) -> tuple[Lease, ...]:
        """This session's leases, both states, without looking at any file."""
        return tuple(self._leases.values())

    @property
    def paused(self) -> bool:
        """True while somebody asks this session to pause; as of the last transaction."""
        return self._store.paused

    def lease_of(self, slot: str) -> Lease | None:
        """The lease that ``slot`` has, if any."""
        return self._leases.get(slot)

    # -- operations

    def reserve(self, slot: Slot, case: str, size: int) -> Admission:
        """Promise ``size`` bytes on each device of the slot's group, if they are there.

        Raises:
            LeaseError: the slot has a lease already, or names a device that this ledger does not have.
        """
        with self._transaction() as draft:
            if slot.name in draft.own:
                state = draft.own[slot.name].state.value
                raise LeaseError(f"slot {slot.name} has a lease ({state}); replace it, or settle or release it first")
            return self._admit(draft, slot, case, size, None)

    def replace(self, slot: Slot, case: str, size: int, *, reuse: bool = False, ended: bool = False) -> Admission:
        """As :meth:`reserve`, and give up the slot's own ``release_pending`` lease for it, in one step.

        With ``ended``, the old lease may still be active: its case has ended, and it is finished first.
        If refused, the old lease stays, ``release_pending``. With ``reuse`` the new case runs in the same process, and
        what that still holds beyond the old baseline is the new case's to use (an allocator's cache), or will have
        gone by the time that it is needed: it then counts towards the new lease.

        Raises:
            LeaseError: the slot's lease is active, or the slot names a device that this ledger does not have.
        """
        with self._transaction() as draft:
            old = draft.own.get(slot.name)
            if ended and old is not None and old.state is LeaseState.ACTIVE:
                old = self._set(draft, old, state=LeaseState.RELEASE_PENDING)
            if old is not None and old.state is not LeaseState.RELEASE_PENDING:
                raise LeaseError(f"slot {slot.name} still runs {old.case!r}; finish its lease first")
            inherited = old if reuse and old is not None and old.devices == slot.group.devices else None
            return self._admit(draft, slot, case, size, inherited)

    def attach(self, lease: Lease, pid: int) -> Lease:
        """Say which process the case runs in; what it holds from now on counts towards the lease.

        Call it when the process is ready (its context and libraries belong to the baseline) and before the case is
        sent. A lease that has this very process already, from ``replace(reuse=True)``, keeps its baseline.

        Raises:
            LeaseError: there is no such lease, it is not active, or there is no such process.
        """
        with self._transaction() as draft:
            current = self._current(draft, lease)
            if current is None or current.state is not LeaseState.ACTIVE:
                raise LeaseError(f"lease {lease.id} of slot {lease.slot} is not active; there is nothing to attach to")
            return self._attach(draft, current, pid)

    def confirm(self, lease: Lease, pid: int | None = None) -> bool:
        """Read the memory again before the case is sent; with ``pid``, :meth:`attach` it first.

        False if the group's leases no longer fit (somebody else took memory meanwhile), the memory cannot be read,
        or a live session's leases are unknown; the lease is ``release_pending`` then, and the case must not run.

        Raises:
            LeaseError: there is no such process.
        """
        with self._transaction() as draft:
            current = self._current(draft, lease)
            if current is None or current.state is not LeaseState.ACTIVE:
                return False
            if pid is not None:
                current = self._attach(draft, current, pid)
            if not draft.unknown() and self._fits(draft, current.devices):
                return True
            self._set(draft, current, state=LeaseState.RELEASE_PENDING)
            return False

    def report(self, lease: Lease, size: int) -> bool:
        """Note what the case process itself says it holds beyond the baseline (on each device of the group).

        Only used where the device cannot tell what a process holds. It must be something that the process will
        not fall below until the next report: what it has given back by then would be promised twice.
        False if the lease is gone.
        """
        if size < 0:
            raise ValueError(f"a report of {size} bytes")
        with self._transaction() as draft:
            current = self._current(draft, lease)
            if current is None:
                return False
            self._set(draft, current, reported=size)
            return True

    def finish(self, lease: Lease) -> bool:
        """The case has ended: ``release_pending`` until its memory is seen back. False if it was so or gone before."""
        with self._transaction() as draft:
            current = self._current(draft, lease)
            if current is None or current.state is not LeaseState.ACTIVE:
                return False
            self._set(draft, current, state=LeaseState.RELEASE_PENDING)
            return True

    def settle(self, now: float) -> tuple[Lease, ...]:
        """Drop the ``release_pending`` leases whose devices have come to rest; gives those dropped.

        To be called every second or so, with seconds of a clock that never goes back (``time.monotonic``). A device
        that cannot be read is left for the next time. This also rewrites this session's file if it was damaged.
        """
        with self._transaction() as draft:
            pending = [lease for lease in draft.own.values() if lease.state is LeaseState.RELEASE_PENDING]
            free = self._free_of({device for lease in pending for device in lease.devices}, draft)
            settled = self._settling.settled(now, pending, free)
            for lease in settled:
                del draft.own[lease.slot]
            return settled

    def release(self, slot: str) -> bool:
        """Drop the slot's lease at once, whatever its state. False if it has none.

        For a slot whose process is gone and whose memory was seen back, or that never started one.

        Raises:
            LeaseError: the process is still there.
        """
        with self._transaction() as draft:
            lease = draft.own.pop(slot, None)
            if lease is not None and lease.holder is not None and is_running(lease.holder):
                raise LeaseError(f"slot {slot} cannot be released: its process {lease.holder.pid} is still there")
            return lease is not None

    def snapshot(self) -> LedgerSnapshot:
        """All live sessions, this one included."""
        with self._transaction() as draft:
            own = SessionState(self.session, self._header, tuple(draft.own.values()), paused=self._store.paused)
            return LedgerSnapshot(self.folder, (own, *draft.others))

    def usable(self, devices: Iterable[str]) -> int:
        """The most that one case can ever be given on a group of these devices; above it, it is ``oversize``.

        Raises:
            DeviceReadingError: one of them cannot be read.
        """
        return self.rules.usable(self._device(uuid).read().total for uuid in devices)

    def close(self) -> None:
        """Give up every lease and leave. Can be called again."""
        with self._lock:
            self._store.close()
            self._leases = {}

    # -- the inside of a transaction

    @contextmanager
    def _transaction(self) -> Iterator[_Draft]:
        with self._lock, self._store.transaction() as others:
            draft = _Draft(others, self._leases)
            yield draft
            if self._store.stale or draft.own != self._leases:
                self._publish(draft.own)
                self._leases = draft.own

    def _publish(self, own: dict[str, Lease]) -> None:
        lines: dict[str, tuple[Lease, bytes]] = {}
        for slot, lease in own.items():
            known = self._lines.get(slot)
            # Identity is enough: leases never change, they are replaced.
            lines[slot] = known if known is not None and known[0] is lease else (lease, encode_line(lease))
        self._store.publish(line for _, line in lines.values())
        self._lines = lines

    def _admit(self, draft: _Draft, slot: Slot, case: str, size: int, inherited: Lease | None) -> Admission:
        if size <= 0:
            raise ValueError(f"a lease of {size} bytes")
        for uuid in slot.group.devices:
            self._device(uuid)
        unknown = draft.unknown()
        if unknown:
            return Refused(Refusal.UNKNOWN_LEASES, None, size, unknown)
        lease = self._new_lease(slot, case, size, inherited)
        with_it = [lease, *(other for other in draft.leases() if other is not draft.own.get(slot.name))]
        try:
            # The room that is left beside the new lease, so that what its process holds already is not asked
            # for again.
            available = size + min(self._room(uuid, with_it, draft) for uuid in lease.devices)
        except DeviceReadingError as exc:
            return Refused(Refusal.READING, None, size, str(exc))
        if available < size:
            text = f"{size} bytes needed on {slot.group.name}, {max(0, available)} available"
            return Refused(Refusal.MEMORY, available, size, text)
        self._next += 1
        draft.own[slot.name] = lease
        return Granted(lease, available)

    def _new_lease(self, slot: Slot, case: str, size: int, inherited: Lease | None) -> Lease:
        now = self._clock()
        lease = Lease(
            id=f"{self.session}/{self._next}",
            slot=slot.name,
            group=slot.group.name,
            devices=slot.group.devices,
            bytes=size,
            state=LeaseState.ACTIVE,
            case=case_label(case),
            created=now,
            updated=now,
        )
        if inherited is None:
            return lease
        return structs.replace(lease, holder=inherited.holder, baseline=inherited.baseline, reported=inherited.reported)

    def _fits(self, draft: _Draft, devices: tuple[str, ...]) -> bool:
        leases = draft.leases()
        try:
            return all(self._room(uuid, leases, draft) >= 0 for uuid in devices)
        except DeviceReadingError:
            return False

    def _room(self, uuid: str, leases: list[Lease], draft: _Draft) -> int:
        """Bytes of the device that nobody has or may claim (a lower bound, exact where it is below 0)."""
        device = self._device(uuid)
        if device.free_needs_holders:
            return room(uuid, device.read(holders_on(uuid, leases)), leases, self.rules)
        # Most often it fits even if nobody had taken anything of his lease yet. Then nobody need be measured.
        at_least = room_at_least(uuid, device.read(), leases, self.rules)
        if at_least >= 0:
            return at_least
        # A lease that is about to be replaced is not among ``leases``, but what is left of its case is of interest.
        reading = device.read(holders_on(uuid, [*leases, *draft.own.values()]))
        if reading.taken is None:  # else it may be older than a baseline
            self._note(draft, uuid, reading)
        return room(uuid, reading, leases, self.rules)

    def _note(self, draft: _Draft, uuid: str, reading: MemoryReading) -> None:
        """Lower the baselines that are too high by now, and pass on what was seen of this session's leases."""
        for lease, held in list(sightings(draft.own.values(), uuid, reading)):
            if self._seen is not None:
                self._seen(lease, uuid, held)
            fallen = lease if self.rules.inherit_held else lowered(lease, uuid, reading)
            if fallen is not lease:
                self._set(draft, lease, baseline=fallen.baseline)

    def _free_of(self, devices: Iterable[str], draft: _Draft) -> dict[str, int]:
        free: dict[str, int] = {}
        for uuid in devices:
            device = self._device(uuid)
            holders = holders_on(uuid, draft.leases()) if device.free_needs_holders else ()
            try:
                reading = device.read(holders)
            except DeviceReadingError:
                continue  # its leases wait; who asks for memory on it is told why
            if reading.taken is not None and reading.taken == self._taken.get(uuid):
                continue  # the same measurement again shows nothing
            if reading.taken is not None:
                self._taken[uuid] = reading.taken
            free[uuid] = reading.free
        return free

    def _attach(self, draft: _Draft, lease: Lease, pid: int) -> Lease:
        holder = identify(pid)
        if holder is None:
            raise LeaseError(f"lease {lease.id} of slot {lease.slot}: there is no process {pid}")
        if lease.holder == holder and lease.baseline:
            return lease
        baseline = tuple(self._held(uuid, holder) for uuid in lease.devices)
        return self._set(draft, lease, holder=holder, baseline=baseline, reported=None)

    def _held(self, uuid: str, holder: Holder) -> int | None:
        try:
            return self._device(uuid).read((holder,)).held.get(holder)
        except DeviceReadingError:
            return None  # no baseline: the lease counts in full

    def _current(self, draft: _Draft, lease: Lease) -> Lease | None:
        """The lease as it is now; None if it is gone or its slot has another one."""
        found = draft.own.get(lease.slot)
        return found if found is not None and found.id == lease.id else None

    def _set(self, draft: _Draft, lease: Lease, **changes: object) -> Lease:
        changed: Lease = structs.replace(lease, updated=self._clock(), **changes)
        draft.own[lease.slot] = changed
        return changed

    def _device(self, uuid: str) -> Device:
        try:
            return self._devices[uuid]
        except KeyError:
            known = ", ".join(self._devices) or "none"
            raise LeaseError(f"this ledger was not given the device {uuid}; it has {known}") from None


def _header(session: str, label: str, started: float) -> SessionHeader:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container that runs as a user without a name
        user = str(os.getuid())
    return SessionHeader(
        session=session, pid=os.getpid(), host=os.uname().nodename, user=user, started=started, label=case_label(label)
    )
