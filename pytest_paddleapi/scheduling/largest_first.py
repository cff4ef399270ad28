"""The largest waiting case that fits, so that memory is full from the first and small cases fill what is left.

Retries and cases that were put back go ahead of all, as in the order of the queue. Of the new cases those in a window
at the head of the queue are known by size. What is refused says how much there is, so that the next one asked for is
the largest that fits in it.

A slot without a process gets the smallest instead: nobody can use its lease for the seconds that a process takes to
start.

Nothing waits for ever: of the new cases that a group starts, every :data:`OLDEST_EVERY`-th is the first in the
order of the queue that fits there, and where processes keep dying every :data:`OLDEST_EVERY_COLD`-th. So a case with
``p`` others before it has started after at most ``OLDEST_EVERY_COLD * (p + 1)`` starts of new cases on a device where
it fits at every one of them, whatever is added behind it.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from itertools import islice

from .candidates import Candidate, Candidates
from .dispatching import Grant
from .ordering import DEEP_LOOK_EVERY, DEEP_WINDOW, Ask, Look, Pick
from .queue import CaseQueue
from .window import Window

__all__ = ["LARGEST_FIRST_WINDOW", "MOST_TRIES", "OLDEST_EVERY", "OLDEST_EVERY_COLD", "LargestFirst"]

#: New cases that are known by size. A device has some tens of slots at most, so of so many some fit it well.
LARGEST_FIRST_WINDOW = 2048
#: Of a group's starts every so-manyth is for the first in order. A slot without a process leaves that to others for
#: longer: it would keep the lease of a large case idle.
OLDEST_EVERY, OLDEST_EVERY_COLD = 16, 64
#: New cases asked for at most for one slot in one look. Two are enough where nobody else takes memory meanwhile.
MOST_TRIES = 13
#: Cases without an estimate that are looked at again in one round: the estimator gives some at a time.
_UNREADY_A_ROUND = 256


class LargestFirst:
    """:class:`.ordering.Order` by size; see above."""

    def __init__(self, queue: CaseQueue, look: Look) -> None:
        self._queue = queue
        self._look_at = look
        self._now = 0.0
        self._until = 0.0
        self._change = -1
        #: Retries and what was put back, which are asked for in their order.
        self._ahead = Candidates(iter(()), 0, look, 0)
        self._window = Window()
        self._unready: deque[int] = deque()
        #: The new cases behind the last one that was read.
        self._more: Iterator[int] = iter(())
        self._last = -1
        self._next_deep_look: dict[str, float] = {}
        #: New cases started since the last one whose turn it was, by group.
        self._since_oldest: Counter[str] = Counter()

    @property
    def unready(self) -> bool:
        """Some case that was looked at has no estimate yet."""
        return bool(self._unready)

    def look(self, now: float, slots: int) -> None:
        """As in :class:`.Order`."""
        self._now = now
        if now >= self._until:
            self.forget()
            self._until = now + DEEP_LOOK_EVERY
        offers = self._queue.offers(now)
        if self._queue.changes != self._change:
            self._change = self._queue.changes
            ahead = self._queue.ahead
            self._ahead = Candidates(islice(offers, ahead), ahead, self._look_at, 0)
            self._more = self._queue.fresh(self._last)
        for _ in range(min(len(self._unready), _UNREADY_A_ROUND)):
            self._see(self._unready.popleft())
        self._read(LARGEST_FIRST_WINDOW)

    def _see(self, case: int) -> None:
        if not self._queue.is_offered(case):
            return
        found = self._look_at(case)
        if found is not None:
            self._window.add(case, found.need)
        elif self._queue.is_offered(case):
            self._unready.append(case)

    def _read(self, window: int) -> bool:
        """Read new cases until so many are known; False if there were none to read."""
        before = self._last
        while len(self._window) + len(self._unready) < window:
            case = next(self._more, None)
            if case is None:
                break
            self._last = case
            self._see(case)
        return self._last != before

    def pick(self, group: str, ask: Ask, *, warm: bool) -> Pick | None:
        """As in :class:`.Order`."""
        most: int | None = None
        number = 0
        while (candidate := self._ahead.step(number, sys.maxsize)) is not None:
            number += 1
            if most is not None and candidate.need > most and not candidate.grown:
                continue
            answer = ask(candidate)
            if isinstance(answer, Grant):
                self._ahead.take(number - 1)
                return Pick(candidate, answer)
            if not candidate.grown:
                most = candidate.need - 1
            if answer.available is not None:
                most = answer.available if most is None else min(most, answer.available)
        return self._pick_new(group, ask, self._chooser(group, warm), most)

    def _chooser(self, group: str, warm: bool) -> Callable[[int | None], int | None]:
        if self._is_turn_of_oldest(group, warm):
            return self._window.oldest
        return self._window.largest if warm else self._window.smallest

    def _pick_new(
        self, group: str, ask: Ask, choose: Callable[[int | None], int | None], most: int | None
    ) -> Pick | None:
        self._read(LARGEST_FIRST_WINDOW)
        tries = 0
        while tries < MOST_TRIES:
            tries += 1
            # If the last one does not fit, none does.
            case = choose(most) if tries < MOST_TRIES else self._window.smallest(most)
            if case is None:
                if most is None or not self._look_deeper(group):
                    return None
                continue
            candidate = Candidate(case, self._window.need(case), False)
            answer = ask(candidate)
            if isinstance(answer, Grant):
                self._window.remove(case)
                self._started(group, choose == self._window.oldest)
                return Pick(candidate, answer)
            if answer.available is None:
                return None  # not for want of memory: the next would be refused too
            most = min(answer.available, candidate.need - 1)
        return None

    def _look_deeper(self, group: str) -> bool:
        """Nothing that is known fits: read on, now and then; False if that found none."""
        if self._now < self._next_deep_look.get(group, 0.0):
            return False
        self._next_deep_look[group] = self._now + DEEP_LOOK_EVERY
        return self._read(LARGEST_FIRST_WINDOW + DEEP_WINDOW)

    def _is_turn_of_oldest(self, group: str, warm: bool) -> bool:
        return self._since_oldest[group] + 1 >= (OLDEST_EVERY if warm else OLDEST_EVERY_COLD)

    def _started(self, group: str, turn: bool) -> None:
        self._since_oldest[group] = 0 if turn else self._since_oldest[group] + 1

    def follower(self, group: str, lease_bytes: int, now: float) -> int | None:
        """The largest that fits under the lease, unless it is another one's turn."""
        first = next(self._queue.offers(now), None)
        if self._queue.ahead or self._is_turn_of_oldest(group, True):
            return first
        return self._window.largest(lease_bytes)

    def followed(self, group: str, case: int) -> None:
        """As in :class:`.Order`."""
        if case in self._window:
            self._window.remove(case)
            self._started(group, self._is_turn_of_oldest(group, True))
        else:
            self._change = -1

    def forget(self) -> None:
        """As in :class:`.Order`."""
        self._window.clear()
        self._unready.clear()
        self._last = self._change = -1
