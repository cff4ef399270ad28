"""The order by size: what a slot is given, how often memory is asked for, and that nothing waits for ever."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_paddleapi.scheduling.candidates import Candidate
from pytest_paddleapi.scheduling.dispatching import Grant, NoRoom
from pytest_paddleapi.scheduling.largest_first import (
    LARGEST_FIRST_WINDOW,
    MOST_TRIES,
    OLDEST_EVERY,
    OLDEST_EVERY_COLD,
    LargestFirst,
)
from pytest_paddleapi.scheduling.ordering import DEEP_LOOK_EVERY, DEEP_WINDOW
from pytest_paddleapi.scheduling.queue import CaseQueue


@dataclass
class Asking:
    """An order over cases of so many bytes each, asked with so much room; None: it is not known yet."""

    needs: list[int | None]
    now: float = 0.0
    read: list[int] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    retried: dict[int, Candidate] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.queue = CaseQueue(range(len(self.needs)))
        self.order = LargestFirst(self.queue, self.look)

    def look(self, case: int) -> Candidate | None:
        self.read.append(case)
        if case in self.retried:
            return self.retried[case]
        need = self.needs[case]
        return None if need is None else Candidate(case, need, False)

    def extend(self, *needs: int) -> None:
        self.queue.extend(range(len(self.needs), len(self.needs) + len(needs)))
        self.needs += needs

    def pick(self, room: int | Callable[[Candidate], Grant | NoRoom], warm: bool = True, group: str = "") -> int | None:
        """The case that a slot is given."""

        def ask(candidate: Candidate) -> Grant | NoRoom:
            self.asked.append(candidate.case)
            if callable(room):
                return room(candidate)
            return Grant(candidate.need, False) if candidate.need <= room else NoRoom(room)

        self.asked.clear()
        self.order.look(self.now, 1)
        picked = self.order.pick(group, ask, warm=warm)
        if picked is None:
            return None
        self.queue.take(picked.candidate.case)
        return picked.candidate.case


def test_the_largest_that_fits_is_found_with_the_second_question() -> None:
    asking = Asking([5, 90, 40, 60, 40])
    assert asking.pick(50) == 2
    assert asking.asked == [1, 2]
    assert asking.pick(100) == 1
    assert asking.asked == [1]


def test_what_was_refused_is_not_asked_for_again_though_there_is_room_for_it() -> None:
    asking = Asking([30, 20, 10])
    # The process that is to be started would take what is missing then.
    assert asking.pick(lambda candidate: NoRoom(candidate.need)) is None
    assert asking.asked == [0, 1, 2]


def test_a_slot_without_a_process_gets_the_smallest_or_nothing() -> None:
    asking = Asking([50, 5, 90])
    assert asking.pick(4, warm=False) is None
    assert asking.asked == [1]
    assert asking.pick(100, warm=False) == 1


def test_of_those_that_need_the_same_the_first_goes_first() -> None:
    asking = Asking([7] * 5)
    assert [asking.pick(10, warm=n % 2 == 0) for n in range(5)] == [0, 1, 2, 3, 4]


def test_retries_go_ahead_and_what_is_refused_to_them_is_not_asked_for_again() -> None:
    asking = Asking([10, 20, 30, 80])
    asking.queue.take(0)
    asking.queue.retry(0, 5.0)
    assert asking.pick(50) == 2
    asking.now = 5.0
    assert asking.pick(50) == 0
    asking.queue.take(1)
    asking.retried[1] = Candidate(1, 70, True)
    asking.queue.retry(1, 5.0)
    asking.extend(60, 40)
    assert asking.pick(50) == 5
    assert asking.asked == [1, 5]  # neither 80 nor 60: there are but 50
    assert asking.pick(100) == 1


def test_a_retry_that_a_larger_device_is_kept_for_says_nothing_about_the_others() -> None:
    asking = Asking([10, 20])
    asking.queue.take(0)
    asking.retried[0] = Candidate(0, 5, True)
    asking.queue.retry(0, 0.0)
    assert asking.pick(lambda candidate: NoRoom() if candidate.grown else Grant(candidate.need, False)) == 1


def test_a_case_without_an_estimate_is_passed_over_until_there_is_one() -> None:
    asking = Asking([10, None, 20])
    assert asking.pick(100) == 2
    assert asking.order.unready
    asking.needs[1] = 15
    assert asking.pick(100) == 1
    assert not asking.order.unready
    assert asking.pick(100) == 0


def test_an_estimate_that_comes_for_a_case_that_runs_already_puts_it_nowhere() -> None:
    asking = Asking([None, 20])
    assert asking.pick(100) == 1
    asking.queue.take(0)
    asking.needs[0] = 10
    assert asking.pick(100) is None


def test_what_is_refused_for_another_reason_than_memory_is_asked_for_once() -> None:
    asking = Asking([10, 20, 30])
    assert asking.pick(lambda _: NoRoom()) is None
    assert asking.asked == [2]


def test_questions_are_bounded_and_the_last_one_is_for_the_smallest() -> None:
    asking = Asking(list(range(1, 100)))
    assert asking.pick(lambda candidate: NoRoom(candidate.need - 1)) is None
    assert asking.asked == [*range(98, 99 - MOST_TRIES, -1), 0]
    assert asking.pick(lambda c: Grant(1, False) if c.need == 1 else NoRoom(c.need - 1)) == 0


def test_no_more_are_read_than_the_window_and_each_once() -> None:
    asking = Asking([n % 7 + 1 for n in range(LARGEST_FIRST_WINDOW + 100)])
    for _ in range(50):
        asking.pick(10)
    assert asking.read == list(range(LARGEST_FIRST_WINDOW + 49))


def test_behind_a_window_of_which_nothing_fits_there_is_a_deeper_look_now_and_then() -> None:
    asking = Asking([*[50] * LARGEST_FIRST_WINDOW, 5, *[50] * DEEP_WINDOW, 5])
    assert asking.pick(10) == LARGEST_FIRST_WINDOW
    assert asking.pick(10) is None
    assert len(asking.read) == LARGEST_FIRST_WINDOW + DEEP_WINDOW
    asking.now = DEEP_LOOK_EVERY / 2
    assert asking.pick(10) is None
    assert len(asking.read) == LARGEST_FIRST_WINDOW + DEEP_WINDOW


def test_estimates_that_got_better_are_seen_in_time() -> None:
    asking = Asking([90, 60])
    assert asking.pick(10) is None
    asking.needs[1] = 5
    assert asking.pick(10) is None
    asking.now = DEEP_LOOK_EVERY
    assert asking.pick(10) == 1


def test_the_largest_that_fits_under_the_lease_follows() -> None:
    asking = Asking([10, 30, 20, 40])
    asking.order.look(0.0, 1)
    assert asking.order.follower("", 35, 0.0) == 1
    asking.queue.take(1)
    asking.order.followed("", 1)
    assert asking.order.follower("", 35, 0.0) == 2
    assert asking.pick(100) == 3


def test_where_a_retry_waits_nothing_else_follows() -> None:
    asking = Asking([10, 30])
    asking.order.look(0.0, 1)
    asking.queue.take(0)
    asking.queue.put_back(0)
    assert asking.order.follower("", 35, 0.0) == 0
    asking.queue.take(0)
    asking.order.followed("", 0)
    assert asking.pick(100) == 1
    assert asking.pick(100) is None


def test_every_so_manyth_start_of_a_group_is_the_first_in_order() -> None:
    asking = Asking([1, *range(2, 200)])
    first = [asking.pick(1000) for _ in range(OLDEST_EVERY)]
    assert first == [*range(198, 199 - OLDEST_EVERY, -1), 0]
    assert asking.pick(1000, group="other") == 199 - OLDEST_EVERY


@settings(deadline=None)
@given(
    before=st.lists(st.integers(1, 9), max_size=12),
    need=st.integers(1, 9),
    steps=st.lists(
        st.tuples(st.booleans(), st.integers(0, 20), st.sampled_from(["pick", "pick", "pick", "follow", "retry"])),
        min_size=1,
        max_size=60,
    ),
)
def test_no_case_waits_for_ever(before: list[int], need: int, steps: list[tuple[bool, int, str]]) -> None:
    """Whatever comes behind a case, larger or smaller: it starts after a bounded number of starts on a device where
    it fits. The steps are repeated for as long as it waits."""
    asking = Asking([*before, need])
    case, everywhere = len(before), 1000
    bound = OLDEST_EVERY_COLD * (len(before) + 1)
    starts = 0
    while asking.queue.is_offered(case):
        for warm, room, act in steps:
            asking.extend(1, 9, 15)
            if act == "follow":
                asking.order.look(asking.now, 1)
                chosen = asking.order.follower("", max(room, need), asking.now)
                if chosen is None or (asking.needs[chosen] or 0) > max(room, need):
                    continue
                asking.queue.take(chosen)
                asking.order.followed("", chosen)
            else:
                chosen = asking.pick(max(room, need), warm)
                assert chosen is not None
                if act == "retry":
                    asking.queue.retry(chosen, asking.now)
                    asking.retried[chosen] = Candidate(chosen, asking.needs[chosen] or 0, False)
                    assert asking.pick(everywhere, warm) == chosen
            starts += 1
            asking.now += 0.01
            if chosen == case:
                break
            assert starts < bound, "the case has waited for too long"
        else:
            if all(act == "follow" for _, _, act in steps):
                break  # followers alone start nothing when it is the first's turn
