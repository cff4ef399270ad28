"""The states of a slot, and when one may be started again. Pure: the time is passed in."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .errors import SlotStateError


class SlotState(str, enum.Enum):
    """Where the life of a slot's process stands."""

    DEAD = "dead"
    STARTING = "starting"
    LOADED = "loaded"
    PREPARING = "preparing"
    IDLE = "idle"
    BUSY = "busy"
    SUSPENDED = "suspended"
    RETIRED = "retired"
    QUARANTINED = "quarantined"


_S = SlotState
_FINAL = {_S.RETIRED, _S.QUARANTINED}
#: What may follow each state. A process may die in any of them.
TRANSITIONS: dict[SlotState, frozenset[SlotState]] = {
    _S.DEAD: frozenset({_S.STARTING, *_FINAL}),
    _S.STARTING: frozenset({_S.LOADED, _S.DEAD, *_FINAL}),
    _S.LOADED: frozenset({_S.PREPARING, _S.SUSPENDED, _S.DEAD, *_FINAL}),
    _S.PREPARING: frozenset({_S.IDLE, _S.LOADED, _S.DEAD, *_FINAL}),
    _S.IDLE: frozenset({_S.BUSY, _S.LOADED, _S.SUSPENDED, _S.DEAD, *_FINAL}),
    _S.BUSY: frozenset({_S.IDLE, _S.LOADED, _S.SUSPENDED, _S.DEAD, *_FINAL}),
    _S.SUSPENDED: frozenset({_S.STARTING, _S.PREPARING, _S.DEAD, *_FINAL}),
    _S.RETIRED: frozenset({_S.QUARANTINED}),
    _S.QUARANTINED: frozenset(),
}


@dataclass(frozen=True)
class StartRules:
    """Seconds to wait after the n-th failed start in a row, and how many retire the slot (0: never).

    ``retire_undone`` counts starts that worked, but whose memory was gone when it was read again. ``spare_delay`` is
    how many seconds after a case process is ready the next spare begins to load: at the start of a session all cores
    are for the cases.
    """

    waits: tuple[float, ...] = (5.0, 15.0, 30.0, 60.0)
    retire_after: int = 5
    retire_undone: int = 3
    spare_delay: float = 3.0


class SlotLife:
    """One slot's state and its record of failed starts."""

    def __init__(self, rules: StartRules | None = None) -> None:
        self.rules = rules or StartRules()
        self.state = SlotState.DEAD
        self.failures = 0
        self.undone = 0
        #: No new start before this time.
        self.retry_at = 0.0

    def to(self, state: SlotState) -> None:
        """Move on.

        Raises:
            SlotStateError: the present state does not lead there.
        """
        if state not in TRANSITIONS[self.state]:
            raise SlotStateError(f"a slot cannot go from {self.state.value} to {state.value}")
        self.state = state

    def died(self) -> None:
        """The process is gone; a retired or quarantined slot stays what it is."""
        if self.state not in _FINAL and self.state is not SlotState.DEAD:
            self.to(SlotState.DEAD)

    def start_failed(self, now: float) -> None:
        """A start came to nothing: wait, or retire."""
        self.died()
        self.failures += 1
        if self.rules.retire_after and self.failures >= self.rules.retire_after:
            self.retire()
        else:
            self.retry_at = now + self.rules.waits[min(self.failures, len(self.rules.waits)) - 1]

    def retire(self) -> None:
        """It will not be started again."""
        if self.state not in _FINAL:
            self.to(SlotState.RETIRED)

    def quarantine(self) -> None:
        """Its device is lost; so is the slot, also if it was retired for this very failure."""
        if self.state is not SlotState.QUARANTINED:
            self.to(SlotState.QUARANTINED)

    def start_succeeded(self) -> None:
        """The process is ready: the record is clean."""
        self.failures = 0
        self.retry_at = 0.0

    def start_undone(self) -> None:
        """A start worked for nothing: its memory was gone before a case could be sent. Suspended, or retired."""
        self.undone += 1
        retire = self.rules.retire_undone and self.undone >= self.rules.retire_undone
        self.to(SlotState.RETIRED if retire else SlotState.SUSPENDED)

    def case_begins(self) -> None:
        """A case is sent: the slot serves."""
        self.to(SlotState.BUSY)
        self.undone = 0
