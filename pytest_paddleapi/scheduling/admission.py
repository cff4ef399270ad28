"""The engine's view of the ledger: one group of slots on one device."""

from __future__ import annotations

import time
from pathlib import Path

from ..devices.model import Device
from ..gpu_admission import (
    AdmissionRules,
    Granted,
    Group,
    LeaseError,
    LeaseState,
    Ledger,
    LedgerBusyError,
    LedgerWriteError,
    Policy,
    Refusal,
    Refused,
    Setback,
    Slot,
)
from .engine import Grant

#: Settling is looked at this often; its own rule wants samples a second apart.
_SETTLE_EVERY = 0.5


class LedgerAdmission:
    """:class:`~.engine.Admission` over a real ledger.

    Raises:
        LedgerError: the ledger's folder cannot be used.
        DeviceReadingError: the device's memory cannot be read.
    """

    def __init__(
        self,
        device: Device,
        *,
        workers: int,
        folder: Path | None = None,
        rules: AdmissionRules | None = None,
        label: str = "",
    ) -> None:
        self.rules = rules or AdmissionRules()
        self.group = Group(device.uuid, (device.uuid,))
        self.ledger = Ledger([device], folder=folder, rules=self.rules, label=label)
        self.policy = Policy({self.group.name: workers}, self.rules)
        #: The most that one case can ever be given, in bytes.
        self.capacity = self.ledger.usable(self.group.devices)
        self._pids: dict[str, int] = {}
        #: Slots whose case has ended while the ledger still says that it is active.
        self._ended: set[str] = set()
        self._next_settle = 0.0
        #: Why the ledger could not be written when it was last tried; "" where it could.
        self.trouble = ""

    def close(self) -> None:
        """Give every lease back."""
        self.ledger.close()

    # engine.Admission -----------------------------------------------------------------------

    def need(self, estimate: int) -> int:
        """Admission bytes by SPEC's rule."""
        return self.policy.admission_bytes(estimate)

    def is_oversize(self, need: int) -> bool:
        """True where the device could never admit that much."""
        return self.policy.is_oversize(need, [self.capacity])

    def target(self, slots: int) -> int:
        """The group's concurrency target."""
        return self.policy.target(self.group.name)

    def reserve(self, slot: str, label: str, need: int, *, grown: bool) -> Grant | None:
        """Promise memory, in one step with giving up the slot's last lease.

        None also where the ledger cannot be written just now, which :attr:`trouble` tells.
        """
        try:
            grant = self._reserve(slot, label, need, grown=grown)
        except (LedgerWriteError, LedgerBusyError) as exc:
            self.trouble = str(exc)
            self._ended.add(slot)  # whatever it was promised, no case runs under it
            return None
        self.trouble = ""
        return grant

    def _reserve(self, slot: str, label: str, need: int, *, grown: bool) -> Grant | None:
        size = min(need, self.capacity) if grown else need
        answer = self._ask(slot, label, size)
        if not isinstance(answer, Granted):
            room = answer.available if answer.reason is Refusal.MEMORY else None
            if not grown or room is None or room < self.rules.minimum_bytes or not self._only(slot):
                return None
            # Nobody else has a promise, so this is all that the device can give now.
            answer = self._ask(slot, label, room)
            if not isinstance(answer, Granted):
                return None
            return Grant(room, True)
        pid = self._pids.get(slot)
        if pid is not None and (answer.lease.holder is None or answer.lease.holder.pid != pid):
            try:
                self.ledger.attach(answer.lease, pid)
            except LeaseError:
                # The process died between two cases: until the next report the lease counts in full.
                del self._pids[slot]
        return Grant(size, size >= self.capacity)

    def _ask(self, slot: str, label: str, size: int) -> Granted | Refused:
        place = Slot(slot, self.group)
        ended = slot in self._ended
        self._ended.discard(slot)
        if self.ledger.lease_of(slot) is None:
            return self.ledger.reserve(place, label, size)
        return self.ledger.replace(place, label, size, reuse=True, ended=ended)

    def _only(self, slot: str) -> bool:
        sessions = self.ledger.snapshot().sessions
        return all(lease.slot == slot for state in sessions for lease in state.leases) and not any(
            state.unknown for state in sessions
        )

    def finished(self, slot: str, *, pid: int | None) -> None:
        """``release_pending`` until the memory is seen back or the slot's next case takes its place.

        The ledger hears of it with the next :meth:`reserve` for the slot, in one step, or in :meth:`flush`.
        """
        if pid is not None:
            self._pids[slot] = pid
        self._ended.add(slot)

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
        self.finished(slot, pid=None)
        self.flush()

    def succeeded(self, label: str, slot: str) -> None:
        """Raise the target, in time."""
        self.policy.case_succeeded(label, self.group.name, slot)

    def failed(self, label: str, slot: str, setback: Setback, now: float) -> float:
        """Lower the target; the time of the next try."""
        return self.policy.case_failed(label, self.group.name, slot, setback, now)

    def wants_restart(self, slot: str) -> bool:
        """Once, after two deferrals in a row."""
        wanted = self.policy.wants_restart(slot)
        if wanted:
            self.policy.slot_restarted(slot)
        return wanted

    def under_pressure(self, now: float, *, waiting: int, busy: int) -> bool:
        """SPEC's pressure timeout."""
        return self.policy.under_pressure(now, waiting=waiting, busy=busy)

    def housekeep(self, now: float) -> None:
        """Settle what is pending."""
        if now >= self._next_settle:
            self._next_settle = now + _SETTLE_EVERY
            if any(lease.state is LeaseState.RELEASE_PENDING for lease in self.ledger.leases):
                try:
                    self.ledger.settle(time.monotonic())
                except (LedgerWriteError, LedgerBusyError) as exc:
                    self.trouble = str(exc)
