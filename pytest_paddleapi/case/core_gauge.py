"""How fast the core is that this thread runs on, and whether it was taken away meanwhile.

A core has no speed of its own. Where its other hardware thread is busy, or another guest of a virtual machine,
everything takes up to twice as long, for seconds at a time, and no count of the operating system shows it. So a few
microseconds of fixed arithmetic are timed again and again; at their fastest, the core is free. (Measured on such a
machine, over 200 times of two sessions in which nothing had changed: medians of quiet samples differed by 3 %, of
others by 50 %.)
"""

from __future__ import annotations

import math
import resource
import time

#: Rounds of the loop: about 15 µs, long beside the clock's resolution.
_ROUNDS = 300
#: Runs that look for the core's best, in a few milliseconds, before anything is measured.
_FIRST_RUNS = 200
#: Seconds; the shortest slice that Linux gives a thread by default.
_INTERRUPTION = 0.00075


class CoreGauge:
    """Times a fixed piece of work on the core that this thread is on."""

    def __init__(self) -> None:
        #: The fewest seconds that it ever took.
        self.best = math.inf
        for _ in range(_FIRST_RUNS):
            self.seconds()

    def seconds(self) -> float:
        """One run, in seconds."""
        start = time.perf_counter()
        total = 0
        for number in range(_ROUNDS):
            total += number * number
        passed = time.perf_counter() - start
        self.best = min(self.best, passed)
        return passed

    @staticmethod
    def waited() -> float:
        """Seconds that this thread was ready to run, since it began, while its core was another's.

        Second field of ``/proc/thread-self/schedstat``. Where the kernel keeps no such account, an interruption
        (getrusage(2), ``ru_nivcsw``) counts as the shortest time that one usually lasts.
        """
        try:
            with open("/proc/thread-self/schedstat", "rb") as file:
                return int(file.read().split()[1]) / 1e9
        except (OSError, IndexError):
            return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw * _INTERRUPTION
