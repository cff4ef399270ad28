"""When a line of progress is due, and what it says, with a clock of our own."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from pytest_paddleapi.progress import Progress, ProgressRules, duration
from pytest_paddleapi.sharding import guess_seconds

CASES = [f'paddle.f(Tensor([{n}],"float32"))' for n in range(1, 10_001)]


class Run:
    """A run whose cases take so many seconds each, one after another."""

    def __init__(self, rules: ProgressRules | None = None, recorded: Mapping[str, float] | None = None) -> None:
        self.progress = Progress(rules or ProgressRules(), lambda: recorded or {})
        self.progress.begin(CASES, 1000.0)
        self.now = 1000.0
        self.lines: list[tuple[float, str]] = []

    def wait(self, seconds: float) -> Run:
        """Look every half second, as the loops do."""
        for _ in range(round(seconds * 2)):
            self.now += 0.5
            self.look()
        return self

    def cases(self, number: int, seconds: float, *, failed: bool = False) -> Run:
        for _ in range(number):
            self.now += seconds
            self.progress.add(CASES[self.progress.done], failed=failed)
            self.look()
        return self

    def look(self) -> None:
        if line := self.progress.line(self.now, lambda: "memory in use: host 1.0 of 2.0 GiB"):
            self.lines.append((self.now - 1000.0, line))

    @property
    def times(self) -> list[float]:
        return [time for time, _ in self.lines]


def test_the_first_line_comes_after_a_minute_and_a_hundred_cases() -> None:
    assert Run().cases(500, 0.1).times == []
    assert Run().cases(99, 0.1).wait(60).times == []
    assert Run().cases(99, 0.1).wait(60).cases(1, 0.0).times == pytest.approx([69.9])
    assert Run().cases(1000, 0.1).times == pytest.approx([60.0], abs=0.11)


def test_without_a_hundred_cases_it_comes_after_five_minutes() -> None:
    run = Run().wait(400)
    assert run.times == pytest.approx([300.0])
    assert run.lines[0][1] == "0 of 10000 cases done, 0 failed; memory in use: host 1.0 of 2.0 GiB"


@pytest.mark.parametrize(
    ("seconds", "apart"),
    [
        (0.05, 60.0),  # a hundred cases take 5 s: not more often than a minute
        (2.0, 200.0),  # a hundred cases' time
        (25.0, 1800.0),  # they would take 42 minutes: at least every half an hour
    ],
)
def test_then_a_line_comes_for_each_hundred_cases_within_limits(seconds: float, apart: float) -> None:
    run = Run().cases(min(9000, int(3 * apart / seconds) + 200), seconds)
    assert len(run.times) >= 3
    assert [b - a for a, b in zip(run.times[:3], run.times[1:3])] == pytest.approx([apart] * 2, abs=seconds + 0.01)


def test_nothing_ends_for_long_and_a_line_still_comes_every_half_hour() -> None:
    assert Run().wait(4000).times == pytest.approx([300.0, 2100.0, 3900.0])


def test_the_rate_and_the_rest_follow_from_what_is_done() -> None:
    run = Run().cases(2, 0.5, failed=True).cases(595, 0.1)
    ((_, line),) = run.lines
    assert re.match(r"59[23] of 10000 cases done, 2 failed, 9\.9 a second, about 18 min left; ", line)


def test_recorded_costs_foresee_a_slow_end() -> None:
    """The first half took 10 ms each before, the second 1 s: the rate alone would promise far too little."""
    recorded = {case: 0.01 if n < 5000 else 1.0 for n, case in enumerate(CASES)}
    run = Run(recorded=recorded).cases(5000, 0.02)
    assert [(round(time), line.partition("about ")[2].partition(" left")[0]) for time, line in run.lines] == [
        (60, "2 h 47 min")
    ]


def test_guesses_are_fitted_to_what_is_recorded() -> None:
    """On a slow machine every case took 50 times its guess; one half of them is not recorded."""
    recorded = {case: 50 * guess_seconds(case) for case in CASES[5000:]}
    run = Run(recorded=recorded).cases(5000, 0.02)
    # 3000 of 10000 are done after a minute, and the later ones are a little larger.
    assert "about 2 min left" in run.lines[0][1] or "about 3 min left" in run.lines[0][1]


def test_sizes_are_gone_by_where_nothing_is_recorded() -> None:
    progress = Progress(ProgressRules(), dict)
    large = 'paddle.f(Tensor([100, 1000000],"float32"))'
    progress.begin([*CASES[:200], large], 0.0)
    for case in CASES[:200]:
        progress.add(case, failed=False)
    # By the rate alone it would be half a second.
    assert "about 27 min left" in progress.line(100.0, str)


def test_there_is_none_before_the_run_nor_when_all_is_done() -> None:
    progress = Progress(ProgressRules(), dict)
    assert progress.line(1e9, str) == ""
    run = Run(ProgressRules.at_least(0.001))
    run.cases(10_000, 0.001)
    assert run.times and max(run.times) < 10.0
    run.wait(1e4)
    assert max(run.times) < 10.0


def test_the_seconds_can_be_set() -> None:
    assert ProgressRules.at_least(60) == ProgressRules()
    assert ProgressRules.at_least(2) == ProgressRules(2, 100, 10, 60)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (7000, "117 min"), (7230, "2 h 0 min"), (180_000, "2 d 2 h")],
)
def test_durations_are_said_in_two_units_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text
