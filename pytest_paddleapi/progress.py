"""How far a run is: what is done and failed, how fast, how long the rest may take, and when to say so.

Lines are written now and then, as into a log, not over and over in one place: pytest's own dots, its progress and other
reporters have the screen. Time is passed in, so nothing here waits or reads a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .sharding import guess_seconds

__all__ = ["Progress", "ProgressRules", "duration"]


@dataclass(frozen=True)
class ProgressRules:
    """When a line is due: first after ``least`` seconds and ``cases`` cases, or after ``patience`` seconds; then
    whenever so many more cases take about as long, but not more often than ``least`` and not less than ``most``."""

    least: float = 60.0
    cases: int = 100
    patience: float = 300.0
    most: float = 1800.0

    @classmethod
    def at_least(cls, seconds: float) -> ProgressRules:
        """The same in proportion, with other seconds than 60."""
        return cls(seconds, cls.cases, 5 * seconds, 30 * seconds)


class Progress:
    """Of one run. ``recorded`` is asked once, when the first line is due, for what cases took in earlier runs:
    seconds by canonical config. ``clock`` values are seconds that never go back."""

    def __init__(self, rules: ProgressRules, recorded: Callable[[], Mapping[str, float]]) -> None:
        self._rules = rules
        self._recorded = recorded
        self._costs: Mapping[str, float] | None = None
        self._cases: Sequence[str] = ()
        self._scale = 1.0
        self._total = 0.0
        self._done: list[str] = []
        self._seen = 0
        self._spent = 0.0
        self._began: float | None = None
        self._last: float | None = None
        self.failed = 0

    @property
    def done(self) -> int:
        """Cases that have their verdict."""
        return len(self._done)

    def begin(self, cases: Sequence[str], now: float) -> None:
        """The run begins, with these cases (canonical texts)."""
        self._cases = cases
        self._began = now

    def add(self, canonical: str, *, failed: bool) -> None:
        """A case has its final verdict."""
        self._done.append(canonical)
        self.failed += failed

    def line(self, now: float, memory: Callable[[], str]) -> str:
        """The line that is due now, or nothing; ``memory`` is only asked where there is one."""
        if not self._is_due(now):
            return ""
        self._last = now
        assert self._began is not None
        elapsed = now - self._began
        parts = [f"{self.done} of {len(self._cases)} cases done", f"{self.failed} failed"]
        parts += [_rate(self.done / elapsed)] if self.done else []
        left = self._left(elapsed)
        parts += [] if left is None else [f"about {duration(left)} left"]
        held = memory()
        return f"{', '.join(parts)}{f'; {held}' if held else ''}"

    # ----------------------------------------------------------------------------------------

    def _is_due(self, now: float) -> bool:
        rules = self._rules
        if self._began is None or self.done >= len(self._cases):
            return False
        elapsed = now - self._began
        if self._last is None:
            return elapsed >= rules.patience or (elapsed >= rules.least and self.done >= rules.cases)
        wanted = elapsed / self.done * rules.cases if self.done else rules.most
        return now - self._last >= min(max(wanted, rules.least), rules.most)

    def _left(self, elapsed: float) -> float | None:
        """Seconds that the rest may take: as the part that is done took, by what each case is known or guessed to
        cost. Where they are all alike, that is the rate."""
        if not self.done:
            return None
        if self._costs is None:
            self._costs = self._recorded()
            self._scale = self._fitted(self._costs)
            self._total = sum(map(self._cost, self._cases))
        for canonical in self._done[self._seen :]:
            self._spent += self._cost(canonical)
        self._seen = self.done
        return elapsed * max(self._total - self._spent, 0.0) / self._spent

    def _fitted(self, costs: Mapping[str, float]) -> float:
        """What guesses must be multiplied by, to stand beside what was recorded on who knows what machine."""
        known = [case for case in self._cases if case in costs]
        recorded = sum(costs[case] for case in known)
        return recorded / sum(map(guess_seconds, known)) if recorded else 1.0

    def _cost(self, canonical: str) -> float:
        assert self._costs is not None
        recorded = self._costs.get(canonical)
        return guess_seconds(canonical) * self._scale if recorded is None else max(recorded, _LEAST_COST)


#: Seconds: even a crash at once is never free.
_LEAST_COST = 0.001


def _rate(per_second: float) -> str:
    if per_second >= 0.5:
        return f"{per_second:.1f} a second"
    if per_second * 60 >= 0.5:
        return f"{per_second * 60:.1f} a minute"
    return f"{per_second * 3600:.1f} an hour"


def duration(seconds: float) -> str:
    """As people say it, in two units at most: ``40 s``, ``7 min``, ``3 h 20 min``, ``2 d 5 h``."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{round(seconds)} s"
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} d {hours % 24} h"
