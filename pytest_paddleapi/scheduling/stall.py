"""When nothing has moved for too long. Pure: time and beats are passed in, a step comes out."""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["LEAST_LIMIT", "Beat", "StallClock", "Step", "stall_limit"]

#: Seconds. Whatever the time limit of a case: start-ups and waiting for memory take minutes too.
LEAST_LIMIT = 1800.0

#: Seconds from one look to the next, at most. Costs nothing, and is soon enough for limits of minutes.
LOOK_SECONDS = 10.0

#: So much of the time between two looks counts at most. A look that is later than this was not late because nothing
#: moved, but because the process (Ctrl-Z, a debugger) or the machine was stopped; and then no case could move either.
_MOST_COUNTED = 3 * LOOK_SECONDS


class Step(enum.Enum):
    """What the watchdog has to do after a look."""

    WAIT = "wait"
    #: Nothing has moved: report, stop the run, kill the slots. Once.
    ALARM = "alarm"
    #: The main thread did not come back after that: end the process.
    EXIT = "exit"


@dataclass(frozen=True, slots=True)
class Beat:
    """A dispatch or a verdict, at ``time``. ``active`` says whether something runs or waits from then on."""

    time: float
    active: bool


def stall_limit(timeout: float, chosen: float | None = None) -> float | None:
    """Seconds without a dispatch or a verdict that are too many; None for never.

    Args:
        timeout: a case's time limit, in seconds.
        chosen: what the user asked for: None for the default, 0 for never.
    """
    if chosen is None:
        return max(2 * timeout, LEAST_LIMIT)
    return chosen or None


class StallClock:
    """Counts how long nothing moved while something was running or waiting, and after an alarm how long it took.

    ``limit``: seconds of quiet that raise the alarm; ``grace``: seconds from the alarm to the end of the process.
    ``started``: the time now.
    """

    def __init__(self, limit: float, grace: float, started: float) -> None:
        self.limit = limit
        self.grace = grace
        #: Seconds that were quiet, up to the last look.
        self.quiet = 0.0
        self._waited = 0.0
        self._looked = started
        self._seen: Beat | None = None
        self._alarmed = False

    def look(self, now: float, beat: Beat | None) -> Step:
        """What to do now; ``beat`` is the latest one, None where there was none yet."""
        passed = min(now - self._looked, _MOST_COUNTED)
        self._looked = now
        if self._alarmed:
            self._waited += passed
            return Step.EXIT if self._waited >= self.grace else Step.WAIT
        if beat is not self._seen:
            self._seen, self.quiet = beat, 0.0
            # The beat may be of a moment after the clock was read.
            passed = max(0.0, min(now - beat.time, _MOST_COUNTED)) if beat else 0.0
        if beat is None or not beat.active:
            return Step.WAIT
        self.quiet += passed
        self._alarmed = self.quiet >= self.limit
        return Step.ALARM if self._alarmed else Step.WAIT

    def answered(self, now: float) -> None:
        """The alarm's own work is done at ``now``; the main thread has ``grace`` seconds from here."""
        self._looked = now

    def wait(self) -> float:
        """Seconds until the next look makes sense."""
        left = self.grace - self._waited if self._alarmed else self.limit - self.quiet
        return max(0.0, min(LOOK_SECONDS, left))
