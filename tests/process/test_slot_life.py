"""The states of a slot: which follow which, and what failed starts lead to. Time is passed in."""

from __future__ import annotations

import itertools

import pytest

from pytest_paddleapi.process.errors import SlotStateError
from pytest_paddleapi.process.slot import TRANSITIONS, SlotLife, SlotState, StartRules

S = SlotState
LIVE = [S.STARTING, S.LOADED, S.PREPARING, S.IDLE]


def life_in(state: SlotState) -> SlotLife:
    life = SlotLife()
    life.state = state
    return life


def test_the_life_of_a_slot() -> None:
    life = SlotLife()
    for state in (*LIVE, S.BUSY, S.IDLE, S.BUSY, S.SUSPENDED, S.STARTING):
        life.to(state)
    assert life.state is S.STARTING


@pytest.mark.parametrize(("old", "new"), list(itertools.product(S, S)), ids=str)
def test_a_move_is_allowed_exactly_as_the_table_says(old: SlotState, new: SlotState) -> None:
    life = life_in(old)
    if new in TRANSITIONS[old]:
        life.to(new)
        assert life.state is new
    else:
        with pytest.raises(SlotStateError, match=f"cannot go from {old.value} to {new.value}"):
            life.to(new)
        assert life.state is old


@pytest.mark.parametrize("state", [s for s in S if s not in (S.DEAD, S.RETIRED, S.QUARANTINED)])
def test_a_process_may_die_in_any_state(state: SlotState) -> None:
    life = life_in(state)
    life.died()
    assert life.state is S.DEAD


@pytest.mark.parametrize("state", [S.RETIRED, S.QUARANTINED])
def test_what_is_over_stays_over(state: SlotState) -> None:
    life = life_in(state)
    life.died()
    assert life.state is state
    with pytest.raises(SlotStateError):
        life.to(S.STARTING)


def fail(life: SlotLife, now: float) -> None:
    life.to(S.STARTING)
    life.start_failed(now)


def test_failed_starts_wait_longer_and_longer_then_retire() -> None:
    life = SlotLife()
    waits = []
    for _ in range(4):
        fail(life, 100.0)
        waits.append(life.retry_at - 100.0)
    assert waits == [5, 15, 30, 60]
    assert life.state is S.DEAD
    fail(life, 100.0)
    assert life.state is S.RETIRED


def test_only_failures_in_a_row_count() -> None:
    life = SlotLife()
    for _ in range(4):
        fail(life, 0.0)
    for state in LIVE:
        life.to(state)
    life.start_succeeded()
    assert (life.failures, life.retry_at) == (0, 0.0)
    life.died()
    fail(life, 0.0)
    assert life.retry_at == 5


def test_zero_means_never_retired() -> None:
    life = SlotLife(StartRules(retire_after=0))
    for _ in range(50):
        fail(life, 0.0)
    assert life.state is S.DEAD
    assert life.retry_at == 60


def test_undone_starts_are_counted_apart_and_retire_at_three() -> None:
    life = SlotLife()
    for expected in (S.SUSPENDED, S.SUSPENDED, S.RETIRED):
        for state in LIVE:
            life.to(state)
        life.start_succeeded()
        life.start_undone()
        assert life.state is expected


def test_a_case_that_begins_clears_the_undone_starts() -> None:
    life = life_in(S.IDLE)
    life.start_undone()
    life.state = S.IDLE
    life.case_begins()
    assert (life.state, life.undone) == (S.BUSY, 0)


def test_a_retired_slot_can_still_be_quarantined_with_its_device() -> None:
    life = life_in(S.RETIRED)
    life.quarantine()
    life.quarantine()
    assert life.state is S.QUARANTINED
