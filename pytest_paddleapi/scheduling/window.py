"""Waiting cases with what they need, found by size and by order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

__all__ = ["Window"]


class Window:
    """New cases by index, each with its admission bytes. Of those that need the same the first in order is found.

    Two sorted lists: at some thousand cases moving the rest of a list costs less than any tree would.
    """

    def __init__(self) -> None:
        self._needs: dict[int, int] = {}
        #: Bytes and the negative index, so that the first in order comes last among its like.
        self._by_need: list[tuple[int, int]] = []
        self._by_order: list[int] = []

    def __len__(self) -> int:
        return len(self._needs)

    def __contains__(self, case: int) -> bool:
        return case in self._needs

    def need(self, case: int) -> int:
        """Admission bytes of a case that is in here.

        Raises:
            KeyError: it is not.
        """
        return self._needs[case]

    def add(self, case: int, need: int) -> None:
        """Put a case in that is not in here."""
        self._needs[case] = need
        insort(self._by_need, (need, -case))
        insort(self._by_order, case)

    def remove(self, case: int) -> None:
        """Take a case out.

        Raises:
            KeyError: it is not in here.
        """
        need = self._needs.pop(case)
        del self._by_need[bisect_left(self._by_need, (need, -case))]
        del self._by_order[bisect_left(self._by_order, case)]

    def clear(self) -> None:
        """Take all out."""
        self._needs.clear()
        self._by_need.clear()
        self._by_order.clear()

    def largest(self, most: int | None) -> int | None:
        """The case that needs the most, of those that need no more than ``most`` bytes (None: of all)."""
        place = len(self._by_need) if most is None else bisect_right(self._by_need, (most, 0))
        return -self._by_need[place - 1][1] if place else None

    def smallest(self, most: int | None) -> int | None:
        """The case that needs the least; None if that is more than ``most`` bytes."""
        if not self._by_need or (most is not None and self._by_need[0][0] > most):
            return None
        return self.largest(self._by_need[0][0])

    def oldest(self, most: int | None) -> int | None:
        """The first in order of those that need no more than ``most`` bytes (None: of all)."""
        if most is None:
            return self._by_order[0] if self._by_order else None
        needs = self._needs
        return next((case for case in self._by_order if needs[case] <= most), None)
