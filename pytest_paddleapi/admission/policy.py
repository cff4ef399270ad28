"""Which case may ask for memory when, and how much. Pure: time and outcomes are passed in, nothing is read."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .rules import AdmissionRules

__all__ = ["Policy", "Setback"]


class Setback(str, enum.Enum):
    """What lowers a group's target: a sign that too much runs there at once."""

    DEFERRED = "deferred"
    TIMEOUT = "timeout"
    CRASH = "crash"


@dataclass
class _Target:
    workers: int
    value: int
    successes: int = 0


@dataclass(frozen=True, slots=True)
class _Deferral:
    delay: float
    ready_at: float


class Policy:
    """The state of one session's admission. ``workers`` has the number of slots of each group.

    Seconds are of any clock that never goes back; the caller always passes the same one.

    Raises:
        ValueError: a group without workers.
    """

    def __init__(self, workers: Mapping[str, int], rules: AdmissionRules | None = None) -> None:
        self.rules = rules or AdmissionRules()
        empty = [group for group, count in workers.items() if count < 1]
        if empty:
            raise ValueError(f"groups without workers: {', '.join(empty)}")
        self._targets = {group: _Target(count, min(count, self.rules.first_target)) for group, count in workers.items()}
        self._deferrals: dict[str, _Deferral] = {}
        self._slots: dict[str, int] = {}
        self._stuck_since: float | None = None

    # -- how much

    def admission_bytes(self, estimate: int) -> int:
        """What a case with this estimate asks for; see :meth:`AdmissionRules.admission_bytes`."""
        return self.rules.admission_bytes(estimate)

    def is_oversize(self, size: int, usable: Iterable[int]) -> bool:
        """True if no group could ever admit ``size`` bytes; ``usable`` has each group's :meth:`Ledger.usable`."""
        return all(size > limit for limit in usable)

    # -- how many

    def target(self, group: str) -> int:
        """How many cases may run on ``group`` at once."""
        return self._targets[group].value

    def may_start(self, group: str, running: int) -> bool:
        """True if ``group``, with ``running`` cases that hold an active lease, may be given another."""
        return running < self._targets[group].value

    def case_succeeded(self, case: str, group: str, slot: str) -> None:
        """A case ended in the ordinary way, whatever its verdict: the memory that it was given was enough."""
        self._deferrals.pop(case, None)
        self._slots.pop(slot, None)
        target = self._targets[group]
        target.successes += 1
        if target.successes >= self.rules.successes_to_raise:
            target.successes = 0
            target.value = min(target.workers, target.value + 1)

    def case_failed(self, case: str, group: str, slot: str, setback: Setback, now: float) -> float:
        """A case was deferred, timed out or crashed; gives when it may be tried again (``now`` unless deferred)."""
        target = self._targets[group]
        target.successes = 0
        target.value = max(1, target.value - 1)
        if setback is not Setback.DEFERRED:
            self._deferrals.pop(case, None)
            self._slots.pop(slot, None)
            return now
        self._slots[slot] = self._slots.get(slot, 0) + 1
        return self._defer(case, now)

    # -- when again

    def _defer(self, case: str, now: float) -> float:
        before = self._deferrals.get(case)
        delay = self.rules.first_delay if before is None else min(before.delay * 2, self.rules.longest_delay)
        self._deferrals[case] = _Deferral(delay, now + delay)
        return now + delay

    def ready_at(self, case: str) -> float | None:
        """When a deferred case may be tried again; None if it is not deferred."""
        found = self._deferrals.get(case)
        return None if found is None else found.ready_at

    def forget(self, case: str) -> None:
        """The case has its final verdict or was dropped from the queue."""
        self._deferrals.pop(case, None)

    def wants_restart(self, slot: str) -> bool:
        """True if the slot's cases were deferred so often in a row that its own process is suspected."""
        return self._slots.get(slot, 0) >= self.rules.deferrals_to_restart

    def slot_restarted(self, slot: str) -> None:
        """The slot has a new process; it starts with a clean record."""
        self._slots.pop(slot, None)

    # -- when no more

    def under_pressure(self, now: float, *, waiting: int, busy: int) -> bool:
        """True once work has waited for the pressure timeout while nothing ran, started or ended.

        To be asked in every round: ``waiting`` cases want memory, ``busy`` slots run, start, or wait for memory to
        come back. A moment without either starts the time anew.
        """
        if waiting == 0 or busy > 0:
            self._stuck_since = None
            return False
        if self._stuck_since is None:
            self._stuck_since = now
        return now - self._stuck_since >= self.rules.pressure_seconds
