"""When a time is known: batches, samples, quiet samples and what they are summed up to."""

from __future__ import annotations

import itertools
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from pytest_paddleapi.case.clocks import EventClock, SteadyClock
from pytest_paddleapi.case.core_gauge import CoreGauge
from pytest_paddleapi.case.timing import FreshCall, SameCall, measure, rank_below_median, summarise
from pytest_paddleapi.process.messages import TimingOptions

QUICK = TimingOptions(seconds=0.05, precision=0.02)


class ScriptedClock:
    """Runs what it is given, and tells times from a script in place of what that took."""

    def __init__(self, times: Any, resolution: float = 0.0, gauge: Any = None) -> None:
        self.times = iter(times)
        self.resolution = resolution
        self.gauge = gauge

    def seconds(self, run: Callable[[], object]) -> float:
        run()
        return float(next(self.times))


class ScriptedGauge:
    """A core that is slow where the script says so; each look at it is one step."""

    best = 1.0

    def __init__(self, speeds: Any, waited: Any = ()) -> None:
        self.speeds = iter(speeds)
        self.waits = iter(waited)

    def seconds(self) -> float:
        return float(next(self.speeds))

    def waited(self) -> float:
        return float(next(self.waits, 0.0))


@pytest.mark.parametrize("count", [6, 7, 20, 55, 200, 201, 1000])
def test_interval_holds_the_median_with_95_percent(count: int) -> None:
    rank = rank_below_median(count)
    outside = 2 * sum(math.comb(count, heads) for heads in range(rank + 1)) / 2**count
    wider = 2 * sum(math.comb(count, heads) for heads in range(rank + 3)) / 2**count
    assert outside <= 0.05 < wider


def test_too_few_samples_give_their_range() -> None:
    found = summarise([3.0, 1.0, 2.0], 1)
    assert (found.low, found.median, found.high) == (1.0, 2.0, 3.0)
    with pytest.raises(ValueError, match="no sample"):
        summarise([], 1)


def test_outliers_do_not_move_the_result() -> None:
    rng = random.Random(0)
    clean = [1e-3 * (1 + 0.01 * rng.random()) for _ in range(200)]
    spoilt = [value * 1000 if place % 10 == 0 else value for place, value in enumerate(clean)]
    a, b = summarise(clean, 1), summarise(spoilt, 1)
    assert b.median == pytest.approx(a.median, rel=2e-3)
    assert b.width < 0.01
    assert b.p90 / a.p90 > 1  # they are seen where they belong


def test_properties_are_in_milliseconds() -> None:
    found = summarise([0.001, 0.002, 0.003], 4, 1.5).properties("paddle_forward")
    assert found["paddle_forward_ms"] == 2.0
    assert (found["paddle_forward_ms_low"], found["paddle_forward_ms_high"]) == (1.0, 3.0)
    assert (found["paddle_forward_samples"], found["paddle_forward_batch"]) == (3, 4)
    assert found["paddle_forward_spread"] == 0.5
    assert found["paddle_forward_slowdown"] == 1.5


def test_steady_times_end_early_and_unsteady_ones_at_the_limit() -> None:
    steady = measure(SameCall(lambda: None), ScriptedClock(itertools.repeat(1e-3)), QUICK)
    rng = random.Random(1)
    wild = (10 ** rng.uniform(-5, 0) for _ in itertools.count())
    start = time.perf_counter()
    unsteady = measure(SameCall(lambda: time.sleep(1e-3)), ScriptedClock(wild), QUICK)
    passed = time.perf_counter() - start
    assert steady.width <= 0.02
    assert unsteady.width > 0.02
    # Without a limit it would never end; on a busy machine it takes longer than it asks for.
    assert 0.05 <= passed < 20.0


def test_a_slow_call_has_three_samples() -> None:
    calls: list[int] = []

    def slow() -> None:
        calls.append(1)
        time.sleep(0.06)

    found = measure(SameCall(slow), SteadyClock(), QUICK)
    assert found.samples == 3
    assert len(calls) == 4  # one to warm up
    assert found.median == pytest.approx(0.06, rel=0.5)


def test_short_calls_are_timed_in_batches() -> None:
    runs = itertools.count()
    found = measure(SameCall(lambda: next(runs)), ScriptedClock(itertools.repeat(1e-6), resolution=1e-7), QUICK)
    assert found.batch == 10
    assert found.median == pytest.approx(1e-7)
    assert next(runs) >= 10 * found.samples


def test_fresh_arguments_are_made_before_the_clock_starts() -> None:
    events: list[str] = []

    def make() -> Callable[[], object]:
        events.append("make")
        return lambda: events.append("call")

    class Clock(ScriptedClock):
        def seconds(self, run: Callable[[], object]) -> float:
            events.append("start")
            return super().seconds(run)

    found = measure(FreshCall(make, 3), Clock(itertools.repeat(1e-6), resolution=1.0), QUICK)
    assert found.batch == 3
    assert events[-7:] == ["make", "make", "make", "start", "call", "call", "call"]
    assert events.count("make") == events.count("call")


def test_only_quiet_samples_count() -> None:
    # The core is slow in three of four looks, and what is timed then takes twice as long.
    state = {"look": 0}

    class Gauge(ScriptedGauge):
        def seconds(self) -> float:
            state["look"] += 1
            return 1.0 if self.free() else 2.0

        @staticmethod
        def free() -> bool:
            return state["look"] % 8 < 2

    gauge = Gauge(())

    class Clock(ScriptedClock):
        def seconds(self, run: Callable[[], object]) -> float:
            time.sleep(2e-4)
            return 1e-3 if gauge.free() else 2e-3

    found = measure(SameCall(lambda: None), Clock((), gauge=gauge), TimingOptions(seconds=0.5))
    assert (found.median, found.slowdown, found.quiet) == (1e-3, 1.0, True)


def test_a_core_that_is_never_free_is_told() -> None:
    gauge = ScriptedGauge(itertools.repeat(1.8))
    clock = ScriptedClock(itertools.repeat(1e-3), gauge=gauge)
    found = measure(SameCall(lambda: time.sleep(1e-4)), clock, QUICK)
    assert not found.quiet
    assert found.slowdown == pytest.approx(1.8)


def test_samples_of_a_thread_that_lost_its_core_do_not_count() -> None:
    gauge = ScriptedGauge(itertools.repeat(1.0), waited=itertools.count())
    found = measure(SameCall(lambda: time.sleep(1e-4)), ScriptedClock(itertools.repeat(1e-3), gauge=gauge), QUICK)
    assert not found.quiet


def test_the_core_gauge_knows_its_best_and_how_long_the_thread_waited() -> None:
    gauge = CoreGauge()
    assert 1e-6 < gauge.best <= min(gauge.seconds() for _ in range(5))
    core = min(os.sched_getaffinity(0))
    program = f"import os, time; os.sched_setaffinity(0, {{{core}}}); print(flush=True)\nwhile True: pass"
    rival = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    everywhere = os.sched_getaffinity(0)
    try:
        assert rival.stdout is not None
        rival.stdout.readline()
        os.sched_setaffinity(0, {core})
        before, end = gauge.waited(), time.perf_counter() + 0.3
        while time.perf_counter() < end:
            pass
        assert gauge.waited() - before > 0.05  # one core for two
    finally:
        os.sched_setaffinity(0, everywhere)
        rival.kill()
        rival.communicate()


def test_the_steady_clock_waits_for_the_device_before_and_after() -> None:
    events: list[str] = []
    clock = SteadyClock(lambda: events.append("wait"))
    assert clock.gauge is None
    events.clear()
    seconds = clock.seconds(lambda: (events.append("run"), time.sleep(0.01)))
    assert events == ["wait", "run", "wait"]
    assert 0.01 <= seconds < 1


class SoftwareEvent:
    """What an event of a GPU promises, in software: there is none on every machine."""

    def __init__(self, log: list[str]) -> None:
        self.log, self.at = log, 0.0

    def record(self) -> None:
        self.log.append("record")
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        self.log.append("synchronize")

    def elapsed_time(self, end: SoftwareEvent) -> float:
        return 1e3 * (end.at - self.at)


def test_the_event_clock_marks_around_the_run_and_reads_milliseconds() -> None:
    log: list[str] = []
    clock = EventClock(lambda: SoftwareEvent(log), lambda: log.append("idle"))
    log.clear()
    seconds = clock.seconds(lambda: (log.append("run"), time.sleep(0.01)))
    assert log == ["idle", "record", "run", "record", "synchronize"]
    assert 0.01 <= seconds < 1
    assert clock.resolution < 0.01
