"""The cases that wait, in file order, with the ones to be retried ahead of them."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice


class CaseQueue:
    """Pending cases by index. Time is given, never read.

    New cases keep the order in which they were given. A retry is put ahead of new cases once its
    delay is over. Taking a case out of the middle costs no more than skipping it later.
    """

    def __init__(self, cases: Iterable[int]) -> None:
        #: Ascending: a case is its place in the run, so that one can be found by bisection.
        self._fresh = sorted(cases)
        self._head = 0
        #: Places behind the head that are taken, each with a later place before which all are. A large case may stand
        #: at the head for long, while those behind it go.
        self._taken: dict[int, int] = {}
        self._retries: list[tuple[float, int, int]] = []
        #: Offered first of all, the last one first; then the due retries. Dicts, for they keep order and find at once.
        self._front: dict[int, None] = {}
        self._due: dict[int, None] = {}
        self._serial = 0
        #: Goes up when a case is offered that was not before.
        self.changes = 0

    def __len__(self) -> int:
        return self.ready + len(self._retries)

    @property
    def ready(self) -> int:
        """How many wait for nothing but memory; a retry does so since the first look after its delay."""
        return len(self._fresh) - self._head - len(self._taken) + self.ahead

    @property
    def ahead(self) -> int:
        """How many retries and cases that were put back are offered before all others."""
        return len(self._front) + len(self._due)

    def extend(self, cases: Iterable[int]) -> None:
        """Append cases that come after all that were given before.

        Raises:
            ValueError: one does not.
        """
        self.changes += 1
        for case in cases:
            if self._fresh and case <= self._fresh[-1]:
                raise ValueError(f"case {case} comes before one that the queue has")
            self._fresh.append(case)

    def retry(self, case: int, not_before: float) -> None:
        """Put a case back; it is offered again from ``not_before`` on."""
        self._serial += 1
        heapq.heappush(self._retries, (not_before, self._serial, case))

    def put_back(self, case: int) -> None:
        """Undo :meth:`take`: the case is offered next."""
        self._front[case] = None
        self.changes += 1

    def candidates(self, now: float, limit: int, skip: int = 0) -> list[int]:
        """Up to ``limit`` cases that may run now, best first, after passing over ``skip`` of them."""
        return list(islice(self.offers(now), skip, skip + limit))

    def offers(self, now: float) -> Iterator[int]:
        """Every case that may run now, best first. What is offered may be taken while others are looked at."""
        while self._retries and self._retries[0][0] <= now:
            self._due[heapq.heappop(self._retries)[2]] = None
            self.changes += 1
        return self._offers()

    def _offers(self) -> Iterator[int]:
        if self._front or self._due:
            yield from (*reversed(self._front), *self._due)
        yield from self.fresh()

    def fresh(self, after: int = -1) -> Iterator[int]:
        """The waiting cases that were neither retried nor put back, in their order, behind ``after``."""
        place = self._waiting_from(bisect_right(self._fresh, after, self._head) if after >= 0 else self._head)
        while place < len(self._fresh):
            yield self._fresh[place]
            place = self._waiting_from(place + 1)

    def is_offered(self, case: int) -> bool:
        """Whether the case waits, for nothing but memory."""
        if case in self._front or case in self._due:
            return True
        place = bisect_left(self._fresh, case, self._head)
        return place < len(self._fresh) and self._fresh[place] == case and place not in self._taken

    def _waiting_from(self, place: int) -> int:
        """The first place from here on that is not taken."""
        if place < self._head:
            place = self._head
        found = place
        while found in self._taken:
            found = self._taken[found]
        while place != found:  # whoever comes this way again gets there in one step
            self._taken[place], place = found, self._taken[place]
        return found

    def take(self, case: int) -> None:
        """Remove a case that :meth:`candidates` offered.

        Raises:
            ValueError: it is not waiting.
        """
        for ahead in (self._front, self._due):
            if case in ahead:
                del ahead[case]
                return
        place = self._head
        if place == len(self._fresh) or self._fresh[place] != case:
            place = bisect_left(self._fresh, case, self._head)
            if place in self._taken or place == len(self._fresh) or self._fresh[place] != case:
                raise ValueError(f"case {case} is not waiting")
        self._taken[place] = place + 1
        while self._head in self._taken:
            del self._taken[self._head]
            self._head += 1

    def next_retry(self) -> float | None:
        """When the first delayed case becomes due; None if none is delayed."""
        return self._retries[0][0] if self._retries else None

    def pending(self) -> Iterator[int]:
        """Every waiting case, delayed ones last; for messages."""
        yield from self._offers()
        yield from (case for _, _, case in sorted(self._retries))
