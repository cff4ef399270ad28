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

    def place(self, slot: str, group: str) -> None:
        self.places[slot] = group

    def drop_group(self, group: str) -> None:
        del self.sizes[group]

    def need(self, estimate: int) -> int:
        return estimate

    def is_oversize(self, need: int) -> bool:
        return all(need > size for size in self.sizes.values())

    def target(self, group: str) -> int:
        return self.targets.get(group, 64)

    def reserve(self, slot: str, label: str, need: int, *, grown: bool) -> Grant | NoRoom:
        group = self.places[slot]
        self.asked.append(group)
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
