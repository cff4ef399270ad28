"""The engine where the largest case that fits goes first: what a slot with and without a process is given."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_paddleapi.gpu_admission import Setback
from pytest_paddleapi.results.verdicts import Verdict
from pytest_paddleapi.scheduling.dispatching import Dispatch, Ended, Grant, NoRoom
from pytest_paddleapi.scheduling.engine import LOOK_AGAIN, Engine
from pytest_paddleapi.scheduling.largest_first import OLDEST_EVERY
from pytest_paddleapi.scheduling.queue import CaseQueue

from .doubles import QuietAdmission


@dataclass
class Devices(QuietAdmission):
    """Devices of 100 bytes whose promises are counted in full, by group."""

    places: dict[str, str] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)
    paused: bool = False
    trouble: str = ""

    def place(self, slot: str, group: str) -> None:
        self.places[slot] = group

    def drop_group(self, group: str) -> None:
        raise NotImplementedError

    def need(self, estimate: int) -> int:
        return estimate

    def is_oversize(self, need: int) -> bool:
        return need > 100

    def target(self, group: str) -> int:
        return 64

    def reserve(self, slot: str, label: str, need: int, *, grown: bool) -> Grant | NoRoom:
        self.asked.append(need)
        size = min(need, 100) if grown else need
        used: dict[str, int] = defaultdict(int)
        for other, nbytes in self.held.items():
            used[self.places[other]] += nbytes
        available = 100 - used[self.places[slot]]
        if size > available:
            return NoRoom(available)
        self.held[slot] = size
        return Grant(size, size == 100)

    def finished(self, slot: str, *, pid: int | None) -> None:
        self.held.pop(slot, None)

    def gone(self, slot: str) -> None:
        self.held.pop(slot, None)

    def failed(self, label: str, slot: str, setback: Setback, now: float) -> float:
        return now + 1.0


def engine_on(estimates: list[int | None], slots: int = 1, groups: str = "A") -> Engine:
    queue = CaseQueue(range(len(estimates)))
    engine = Engine(queue, Devices(), estimates.__getitem__, str, largest_first=True)
    for number in range(slots):
        for group in groups:
            engine.add_slot(f"{group}{number}", group)
    return engine


def started(engine: Engine, now: float) -> list[int]:
    return [dispatch.case for dispatch in engine.poll(now)]


def end(engine: Engine, slot: str, now: float, verdict: Verdict = Verdict.PASS, pid: int | None = 7) -> Dispatch:
    dispatch = engine.running(slot)
    assert dispatch is not None
    engine.settle(slot, dispatch.token, Ended(verdict, pid=pid), now)
    return dispatch


def test_the_first_case_of_a_process_is_the_smallest_and_then_the_largest_comes() -> None:
    engine = engine_on([20, 5, 60, 80])
    assert started(engine, 0.0) == [1]
    end(engine, "A0", 1.0)
    assert started(engine, 1.0) == [3]
    end(engine, "A0", 2.0)
    assert started(engine, 2.0) == [2]


def test_small_cases_fill_what_is_left() -> None:
    engine = engine_on([1, 1, 1, 30, 70, 25, 5], slots=3)
    assert started(engine, 0.0) == [0, 1, 2]
    for slot in ("A0", "A1", "A2"):
        end(engine, slot, 1.0)
    assert started(engine, 1.0) == [4, 3]
    end(engine, "A1", 1.5)
    assert started(engine, 1.5) == [5, 6]


@pytest.mark.parametrize("verdict", [Verdict.TIMEOUT, Verdict.PADDLE_CRASH, Verdict.EXTERNAL_KILL])
def test_a_slot_whose_process_died_gets_the_smallest(verdict: Verdict) -> None:
    engine = engine_on([5, 80, 40, 10])
    assert started(engine, 0.0) == [0]
    end(engine, "A0", 1.0)
    assert started(engine, 1.0) == [1]
    end(engine, "A0", 2.0, verdict)
    if verdict is Verdict.EXTERNAL_KILL:
        assert started(engine, 2.0) == [1]
        end(engine, "A0", 3.0, verdict)
        engine.queue.take(engine.queue.candidates(3.0, 1)[0])
    assert started(engine, 3.0) == [3]


def test_a_slot_whose_process_was_suspended_gets_the_smallest() -> None:
    engine = engine_on([5, 80, 10])
    assert started(engine, 0.0) == [0]
    end(engine, "A0", 1.0)
    engine.admission.paused = True  # type: ignore[misc]
    assert engine.to_suspend() == ["A0"]
    engine.admission.paused = False  # type: ignore[misc]
    assert started(engine, 2.0) == [2]


def test_a_case_that_came_back_goes_ahead_of_larger_ones_once_its_delay_is_over() -> None:
    engine = engine_on([5, 80, 60, 70])
    assert started(engine, 0.0) == [0]
    end(engine, "A0", 1.0, Verdict.DEFERRED)
    assert started(engine, 1.0) == [1]
    end(engine, "A0", 2.0)
    assert started(engine, 2.0) == [0]
    end(engine, "A0", 3.0)
    assert started(engine, 3.0) == [3]


def test_a_grown_case_is_asked_for_with_all_that_it_needs() -> None:
    engine = engine_on([5, 80])
    (first,) = engine.poll(0.0)
    engine.settle("A0", first.token, Ended(Verdict.DEFERRED, needed_bytes=500, pid=7), 0.0)
    (again,) = engine.poll(1.0)
    assert (again.case, again.lease_bytes, again.whole_device) == (0, 100, True)


def test_a_case_without_an_estimate_is_passed_over_until_there_is_one() -> None:
    estimates: list[int | None] = [None, 5, 10]
    engine = engine_on(estimates)
    assert started(engine, 0.0) == [1]
    end(engine, "A0", 0.0)
    estimates[0] = 50
    assert started(engine, 0.0) == [0]


def test_an_oversize_case_is_handed_out_for_its_report() -> None:
    engine = engine_on([101, 1, 200])
    assert started(engine, 0.0) == [1]
    assert engine.oversize == [(0, 101), (2, 200)]


def test_a_case_that_is_added_is_seen_at_once() -> None:
    engine = engine_on([5, 10], slots=2)
    assert started(engine, 0.0) == [0, 1]
    engine.queue.extend([2])
    engine.estimate = lambda case: 50
    end(engine, "A0", LOOK_AGAIN)
    assert started(engine, LOOK_AGAIN) == [2]


def test_each_device_gets_the_largest_that_fits_there() -> None:
    engine = engine_on([1, 1, 1, 1, 60, 50, 45, 30], slots=2, groups="AB")
    assert started(engine, 0.0) == [0, 1, 2, 3]
    for slot in ("A0", "A1", "B0", "B1"):
        end(engine, slot, 1.0)
    assert [(d.slot, d.case) for d in engine.poll(1.0)] == [("A0", 4), ("B0", 5), ("A1", 7), ("B1", 6)]


def test_a_follower_is_the_largest_that_fits_under_the_lease_and_not_much_less() -> None:
    engine = engine_on([10, 4, 9, 11, 10])
    engine.poll(0.0)
    assert engine.running("A0").case == 1  # type: ignore[union-attr]
    end(engine, "A0", 0.0)
    assert started(engine, 0.0) == [3]
    followers = [engine.follow_up("A0", 0.0, depth=1)]
    assert [d.case for d in followers if d] == [0]
    end(engine, "A0", 0.01)
    assert engine.running("A0").case == 0  # type: ignore[union-attr]
    assert engine.follow_up("A0", 0.01).case == 4  # type: ignore[union-attr]


def test_where_nothing_fits_one_question_is_enough() -> None:
    engine = engine_on([1, 2, 99, 98, 97, 96], slots=2)
    assert started(engine, 0.0) == [0, 1]
    end(engine, "A0", 1.0)
    end(engine, "A1", 1.0)
    assert started(engine, 1.0) == [2]
    asked = engine.admission.asked  # type: ignore[attr-defined]
    asked.clear()
    assert started(engine, 1.0 + LOOK_AGAIN) == []
    assert asked == [98]


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(2, 100), min_size=1, max_size=8),
    place=st.integers(0, 8),
    slots=st.integers(1, 4),
    devices=st.sampled_from(["A", "AB"]),
)
def test_the_smallest_case_starts_however_many_larger_ones_come(
    sizes: list[int], place: int, slots: int, devices: str
) -> None:
    """One byte fits wherever anything fits, so each start counts."""
    sizes.insert(place, 1)
    small = min(place, len(sizes) - 1)
    estimates: list[int | None] = [2, *sizes]
    engine = engine_on(estimates, slots, devices)
    for slot in (f"{group}{number}" for number in range(slots) for group in devices):
        engine._slots[slot].warm = True  # or the smallest would be the first
    starts, now = 0, 0.0
    while small + 1 in engine.queue.pending():
        estimates += [100, 50, 30]
        engine.queue.extend(range(len(estimates) - 3, len(estimates)))
        starts += len(engine.poll(now))
        assert starts <= OLDEST_EVERY * (small + 2) + slots * len(devices) * OLDEST_EVERY
        now += 0.5
        for slot in (f"{group}{number}" for number in range(slots) for group in devices):
            if engine.running(slot):
                end(engine, slot, now)
