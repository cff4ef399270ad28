"""What the engine asks of an order: which of the waiting cases a slot is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from .candidates import Candidate
from .dispatching import Grant, NoRoom

__all__ = ["DEEP_LOOK_EVERY", "DEEP_WINDOW", "Ask", "Look", "Order", "Pick"]

#: Where nothing in a first window fits on a group, so many more cases are looked at, at most every so many seconds.
DEEP_WINDOW, DEEP_LOOK_EVERY = 8192, 5.0

#: Asks for a candidate's memory on one slot.
Ask: TypeAlias = Callable[[Candidate], "Grant | NoRoom"]
#: Gives what a waiting case needs; None where that is not known yet, or where it fits nowhere and was taken out.
Look: TypeAlias = Callable[[int], "Candidate | None"]


class Pick(NamedTuple):
    """A case that a slot is given, and its memory. Whoever gets it takes the case out of the queue."""

    candidate: Candidate
    grant: Grant


class Order(Protocol):
    """Which waiting case is asked for next. Time is given, in seconds, never read."""

    @property
    def unready(self) -> bool:
        """Some case that was looked at has no estimate yet."""

    def look(self, now: float, slots: int) -> None:
        """Begin a round with so many slots in all: see what has come since the last one."""

    def pick(self, group: str, ask: Ask, *, warm: bool) -> Pick | None:
        """The case for a slot of the group; None if none fits. ``warm``: it can begin at once, in a process that
        is there; without one, the lease lies idle while a process starts."""

    def follower(self, group: str, lease_bytes: int, now: float) -> int | None:
        """The case to be tried first under a lease of this size once its present case has ended; None if none waits."""

    def followed(self, group: str, case: int) -> None:
        """The follower was taken out of the queue."""

    def forget(self) -> None:
        """What fits where has changed: look at every case anew."""
