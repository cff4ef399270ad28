"""Admission over simulated devices: the project's rules, and those that tools use today."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from _packing_devices import SimulatedDevice

from pytest_paddleapi.admission.accounting import lowered, promised, room, room_at_least, sightings
from pytest_paddleapi.admission.promptness import Promptness
from pytest_paddleapi.admission.records import Lease, LeaseState
from pytest_paddleapi.admission.settling import Settling
from pytest_paddleapi.devices.model import Holder
from pytest_paddleapi.gpu_admission import AdmissionRules, Policy, Setback
from pytest_paddleapi.scheduling.admission import CONTEXT_FACTOR
from pytest_paddleapi.scheduling.dispatching import Grant, NoRoom

#: As often as the ledger's own.
_SETTLE_EVERY = 0.5


class SimulatedAdmission:
    """:class:`~pytest_paddleapi.scheduling.engine.Admission` by the functions that the ledger uses, without its files.

    One group for each device, by its UUID.
    """

    def __init__(
        self, devices: Sequence[SimulatedDevice], rules: AdmissionRules, workers: int, clock: Callable[[], float]
    ) -> None:
        self.rules = rules
        self._clock = clock
        self._promptness = Promptness(rules)
        self.devices = {device.uuid: device for device in devices}
        self.policy = Policy(dict.fromkeys(self.devices, workers), rules)
        self.trouble, self.paused = "", False
        self._usable = max(rules.usable([device.total]) for device in devices)
        self._settling = Settling(rules)
        #: By device, then slot.
        self.leases: dict[str, dict[str, Lease]] = {uuid: {} for uuid in self.devices}
        self._places: dict[str, str] = {}
        self._holders: dict[str, Holder] = {}
        self._ended: set[str] = set()
        #: Slots with a lease that waits for its memory, by device.
        self._pending: dict[str, str] = {}
        #: What a process takes of each device for itself, once that has cost a start.
        self._contexts: dict[str, int] = {}
        self._next_settle = 0.0
        self._serial = 0

    def place(self, slot: str, group: str) -> None:
        self._places[slot] = group

    def drop_group(self, group: str) -> None:
        raise NotImplementedError("no simulated device is lost")

    def need(self, estimate: int) -> int:
        return self.policy.admission_bytes(estimate)

    def is_oversize(self, need: int) -> bool:
        return need > self._usable

    def target(self, group: str) -> int:
        return self.policy.target(group)

    def reserve(self, slot: str, label: str, need: int, *, grown: bool) -> Grant | NoRoom:
        context = self._contexts.get(self._places[slot], 0)
        most = max(self._usable - context, min(self._usable, self.rules.minimum_bytes))
        size = min(need, most) if grown or need <= self._usable else need
        available = self._ask(slot, size, context)
        if available is None:
            return Grant(size, size >= most)
        if not grown or available < self.rules.minimum_bytes or self.leases[self._places[slot]]:
            return NoRoom(available)
        return Grant(available, True) if self._ask(slot, available, context) is None else NoRoom(available)

    def _ask(self, slot: str, size: int, context: int) -> int | None:
        """None where it was granted, else what is available beside the context of a process that is to be started."""
        uuid = self._places[slot]
        leases = self.leases[uuid]
        self._finish(slot)
        old = leases.get(slot)
        inherits = old if self.rules.inherit_held or self._promptness.prompt else None
        new = self._lease(slot, uuid, size, inherits)
        available = size + self.room(uuid, [new, *(lease for name, lease in leases.items() if name != slot)])
        if slot not in self._holders:
            available -= context
        if available < size:
            return available
        leases[slot] = new
        self._pending.pop(slot, None)
        self._begin(new, old, inherited=inherits is not None and inherits.holder == new.holder)
        return None

    def _begin(self, lease: Lease, old: Lease | None, *, inherited: bool) -> None:
        if old is not None and not inherited and lease.holder is not None:
            reading = self.devices[lease.group].read()
            for _, held in sightings([old], lease.group, reading):
                self._promptness.seen(old, lease.group, held, self._clock())
        self._promptness.begins(lease, inherited=inherited)

    def _lease(self, slot: str, uuid: str, size: int, inherited: Lease | None) -> Lease:
        self._serial += 1
        holder = self._holders.get(slot)
        baseline: tuple[int | None, ...] = ()
        if holder is not None:
            if inherited is not None and inherited.holder == holder:
                baseline = inherited.baseline
            else:
                baseline = (self.devices[uuid].held[holder],)
        return Lease(
            id=str(self._serial),
            slot=slot,
            group=uuid,
            devices=(uuid,),
            bytes=size,
            state=LeaseState.ACTIVE,
            case="",
            created=0.0,
            updated=0.0,
            holder=holder,
            baseline=baseline,
        )

    def room(self, uuid: str, leases: Sequence[Lease]) -> int:
        """Bytes that nobody has or may claim, as the ledger finds them."""
        reading = self.devices[uuid].read()
        at_least = room_at_least(uuid, reading, leases, self.rules)
        if at_least >= 0:
            return at_least
        own = self.leases[uuid]
        for lease, held in list(sightings(own.values(), uuid, reading)):
            self._promptness.seen(lease, uuid, held, self._clock())
            if not self.rules.inherit_held:
                own[lease.slot] = lowered(lease, uuid, reading)
        return room(uuid, reading, leases, self.rules)

    def confirm(self, slot: str, holder: Holder) -> bool:
        """The slot's process is ready: False where the memory is not there any more."""
        uuid = self._places[slot]
        leases = self.leases[uuid]
        self._holders[slot] = holder
        leases[slot] = msgspec.structs.replace(leases[slot], holder=holder, baseline=(self.devices[uuid].held[holder],))
        self._promptness.begins(leases[slot])
        if self.room(uuid, list(leases.values())) >= 0:
            return True
        self._pend(slot)
        return False

    def finished(self, slot: str, *, pid: int | None) -> None:
        self._ended.add(slot)
        self._promptness.ended(slot, self._clock())

    def flush(self) -> None:
        for slot in list(self._ended):
            self._finish(slot)

    def _finish(self, slot: str) -> None:
        if slot in self._ended:
            self._ended.discard(slot)
            self._pend(slot)

    def _pend(self, slot: str) -> None:
        leases = self.leases[self._places[slot]]
        lease = leases.get(slot)
        if lease is not None and lease.state is LeaseState.ACTIVE:
            leases[slot] = msgspec.structs.replace(lease, state=LeaseState.RELEASE_PENDING)
            self._pending[slot] = lease.group

    def gone(self, slot: str) -> None:
        self._holders.pop(slot, None)
        self._promptness.forget(slot)
        self._finish(slot)
        self._pend(slot)

    def note_context(self, slot: str, nbytes: int) -> None:
        uuid = self._places[slot]
        self._contexts[uuid] = max(int(nbytes * CONTEXT_FACTOR), self._contexts.get(uuid, 0))

    def succeeded(self, label: str, slot: str) -> None:
        self.policy.case_succeeded(label, self._places[slot], slot)

    def failed(self, label: str, slot: str, setback: Setback, now: float) -> float:
        self._promptness.ran_out(slot)
        return self.policy.case_failed(label, self._places[slot], slot, setback, now)

    def wants_restart(self, slot: str) -> bool:
        wanted = self.policy.wants_restart(slot)
        if wanted:
            self.policy.slot_restarted(slot)
        return wanted

    def take_lost(self) -> dict[str, str]:
        return {}

    def under_pressure(self, now: float, *, waiting: int, busy: int) -> bool:
        return self.policy.under_pressure(now, waiting=waiting, busy=busy)

    def housekeep(self, now: float) -> None:
        if now < self._next_settle:
            return
        self._next_settle = now + _SETTLE_EVERY
        pending = [self.leases[uuid][slot] for slot, uuid in self._pending.items()]
        free = {uuid: self.devices[uuid].free for uuid in self._pending.values()}
        for lease in self._settling.settled(now, pending, free):
            del self.leases[lease.group][lease.slot]
            del self._pending[lease.slot]


class FullLeases(SimulatedAdmission):
    """What tools do today: every lease counts in full on top of what its process already uses."""

    def room(self, uuid: str, leases: Sequence[Lease]) -> int:
        """Bytes left when all leases count in full."""
        device = self.devices[uuid]
        return device.free - self.rules.reserve_of(device.total) - promised(uuid, leases)
