"""The first waiting case that fits, in the order of the queue."""

from __future__ import annotations

from .candidates import Candidate, Candidates
from .dispatching import Grant
from .ordering import DEEP_LOOK_EVERY, DEEP_WINDOW, Ask, Look, Pick
from .queue import CaseQueue

__all__ = ["FirstFit"]

#: Candidates looked at for one slot in every round.
FIRST_WINDOW, FIRST_WINDOW_PER_SLOT = 64, 32
#: More slots than this see no more cases: with thousands of them the look would cost more than it finds.
MOST_FIRST_WINDOW = 2048


class FirstFit:
    """:class:`.ordering.Order` that looks past cases which do not fit, no further than a window, and now and then a
    deeper one. ``least`` is what every case needs at least, in bytes."""

    def __init__(self, queue: CaseQueue, look: Look, least: int) -> None:
        self._queue = queue
        self._look_at = look
        self._least = least
        self._now = 0.0
        self._window = FIRST_WINDOW
        #: Kept while no case comes in between, as of which change of the queue. Estimates may get better: it is made
        #: anew now and then.
        self._candidates: Candidates | None = None
        self._change = 0
        self._until = 0.0
        self._next_deep_look: dict[str, float] = {}
        self.unready = False

    def look(self, now: float, slots: int) -> None:
        """As in :class:`.Order`."""
        self._now = now
        self._window = min(MOST_FIRST_WINDOW, max(FIRST_WINDOW, FIRST_WINDOW_PER_SLOT * slots))
        offers = self._queue.offers(now)
        stale = now >= self._until or self._queue.changes != self._change
        if self._candidates is None or stale or self.unready:
            self.unready = False
            self._until = now + DEEP_LOOK_EVERY
            self._change = self._queue.changes
            self._candidates = Candidates(offers, self._queue.ahead, self._see, self._least)

    def _see(self, case: int) -> Candidate | None:
        found = self._look_at(case)
        if found is None and self._queue.is_offered(case):
            self.unready = True
        return found

    def pick(self, group: str, ask: Ask, *, warm: bool) -> Pick | None:
        """As in :class:`.Order`; a cold slot gets what a warm one would."""
        candidates, window = self._candidates, self._window
        if candidates is None:
            return None
        deep = False
        number = 0
        while True:
            candidate = candidates.step(number, window)
            if candidate is None:
                if deep or number == 0 or self._now < self._next_deep_look.get(group, 0.0):
                    return None
                self._next_deep_look[group] = self._now + DEEP_LOOK_EVERY
                deep = True
                window += DEEP_WINDOW
                continue
            answer = ask(candidate)
            if isinstance(answer, Grant):
                candidates.take(number)
                return Pick(candidate, answer)
            number += 1

    def follower(self, group: str, lease_bytes: int, now: float) -> int | None:
        """The first that waits."""
        return next(self._queue.offers(now), None)

    def followed(self, group: str, case: int) -> None:
        """As in :class:`.Order`."""
        self._candidates = None

    def forget(self) -> None:
        """As in :class:`.Order`."""
        self._candidates = None
