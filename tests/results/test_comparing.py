"""What is named as slower or faster, and that noise is not."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_paddleapi.results.comparing import (
    SERIES,
    Comparison,
    Series,
    _adjusted,
    _two_sided,
    compare,
    read_times,
    series_of,
)
from pytest_paddleapi.results.errors import ResultsError
from pytest_paddleapi.results.folder import ResultsFolder
from pytest_paddleapi.results.rows import Attempt, Environment
from pytest_paddleapi.results.store import ResultsStore
from pytest_paddleapi.results.verdicts import Verdict

Times = dict[str, dict[str, Series]]
MODE = "paddle-gpu-performance"


def a_series(median: float, width: float = 0.01, samples: int = 50, slowdown: float = 1.0) -> Series:
    return Series(median, median * (1 - width / 2), median * (1 + width / 2), 0.98 * median, samples, slowdown)


def a_session(
    seed: int,
    *,
    noise: Callable[[random.Random], float] = lambda rng: rng.gauss(0, 0.03),
    factor: Callable[[int], float] = lambda number: 1.0,
    drift: float = 1.0,
    count: int = 100,
) -> Times:
    """Calls from 2 µs to 20 ms, each with this session's own error on its true time."""
    rng = random.Random(seed)
    return {
        f'paddle.f(Tensor([{number}],"float32"))': {
            name: a_series(0.002 * 10 ** (4 * number / count) * drift * factor(number) * math.exp(noise(rng)))
            for name in ("paddle_forward", "paddle_backward")
        }
        for number in range(1, count + 1)
    }


def named(found: Comparison) -> list[str]:
    return [change.config for change in (*found.slower, *found.faster)]


def test_two_sessions_that_differ_by_noise_name_nothing() -> None:
    names = [name for seed in range(50) for name in named(compare(a_session(seed), a_session(1000 + seed), 0.05))]
    assert len(names) <= 2  # of 10,000 times


def test_noise_with_heavy_tails_names_nearly_nothing() -> None:
    def noise(rng: random.Random) -> float:
        return rng.gauss(0, 0.03 if rng.random() < 0.9 else 0.1)

    found = [compare(a_session(s, noise=noise), a_session(1000 + s, noise=noise), 0.05) for s in range(50)]
    assert sum(len(named(comparison)) for comparison in found) <= 50  # of 10,000 times; 2,000 of them wild


@pytest.mark.parametrize(("factor", "which"), [(1.6, "slower"), (0.6, "faster")])
def test_real_changes_are_named_with_their_size(factor: float, which: str) -> None:
    new = a_session(2, factor=lambda number: factor if number % 10 == 0 else 1.0)
    found = compare(a_session(1), new, 0.05)
    changes = getattr(found, which)
    assert len(changes) == 20
    assert {change.config for change in changes} == {f'paddle.f(Tensor([{n}],"float32"))' for n in range(10, 101, 10)}
    assert all(change.change == pytest.approx(factor - 1, abs=0.2) for change in changes)
    assert len(named(found)) == 20
    assert [abs(c.change) for c in changes] == sorted((abs(c.change) for c in changes), reverse=True)


def test_what_all_times_do_is_taken_out() -> None:
    new = a_session(2, drift=1.5, factor=lambda number: 1.5 if number == 50 else 1.0)
    found = compare(a_session(1), new, 0.05)
    assert found.drift == pytest.approx(1.5, rel=0.02)
    assert set(named(found)) == {'paddle.f(Tensor([50],"float32"))'}


def test_small_changes_are_not_named_however_sure() -> None:
    quiet = {"noise": lambda rng: rng.gauss(0, 1e-4)}
    new = a_session(2, factor=lambda number: 1.06 if number == 50 else 1.0, **quiet)  # type: ignore[arg-type]
    old = a_session(1, **quiet)  # type: ignore[arg-type]
    assert named(compare(old, new, 0.07)) == []
    assert set(named(compare(old, new, 0.05))) == {'paddle.f(Tensor([50],"float32"))'}


def test_a_change_of_the_upper_part_alone_is_not_named() -> None:
    old, new = a_session(1), a_session(2)
    config = 'paddle.f(Tensor([50],"float32"))'
    before = old[config]["paddle_forward"]
    new[config]["paddle_forward"] = a_series(2 * before.median)._replace(p10=before.p10)
    assert named(compare(old, new, 0.05)) == []


def test_an_uncertain_median_is_not_named() -> None:
    old, new = a_session(1), a_session(2)
    config = 'paddle.f(Tensor([50],"float32"))'
    new[config]["paddle_forward"] = a_series(1.5 * old[config]["paddle_forward"].median, width=1.2)
    assert named(compare(old, new, 0.05)) == []


def test_disturbed_times_are_not_judged_and_do_not_make_quiet_ones_seem_noisy() -> None:
    old, new = a_session(1), a_session(2, factor=lambda number: 1.5 if number == 51 else 1.0)
    rng = random.Random(3)
    for number in range(2, 101, 2):
        config = f'paddle.f(Tensor([{number}],"float32"))'
        for name, series in new[config].items():
            new[config][name] = a_series(60 * series.median * math.exp(rng.gauss(0, 0.5)), slowdown=2.0)
    found = compare(old, new, 0.05)
    assert found.disturbed == 100
    assert found.drift == pytest.approx(1.0, rel=0.02)
    assert set(named(found)) == {'paddle.f(Tensor([51],"float32"))'}


def test_few_times_have_a_large_noise_and_no_drift() -> None:
    old, new = a_session(1, count=4), a_session(2, count=4, drift=1.2)
    assert named(compare(old, new, 0.05)) == []
    assert not compare(old, new, 0.05).drift_removed
    assert len(named(compare(old, a_session(2, count=4, drift=3.0), 0.05))) == 8


def test_only_what_both_have_is_compared() -> None:
    old, new = a_session(1, count=30), a_session(2, count=30)
    old["paddle.gone()"] = new["paddle.come()"] = {"torch_forward": a_series(1.0)}
    found = compare(old, new, 0.05)
    assert (found.configs, found.only_old, found.only_new, found.series) == (30, 1, 1, 60)
    assert compare({}, new, 0.05) == Comparison(only_new=31)


def test_student_t_agrees_with_its_density() -> None:
    def density(t: float) -> float:
        return math.exp(math.lgamma(3.5) - math.lgamma(3)) / math.sqrt(6 * math.pi) * (1 + t * t / 6) ** -3.5

    for t in (0.0, 0.5, 2.0, 5.0, 20.0):
        # Substituting t = e**x, so that the far tail is reached.
        steps = [math.log(max(t, 1e-9)) + (place + 0.5) * 1e-3 for place in range(40_000)]
        tail = sum(density(math.exp(x)) * math.exp(x) * 1e-3 for x in steps)
        assert _two_sided(t) == pytest.approx(2 * tail, rel=2e-3)
        assert _two_sided(-t) == _two_sided(t)
    assert _two_sided(50.01) == pytest.approx(_two_sided(49.99), rel=2e-2)
    assert 0 < _two_sided(1e6) < 1e-30


def test_adjusted_p_values_are_those_of_benjamini_and_hochberg() -> None:
    assert _adjusted([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.16 / 3, 0.16 / 3, 0.5])
    assert _adjusted([]) == []


def test_series_of_properties() -> None:
    properties = {f"paddle_forward_{part}": 1.5 for part in ("ms", "ms_low", "ms_high", "ms_p10")}
    assert series_of(properties) == {}
    properties["paddle_forward_samples"] = 20
    assert series_of(properties) == {"paddle_forward": Series(1.5, 1.5, 1.5, 1.5, 20)}
    assert series_of({**properties, "paddle_forward_slowdown": 1.7})["paddle_forward"].slowdown == 1.7
    assert series_of({**properties, "paddle_forward_ms": "nan"}) == {}
    assert set(SERIES) >= {"paddle_forward"}


def write_session(folder: Path, mode: str, medians: dict[str, float], threads: int = 2) -> None:
    """A session with these forward times, through the real store."""
    store = ResultsStore(ResultsFolder(folder))
    store.begin(Environment(mode, "cpu", ("host",), "here", "3.3.1", "2.13", "0.1", "9", "3.11"))
    for config, median in medians.items():
        extra = {f"paddle_forward_{part}": median for part in ("ms", "ms_low", "ms_high", "ms_p10")}
        extra |= {"paddle_forward_samples": 30, "threads": threads}
        store.record(Attempt(config, config, "paddle.f", Verdict.PASS, "passed", 1, 1.0, "a.txt", 1, extra=extra))
    store.finish(0)
    store.close()


def test_the_last_session_of_the_mode_is_read_from_a_folder_or_its_file(tmp_path: Path) -> None:
    config = 'paddle.f(Tensor([2],"float32"))'
    write_session(tmp_path / "r", MODE, {config: 1.0})
    write_session(tmp_path / "r", MODE, {config: 2.0}, threads=3)
    write_session(tmp_path / "r", MODE, {})
    write_session(tmp_path / "r", "accuracy", {config: 5.0})
    for path in (tmp_path / "r", tmp_path / "r" / "results.sqlite"):
        found = read_times(path, [MODE])
        assert found.times[config]["paddle_forward"].median == 2.0
        assert (found.session["id"], found.threads) == (2, 3)


def test_what_cannot_be_compared_with_says_why(tmp_path: Path) -> None:
    write_session(tmp_path / "r", "accuracy", {"paddle.f()": 1.0})
    with pytest.raises(ResultsError, match="no session with times in the mode paddle-gpu-performance"):
        read_times(tmp_path / "r", [MODE])
    with pytest.raises(ResultsError, match=r"no results\.sqlite"):
        read_times(tmp_path, [MODE])
    (tmp_path / "x.sqlite").write_text("")
    with pytest.raises(ResultsError, match=r"must be called results\.sqlite"):
        read_times(tmp_path / "x.sqlite", [MODE])
