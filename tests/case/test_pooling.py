"""Pooling: windows, divisors and masks against loops in NumPy; fractional pooling with and without u."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from pytest_paddleapi.case.compare.comparison import Comparison
from pytest_paddleapi.case.compare.registry import find_comparator
from pytest_paddleapi.case.inputs.makers import ordinary
from pytest_paddleapi.case.inputs.registry import CallValues, find_inputs
from pytest_paddleapi.case.reference.adaptive_pooling import fractional_max, fractional_windows
from pytest_paddleapi.case.reference.registry import NoEquivalent
from pytest_paddleapi.config import TensorSpec
from pytest_paddleapi.process.messages import CaseResult, ToleranceOptions

from .support import check_row, numbers
from .support import functional_rule as rule

TABLE = "pooling"
_F = "paddle.nn.functional."
Run = Callable[..., CaseResult]


def windows(size: int, kernel: int, stride: int, before: int, after: int, ceil: bool) -> list[range]:
    """The places of each window in the input with its padding, by Paddle's formula."""
    room = size + before + after - kernel
    count = (math.ceil if ceil else math.floor)(room / stride) + 1
    return [range(i * stride - before, i * stride - before + kernel) for i in range(count)]


def test_config_passes(run_case: Run, table_row: tuple[str, int, int]) -> None:
    check_row(run_case, table_row)


@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize(("before", "after"), [(0, 0), (1, 1), (1, 0)])
def test_averages_are_over_the_input_or_over_input_and_padding(
    ceil: bool, exclusive: bool, before: int, after: int
) -> None:
    x = numbers(1, 1, 8)
    expected = []
    for window in windows(8, 3, 2, before, after, ceil):
        inside = [i for i in window if 0 <= i < 8]
        counted = inside if exclusive else [i for i in window if -before <= i < 8 + after]
        expected.append(sum(float(x[0, 0, i]) for i in inside) / len(counted))
    found = rule("avg_pool1d")(x, 3, 2, [before, after], exclusive, ceil)
    np.testing.assert_allclose(found[0, 0], expected)


def test_divisor_override_is_the_divisor_of_every_window() -> None:
    x = torch.ones(1, 1, 4, 4, dtype=torch.float64)
    found = rule("avg_pool2d")(x, 3, 2, 1, divisor_override=2)
    np.testing.assert_allclose(found[0, 0], [[2.0, 3.0], [3.0, 4.5]])


@pytest.mark.parametrize("ceil", [False, True])
def test_maxima_with_their_places_in_the_input_without_padding(ceil: bool) -> None:
    x = numbers(1, 1, 6, 5)
    best, where = rule("max_pool2d")(x, [3, 2], [2, 2], [1, 1, 0, 1], True, ceil)
    rows, columns = windows(6, 3, 2, 1, 1, ceil), windows(5, 2, 2, 0, 1, ceil)
    assert where.dtype == torch.int32
    assert best.shape[2:] == (len(rows), len(columns))
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            places = [(r, c) for r in row if 0 <= r < 6 for c in column if 0 <= c < 5]
            top = max(places, key=lambda place: float(x[0, 0, place[0], place[1]]))
            assert best[0, 0, i, j] == x[0, 0, top[0], top[1]]
            assert int(where[0, 0, i, j]) == top[0] * 5 + top[1]


def test_a_window_without_an_element_has_no_maximum() -> None:
    with pytest.raises(NoEquivalent):
        rule("max_pool1d")(numbers(1, 1, 5), 1, 3, 0, ceil_mode=True)


def test_channels_may_come_last() -> None:
    x = numbers(2, 3, 6, 5)
    for name in ("max_pool2d", "avg_pool2d"):
        last = rule(name)(x.permute(0, 2, 3, 1), 2, padding="SAME", data_format="NHWC")
        torch.testing.assert_close(last.permute(0, 3, 1, 2), rule(name)(x, 2, padding="same"))


def test_power_averages() -> None:
    x = numbers(1, 1, 6).abs()
    powers = (x[0, 0].reshape(3, 2) ** 3).sum(1) ** (1 / 3)
    torch.testing.assert_close(rule("lp_pool1d")(x, 3, 2)[0, 0], powers)
    torch.testing.assert_close(rule("lp_pool1d")(x, math.inf, 2), rule("max_pool1d")(x, 2))
    torch.testing.assert_close(rule("lp_pool1d")(x, 2, 2, 1, True), rule("lp_pool1d")(x, 2, 2, 1, 0, True))


def test_unpooling_puts_maxima_back() -> None:
    x = numbers(1, 2, 6, 6)
    best, where = rule("max_pool2d")(x, 2, return_mask=True)
    back = rule("max_unpool2d")(best, where, 2)
    kept = back != 0
    assert int(kept.sum()) == best.numel()
    assert torch.equal(back[kept], x[kept])
    assert rule("max_unpool2d")(best, where, 2, output_size=[1, 2, 7, 6]).shape == (1, 2, 7, 6)


def test_adaptive_windows_and_sizes_that_are_kept() -> None:
    x = numbers(1, 1, 5, 4)
    found = rule("adaptive_avg_pool2d")(x, [None, 3])
    expected = np.stack([x[0, 0, :, a:b].mean(1) for a, b in ((0, 2), (1, 3), (2, 4))], 1)
    np.testing.assert_allclose(found[0, 0], expected)
    assert rule("adaptive_avg_pool2d")(torch.ones(2, 3, 0, 4), 2).isnan().all()


def test_fractional_windows_of_the_documentation() -> None:
    x = torch.tensor([2.0, 4, 3, 1, 5, 2, 3])
    found = fractional_windows(7, 5, 0, 0.3)
    assert found == [(0, 1), (1, 3), (3, 4), (4, 6), (6, 7)]
    assert [float(x[a:b].max()) for a, b in found] == [2, 4, 1, 5, 3]
    assert [b - a for a, b in fractional_windows(16, 5, 3, 0.7)] == [3] * 5


def judged(actual: tuple[torch.Tensor, torch.Tensor], x: torch.Tensor) -> Comparison:
    c = Comparison(
        api=_F + "fractional_max_pool2d",
        arguments={"x": x.numpy(), "output_size": 3},
        actual=actual,
        expected=None,
        tolerances=ToleranceOptions(),
    )
    find_comparator(c.api).judge(c)
    return c


def test_random_fractional_windows_must_come_from_one_u() -> None:
    x = numbers(1, 2, 10, 9)
    out, where = fractional_max(x, [fractional_windows(10, 3, 0, 0.61), fractional_windows(9, 3, 0, 0.61)])
    assert not judged((out, where), x).findings.differences
    assert judged((out + 1e-3, where), x).findings.differences
    mixed, places = fractional_max(x, [fractional_windows(10, 3, 0, 0.05), [(0, 3), (3, 4), (4, 9)]])
    assert judged((mixed, places), x).findings.differences


def test_gradients_of_windows_that_overlap_may_lose_half_precision_only() -> None:
    gradient = torch.full((1, 1, 4, 4), 5.0, dtype=torch.float16)
    for error, passes in ((0.05, True), (0.5, False)):
        c = Comparison(
            api=_F + "max_pool2d",
            arguments={"kernel_size": 9, "stride": 1},
            actual=gradient,
            expected=gradient,
            tolerances=ToleranceOptions(),
            actual_gradients={"x": gradient + error},
            expected_gradients={"x": gradient},
        )
        find_comparator(c.api).judge(c)
        assert bool(c.findings.differences) is not passes


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_inputs_of_maxima_have_no_ties_nearby(dtype: str) -> None:
    arguments = {"x": TensorSpec((2, 3, 40, 30), dtype), "kernel_size": 9}
    makers = find_inputs(_F + "max_pool2d")
    x = CallValues("", arguments, makers, ordinary, (1,)).value("x").astype(np.float32)
    for corner in ((0, 0), (12, 7), (31, 21)):
        block = x[1, 2, corner[0] : corner[0] + 9, corner[1] : corner[1] + 9]
        assert len(np.unique(block)) == block.size


def test_each_unpooled_element_has_a_place_of_its_own() -> None:
    arguments = {"x": TensorSpec((2, 3, 4), "float32"), "indices": TensorSpec((2, 3, 4), "int64"), "kernel_size": 2}
    places = CallValues("", arguments, find_inputs(_F + "max_unpool1d"), ordinary, (1,)).value("indices")
    assert places.max() < 8
    assert all(len(set(row)) == 4 for row in places.reshape(-1, 4).tolist())
