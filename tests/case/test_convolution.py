"""Convolutions: sizes, padding in every form, and values against sums written out in NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.signal import correlate

from pytest_paddleapi.case.compare.comparison import Comparison
from pytest_paddleapi.case.compare.long_sums import long_sum_tolerance
from pytest_paddleapi.case.compare.registry import find_comparator
from pytest_paddleapi.case.reference.spatial import padding_pairs
from pytest_paddleapi.process.messages import CaseResult, ToleranceOptions

from .support import check_row
from .support import functional_rule as rule

TABLE = "convolution"
_F = "paddle.nn.functional."
Run = Callable[..., CaseResult]


def numbers(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape)


def tensor(array: Any) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


def test_config_passes(run_case: Run, table_row: tuple[str, int, int]) -> None:
    check_row(run_case, table_row)


def test_conv2d_is_scipys_correlation_summed_over_channels() -> None:
    x, weight = numbers(1, 2, 6, 5), numbers(3, 2, 3, 2, seed=1)
    expected = [sum(correlate(x[0, c], weight[o, c], "valid") for c in range(2)) for o in range(3)]
    np.testing.assert_allclose(rule("conv2d")(tensor(x), tensor(weight))[0], expected)
    last = rule("conv2d")(tensor(x.transpose(0, 2, 3, 1)), tensor(weight), data_format="NHWC")
    np.testing.assert_allclose(last[0].permute(2, 0, 1), expected)


def test_padding_that_differs_before_and_after() -> None:
    x, weight = numbers(1, 1, 5), numbers(1, 1, 3, seed=1)
    padded = np.pad(x[0, 0], (1, 2))
    expected = [padded[i : i + 3] @ weight[0, 0] for i in range(0, 6, 2)]
    np.testing.assert_allclose(rule("conv1d")(tensor(x), tensor(weight), None, 2, [1, 2])[0, 0], expected)


@pytest.mark.parametrize(("size", "kernel", "stride"), [(7, 3, 2), (8, 3, 2), (5, 2, 1), (5, 1, 3)])
def test_same_gives_size_over_stride_rounded_up(size: int, kernel: int, stride: int) -> None:
    ((before, after),), same = padding_pairs("same", [size], [kernel], [stride], False)
    assert same
    assert after - before in (0, 1)
    assert (size + before + after - kernel) // stride + 1 == -(-size // stride)


def test_same_ignores_dilation() -> None:
    x, weight = tensor(numbers(1, 2, 6)), tensor(numbers(3, 2, 3, seed=1))
    conv = rule("conv1d")
    torch.testing.assert_close(conv(x, weight, padding="SAME", dilation=2), conv(x, weight, padding=1))


def test_padding_of_batch_or_channel_is_refused() -> None:
    with pytest.raises(ValueError, match="batch and channel"):
        rule("conv1d")(torch.ones(1, 1, 4), torch.ones(1, 1, 2), padding=[[0, 0], [1, 0], [0, 0]])


def test_groups_see_their_own_channels_only() -> None:
    x, weight = numbers(1, 4, 5), numbers(2, 2, 3, seed=1)
    grouped = rule("conv1d")(tensor(x), tensor(weight), groups=2)
    for group in range(2):
        alone = rule("conv1d")(tensor(x[:, 2 * group : 2 * group + 2]), tensor(weight[group : group + 1]))
        torch.testing.assert_close(grouped[:, group : group + 1], alone)


@pytest.mark.parametrize(
    ("stride", "padding", "extra"), [(2, [0, 0], 0), (2, [1, 0], 1), (3, [1, 2], 2), (1, [1, 1], 0)]
)
def test_a_transposed_convolution_is_the_adjoint(stride: int, padding: list[int], extra: int) -> None:
    """<conv(y), x> = <y, transposed(x)> for the size of y that the call asks for."""
    x, weight = tensor(numbers(2, 3, 4)), tensor(numbers(3, 2, 3, seed=1))
    out = rule("conv1d_transpose")(x, weight, None, stride, padding, extra)
    y = tensor(numbers(*out.shape, seed=2))
    forward = rule("conv1d")(y, weight, None, stride, padding)
    assert forward.shape == x.shape
    torch.testing.assert_close((forward * x).sum(), (y * out).sum())


def test_output_size_says_what_output_padding_does() -> None:
    x, weight = tensor(numbers(1, 2, 3, 3)), tensor(numbers(2, 2, 2, 2, seed=1))
    transposed = rule("conv2d_transpose")
    torch.testing.assert_close(
        transposed(x, weight, stride=2, output_size=[7, 6]), transposed(x, weight, stride=2, output_padding=[1, 0])
    )
    with pytest.raises(ValueError, match="within one stride"):
        transposed(x, weight, stride=2, output_size=[8, 6])


@pytest.mark.parametrize(
    ("x", "weight", "shape"), [((0, 3, 5), (4, 3, 2), (0, 4, 4)), ((2, 0, 5), (4, 0, 2), (2, 4, 4))]
)
def test_empty_tensors_give_the_bias_where_there_is_a_place_for_it(
    x: tuple[int, ...], weight: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    out = rule("conv1d")(torch.ones(x), torch.ones(weight), torch.arange(4.0))
    assert out.shape == shape
    assert torch.equal(out, torch.arange(4.0).reshape(1, 4, 1).expand(shape))


def test_half_precision_is_rounded_once() -> None:
    x, weight = torch.ones(1, 4096, 1, dtype=torch.float16), torch.ones(1, 4096, 1, dtype=torch.float16)
    assert rule("conv1d")(x, weight).item() == 4096


def compared(actual: torch.Tensor, expected: torch.Tensor, fed: torch.Tensor, **arrays: Any) -> Comparison:
    c = Comparison(
        api=_F + "conv1d",
        arguments={"x": np.ones((8, 2, 64), np.float32), "weight": np.ones((2, 2, 1), np.float32)},
        actual=fed,
        expected=fed,
        tolerances=ToleranceOptions(),
        actual_gradients={"weight": actual},
        expected_gradients={"weight": expected},
        cotangents=(fed,),
    )
    find_comparator(c.api).judge(c)
    return c


def test_a_long_sum_may_lose_its_last_digits_and_no_more() -> None:
    fed, sums = torch.ones(8, 2, 64), torch.full((2, 2, 1), 512.0)
    assert not compared(sums + 1e-4, sums, fed).findings.differences
    assert compared(sums + 0.02, sums, fed).findings.differences


def test_the_room_for_rounding_grows_with_the_terms() -> None:
    c = Comparison("paddle.x", {}, None, None, ToleranceOptions())
    few, many = (long_sum_tolerance(c, torch.float32, terms, 1.0) for terms in (10, 1e6))
    assert few.atol == c.tolerance(torch.float32).atol
    assert 0.1 < many.atol < 1
    assert "terms were added up" in many.source
    exact = Comparison("paddle.x", {}, None, None, ToleranceOptions(kind="bitwise"))
    assert long_sum_tolerance(exact, torch.float32, 1e6, 1.0).atol == 0
