"""The queue of waiting cases."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pytest_paddleapi.scheduling.queue import CaseQueue


def test_new_cases_keep_their_order() -> None:
    queue = CaseQueue([0, 1, 2, 3])
    assert queue.candidates(0.0, 3) == [0, 1, 2]
    queue.take(0)
    assert queue.candidates(0.0, 10) == [1, 2, 3]


def test_a_case_taken_from_the_middle_is_not_offered_again() -> None:
    queue = CaseQueue(range(6))
    queue.take(2)
    queue.take(4)
    assert queue.candidates(0.0, 10) == [0, 1, 3, 5]
    assert len(queue) == 4


def test_a_retry_waits_for_its_delay_and_then_goes_first() -> None:
    queue = CaseQueue([0, 1, 2])
    queue.take(0)
    queue.retry(0, not_before=5.0)
    assert queue.candidates(4.9, 10) == [1, 2]
    assert queue.next_retry() == 5.0
    assert queue.candidates(5.0, 10) == [0, 1, 2]
    queue.take(0)
    assert len(queue) == 2


def test_taking_what_does_not_wait_is_an_error() -> None:
    queue = CaseQueue([0, 1])
    queue.take(1)
    for absent in (1, 7):
        with pytest.raises(ValueError, match="not waiting"):
            queue.take(absent)


def test_added_cases_must_come_later() -> None:
    queue = CaseQueue([3])
    queue.extend([4, 8])
    assert queue.candidates(0.0, 9) == [3, 4, 8]
    with pytest.raises(ValueError, match="comes before"):
        queue.extend([5])


class QueueAgainstModel(RuleBasedStateMachine):
    """Nothing is lost and nothing is offered twice, against a list and a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.size = 40
        self.queue = CaseQueue(range(self.size))
        self.waiting = list(range(self.size))
        self.delayed: dict[int, float] = {}
        self.out: set[int] = set()

    def expected(self) -> list[int]:
        return [*self._due(), *self.waiting]

    def _due(self) -> list[int]:
        return [case for case, due in self.delayed.items() if due <= self.now]

    @rule(position=st.integers(0, 60))
    def take(self, position: int) -> None:
        offered = self.queue.candidates(self.now, 100)
        if not offered:
            return
        case = offered[position % len(offered)]
        self.queue.take(case)
        self.out.add(case)
        if case in self.delayed:
            del self.delayed[case]
        else:
            self.waiting.remove(case)

    @precondition(lambda self: self.out)
    @rule(position=st.integers(0, 60), delay=st.floats(0, 10))
    def put_back(self, position: int, delay: float) -> None:
        case = sorted(self.out)[position % len(self.out)]
        self.out.discard(case)
        self.delayed[case] = self.now + delay
        self.queue.retry(case, self.now + delay)

    @rule(seconds=st.floats(0, 5))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def offers_exactly_what_waits(self) -> None:
        offered = self.queue.candidates(self.now, 100)
        assert sorted(offered) == sorted(self.expected())
        fresh = [case for case in offered if case in self.waiting]
        assert fresh == self.waiting
        assert len(self.queue) == len(self.waiting) + len(self.delayed)
        assert sorted(self.queue.pending()) == sorted([*self.waiting, *self.delayed])


TestQueueAgainstModel = QueueAgainstModel.TestCase
TestQueueAgainstModel.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
