"""The engine's view of the ledger: which group of devices a slot is on, and what it may be promised there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from ..devices.model import Device, DeviceLostError, DeviceReadingError
from ..devices.processes import identify, is_running
from ..devices.readings import patiently
from ..gpu_admission import (
    AdmissionRules,
    Granted,
    Group,
    Lease,
    LeaseError,
    LeaseState,
    Ledger,
    LedgerBusyError,
    LedgerWriteError,
    Policy,
    Promptness,
    Refusal,
    Refused,
    Setback,
    Slot,
)
from .dispatching import Grant, NoRoom

#: A context is taken for so much larger than one that was seen: the next may differ, and what preparing a device took
#: beside it may come back late.
CONTEXT_FACTOR = 1.25
#: Settling is looked at this often; its own rule wants samples a second apart.
_SETTLE_EVERY = 0.5
#: Where nothing is pending, the ledger is looked at this often.
_LOOK_EVERY = 2.0
#: Seconds until a device that could be read when it was chosen, a moment ago, must be readable again.
_SEEN_SECONDS = 20.0


class LedgerAdmission:
    """:class:`~.engine.Admission` over a real ledger.

    ``groups`` has the devices of each group (one, or a pair that is never split) by the group's name, ``workers``
    how many slots each group has at most. ``clock`` gives seconds that never go back.

    Raises:
        LedgerError: the ledger's folder cannot be used.
        DeviceReadingError: the memory of a device cannot be read, or every group has a device that is lost. Where
            others are left, a lost one is told of by :meth:`take_lost`.
    """

    def __init__(
        self,
        groups: Mapping[str, Sequence[Device]],
        *,
        workers: int,
        folder: Path | None = None,
        rules: AdmissionRules | None = None,
        label: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rules = rules or AdmissionRules()
        self.groups = {name: Group(name, tuple(d.uuid for d in devices)) for name, devices in groups.items()}
        every = {device.uuid: device for devices in groups.values() for device in devices}
        self._clock = clock
        self._promptness = Promptness(self.rules)
        self.ledger = Ledger(every.values(), folder=folder, rules=self.rules, label=label, seen=self._saw)
        self.policy = Policy(dict.fromkeys(self.groups, workers), self.rules)
        #: Groups with a device that its driver says is gone, and what it says; those that were not told of yet.
        self._lost: dict[str, str] = {}
        #: The most that one case can ever be given on each group, in bytes.
        self.capacities: dict[str, int] = {}
        try:
            self._read_capacities()
        except DeviceReadingError:
            self.ledger.close()
            raise
        self._places: dict[str, Group] = {}
        self._pids: dict[str, int] = {}
        #: What a process takes of each group for itself, as far as that is known.
        self._contexts: dict[str, int] = {}
        #: Slots whose case has ended while the ledger still says that it is active.
        self._ended: set[str] = set()
        self._devices = {name: tuple(devices) for name, devices in groups.items()}
        self._next_settle = self._next_look = 0.0
        #: Why the ledger could not be written, or a device not be read, when it was last tried; "" where it could.
        self.trouble = ""

    def _read_capacities(self) -> None:
        for name, group in self.groups.items():
            try:
                self.capacities[name] = patiently(partial(self.ledger.usable, group.devices), _SEEN_SECONDS)
            except DeviceLostError as exc:  # since it was chosen: the others will do without it
                self._lost[name] = str(exc)
                if len(self._lost) == len(self.groups):
                    raise

    def close(self) -> None:
        """Give every lease back."""
        self.ledger.close()

    @property
    def capacity(self) -> int:
        """The most that one case can be given on any group that is left, in bytes."""
        return max(self.capacities.values(), default=0)

    # engine.Admission -----------------------------------------------------------------------

    @property
    def paused(self) -> bool:
        """Somebody asks this session to pause."""
        return self.ledger.paused

    def place(self, slot: str, group: str) -> None:
        """The slot's leases are on this group's devices; an empty name is the only group there is."""
        self._places[slot] = self.groups[group] if group else next(iter(self.groups.values()))

    def drop_group(self, group: str) -> None:
        """What only fitted there is oversize from now on."""
        self.capacities.pop(group or next(iter(self.groups)), None)

    def take_lost(self) -> dict[str, str]:
        """Groups with a device that its driver says is gone, and what it says; each once."""
        lost, self._lost = self._lost, {}
        return lost

    def _note_lost(self, group: str) -> None:
        """Nothing could be read on a group: see whether that is for good."""
        for device in self._devices[group]:
            try:
                device.read()
            except DeviceLostError as exc:
                self._lost[group] = str(exc)
            except DeviceReadingError:
                continue  # it may answer again

    def need(self, estimate: int) -> int:
        """Admission bytes of a case with this estimated peak."""
        return self.policy.admission_bytes(estimate)

    def is_oversize(self, need: int) -> bool:
        """True where no group that is left could ever admit that much. With none left, nothing is known of any case."""
        return bool(self.capacities) and self.policy.is_oversize(need, self.capacities.values())

    def target(self, group: str) -> int:
        """The group's concurrency target."""
        return self.policy.target(group or next(iter(self.groups)))

    def reserve(self, slot: str, label: str, need: int, *, grown: bool) -> Grant | NoRoom:
        """Promise memory, in one step with giving up the slot's last lease.

        Refused also where the ledger cannot be written, or a device not be read, just now; :attr:`trouble` tells.
        """
        self.trouble = ""
        try:
            grant = self._reserve(slot, label, need, grown=grown)
        except (LedgerWriteError, LedgerBusyError) as exc:
            self.trouble = str(exc)
            self._ended.add(slot)  # whatever it was promised, no case runs under it
            return NoRoom()
        return grant

    def _reserve(self, slot: str, label: str, need: int, *, grown: bool) -> Grant | NoRoom:
        group = self._places[slot].name
        usable = self.capacities.get(group, 0)
        if grown and need > usable and usable < self.capacity:
            return NoRoom()  # a larger device can give it more, and what it has there is final
        # More would not be confirmed once the process has its context.
        capacity = max(usable - self._contexts.get(group, 0), min(usable, self.rules.minimum_bytes))
        size = min(need, capacity) if grown or need <= usable else need
        answer = self._ask(slot, label, size)
        if not isinstance(answer, Granted):
            if answer.reason is not Refusal.MEMORY:
                self.trouble = answer.text
            if answer.reason is Refusal.READING:
                self._note_lost(group)
            room = answer.available if answer.reason is Refusal.MEMORY else None
            if not grown or room is None or room < self.rules.minimum_bytes or not self._only(slot):
                return NoRoom(room)
            if self.ledger.lease_of(slot) is not None:
                return NoRoom(room)  # the memory of its own last attempt may still come back
            # Nobody else has a promise, so this is all that the device can give now.
            answer = self._ask(slot, label, room)
            if not isinstance(answer, Granted):
                return NoRoom(answer.available)
            return Grant(room, True)
        if answer.available < size + self._contexts.get(group, 0) and not self._has_process(slot, answer.lease):
            # The process that is to be started would take what is missing then, and the lease not be confirmed.
            self.ledger.release(slot)
            return NoRoom(answer.available - self._contexts.get(group, 0))
        return Grant(size, size >= capacity)

    def _has_process(self, slot: str, lease: Lease) -> bool:
        if lease.holder is not None and is_running(lease.holder):
            return True
        pid = self._pids.get(slot)
        return pid is not None and identify(pid) is not None

    def _ask(self, slot: str, label: str, size: int) -> Granted | Refused:
        place = Slot(slot, self._places[slot])
        ended = slot in self._ended
        self._ended.discard(slot)
        old = self.ledger.lease_of(slot)
        if old is None:
            answer = self.ledger.reserve(place, label, size)
        else:
            reuse = self.rules.inherit_held or self._promptness.prompt
            answer = self.ledger.replace(place, label, size, reuse=reuse, ended=ended)
        if isinstance(answer, Granted):
            self._begin(answer.lease, old)
        return answer

    def _begin(self, lease: Lease, old: Lease | None) -> None:
        """Measure the process that ``lease`` is for, where it has one; the slot had ``old`` before."""
        inherited = lease.holder is not None
        pid = self._pids.get(lease.slot)
        if pid is not None and (lease.holder is None or lease.holder.pid != pid):
            inherited = False
            try:
                lease = self.ledger.attach(lease, pid)
            except LeaseError:
                # The process died between two cases: until the next report the lease counts in full.
                del self._pids[lease.slot]
            if old is not None and old.holder == lease.holder:
                for device, held in zip(lease.devices, lease.baseline):
                    if held is not None:
                        self._saw(old, device, held)  # what is left of the last case
        self._promptness.begins(lease, inherited=inherited)

    def _saw(self, lease: Lease, device: str, held: int) -> None:
        self._promptness.seen(lease, device, held, self._clock())

    def _only(self, slot: str) -> bool:
        """Nobody but this slot of ours has a promise on its devices."""
        devices = set(self._places[slot].devices)
        own = self.ledger.lease_of(slot)
        sessions = self.ledger.snapshot().sessions
        others = (lease for state in sessions for lease in state.leases if own is None or lease.id != own.id)
        return devices.isdisjoint(uuid for lease in others for uuid in lease.devices) and not any(
            state.unknown for state in sessions
        )

    def confirm(self, slot: str, pid: int) -> bool:
        """Read the memory again once the slot's process is ready: False where the lease does not fit any more.

        The case must not run then; its lease is on its way back.
        """
        lease = self.ledger.lease_of(slot)
        try:
            fits = lease is not None and self.ledger.confirm(lease, pid)
        except (LedgerWriteError, LedgerBusyError, LeaseError) as exc:
            self.trouble = str(exc)
            return False
        now = self.ledger.lease_of(slot)
        if now is not None and lease is not None and now.holder != lease.holder:
            self._promptness.begins(now)
        return fits

    def finished(self, slot: str, *, pid: int | None) -> None:
        """``release_pending`` until the memory is seen back or the slot's next case takes its place.

        The ledger hears of it with the next :meth:`reserve` for the slot, in one step, or in :meth:`flush`.
        """
        if pid is not None:
            self._pids[slot] = pid
        self._ended.add(slot)
        self._promptness.ended(slot, self._clock())

    def flush(self) -> None:
        """Tell the ledger of ended cases whose slots got no new one."""
        for slot in list(self._ended):
            lease = self.ledger.lease_of(slot)
            try:
                if lease is not None and lease.state is LeaseState.ACTIVE:
                    self.ledger.finish(lease)
            except (LedgerWriteError, LedgerBusyError) as exc:
                self.trouble = str(exc)
                return  # tried again with the next
            self._ended.discard(slot)

    def gone(self, slot: str) -> None:
        """A dead process's memory comes back like an ended case's."""
        self._pids.pop(slot, None)
        self._promptness.forget(slot)
        self.finished(slot, pid=None)
        self.flush()

    def note_context(self, slot: str, nbytes: int) -> None:
        """A process was ended because there was no room for its own needs beside its lease: leave it from now on."""
        group = self._places[slot].name
        self._contexts[group] = max(int(nbytes * CONTEXT_FACTOR), self._contexts.get(group, 0))
        self._pids.pop(slot, None)  # it was ended

    def note_capacity(self, slot: str, nbytes: int) -> None:
        """Not for slots on this host: their devices are read here."""

    def succeeded(self, label: str, slot: str) -> None:
        """Raise the target, in time."""
        self.policy.case_succeeded(label, self._places[slot].name, slot)

    def failed(self, label: str, slot: str, setback: Setback, now: float) -> float:
        """Lower the target; the time of the next try."""
        if setback is Setback.DEFERRED:
            self._promptness.ran_out(slot)
        else:
            self._promptness.forget(slot)  # its process has died, or is killed
        return self.policy.case_failed(label, self._places[slot].name, slot, setback, now)

    def wants_restart(self, slot: str) -> bool:
        """Once, after two deferrals in a row."""
        wanted = self.policy.wants_restart(slot)
        if wanted:
            self.policy.slot_restarted(slot)
        return wanted

    def under_pressure(self, now: float, *, waiting: int, busy: int) -> bool:
        """Work has waited for as long as the rules allow, with nothing running."""
        return self.policy.under_pressure(now, waiting=waiting, busy=busy)

    def housekeep(self, now: float) -> None:
        """Settle what is pending, and see whether this session is asked to pause or to go on."""
        if now < self._next_settle:
            return
        self._next_settle = now + _SETTLE_EVERY
        pending = any(lease.state is LeaseState.RELEASE_PENDING for lease in self.ledger.leases)
        if not pending and now < self._next_look:
            return
        self._next_look = now + _LOOK_EVERY
        try:
            self.ledger.settle(self._clock())
        except (LedgerWriteError, LedgerBusyError) as exc:
            self.trouble = str(exc)
