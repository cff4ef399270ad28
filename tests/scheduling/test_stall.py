"""When the watchdog raises the alarm, and when it ends the process: decided without a clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_paddleapi.scheduling.stall import LOOK_SECONDS, Beat, StallClock, Step, stall_limit


@pytest.mark.parametrize(
    ("timeout", "chosen", "limit"),
    [
        (1800.0, None, 3600.0),
        (901.0, None, 1802.0),
        (900.0, None, 1800.0),
        (0.5, None, 1800.0),
        (1800.0, 0.0, None),
        (1800.0, 60.0, 60.0),
    ],
)
def test_the_limit(timeout: float, chosen: float | None, limit: float | None) -> None:
    assert stall_limit(timeout, chosen) == limit


class Watched:
    """A clock that is looked at as the watchdog's thread does it: when it asks to be."""

    def __init__(self, limit: float = 100.0, grace: float = 60.0) -> None:
        self.clock = StallClock(limit, grace, 0.0)
        self.now = self.looked = 0.0
        self.beat: Beat | None = None

    def beats(self, active: bool = True) -> None:
        self.beat = Beat(self.now, active)

    def looks(self) -> Step:
        self.looked = self.now
        return self.clock.look(self.now, self.beat)

    def runs_to(self, time: float) -> list[tuple[float, Step]]:
        """Every step that was not to wait, with its time."""
        steps = []
        # A little late, as threads are; else rounding could make it look for ever.
        while (due := self.looked + self.clock.wait() + 1e-6) <= time:
            self.now = max(due, self.now)
            step = self.looks()
            if step is not Step.WAIT:
                steps.append((pytest.approx(self.now, abs=0.01), step))
            if step is Step.EXIT:
                break
        self.now = max(self.now, time)
        return steps


def test_quiet_for_the_limit_raises_the_alarm_and_the_grace_ends_it() -> None:
    watched = Watched()
    watched.beats()
    assert watched.runs_to(1000.0) == [(100.0, Step.ALARM), (160.0, Step.EXIT)]


def test_before_the_first_beat_nothing_counts() -> None:
    assert Watched().runs_to(10_000.0) == []


def test_with_nothing_to_do_nothing_counts() -> None:
    watched = Watched()
    watched.beats()
    watched.runs_to(90.0)
    watched.beats(active=False)
    assert watched.runs_to(10_000.0) == []
    watched.beats()
    assert watched.runs_to(10_099.0) == []
    assert watched.runs_to(10_101.0) == [(10_100.0, Step.ALARM)]


def test_a_beat_after_the_alarm_does_not_take_it_back() -> None:
    watched = Watched()
    watched.beats()
    assert watched.runs_to(101.0) == [(100.0, Step.ALARM)]
    watched.now = 110.0
    watched.beats()
    assert watched.runs_to(1000.0) == [(160.0, Step.EXIT)]


def test_the_alarms_own_work_is_not_part_of_the_grace() -> None:
    watched = Watched()
    watched.beats()
    watched.runs_to(101.0)
    watched.now = watched.looked = 130.0
    watched.clock.answered(130.0)
    assert watched.runs_to(1000.0) == [(190.0, Step.EXIT)]


def test_time_in_which_the_process_was_stopped_does_not_count() -> None:
    watched = Watched()
    watched.beats()
    watched.runs_to(51.0)
    watched.now = 5000.0
    assert watched.looks() is Step.WAIT
    # 50 s before, and no more than three looks' worth of the long one.
    assert watched.clock.quiet == pytest.approx(50.0 + 3 * LOOK_SECONDS, abs=0.01)
    assert watched.runs_to(5050.0) == [(5020.0, Step.ALARM)]


def test_nor_does_it_in_the_grace() -> None:
    watched = Watched()
    watched.beats()
    watched.runs_to(101.0)
    watched.now = 9000.0
    assert watched.looks() is Step.WAIT


def test_a_beat_that_is_younger_than_the_look() -> None:
    clock = StallClock(100.0, 60.0, 0.0)
    assert clock.look(10.0, Beat(10.5, True)) is Step.WAIT
    assert clock.quiet == 0.0


times = st.lists(st.tuples(st.floats(0.01, 400.0), st.booleans()), min_size=1, max_size=20)


@given(times, st.floats(1.0, 300.0))
def test_the_alarm_comes_with_the_first_active_gap_that_reaches_the_limit(
    gaps: list[tuple[float, bool]], limit: float
) -> None:
    """Beats with gaps between them; the last gap has no end."""
    watched = Watched(limit)
    start = 0.0
    for gap, active in gaps:
        watched.now = start
        watched.beats(active)
        steps = watched.runs_to(start + gap)
        if active and gap >= limit + 0.001:
            assert steps[0] == (start + limit, Step.ALARM)
            return
        if not active or gap <= limit - 0.01:
            assert steps == []
        elif steps:
            return  # so near to the limit that rounding decides
        start += gap


@given(st.lists(st.floats(0.0, 100_000.0), max_size=30), st.floats(100.0, 300.0))
def test_late_looks_never_count_more_than_they_should(lates: list[float], limit: float) -> None:
    clock = StallClock(limit, 60.0, 0.0)
    beat = Beat(0.0, True)
    now = 0.0
    for looks, late in enumerate(lates):
        assert 0.0 <= clock.wait() <= LOOK_SECONDS
        now += clock.wait() + late
        if clock.look(now, beat) is Step.ALARM:
            assert now >= limit
            assert (looks + 1) * 3 * LOOK_SECONDS >= limit
            return
        assert clock.quiet <= min(now, (looks + 1) * 3 * LOOK_SECONDS) + 1e-6
