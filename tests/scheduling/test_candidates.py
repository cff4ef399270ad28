"""Which waiting cases are asked for memory: against the plain rule, one case after another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_paddleapi.scheduling.candidates import Candidate, Candidates


def plain(waiting: list[Candidate]) -> list[Candidate]:
    """All that need less than every one before them, and all that have grown."""
    found: list[Candidate] = []
    for candidate in waiting:
        if candidate.grown or all(candidate.need < other.need for other in found):
            found.append(candidate)
    return found


def steps_of(candidates: Candidates, window: int) -> list[Candidate]:
    found: list[Candidate] = []
    while (candidate := candidates.step(len(found), window)) is not None:
        found.append(candidate)
    return found


@given(
    grown=st.lists(st.integers(1, 9), max_size=3),
    needs=st.lists(st.integers(1, 9), max_size=30),
    takes=st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=30),
)
def test_the_same_are_found_as_by_looking_at_each(
    grown: list[int], needs: list[int], takes: list[tuple[int, bool]]
) -> None:
    every = [Candidate(n, need, n < len(grown)) for n, need in enumerate([*grown, *needs])]
    candidates = Candidates(iter(range(len(every))), len(grown), every.__getitem__, 1)
    waiting = list(every)
    for number, look_at_all in takes:
        expected = plain(waiting)
        if look_at_all:
            assert steps_of(candidates, 1000) == expected
        if number < len(expected):
            assert candidates.step(number, 1000) == expected[number]
            candidates.take(number)
            waiting.remove(expected[number])
    assert steps_of(candidates, 1000) == plain(waiting)


def test_no_further_is_read_than_the_window_and_what_was_taken() -> None:
    read: list[int] = []

    def look(case: int) -> Candidate:
        read.append(case)
        return Candidate(case, 100 - case, False)

    candidates = Candidates(iter(range(50)), 0, look, 1)
    assert len(steps_of(candidates, 4)) == 4
    assert read == [0, 1, 2, 3]
    candidates.take(0)
    assert len(steps_of(candidates, 4)) == 4
    assert read == [0, 1, 2, 3, 4]


def test_behind_one_that_needs_the_least_none_is_read() -> None:
    every = [Candidate(0, 5, False), Candidate(1, 7, True), Candidate(2, 1, False), Candidate(3, 1, False)]
    read: list[int] = []

    def look(case: int) -> Candidate:
        read.append(case)
        return every[case]

    candidates = Candidates(iter(range(4)), 2, look, 1)
    assert [c.case for c in steps_of(candidates, 100)] == [0, 1, 2]
    assert read == [0, 1, 2]


def test_what_fits_nowhere_is_passed_over() -> None:
    candidates = Candidates(iter(range(3)), 0, lambda case: None if case == 0 else Candidate(case, case, False), 1)
    assert [c.case for c in steps_of(candidates, 100)] == [1]
