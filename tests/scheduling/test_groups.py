"""The engine over several groups of devices: breadth first, refusals by group, quarantine, pause."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_paddleapi.results.verdicts import Verdict
from pytest_paddleapi.scheduling.dispatching import Dispatch, Ended, Grant, NoRoom
from pytest_paddleapi.scheduling.engine import Engine
from pytest_paddleapi.scheduling.queue import CaseQueue

from .doubles import QuietAdmission


@dataclass
class Groups(QuietAdmission):
    """Groups of so many bytes each, whose promises are counted in full."""

    sizes: dict[str, int]
    targets: dict[str, int] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    paused: bool = False
    lost: dict[str, str] = field(default_factory=dict)
    trouble: str = ""
    asked: list[str] = field(default_factory=list)
    #: Whether each asked-for case could have been given all that there is.
    grown: list[bool] = field(default_factory=list)

    def place(self, slot: str, group: str) -> None:
        self.places[slot] = group

    def drop_group(self, group: str) -> None:
        del self.sizes[group]

    def need(self, estimate: int) -> int:
        return estimate

    def is_oversize(self, need: int) -> bool:
        return bool(self.sizes) and all(need > size for size in self.sizes.values())

    def target(self, group: str) -> int:
        return self.targets.get(group, 64)

    def reserve(self, slot: str, label: str, need: int, *, grown: bool) -> Grant | NoRoom:
        group = self.places[slot]
        self.asked.append(group)
        self.grown.append(grown)
        used = sum(size for other, size in self.held.items() if self.places[other] == group)
        if used + need > self.sizes[group]:
            return NoRoom(self.sizes[group] - used)
        self.held[slot] = need
        return Grant(need, need == self.sizes[group])

    def finished(self, slot: str, *, pid: int | None) -> None:
        del self.held[slot]

    def gone(self, slot: str) -> None:
        self.held.pop(slot, None)

    def take_lost(self) -> dict[str, str]:
        lost, self.lost = self.lost, {}
        return lost

    def under_pressure(self, now: float, *, waiting: int, busy: int) -> bool:
        return bool(waiting) and not busy and now > 600


def engine_on(admission: Groups, estimates: list[int | None], slots: dict[str, str]) -> Engine:
    engine = Engine(CaseQueue(range(len(estimates))), admission, estimates.__getitem__, str)
    for slot, group in slots.items():
        engine.add_slot(slot, group)
    return engine


def started(dispatches: list[Dispatch]) -> list[tuple[str, int]]:
    return [(d.slot, d.case) for d in dispatches]


FOUR = {"a1": "A", "a2": "A", "b1": "B", "b2": "B"}


def test_devices_are_filled_breadth_first() -> None:
    engine = engine_on(Groups({"A": 10, "B": 10}), [1, 1, 1], FOUR)
    assert started(engine.poll(0.0)) == [("a1", 0), ("b1", 1), ("a2", 2)]


def test_each_group_has_its_own_target() -> None:
    engine = engine_on(Groups({"A": 10, "B": 10}, targets={"A": 1, "B": 2}), [1] * 5, FOUR)
    assert started(engine.poll(0.0)) == [("a1", 0), ("b1", 1), ("b2", 2)]


def test_what_one_group_refuses_another_may_take() -> None:
    admission = Groups({"A": 5, "B": 10})
    engine = engine_on(admission, [8, 4], {"a1": "A", "b1": "B"})
    assert started(engine.poll(0.0)) == [("a1", 1), ("b1", 0)]


def test_a_refusal_is_not_asked_for_again_on_the_groups_next_slot() -> None:
    admission = Groups({"A": 5, "B": 10})
    engine = engine_on(admission, [8, 8, 8], {"a1": "A", "a2": "A", "a3": "A"})
    assert engine.poll(0.0) == []
    assert admission.asked == ["A"]


def test_a_lost_device_takes_its_idle_slots_along_and_lets_busy_ones_end() -> None:
    admission = Groups({"A": 10, "B": 10})
    engine = engine_on(admission, [1] * 6, FOUR)
    running = {d.slot: d for d in engine.poll(0.0)}
    lost = Ended(Verdict.DEFERRED, retired="cudaErrorDeviceLost", device_lost=True)
    assert not engine.settle("a1", running["a1"].token, lost, 1.0)
    assert engine.quarantined == {"A": "cudaErrorDeviceLost"}
    assert engine.running("a2") is not None
    assert engine.settle("a2", running["a2"].token, Ended(Verdict.PASS), 2.0)
    engine.add_slot("a3", "A")  # a replacement that was on its way
    for slot in ("b1", "b2"):
        engine.settle(slot, running[slot].token, Ended(Verdict.PASS), 2.0)
    again = engine.poll(3.0)
    assert {d.slot for d in again} == {"b1", "b2"}
    assert 0 in {d.case for d in again}
    assert engine.stop_reason is None


def test_a_device_that_is_lost_while_cases_run_takes_no_more() -> None:
    admission = Groups({"A": 10, "B": 10})
    engine = engine_on(admission, [1] * 4, {"a1": "A", "a2": "A", "b1": "B"})
    admission.targets["A"] = 1
    running = {d.slot: d for d in engine.poll(0.0)}
    admission.lost["A"] = "it fell off the bus"
    engine.poll(1.0)
    assert engine.quarantined == {"A": "it fell off the bus"}
    assert engine.settle("a1", running["a1"].token, Ended(Verdict.PASS), 2.0)
    engine.settle("b1", running["b1"].token, Ended(Verdict.PASS), 2.0)
    assert started(engine.poll(3.0)) == [("b1", 2)]


def test_a_group_whose_slots_are_all_retired_is_quarantined() -> None:
    engine = engine_on(Groups({"A": 10, "B": 10}), [1] * 4, {"a1": "A", "b1": "B"})
    (first, _) = engine.poll(0.0)
    engine.settle("a1", first.token, Ended(Verdict.DEFERRED, retired="5 starts failed"), 0.0)
    assert "A" in engine.quarantined


def test_without_a_slot_the_run_stops_at_once_and_names_the_reason() -> None:
    engine = engine_on(Groups({"A": 10}), [1, 1], {"a1": "A"})
    (only,) = engine.poll(0.0)
    engine.settle("a1", only.token, Ended(Verdict.DEFERRED, retired="gone", device_lost=True), 0.0)
    assert engine.stop_reason == "no slot is left that could run a case: gone"
    assert sorted(engine.queue.pending()) == [0, 1]


def test_what_only_fitted_on_a_lost_device_is_oversize() -> None:
    engine = engine_on(Groups({"A": 100, "B": 10}), [50, 1], {"a1": "A", "b1": "B"})
    (big, _) = engine.poll(0.0)
    engine.settle("a1", big.token, Ended(Verdict.DEFERRED, retired="gone", device_lost=True), 0.0)
    engine.poll(1.0)
    engine.settle("b1", engine.running("b1").token, Ended(Verdict.PASS), 1.0)  # type: ignore[union-attr]
    engine.poll(2.0)
    assert engine.oversize == [(0, 50)]


def test_a_pause_starts_nothing_suspends_each_idle_slot_once_and_is_no_pressure() -> None:
    admission = Groups({"A": 10})
    engine = engine_on(admission, [1] * 3, {"a1": "A", "a2": "A"})
    first, second = engine.poll(0.0)
    admission.paused = True
    engine.settle("a1", first.token, Ended(Verdict.PASS), 1.0)
    assert engine.poll(1.0) == []
    assert engine.to_suspend() == ["a1"]
    assert engine.to_suspend() == []
    engine.settle("a2", second.token, Ended(Verdict.PASS), 2.0)
    assert engine.to_suspend() == ["a2"]
    assert engine.poll(10_000.0) == []
    assert engine.stop_reason is None
    admission.paused = False
    assert started(engine.poll(10_001.0)) == [("a1", 2)]
    assert engine.to_suspend() == []


def test_a_case_without_an_estimate_is_passed_over_until_there_is_one() -> None:
    estimates: list[int | None] = [None, 1]
    engine = engine_on(Groups({"A": 10}), estimates, {"a1": "A", "a2": "A"})
    assert started(engine.poll(0.0)) == [("a1", 1)]
    estimates[0] = 3
    assert started(engine.poll(0.0)) == [("a2", 0)]


def test_the_last_device_lost_stops_the_run_lets_busy_slots_end_and_decides_no_case() -> None:
    admission = Groups({"A": 10})
    engine = engine_on(admission, [1] * 5, {"a1": "A", "a2": "A"})
    running = {d.slot: d for d in engine.poll(0.0)}
    lost = Ended(Verdict.DEFERRED, retired="it fell off the bus", device_lost=True)
    engine.settle("a1", running["a1"].token, lost, 1.0)
    assert engine.stop_reason == "no slot is left that could run a case: it fell off the bus"
    assert engine.poll(2.0) == [] and not engine.finished
    assert engine.settle("a2", running["a2"].token, Ended(Verdict.PASS), 3.0)
    assert engine.finished and engine.oversize == []
    assert sorted(engine.queue.pending()) == [0, 2, 3, 4]


def test_the_last_device_that_is_found_lost_stops_the_run_too() -> None:
    admission = Groups({"A": 10})
    engine = engine_on(admission, [1] * 5, {"a1": "A", "a2": "A"})
    engine.poll(0.0)
    admission.lost["A"] = "it fell off the bus"
    engine.poll(1.0)
    assert engine.stop_reason == "no slot is left that could run a case: it fell off the bus"
    assert engine.oversize == [] and len(engine.queue) == 3


def test_a_run_goes_on_without_a_slot_as_long_as_one_is_coming() -> None:
    admission = Groups({"A": 10, "B": 10}, lost={"A": "it fell off the bus"})
    engine = engine_on(admission, [1], {"a1": "A"})
    coming = True
    engine.awaited = lambda: coming
    assert engine.poll(0.0) == [] and engine.stop_reason is None
    engine.add_slot("b1", "B")
    coming = False
    assert started(engine.poll(1.0)) == [("b1", 0)]
    assert engine.stop_reason is None


def test_a_run_stops_when_what_was_coming_did_not_come() -> None:
    admission = Groups({"A": 10, "B": 10}, lost={"A": "it fell off the bus"})
    engine = engine_on(admission, [1], {"a1": "A"})
    engine.awaited = lambda: True
    engine.poll(0.0)
    engine.awaited = lambda: False
    engine.poll(1.0)
    assert engine.stop_reason is not None and "fell off" in engine.stop_reason


def test_a_pause_asks_for_no_look() -> None:
    admission = Groups({"A": 10}, paused=True)
    engine = engine_on(admission, [1], {"a1": "A"})
    engine.poll(0.0)
    assert engine.next_look(1.0) is None
    admission.paused = False
    assert engine.next_look(1.0) == 1.0


def test_a_slot_whose_start_was_undone_comes_last_until_a_case_has_ended_there() -> None:
    engine = engine_on(Groups({"A": 10}), [1] * 4, {"a1": "A", "a2": "A"})
    first, second = engine.poll(0.0)
    assert engine.settle("a2", second.token, Ended(Verdict.PASS, pid=7), 1.0)
    engine.settle("a1", first.token, Ended(Verdict.DEFERRED), 1.0)
    (next_one, after) = engine.poll(40.0)
    assert (next_one.slot, after.slot) == ("a2", "a1")
    assert engine.settle("a2", next_one.token, Ended(Verdict.PADDLE_CRASH), 41.0)  # its process is gone
    assert engine.settle("a1", after.token, Ended(Verdict.PASS, pid=8), 41.0)
    (last,) = engine.poll(42.0)
    assert last.slot == "a1"


def test_a_slot_with_a_process_goes_before_one_without() -> None:
    engine = engine_on(Groups({"A": 10}), [1] * 3, {"a1": "A", "a2": "A"})
    first, second = engine.poll(0.0)
    engine.settle("a1", first.token, Ended(Verdict.PADDLE_CRASH), 1.0)
    engine.settle("a2", second.token, Ended(Verdict.PASS, pid=7), 1.0)
    assert [d.slot for d in engine.poll(2.0)] == ["a2"]


def test_a_host_that_had_no_memory_after_all_is_left_alone_longer_each_time() -> None:
    engine = engine_on(Groups({"ssh b #0": 10}), [1] * 100, {"r": "ssh b #0"})
    refused = Ended(Verdict.DEFERRED, capacity_bytes=10)
    now = 0.0
    for rest in (1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0):
        (sent,) = engine.poll(now)
        engine.settle("r", sent.token, refused, now)
        assert engine.next_look(now) == now + rest
        assert engine.poll(now + rest - 0.01) == []
        now += rest
    (sent,) = engine.poll(now)
    engine.settle("r", sent.token, Ended(Verdict.PASS, pid=3, capacity_bytes=10), now)
    (sent,) = engine.poll(now)
    engine.settle("r", sent.token, refused, now)
    assert engine.next_look(now) == now + 1.0


def test_slots_that_run_something_else_are_no_pressure() -> None:
    engine = engine_on(Groups({"A": 10}), [1], {"a1": "A"})
    assert engine.poll(1000.0, free=[], elsewhere=1) == [] and engine.stop_reason is None
    engine.poll(1000.0, free=[])
    assert engine.stop_reason is not None


def test_all_there_is_is_final_only_after_idle_neighbours_have_let_go() -> None:
    admission = Groups({"A": 10})
    engine = engine_on(admission, [3, 3], {"a1": "A", "a2": "A"})
    first, second = engine.poll(0.0)
    engine.settle("a1", first.token, Ended(Verdict.PASS, pid=7), 1.0)
    engine.settle("a2", second.token, Ended(Verdict.DEFERRED, needed_bytes=10, pid=8), 1.0)
    # What there is beside the idle neighbour may do, and it not doing is not the end.
    (again,) = engine.poll(2.0)
    assert (again.lease_bytes, again.whole_device) == (10, False)
    engine.settle(again.slot, again.token, Ended(Verdict.DEFERRED, needed_bytes=12, pid=8), 3.0)
    admission.grown.clear()
    engine.poll(4.0)
    assert admission.grown == [False] and engine.to_suspend() == []
    engine.poll(7.5)
    assert sorted(engine.to_suspend()) == ["a1", "a2"]
    admission.grown.clear()
    engine.poll(8.0)
    assert admission.grown == [True]
