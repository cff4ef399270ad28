"""Which waiting cases are worth asking memory for.

A case that needs as much as one that was just refused is refused too. So of the waiting cases, in their order, only
those matter which need less than every one before them. They are the same for every slot, and are found once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple


class Candidate(NamedTuple):
    """A waiting case and its admission bytes; one that has ``grown`` is asked for whatever was refused before."""

    case: int
    need: int
    grown: bool


class Candidates:
    """The waiting cases, as long as none comes in between, read from ``offers`` no further than somebody looks.

    Args:
        offers: the waiting cases, best first. One may be taken out while others are looked at.
        ahead: how many of them, at the beginning, may have grown.
        look: gives a case's candidate; None where it fits nowhere and has been taken out.
        least: bytes that every case needs at least. Behind one that needs no more, nothing need be looked at.
    """

    def __init__(self, offers: Iterator[int], ahead: int, look: Callable[[int], Candidate | None], least: int) -> None:
        self._offers = offers
        self._ahead = ahead
        self._look = look
        self._least = least
        #: None in the place of one that was taken.
        self._read: list[Candidate | None] = []
        #: Places in ``_read`` of those that matter, ascending; and up to where it was searched for them.
        self._steps: list[int] = []
        self._searched = 0
        self._passed = self._taken = 0

    def step(self, number: int, window: int) -> Candidate | None:
        """The ``number``-th of those that matter, among the first ``window`` that wait; None if there are fewer."""
        while len(self._steps) <= number:
            if not self._find(window):
                return None
        return self._read[self._steps[number]]

    def take(self, number: int) -> None:
        """The ``number``-th of those that matter waits no more: what it hid may matter now."""
        place = self._steps.pop(number)
        taken, self._read[place] = self._read[place], None
        assert taken is not None
        self._taken += 1
        # It hid none behind the next one that needs less; those between that matter anyway have grown.
        last, end = number, self._searched
        for last in range(number, len(self._steps) + 1):
            end = self._steps[last] if last < len(self._steps) else self._searched
            found = self._read[end] if last < len(self._steps) else None
            if found is not None and found.need < taken.need:
                break
        self._steps[number:last] = self._matter(place + 1, end, self._below(number))

    def _matter(self, begin: int, end: int, below: int | None) -> list[int]:
        """Places from ``begin`` to before ``end`` of those that matter behind one that needs ``below``."""
        places: list[int] = []
        for place in range(begin, end):
            found = self._read[place]
            if found is not None and (below is None or found.need < below or found.grown):
                places.append(place)
                below = found.need if below is None else min(below, found.need)
        return places

    def _below(self, number: int) -> int | None:
        """The least that one of the first ``number`` of those that matter needs."""
        read = self._read
        return min((found.need for place in self._steps[:number] if (found := read[place]) is not None), default=None)

    def _find(self, window: int) -> bool:
        below = self._below(len(self._steps))
        while self._searched < len(self._read) or self._read_on(window, below):
            place = self._searched
            self._searched += 1
            found = self._read[place]
            if found is not None and (below is None or found.need < below or found.grown):
                self._steps.append(place)
                return True
        return False

    def _read_on(self, window: int, below: int | None) -> bool:
        """Read one more; False where none is left that could matter."""
        while self._passed < window + self._taken:
            if below is not None and below <= self._least and self._passed >= self._ahead:
                return False
            case = next(self._offers, None)
            if case is None:
                return False
            self._passed += 1
            found = self._look(case)
            if found is not None:
                self._read.append(found)
                return True
        return False
