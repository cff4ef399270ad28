"""The engine's decisions, with time and memory given."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pytest_paddleapi.gpu_admission import Setback
from pytest_paddleapi.results.verdicts import Verdict
from pytest_paddleapi.scheduling.dispatching import Dispatch, Ended, Grant, NoRoom
from pytest_paddleapi.scheduling.engine import GIVE_WAY_SECONDS, LOOK_AGAIN, Engine
from pytest_paddleapi.scheduling.ordering import DEEP_LOOK_EVERY
from pytest_paddleapi.scheduling.queue import CaseQueue

from .doubles import QuietAdmission


@dataclass
class Memory(QuietAdmission):
    """A device of ``size`` bytes whose promises are counted in full: the simplest true admission."""

    size: int = 100
    slots: int = 64
    held: dict[str, int] = field(default_factory=dict)
    records: list[bool] = field(default_factory=list)
    deferrals: int = 0
    trouble: str = ""
    stuck: float | None = None
    paused: bool = False
    places: dict[str, str] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)

    def place(self, slot: str, group: str) -> None:
        self.places[slot] = group

    def drop_group(self, group: str) -> None:
        self.dropped.add(group)

    def need(self, estimate: int) -> int:
        return estimate

    def is_oversize(self, need: int) -> bool:
        return need > self.size

    def target(self, group: str) -> int:
        return self.slots

    def reserve(self, slot: str, label: str, need: int, *, grown: bool) -> Grant | NoRoom:
        need = min(need, self.size)
        available = self.size - sum(self.held.values())
        if need > available:
            return NoRoom(available)
        assert slot not in self.held
        self.held[slot] = need
        return Grant(need, need == self.size)

    def finished(self, slot: str, *, pid: int | None) -> None:
        del self.held[slot]

    def gone(self, slot: str) -> None:
        self.held.pop(slot, None)

    def succeeded(self, label: str, slot: str) -> None:
        self.records.append(True)

    def failed(self, label: str, slot: str, setback: Setback, now: float) -> float:
        self.records.append(False)
        if setback is not Setback.DEFERRED:
            return now
        self.deferrals += 1
        return now + min(2.0 ** (self.deferrals - 1), 30.0)

    def under_pressure(self, now: float, *, waiting: int, busy: int) -> bool:
        if not waiting or busy:
            self.stuck = None
            return False
        self.stuck = now if self.stuck is None else self.stuck
        return now - self.stuck >= 600


def engine_for(
    estimates: list[int], memory: Memory | None = None, slots: int = 2, *, largest_first: bool = False
) -> Engine:
    engine = Engine(
        CaseQueue(range(len(estimates))),
        memory or Memory(),
        estimates.__getitem__,
        str,
        largest_first=largest_first,
    )
    for number in range(slots):
        engine.add_slot(f"gw{number}")
    return engine


def case_of(dispatch: Dispatch | None) -> int | None:
    return dispatch.case if dispatch else None


def test_cases_start_in_order_one_on_each_slot() -> None:
    engine = engine_for([1, 1, 1])
    assert [(d.slot, d.case) for d in engine.poll(0.0)] == [("gw0", 0), ("gw1", 1)]
    assert engine.poll(0.0) == []


def test_a_case_that_does_not_fit_is_passed_over_and_not_lost() -> None:
    engine = engine_for([60, 60, 30])
    first, second = engine.poll(0.0)
    assert (first.case, second.case) == (0, 2)
    assert engine.settle(first.slot, first.token, Ended(Verdict.PASS), 1.0)
    assert [d.case for d in engine.poll(1.0)] == [1]


def test_an_oversize_case_never_runs_and_is_handed_out_for_its_report() -> None:
    engine = engine_for([101, 1])
    assert [d.case for d in engine.poll(0.0)] == [1]
    assert engine.oversize == [(0, 101)]


def test_a_deferred_case_comes_back_after_its_delay_with_what_it_needs() -> None:
    engine = engine_for([10], slots=1)
    (dispatch,) = engine.poll(0.0)
    assert not engine.settle("gw0", dispatch.token, Ended(Verdict.DEFERRED, needed_bytes=40), 0.0)
    assert engine.poll(0.5) == []
    (again,) = engine.poll(1.0)
    assert (again.case, again.attempt, again.lease_bytes) == (0, 2, 40)


def test_growth_ends_at_the_whole_device() -> None:
    engine = engine_for([10], slots=1)
    (dispatch,) = engine.poll(0.0)
    engine.settle("gw0", dispatch.token, Ended(Verdict.DEFERRED, needed_bytes=500), 0.0)
    (again,) = engine.poll(2.0)
    assert again.whole_device
    assert again.lease_bytes == 100
    assert engine.oversize == []


def test_an_external_kill_is_retried_once_and_told_so() -> None:
    engine = engine_for([1], slots=1)
    (first,) = engine.poll(0.0)
    assert not first.killed_before
    assert not engine.settle("gw0", first.token, Ended(Verdict.EXTERNAL_KILL, external=True), 0.0)
    (second,) = engine.poll(0.0)
    assert second.killed_before
    assert engine.settle("gw0", second.token, Ended(Verdict.PADDLE_CRASH, external=True), 0.0)
    assert engine.finished


def test_the_fourth_external_kill_stops_the_run() -> None:
    engine = engine_for([1] * 10, slots=1)
    for kill in range(4):
        (dispatch,) = engine.poll(float(kill))
        verdict = Verdict.PADDLE_CRASH if dispatch.killed_before else Verdict.EXTERNAL_KILL
        engine.settle("gw0", dispatch.token, Ended(verdict, external=True), float(kill))
        assert (engine.stop_reason is not None) == (kill == 3)
    assert engine.stop_reason is not None
    assert "killed from outside" in engine.stop_reason
    assert engine.poll(9.0) == []
    assert engine.finished


def test_a_lost_worker_gives_its_case_back_once() -> None:
    engine = engine_for([1, 1], slots=1)
    engine.poll(0.0)
    assert engine.drop_slot("gw0", 0.0) is None
    engine.add_slot("gw1")
    (again,) = engine.poll(0.1)
    assert again.case == 0
    assert engine.drop_slot("gw1", 0.2) == 0
    engine.add_slot("gw2")
    assert [d.case for d in engine.poll(0.3)] == [1]


def test_a_retired_slot_gives_its_case_to_another_and_the_last_one_ends_the_run() -> None:
    engine = engine_for([1], slots=2)
    (dispatch,) = engine.poll(0.0)
    assert not engine.settle(dispatch.slot, dispatch.token, Ended(Verdict.DEFERRED, retired="no Paddle"), 0.0)
    (again,) = engine.poll(0.0)
    assert again.slot != dispatch.slot
    assert engine.stop_reason is None
    assert not engine.settle(again.slot, again.token, Ended(Verdict.DEFERRED, retired="no Paddle"), 0.0)
    assert engine.stop_reason == "no slot is left that could run a case: no Paddle"
    assert list(engine.queue.pending()) == [0]


def test_workers_that_die_without_a_case_stop_the_run() -> None:
    engine = engine_for([1], slots=0)
    for number in range(20):
        engine.add_slot(f"gw{number}")
        engine.drop_slot(f"gw{number}", float(number))
    assert engine.stop_reason is not None
    assert "died one after another" in engine.stop_reason


@pytest.mark.parametrize("token", [0, 2, 99])
def test_a_late_or_repeated_result_changes_nothing(token: int) -> None:
    engine = engine_for([1, 1], slots=1)
    (dispatch,) = engine.poll(0.0)
    assert dispatch.token == 1
    assert not engine.settle("gw0", token, Ended(Verdict.PASS), 0.0)
    assert engine.running("gw0") == dispatch


def test_the_concurrency_target_is_kept() -> None:
    engine = engine_for([1] * 9, Memory(slots=2), slots=4)
    assert len(engine.poll(0.0)) == 2


def test_a_ledger_that_cannot_be_written_is_named_when_the_run_stops() -> None:
    memory = Memory(trouble="ledger /full: No space left on device")
    memory.held["somebody else"] = 95
    engine = engine_for([10], memory, slots=1)
    engine.poll(0.0)
    engine.poll(600.0)
    assert engine.stop_reason == "no case could start for long, 1 wait: ledger /full: No space left on device"


def test_no_room_for_the_pressure_timeout_stops_the_run_with_a_reason() -> None:
    memory = Memory()
    memory.held["somebody else"] = 95
    engine = engine_for([10], memory, slots=1)
    assert engine.poll(0.0) == []
    assert engine.poll(599.0) == []
    assert engine.stop_reason is None
    engine.poll(600.0)
    assert engine.stop_reason is not None
    assert "1 wait for memory" in engine.stop_reason


@pytest.mark.parametrize("largest_first", [False, True])
def test_cases_without_an_estimate_want_no_memory_yet(largest_first: bool) -> None:
    estimates: list[int | None] = [None, None]
    engine = Engine(CaseQueue(range(2)), Memory(), estimates.__getitem__, str, largest_first=largest_first)
    engine.add_slot("gw0")
    for now in (0.0, 600.0, 1200.0):
        assert engine.poll(now) == []
    assert engine.stop_reason is None
    estimates[:] = [1000, 1]
    engine.admission.held["somebody else"] = 99  # type: ignore[attr-defined]
    assert [dispatch.case for dispatch in engine.poll(1201.0)] == [1]


def test_timeouts_crashes_and_deferrals_shrink_the_target_and_differences_do_not() -> None:
    memory = Memory()
    engine = engine_for([1] * 4, memory, slots=1)
    for verdict in (Verdict.PASS, Verdict.PADDLE_ACCURACY, Verdict.TIMEOUT, Verdict.PADDLE_CRASH):
        (dispatch,) = engine.poll(0.0)
        engine.settle("gw0", dispatch.token, Ended(verdict), 0.0)
    assert memory.records == [True, True, False, False]


def test_cases_beyond_the_first_window_are_looked_at_every_five_seconds() -> None:
    engine = engine_for([90] + [50] * 200 + [5], slots=2)
    (first,) = engine.poll(0.0)[:1]
    assert first.case == 0
    # The small case stands behind 200 that do not fit: found by the deep look of the first poll.
    assert engine.running("gw1") is not None
    assert engine.running("gw1").case == 201  # type: ignore[union-attr]


def test_a_group_that_was_refused_is_asked_again_when_a_case_ends_there_or_after_a_moment() -> None:
    memory = Memory()
    memory.held["somebody else"] = 60
    engine = engine_for([30, 30, 30], memory, slots=2)
    (first,) = engine.poll(0.0)
    memory.held["somebody else"] = 20
    assert engine.poll(LOOK_AGAIN / 2) == []
    assert [d.case for d in engine.poll(LOOK_AGAIN)] == [1]
    memory.held["somebody else"] = 10
    engine.settle(first.slot, first.token, Ended(Verdict.PASS), LOOK_AGAIN)
    assert [d.case for d in engine.poll(LOOK_AGAIN)] == [2]


def test_a_better_estimate_is_seen_in_time() -> None:
    estimates = [90, 60]
    engine = engine_for(estimates, slots=2)
    engine.poll(0.0)
    estimates[1] = 5
    assert engine.poll(1.0) == []
    assert [d.case for d in engine.poll(DEEP_LOOK_EVERY)] == [1]


def test_a_case_that_fits_nowhere_since_a_group_is_lost_is_handed_out_at_once() -> None:
    memory = Memory()
    engine = Engine(CaseQueue(range(3)), memory, [100, 100, 100].__getitem__, str)
    engine.add_slot("gw0", "large")
    engine.add_slot("gw1", "small")
    assert len(engine.poll(0.0)) == 1
    memory.size = 50
    engine.quarantine("large", "lost")
    engine.poll(LOOK_AGAIN)
    assert engine.oversize == [(1, 100), (2, 100)]


def test_a_case_that_is_added_is_seen_at_once() -> None:
    engine = engine_for([90, 90], slots=2)
    engine.poll(0.0)
    engine.queue.extend([2])
    engine.estimate = lambda case: 1
    assert [d.case for d in engine.poll(LOOK_AGAIN)] == [1]


def test_a_case_follows_another_under_its_lease_after_a_pass() -> None:
    engine = engine_for([10, 8, 8], slots=1)
    (first,) = engine.poll(0.0)
    assert case_of(engine.follow_up("gw0", 0.05)) == 1
    assert engine.settle("gw0", first.token, Ended(Verdict.PASS), 0.06)
    second = engine.running("gw0")
    assert second is not None
    assert (second.case, second.lease_bytes, second.token, second.attempt) == (1, 10, 2, 1)
    assert second.after == first.token
    assert engine.poll(0.06) == []
    assert engine.admission.held == {"gw0": 10}  # type: ignore[attr-defined]


@pytest.mark.parametrize("verdict", [v for v in Verdict if v is not Verdict.PASS])
def test_after_anything_but_a_pass_the_follower_is_asked_for_anew_and_first(verdict: Verdict) -> None:
    engine = engine_for([10, 10, 10], slots=1)
    (first,) = engine.poll(0.0)
    assert case_of(engine.follow_up("gw0", 0.0)) == 1
    engine.settle("gw0", first.token, Ended(verdict), 0.0)
    assert engine.running("gw0") is None
    assert engine.admission.held == {}  # type: ignore[attr-defined]
    assert engine.poll(0.0)[0].case == 1


@pytest.mark.parametrize(
    ("estimates", "now", "why"),
    [
        ([10, 11], 0.0, "larger than the lease"),
        ([10, 4], 0.0, "the lease would be wasted on it"),
        ([10, 10], 0.2, "memory must be read again"),
        ([100, 100], 0.0, "running out of a whole device is final"),
        ([10], 0.0, "nothing is left"),
    ],
)
def test_no_case_follows(estimates: list[int], now: float, why: str) -> None:
    engine = engine_for(estimates, slots=1)
    engine.poll(0.0)
    assert engine.follow_up("gw0", now) is None, why
    assert len(engine.queue) == len(estimates) - 1


def test_a_case_that_was_tried_before_does_not_follow() -> None:
    engine = engine_for([10, 10, 10], slots=2)
    _, second = engine.poll(0.0)
    engine.settle("gw1", second.token, Ended(Verdict.EXTERNAL_KILL, external=True), 0.0)
    assert engine.queue.candidates(0.0, 1) == [1]
    assert engine.follow_up("gw0", 0.0) is None


def test_several_follow_where_the_last_case_was_quick() -> None:
    engine = engine_for([10] * 30, slots=2)
    first, _ = engine.poll(0.0)
    assert engine.follow_up("gw0", 0.0, depth=3) is None
    engine.settle("gw0", first.token, Ended(Verdict.PASS), 0.01)
    (second,) = engine.poll(0.01)
    chosen = [engine.follow_up("gw0", 0.02, depth=3) for _ in range(4)]
    assert [case_of(dispatch) for dispatch in chosen] == [3, 4, 5, None]
    assert [d.after for d in chosen if d] == [second.token, second.token + 1, second.token + 2]
    engine.settle("gw0", second.token, Ended(Verdict.PASS), 0.03)
    assert engine.running("gw0") == chosen[0]
    engine.settle("gw0", second.token + 1, Ended(Verdict.PADDLE_ERROR), 0.04)
    assert [d.case for d in engine.poll(0.04)] == [4]


def test_behind_a_slow_case_none_waits() -> None:
    engine = engine_for([10] * 30, slots=2)
    first, _ = engine.poll(0.0)
    engine.settle("gw0", first.token, Ended(Verdict.PASS), 0.05)
    engine.poll(0.05)
    assert engine.follow_up("gw0", 0.05, depth=3) is None


def test_the_last_cases_are_left_to_whoever_is_free() -> None:
    engine = engine_for([10] * 8, slots=2)
    first, _ = engine.poll(0.0)
    engine.settle("gw0", first.token, Ended(Verdict.PASS), 0.01)
    engine.poll(0.01)
    assert len(engine.queue) == 5
    assert engine.follow_up("gw0", 0.01, depth=3) is None


def test_a_follower_outlives_its_slot() -> None:
    engine = engine_for([10, 10], slots=1)
    engine.poll(0.0)
    assert case_of(engine.follow_up("gw0", 0.0)) == 1
    assert engine.drop_slot("gw0", 0.0) is None
    assert sorted(engine.queue.pending()) == [0, 1]


class EngineAgainstModel(RuleBasedStateMachine):
    """Whatever happens, every case ends exactly once and no promise is ever broken."""

    SIZES = (1, 10, 30, 60, 100, 150)
    largest_first = False

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.estimates = [self.SIZES[i * 7 % len(self.SIZES)] for i in range(30)]
        self.memory = Memory()
        self.engine = engine_for(self.estimates, self.memory, slots=3, largest_first=self.largest_first)
        self.serial = 3
        self.done: list[int] = []
        #: By slot, what follows its running case after a pass.
        self.chosen: dict[str, list[Dispatch]] = defaultdict(list)

    @rule()
    def poll(self) -> None:
        self.engine.poll(self.now)
        self.done += [case for case, _ in self.engine.oversize]
        self.engine.oversize.clear()

    @rule(seconds=st.floats(0, 8))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.engine.busy)
    @rule(which=st.integers(0, 9), verdict=st.sampled_from([Verdict.PASS, Verdict.TIMEOUT, Verdict.DEFERRED]))
    def settle(self, which: int, verdict: Verdict) -> None:
        busy = [s for s in list(self.memory.held) if self.engine.running(s)]
        slot = busy[which % len(busy)]
        dispatch = self.engine.running(slot)
        assert dispatch is not None
        if self.engine.settle(slot, dispatch.token, Ended(verdict, needed_bytes=2 * dispatch.lease_bytes), self.now):
            self.done.append(dispatch.case)
        following = self.chosen.pop(slot, [])
        goes_on = verdict is Verdict.PASS and bool(following)
        assert self.engine.running(slot) == (following[0] if goes_on else None)
        self.chosen[slot] = following[1:] if goes_on else []
        assert not self.engine.settle(slot, dispatch.token, Ended(Verdict.PASS), self.now)

    @precondition(lambda self: self.engine.busy)
    @rule(which=st.integers(0, 9), depth=st.sampled_from([1, 3]))
    def follow(self, which: int, depth: int) -> None:
        busy = [s for s in list(self.memory.held) if self.engine.running(s)]
        slot = busy[which % len(busy)]
        before = list(self.engine.queue.pending())
        chosen = self.engine.follow_up(slot, self.now, depth)
        if chosen is not None:
            assert chosen.case in before
            assert chosen.after == (self.chosen[slot][-1] if self.chosen[slot] else self.engine.running(slot)).token  # type: ignore[union-attr]
            self.chosen[slot].append(chosen)
            assert len(self.chosen[slot]) <= depth

    @precondition(lambda self: self.engine.busy)
    @rule(which=st.integers(0, 9))
    def lose_worker(self, which: int) -> None:
        busy = [s for s in list(self.memory.held) if self.engine.running(s)]
        self.chosen.pop(busy[which % len(busy)], None)
        lost = self.engine.drop_slot(busy[which % len(busy)], self.now)
        if lost is not None:
            self.done.append(lost)
        self.serial += 1
        self.engine.add_slot(f"gw{self.serial}")

    @invariant()
    def promises_are_kept_and_nothing_is_lost(self) -> None:
        assert sum(self.memory.held.values()) <= self.memory.size
        running = [self.engine.running(s).case for s in self.memory.held]  # type: ignore[union-attr]
        waiting = list(self.engine.queue.pending())
        assert sorted(
            [*self.done, *running, *waiting, *(d.case for chosen in self.chosen.values() for d in chosen)]
        ) == list(range(30))

    def teardown(self) -> None:
        """Left alone, the rest finishes: no deadlock while any case could run."""
        for _ in range(500):
            self.now += 1.0
            self.poll()
            for slot in list(self.memory.held):
                dispatch = self.engine.running(slot)
                if dispatch and self.engine.settle(slot, dispatch.token, Ended(Verdict.PASS), self.now):
                    self.done.append(dispatch.case)
            if self.engine.finished:
                break
        assert sorted(self.done) == list(range(30))


TestEngineAgainstModel = EngineAgainstModel.TestCase
TestEngineAgainstModel.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)


class EngineBySize(EngineAgainstModel):
    """The same where the largest case that fits goes first."""

    largest_first = True


TestEngineBySize = EngineBySize.TestCase
TestEngineBySize.settings = TestEngineAgainstModel.settings


class Contexts(Memory):
    """A device of which each idle process holds a part, so that a large case waits for its neighbours to go."""

    def reserve(self, slot: str, label: str, need: int, *, grown: bool) -> Grant | NoRoom:
        self.held.setdefault("contexts", 5 * self.slots)
        return super().reserve(slot, label, need, grown=grown)

    def gone(self, slot: str) -> None:
        super().gone(slot)
        self.held["contexts"] -= 5


def test_idle_processes_give_way_to_a_case_that_does_not_fit_beside_them() -> None:
    engine = engine_for([95], Contexts(slots=2))
    assert engine.poll(0.0) == []
    assert engine.to_suspend() == []
    assert engine.poll(GIVE_WAY_SECONDS) == []
    assert engine.to_suspend() == ["gw0", "gw1"]
    assert [dispatch.case for dispatch in engine.poll(GIVE_WAY_SECONDS + 0.5)] == [0]
    assert engine.to_suspend() == []


def test_idle_processes_stay_while_a_neighbour_runs() -> None:
    engine = engine_for([60, 60])
    (running,) = engine.poll(0.0)
    assert engine.poll(10.0) == []
    assert engine.to_suspend() == []
    assert engine.settle("gw0", running.token, Ended(Verdict.PASS), 20.0)
    assert [dispatch.case for dispatch in engine.poll(20.0)] == [1]


def test_a_lease_that_a_context_undid_is_reported_to_admission() -> None:
    noted: list[tuple[str, int]] = []

    class Noting(Memory):
        def note_context(self, slot: str, nbytes: int) -> None:
            noted.append((slot, nbytes))

    engine = engine_for([10], Noting())
    (dispatch,) = engine.poll(0.0)
    assert not engine.settle("gw0", dispatch.token, Ended(Verdict.DEFERRED, context_bytes=7), 1.0)
    assert noted == [("gw0", 7)]
