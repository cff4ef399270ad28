"""How long a call takes: when to stop repeating it, and what its repetitions say.

The rule
--------

1. *Warm-up*: the call runs three times at least, and until a tenth of the limit has passed. Its fastest time says how
   long it takes about.
2. *Batches*: one measurement must last a hundred times as long as the clock needs to measure nothing at all, or the
   clock itself would be a good part of it. Shorter calls are measured several at a time, and each sample is the
   batch's time divided by the calls in it. Inputs that a call uses up are made anew for each call, before the clock
   starts.
3. *Samples* are taken until the median is known: its 95 % confidence interval is narrower than the share
   ``precision`` of it. At least 20 are needed for that, over a fifth of the limit. Whatever is reached by the limit of
   seconds, or by 5000 samples, is taken as it is, of slow calls three samples at least.
4. *A free core*: on the CPU a sample is quiet if the thread kept its core, and if a gauge of the core's speed
   (:mod:`.core_gauge`) that ran just before and after it took at most a tenth longer than at its best. Quiet samples
   are the only ones that count, if there are six. Where there are not, because the core was busy with something else
   up to the limit, all count, and ``slowdown`` says how much slower than at its best the core was.

The interval is by order statistics: the number of samples below the true median has a binomial distribution whatever
the times are distributed like, so two of the sorted samples enclose it with a known probability. Median, interval and
quantiles hardly move when a few samples are disturbed, by however much.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple, Protocol

from ..process.messages import TimingOptions
from .core_gauge import CoreGauge

#: Calls before a time counts: the first loads code and chooses an algorithm, the second may still fill a cache.
_WARM_UP_CALLS = 3
_WARM_UP_SHARE = 0.1
#: A sample lasts this many times the clock's resolution, so that the clock's own part is about 1 %.
_RESOLUTIONS = 100
#: With fewer samples the interval is wide or, if it is narrow, so by chance.
_LEAST_SAMPLES = 20
#: A call of 10 µs has its 20 samples in a millisecond. A core that is busy with something else stays so for longer.
_LEAST_SHARE = 0.2
#: Slow calls get no fewer; two tell nothing of an outlier.
_FEWEST_SAMPLES = 3
_MOST_SAMPLES = 5000
#: The interval is looked at each time when there are this much more samples: a look costs a sort, and every further
#: one is another chance for an interval that is narrow by luck.
_LOOK_GROWTH = 1.25
#: Seconds between two looks at the gauge, which takes 15 µs.
_GAUGE_EVERY = 0.0002
#: Of the gauge's best time. The scatter on a free core is 2 %; a busy sibling costs 50 to 100 %.
_QUIET = 1.1
#: Share of its time for which the thread may have waited for its core: less than what is worth telling apart.
_WAITED = 0.01
#: As many as an interval takes.
_LEAST_QUIET = 6
_CONFIDENCE = 0.95
_NORMAL_95 = 1.959964
#: Above it the binomial distribution is as good as normal (ranks differ by one at most).
_MOST_EXACT = 200


class Clock(Protocol):
    """Measures one run of something."""

    #: Seconds that a run of nothing seems to take.
    resolution: float
    #: Of the core that the work is done on; None where that is another device.
    gauge: CoreGauge | None

    def seconds(self, run: Callable[[], object]) -> float:
        """Run it and wait for its end: the device's time, or the host's."""
        ...


class Repeated(Protocol):
    """A call that can be made any number of times."""

    #: Calls in one batch at most.
    most: int

    def batch(self, count: int) -> Callable[[], object]:
        """What makes the call ``count`` times. What each call uses up is made here, which is not timed."""
        ...


class SameCall:
    """A call that may be made again with the same arguments."""

    most = 100_000

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call

    def batch(self, count: int) -> Callable[[], object]:
        """The call itself, or a loop of it."""
        call = self._call
        if count == 1:
            return call

        def loop() -> None:
            for _ in repeat(None, count):
                call()

        return loop


class FreshCall:
    """A call that changes or uses up its arguments: ``make`` binds new ones. At most ``most`` are made at a time."""

    def __init__(self, make: Callable[[], Callable[[], object]], most: int) -> None:
        self._make = make
        self.most = max(1, most)

    def batch(self, count: int) -> Callable[[], object]:
        """A loop over calls that are bound already."""
        calls = [self._make() for _ in range(count)]
        if count == 1:
            return calls[0]

        def loop() -> None:
            for call in calls:
                call()

        return loop


@dataclass(frozen=True)
class Timing:
    """Seconds of one call. ``low`` and ``high`` enclose the true median with 95 % confidence, if there are six samples;
    of fewer they are the least and the greatest."""

    median: float
    low: float
    high: float
    p10: float
    p25: float
    p75: float
    p90: float
    samples: int
    #: Calls in each sample.
    batch: int
    #: How much longer than at its best the core took while these samples were taken; 1 for quiet samples, None where
    #: the work was not done on the host's core.
    slowdown: float | None = None

    @property
    def quiet(self) -> bool:
        """Nothing was seen that disturbed the samples."""
        return self.slowdown is None or self.slowdown == 1.0

    @property
    def width(self) -> float:
        """Of the confidence interval, as a share of the median."""
        return (self.high - self.low) / self.median if self.median > 0 else 0.0

    @property
    def spread(self) -> float:
        """The distance of the quartiles, as a share of the median."""
        return (self.p75 - self.p25) / self.median if self.median > 0 else 0.0

    def properties(self, name: str) -> dict[str, int | float | str]:
        """As properties of an item: ``NAME_ms`` is the median; all times in milliseconds."""
        milliseconds = {
            "ms": self.median,
            "ms_low": self.low,
            "ms_high": self.high,
            "ms_p10": self.p10,
            "ms_p25": self.p25,
            "ms_p75": self.p75,
            "ms_p90": self.p90,
        }
        found: dict[str, int | float | str] = {f"{name}_{key}": rounded(v * 1e3) for key, v in milliseconds.items()}
        found[f"{name}_spread"] = rounded(self.spread)
        found[f"{name}_samples"] = self.samples
        found[f"{name}_batch"] = self.batch
        if self.slowdown is not None:
            found[f"{name}_slowdown"] = rounded(self.slowdown)
        return found


def rounded(value: float) -> float:
    """To six significant digits: more say nothing of a time."""
    return float(f"{value:.6g}")


def measure(call: Repeated, clock: Clock, options: TimingOptions) -> Timing:
    """Time a call by the rule above.

    Raises:
        Exception: whatever the call raises.
    """
    with _no_collection():
        fastest = _warm_up(call, clock, options)
        batch = min(call.most, max(1, math.ceil(_RESOLUTIONS * clock.resolution / max(fastest, 1e-9))))
        return _sample(call, clock, options, batch)


def _warm_up(call: Repeated, clock: Clock, options: TimingOptions) -> float:
    """Seconds of the fastest call."""
    start = time.perf_counter()
    fastest = math.inf
    calls = 0
    while True:
        fastest = min(fastest, clock.seconds(call.batch(1)))
        calls += 1
        passed = time.perf_counter() - start
        if passed >= options.seconds or (calls >= _WARM_UP_CALLS and passed >= _WARM_UP_SHARE * options.seconds):
            return fastest


class _Sample(NamedTuple):
    """Seconds of a call, of the slower of the two gauges around it, and whether the thread kept its core."""

    seconds: float
    gauge: float
    kept: bool


def _sample(call: Repeated, clock: Clock, options: TimingOptions, batch: int) -> Timing:
    start = time.perf_counter()
    samples: list[_Sample] = []
    look = _LEAST_SAMPLES
    before = clock.gauge.seconds() if clock.gauge is not None else 0.0
    while True:
        block, kept = _block(call, clock, batch)
        after = clock.gauge.seconds() if clock.gauge is not None else 0.0
        samples += [_Sample(seconds, max(before, after), kept) for seconds in block]
        before = after
        count, passed = len(samples), time.perf_counter() - start
        over = (passed >= options.seconds and count >= _FEWEST_SAMPLES) or count >= _MOST_SAMPLES
        if not over and (count < look or passed < _LEAST_SHARE * options.seconds):
            continue
        found = _judged(samples, clock.gauge, batch)
        if over or (found.samples >= _LEAST_SAMPLES and found.quiet and found.width <= options.precision):
            return found
        look = math.ceil(_LOOK_GROWTH * count)


def _block(call: Repeated, clock: Clock, batch: int) -> tuple[list[float], bool]:
    """Samples up to the next look at the gauge, in seconds of a call, and whether the thread kept its core."""
    gauge = clock.gauge
    if gauge is None:
        return [clock.seconds(call.batch(batch)) / batch], True
    found = []
    waited, start = gauge.waited(), time.perf_counter()
    while True:
        found.append(clock.seconds(call.batch(batch)) / batch)
        passed = time.perf_counter() - start
        if passed >= _GAUGE_EVERY:
            return found, gauge.waited() - waited <= _WAITED * passed


def _judged(samples: Sequence[_Sample], gauge: CoreGauge | None, batch: int) -> Timing:
    """The quiet samples, if there are enough; else all, with how slow the core was."""
    if gauge is None:
        return summarise([sample.seconds for sample in samples], batch)
    quiet = [sample.seconds for sample in samples if sample.kept and sample.gauge <= _QUIET * gauge.best]
    if len(quiet) >= _LEAST_QUIET:
        return summarise(quiet, batch, 1.0)
    slowdown = max(statistics.median(sample.gauge for sample in samples) / gauge.best, _QUIET)
    return summarise([sample.seconds for sample in samples], batch, slowdown)


def summarise(samples: Sequence[float], batch: int, slowdown: float | None = None) -> Timing:
    """Median, its interval and the quantiles of samples, in any order.

    Raises:
        ValueError: there are none.
    """
    if not samples:
        raise ValueError("there is no sample")
    ordered = sorted(samples)
    below = rank_below_median(len(ordered))
    return Timing(
        median=statistics.median(ordered),
        low=ordered[below],
        high=ordered[len(ordered) - 1 - below],
        p10=_quantile(ordered, 0.10),
        p25=_quantile(ordered, 0.25),
        p75=_quantile(ordered, 0.75),
        p90=_quantile(ordered, 0.90),
        samples=len(ordered),
        batch=batch,
        slowdown=slowdown,
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Linear between the two nearest samples."""
    place = share * (len(ordered) - 1)
    lower = math.floor(place)
    upper = min(lower + 1, len(ordered) - 1)
    return ordered[lower] + (ordered[upper] - ordered[lower]) * (place - lower)


@lru_cache(maxsize=4096)
def rank_below_median(count: int) -> int:
    """The rank ``r``, from 0, so that the sorted samples ``r`` and ``count - 1 - r`` enclose the true median with at
    least 95 % probability; 0 where there are too few samples for that (under six).

    P(the true median is below sample ``r``) = P(at most ``r`` of ``count`` fair coins show heads).
    """
    tail = (1 - _CONFIDENCE) / 2
    if count > _MOST_EXACT:
        return max(0, math.floor((count - _NORMAL_95 * math.sqrt(count)) / 2) - 1)
    chance = 0.0
    for rank in range(count // 2):
        chance += math.comb(count, rank) / 2**count
        if chance > tail:
            return max(0, rank - 1)
    return max(0, count // 2 - 1)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Python's garbage collector would run in whichever call it likes."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
