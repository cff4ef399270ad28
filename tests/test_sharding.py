"""Which shard a case is in: each in exactly one, whatever stands beside it, and balanced by what is known of costs."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_paddleapi.config.manifest import Manifest, build_manifest
from pytest_paddleapi.sharding import (
    BY_SIZE,
    OVERHEAD_SECONDS,
    Shard,
    Sharding,
    guess_seconds,
    place,
    read_shard,
    shard_by_hash,
)

LINES = [f'paddle.abs(Tensor([{i}, {j}],"float32"))' for i in range(1, 41) for j in range(1, 26)]


def manifest_of(tmp_path: Path, *lines: str) -> Manifest:
    path = tmp_path / "a.txt"
    path.write_text("\n".join(lines) + "\n")
    return build_manifest([path])


def chosen(manifest: Manifest, index: int, count: int, costs: str | None = None) -> set[str]:
    elsewhere = Sharding(Shard(index, count), costs, manifest, mode="accuracy").elsewhere
    return {case.canonical for i, case in enumerate(manifest.cases) if i not in elsewhere}


@pytest.mark.parametrize("costs", [None, BY_SIZE])
@pytest.mark.parametrize("count", [1, 2, 3, 8, 1500])
def test_each_case_is_in_exactly_one_shard(tmp_path: Path, count: int, costs: str | None) -> None:
    manifest = manifest_of(tmp_path, *LINES, "paddle.abs(Tensor([2,", LINES[3])
    shards = [chosen(manifest, k, count, costs) for k in range(1, min(count, 60) + 1)]
    assert sum(map(len, shards)) == len(set().union(*shards))
    if count <= 60:
        assert len(set().union(*shards)) == len(manifest.cases) == 1001


def test_by_hash_a_new_line_moves_no_other_one_and_shards_are_alike(tmp_path: Path) -> None:
    manifest = manifest_of(tmp_path, *LINES)
    before = [chosen(manifest, k, 4) for k in range(1, 5)]
    grown = manifest_of(
        tmp_path, 'paddle.neg(Tensor([2],"float32"))', *reversed(LINES), 'paddle.exp(Tensor([2],"int8"))'
    )
    after = [chosen(grown, k, 4) for k in range(1, 5)]
    assert all(old <= new for old, new in zip(before, after))
    # 250 each by expectation, with a standard deviation of 13.7.
    assert all(abs(len(shard) - 250) < 70 for shard in before)


def test_the_shard_of_a_config_never_changes() -> None:
    """A run may be spread over versions of the plugin, and a resumed one must find its cases where they were."""
    assert [shard_by_hash(f'paddle.abs(Tensor([{i}],"float32"))', 8) for i in range(6)] == [8, 3, 1, 2, 1, 7]


@given(
    st.dictionaries(st.text(max_size=5), st.floats(0, 1e4), min_size=1, max_size=60),
    st.integers(min_value=1, max_value=9),
)
def test_a_record_is_divided_within_grahams_bound(costs: dict[str, float], count: int) -> None:
    placed = place(costs, count)
    assert set(placed) == set(costs) and set(placed.values()) <= set(range(1, count + 1))
    loads = Counter[int]()
    for canonical, shard in placed.items():
        loads[shard] += costs[canonical] + OVERHEAD_SECONDS
    least = max(max(costs.values()) + OVERHEAD_SECONDS, sum(loads.values()) / count)
    # The best division needs `least` or more; the last case put on the dearest shard is no dearer than any before it.
    assert max(loads.values()) <= (2 - 1 / count) * least * (1 + 1e-9)


def test_a_record_balances_what_a_hash_does_not() -> None:
    """Costs as they are: most cases take milliseconds, and a few take minutes."""
    costs = {line: random.Random(line).lognormvariate(-3, 2.5) for line in LINES}
    by_hash, by_cost = Counter[int](), Counter[int]()
    placed = place(costs, 8)
    for line, cost in costs.items():
        by_hash[shard_by_hash(line, 8)] += cost
        by_cost[placed[line]] += cost
    mean = sum(costs.values()) / 8
    assert max(by_cost.values()) <= max(1.05 * mean, max(costs.values()) * 1.01)
    assert max(by_hash.values()) > 1.2 * max(by_cost.values())


def test_a_record_places_the_same_whatever_the_order_it_is_read_in() -> None:
    costs = {line: float(i % 7) for i, line in enumerate(LINES)}
    assert place(costs, 5) == place(dict(reversed(costs.items())), 5)


def test_guesses_grow_with_the_tensors_and_have_a_limit() -> None:
    small, large = (
        guess_seconds('paddle.abs(Tensor([2],"float32"))'),
        guess_seconds('paddle.abs(Tensor([9999, 99],"int8"))'),
    )
    assert OVERHEAD_SECONDS < small < large
    assert guess_seconds('paddle.abs(Tensor([],"float32"))') > OVERHEAD_SECONDS
    assert guess_seconds('paddle.abs(Tensor([99999999999, 9999999],"float32"))') == guess_seconds(
        'paddle.add(Tensor([99999999999, 9999999],"float32"), Tensor([99999999999, 9999999],"float32"))'
    )


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "write K/N"),
        ("3", "write K/N"),
        ("a/b", "write K/N"),
        ("-1/3", "write K/N"),
        ("1/2/3", "write K/N"),
        ("1.5/2", "write K/N"),
        ("0/3", "counted from 1, so the first one is 1/3"),
        ("4/3", "there is no shard 4 of 3"),
        ("1/0", "not 0"),
        ("1/999999999", "1 to 100000 shards"),
        ("1/99999999999999999999", "write K/N"),
    ],
)
def test_a_wrong_shard_is_named(text: str, word: str) -> None:
    with pytest.raises(pytest.UsageError) as raised:
        read_shard(text)
    assert word in str(raised.value)
    assert str(raised.value).startswith(f"--paddleapi-shard={text}")


def test_a_shard_may_have_blanks_around_it() -> None:
    assert read_shard(" 2 / 8 ") == Shard(2, 8)
    assert read_shard(None) is None
