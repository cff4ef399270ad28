"""Reductions and statistics: whole cases against Paddle, and the definitions against NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
import torch

from pytest_paddleapi.case.compare.comparison import Comparison
from pytest_paddleapi.case.compare.registry import find_comparator
from pytest_paddleapi.case.inputs.makers import ordinary
from pytest_paddleapi.case.inputs.registry import CallValues, find_inputs
from pytest_paddleapi.case.reference.registry import NoEquivalent
from pytest_paddleapi.config import TensorSpec
from pytest_paddleapi.process.messages import CaseResult, ToleranceOptions, Verdict

from .support import rule

Run = Callable[..., CaseResult]
F4, F8, I4, I8, B, C8 = (
    f'Tensor([3, 4, 5],"{d}")' for d in ("float32", "float64", "int32", "int64", "bool", "complex64")
)
LONG = 'Tensor([40],"float32")'
FLOATING = ("sum", "mean", "prod", "max", "min", "amax", "amin", "std", "var", "logsumexp", "nansum", "nanmean")
PASSING = [
    # call, compared outputs, compared gradients
    *((f"{name}({F4})", 1, 1) for name in FLOATING),
    *((f"{name}({F8}, axis=[0,2], keepdim=True)", 1, 1) for name in FLOATING),
    *((f"{name}({F4}, -1)", 1, 1) for name in FLOATING),
    *((f"{name}({I4})", 1, 0) for name in ("sum", "mean", "prod", "max", "count_nonzero", "all", "any")),
    *((f"{name}({F4}, axis=[])", 1, g) for name, g in (("sum", 1), ("mean", 1), ("max", 1), ("all", 0))),
    *((f'{name}(Tensor([],"float32"))', 1, 1) for name in ("sum", "mean", "prod", "max", "logsumexp")),
    *((f'{name}(Tensor([0, 3],"float32"), axis=0)', 1, 1) for name in ("sum", "mean", "prod")),
    *((f'{name}(Tensor([0, 3],"float32"), axis=1)', 1, 1) for name in ("sum", "max", "amin", "var")),
    (f"sum({B})", 1, 0),
    (f"sum({F4}, 1, 'float64')", 1, 1),
    (f"sum({C8}, axis=1)", 1, 1),
    (f'sum({F4}, axis=Tensor([2],"int64"))', 1, 1),
    (f"mean({F4}, dtype='float64')", 1, 1),
    (f"std({F4}, 1, False, True)", 1, 1),
    (f"var({F4}, correction=2)", 1, 1),
    (f"Tensor.max({F4}, 1, keepdim=True)", 1, 1),
    *((f"{name}({F4}, 1)", 1, 1) for name in ("cumsum", "cumprod", "logcumsumexp")),
    *((f"{name}({F8})", 1, 1) for name in ("cumsum", "cumprod", "logcumsumexp")),
    *((f"{name}({F4}, axis=0, dtype='int32')", 2, 1) for name in ("cummax", "cummin")),
    (f"cumsum({I4}, 0)", 1, 0),
    (f"cumsum_({I4}, 0)", 2, 0),
    ('reduce_as(Tensor([3, 4, 5],"float32"), Tensor([4, 1],"float32"))', 1, 1),
    *((f"median({F4}{more})", 1, 1) for more in ("", ", 1", ", -1, True")),
    (f"median({I8}, 0, mode='min')", 2, 0),
    (f"median({F8}, mode='min')", 1, 1),
    *((f"nanmedian({F4}{more})", 1, 1) for more in ("", ", [0,1]", ", 2, True")),
    (f"nanmedian({F4}, 1, mode='min')", 2, 1),
    (f"nanmedian({I8})", 1, 0),
    *((f"quantile({F8}, 0.3, 1, interpolation='{how}')", 1, 1) for how in ("linear", "lower", "nearest", "midpoint")),
    (f"quantile({F4}, [0.2,0.9], axis=[0,2], keepdim=True)", 1, 1),
    (f'quantile({F4}, Tensor([2],"float32"))', 1, 1),
    (f"nanquantile({F4}, 0.4, 1)", 1, 1),
    (f"histogram({LONG}, 7)", 1, 0),
    (f"histogram({LONG}, bins=4, min=-1, max=1)", 1, 0),
    (f"histogram({LONG}, 6, weight={LONG}, density=True)", 1, 0),
    (f"histogram_bin_edges({LONG}, 5)", 1, 0),
    ('histogramdd(Tensor([30, 2],"float64"), [3,4], [0.0,1.0,-2.0,1.0], True, Tensor([30],"float64"))', 3, 0),
    ('histogramdd(Tensor([30, 2],"float32"), (Tensor([4],"float32"),Tensor([3],"float32")))', 3, 0),
    ('bincount(Tensor([20],"int64"), Tensor([20],"float32"), 30)', 1, 0),
    ('bincount(Tensor([20],"int32"), minlength=Tensor([],"int64"))', 1, 0),
]


@pytest.mark.parametrize(("call", "outputs", "gradients"), PASSING, ids=[call for call, *_ in PASSING])
def test_paddle_agrees_with_the_reference(run_case: Run, call: str, outputs: int, gradients: int) -> None:
    result = run_case(f"paddle.{call}")
    assert result.verdict is Verdict.PASS, result.text
    assert (result.measured.compared_outputs, result.measured.compared_gradients) == (outputs, gradients)


@pytest.mark.parametrize(
    "call", [f"sum({F4}, axis=3)", f"max({F4}, -4)", f"median({F4}, mode='max')", f"quantile({F4}, 1.5)"]
)
def test_what_the_documentation_forbids_is_refused_by_both(run_case: Run, call: str) -> None:
    assert run_case(f"paddle.{call}").verdict is Verdict.BOTH_ERROR


X = np.random.default_rng(3).normal(size=(4, 5, 6))
HOLES = np.where(np.random.default_rng(4).random(X.shape) < 0.2, np.nan, X)
VALUES: list[tuple[str, np.ndarray, dict[str, Any], Any]] = [
    ("nansum", HOLES, {"axis": 1}, np.nansum(HOLES, 1)),
    ("nanmean", HOLES, {"axis": [0, 2]}, np.nanmean(HOLES, (0, 2))),
    ("logsumexp", X, {"axis": [0, 1]}, scipy.special.logsumexp(X, (0, 1))),
    ("prod", X, {"axis": [0, 2], "keepdim": True}, X.prod((0, 2), keepdims=True)),
    ("std", X, {"axis": [1, 2]}, X.std((1, 2), ddof=1)),
    ("var", X, {"axis": 0, "unbiased": False}, X.var(0)),
    ("median", X, {"axis": 2}, np.median(X, 2)),
    ("median", X, {}, np.median(X)),
    ("nanmedian", HOLES, {"axis": [0, 1]}, np.nanmedian(HOLES, (0, 1))),
    ("quantile", X, {"q": [0.2, 0.7], "axis": [0, 2]}, np.quantile(X, [0.2, 0.7], (0, 2))),
    ("quantile", X, {"q": 0.35, "axis": 1, "interpolation": "midpoint"}, np.quantile(X, 0.35, 1, method="midpoint")),
    ("quantile", X, {"q": 0.35, "axis": 1, "interpolation": "higher"}, np.quantile(X, 0.35, 1, method="higher")),
    ("nanquantile", HOLES, {"q": 0.6, "axis": 0}, np.nanquantile(HOLES, 0.6, 0)),
    ("cumsum", X, {"axis": 1}, X.cumsum(1)),
    ("cumprod", X, {}, X.reshape(-1).cumprod()),
    ("logcumsumexp", X, {"axis": 0}, np.log(np.exp(X).cumsum(0))),
    ("count_nonzero", (X > 0) * 1.0, {"axis": 2}, np.count_nonzero(X > 0, 2)),
    ("histogram", X, {"bins": 7}, np.histogram(X, 7)[0]),
    ("histogram", X, {"bins": 4, "min": -1, "max": 1}, np.histogram(X, 4, (-1, 1))[0]),
    ("histogram_bin_edges", X, {"bins": 4, "min": -1, "max": 1}, [-1, -0.5, 0, 0.5, 1]),
]


@pytest.mark.parametrize(("name", "x", "arguments", "expected"), VALUES)
def test_rule_gives_known_values(name: str, x: np.ndarray, arguments: dict[str, Any], expected: Any) -> None:
    found = rule(name)(torch.tensor(x), **arguments)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-14)


def test_density_is_that_of_numpy() -> None:
    weight = np.random.default_rng(5).random(X.size)
    found = rule("histogram")(torch.tensor(X.reshape(-1)), 6, -2.0, 2.0, torch.tensor(weight), True)
    expected = np.histogram(X.reshape(-1), 6, (-2, 2), weights=weight, density=True)[0]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_boxes_are_those_of_numpy() -> None:
    points, weight = X.reshape(-1, 3), np.random.default_rng(5).random(X.size // 3)
    ranges = [(-1.0, 1.0), (-2.0, 2.0), (-1.0, 2.0)]
    expected, edges = np.histogramdd(points, [2, 3, 4], ranges, weights=weight, density=True)
    flat = [end for pair in ranges for end in pair]
    found, found_edges = rule("histogramdd")(torch.tensor(points), [2, 3, 4], flat, True, torch.tensor(weight))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
    for ours, theirs in zip(found_edges, edges):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-12)


def test_mean_and_median_of_integers_are_rounded_towards_zero() -> None:
    numbers = torch.tensor([-1, -2, -4, -4])
    assert rule("mean")(numbers).item() == -2
    assert rule("nanmedian")(numbers).item() == -3


def test_lower_median_comes_with_its_index() -> None:
    value, index = rule("median")(torch.tensor([[4.0, 1.0, 3.0, 2.0]]), 1, False, "min")
    assert (value.tolist(), index.tolist()) == ([2.0], [3])


def test_median_with_a_nan_is_nan_and_its_index_names_it() -> None:
    value, index = rule("median")(torch.tensor([1.0, float("nan"), 3.0]), 0, False, "min")
    assert torch.isnan(value)
    assert index.item() == 1


@pytest.mark.parametrize(("name", "expected"), [("max", [1.0, 0.0, 1.0]), ("amax", [0.5, 0.0, 0.5])])
def test_max_gives_the_gradient_to_all_equal_maxima_and_amax_shares_it(name: str, expected: list[float]) -> None:
    x = torch.tensor([2.0, 1.0, 2.0], requires_grad=True)
    rule(name)(x).backward()
    assert x.grad is not None
    assert x.grad.tolist() == expected


def test_nothing_has_no_maximum() -> None:
    with pytest.raises(NoEquivalent):
        rule("amax")(torch.zeros(0, 3), 0)


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("sum", torch.bool, torch.int64),
        ("sum", torch.int32, torch.int64),
        ("sum", torch.int8, torch.int8),
        ("prod", torch.int32, torch.int32),
        ("cumsum", torch.int8, torch.int64),
        ("cumsum_", torch.int32, torch.int32),
        ("mean", torch.int32, torch.int32),
        ("logsumexp", torch.int64, torch.float32),
        ("median", torch.float16, torch.float32),
        ("count_nonzero", torch.float32, torch.int64),
        ("all", torch.float32, torch.bool),
    ],
)
def test_dtype_of_the_result_is_the_documented_one(name: str, dtype: torch.dtype, expected: torch.dtype) -> None:
    assert rule(name)(torch.ones(3, dtype=dtype)).dtype is expected


def values(api: str, **arguments: Any) -> dict[str, Any]:
    return CallValues(api, arguments, find_inputs(api), ordinary, (1, 2)).all_values()


def test_all_and_any_do_not_give_the_same_everywhere() -> None:
    spec = TensorSpec((50, 6), "float32")
    assert set(np.all(values("paddle.all", x=spec)["x"], 1)) == {True, False}
    assert set(np.any(values("paddle.any", x=spec)["x"], 1)) == {True, False}


@pytest.mark.parametrize("size", [5, 100, 40_000])
def test_product_of_any_number_of_factors_stays_moderate(size: int) -> None:
    product = np.prod(values("paddle.prod", x=TensorSpec((size,), "float64"))["x"])
    assert 1e-5 < abs(product) < 1e5


def test_values_miss_in_no_row_altogether() -> None:
    x = values("paddle.nanmedian", x=TensorSpec((200, 2), "float32"), axis=1)["x"]
    assert np.isnan(x).any()
    assert not np.isnan(x).all(axis=1).any()


def test_binned_values_stay_away_from_the_edges() -> None:
    x = values("paddle.histogram", input=TensorSpec((500,), "float32"), bins=8, min=-1, max=1)["input"]
    place = (x + 1) * 4 % 1
    assert ((x < -1) | (x > 1)).any()
    assert ((place > 0.2) & (place < 0.8)).all()


def compared(api: str, actual: torch.Tensor, expected: torch.Tensor, **arguments: Any) -> bool:
    comparison = Comparison(api, arguments, actual, expected, ToleranceOptions())
    find_comparator(api).judge(comparison)
    assert comparison.findings.outputs == 1
    return not comparison.findings.differences


@pytest.mark.parametrize("api", ["paddle.sum", "paddle.mean", "paddle.cumsum"])
def test_long_sums_may_differ_by_their_rounding_and_not_by_more(api: str) -> None:
    x = np.random.default_rng(1).normal(size=100_000).astype(np.float32)
    right = rule(api.removeprefix("paddle."))(torch.tensor(x))
    exact = rule(api.removeprefix("paddle."))(torch.tensor(x).double()).float()
    assert compared(api, exact, right, x=x)
    wrong = right + (0.5 if api != "paddle.mean" else 5e-4) + 1e-2 * right.abs()
    assert not compared(api, wrong, right, x=x)
