"""Products, distances, differences and integrals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pytest_paddleapi.case.compare.comparison import Comparison
from pytest_paddleapi.case.compare.registry import find_comparator
from pytest_paddleapi.case.reference.registry import Reference, find_reference
from pytest_paddleapi.process.messages import CaseResult, ToleranceOptions

from .support import check_row

TABLE = "products"
Run = Callable[..., CaseResult]


def rule(api: str) -> Any:
    found = find_reference(api)
    assert isinstance(found, Reference)
    return found.rule


def numbers(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape)


def tensor(array: np.ndarray[Any, Any]) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


def test_config_passes(run_case: Run, table_row: tuple[str, int, int]) -> None:
    check_row(run_case, table_row)


@pytest.mark.parametrize("flags", [(False, False), (True, False), (False, True), (True, True)])
def test_matmul_transposes_matrices_only(flags: tuple[bool, bool]) -> None:
    x, y = numbers(2, 3, 4), numbers(2, 4, 5, seed=1)
    left = tensor(x.swapaxes(1, 2)) if flags[0] else tensor(x)
    right = tensor(y.swapaxes(1, 2)) if flags[1] else tensor(y)
    np.testing.assert_allclose(rule("paddle.matmul")(left, right, *flags), x @ y)
    vector = tensor(y[0, :, 0])
    np.testing.assert_allclose(rule("paddle.matmul")(tensor(x), vector, False, flags[1]), x @ y[0, :, 0])


def test_vecdot_conjugates_its_first_argument_and_dot_does_not() -> None:
    x, y = numbers(3) + 1j * numbers(3, seed=1), numbers(3, seed=2) + 1j * numbers(3, seed=3)
    np.testing.assert_allclose(rule("paddle.vecdot")(tensor(x), tensor(y)), np.vdot(x, y))
    np.testing.assert_allclose(rule("paddle.dot")(tensor(x), tensor(y)), (x * y).sum())


def test_dot_of_matrices_is_by_rows() -> None:
    x, y = numbers(4, 3), numbers(4, 3, seed=1)
    np.testing.assert_allclose(rule("paddle.dot")(tensor(x), tensor(y)), (x * y).sum(1))


def test_inner_is_over_the_last_axes() -> None:
    x, y = numbers(2, 3, 4), numbers(5, 4, seed=1)
    np.testing.assert_allclose(rule("paddle.inner")(tensor(x), tensor(y)), np.inner(x, y))


def test_outer_and_kron_are_numpys() -> None:
    x, y = numbers(2, 3), numbers(4, 2, seed=1)
    np.testing.assert_allclose(rule("paddle.outer")(tensor(x), tensor(y)), np.outer(x, y))
    np.testing.assert_allclose(rule("paddle.kron")(tensor(x), tensor(y)), np.kron(x, y))


def test_baddbmm_takes_a_matrix_as_one_row_for_each_batch() -> None:
    rows, x, y = numbers(2, 5), numbers(2, 3, 4, seed=1), numbers(2, 4, 5, seed=2)
    expected = 0.5 * rows[:, None, :] + 2 * (x @ y)
    np.testing.assert_allclose(rule("paddle.baddbmm")(tensor(rows), tensor(x), tensor(y), 0.5, 2.0), expected)


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        (1, ([2], [0])),
        ([0, 1], ([0, 1], [0, 1])),
        ([[0, 1], [1, 0]], ([0, 1], [1, 0])),
        ([[0, 2], [1]], ([0, 2], [1, 2])),
        ([torch.tensor([1]), torch.tensor([2])], ([1], [2])),
    ],
)
def test_tensordot_continues_the_shorter_list(axes: Any, expected: tuple[list[int], list[int]]) -> None:
    x, y = numbers(3, 3, 3), numbers(3, 3, 3, seed=1)
    np.testing.assert_allclose(rule("paddle.tensordot")(tensor(x), tensor(y), axes), np.tensordot(x, y, expected))


def test_tensordot_sums_what_meets_an_extent_of_one() -> None:
    x, y = numbers(2, 1), numbers(4, 5, seed=1)
    expected = np.tensordot(x[:, 0], y.sum(0), 0)
    np.testing.assert_allclose(rule("paddle.tensordot")(tensor(x), tensor(y), [[1], [0]]), expected)


def test_cross_takes_the_first_axis_of_three_by_default() -> None:
    x, y = numbers(2, 3, 3), numbers(2, 3, 3, seed=1)
    np.testing.assert_allclose(rule("paddle.cross")(tensor(x), tensor(y)), np.cross(x, y, axis=1))


@pytest.mark.parametrize("p", [0, 1, 1.5, 2, np.inf])
def test_distances_are_norms_of_differences(p: float) -> None:
    x, y = numbers(4, 3), numbers(5, 3, seed=1)
    between = np.array([[np.linalg.norm(a - b, p) for b in y] for a in x])
    np.testing.assert_allclose(rule("paddle.cdist")(tensor(x), tensor(y), p), between)
    within = [np.linalg.norm(x[i] - x[j], p) for i in range(4) for j in range(i + 1, 4)]
    np.testing.assert_allclose(rule("paddle.pdist")(tensor(x), p), within)
    whole = np.linalg.norm((x - y[:4]).ravel(), p)
    np.testing.assert_allclose(rule("paddle.dist")(tensor(x), tensor(y[:4]), p), whole)


def test_integrals_are_by_the_trapezoid_rule() -> None:
    from scipy.integrate import cumulative_trapezoid

    y, x = numbers(3, 5), np.sort(numbers(5, seed=1))
    np.testing.assert_allclose(rule("paddle.trapezoid")(tensor(y), tensor(x)), np.trapezoid(y, x))
    np.testing.assert_allclose(rule("paddle.trapezoid")(tensor(y), dx=0.3, axis=0), np.trapezoid(y, dx=0.3, axis=0))
    cumulated = rule("paddle.cumulative_trapezoid")(tensor(y), tensor(x))
    np.testing.assert_allclose(cumulated, cumulative_trapezoid(y, x))


def test_diff_of_booleans_says_where_they_change() -> None:
    found = rule("paddle.diff")(torch.tensor([True, True, False, True]))
    assert found.tolist() == [False, True, True]


def test_renorm_shortens_long_slices_only() -> None:
    x = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
    np.testing.assert_allclose(rule("paddle.renorm")(x, 2.0, 0, 1.0), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)


def test_renorm_inputs_lie_on_both_sides_of_the_limit() -> None:
    from pytest_paddleapi.case.prepared import prepare
    from pytest_paddleapi.config import parse_call
    from pytest_paddleapi.process.messages import CaseOptions

    case = prepare(parse_call('paddle.renorm(Tensor([4, 3],"float64"), 2.0, 0, 1.0)'), CaseOptions())
    norms = np.linalg.norm(case.values["x"], axis=1)
    np.testing.assert_allclose(norms, [1.7, 0.5, 1.7, 0.5])


def test_trace_keeps_small_integers() -> None:
    found = rule("paddle.trace")(torch.tensor([[1, 2], [3, 4]], dtype=torch.int32))
    assert (found.item(), found.dtype) == (5, torch.int32)


def test_add_n_of_halves_rounds_once() -> None:
    parts = [torch.tensor([2048.0], dtype=torch.float16), *[torch.ones(1, dtype=torch.float16)] * 3]
    assert rule("paddle.add_n")(parts).item() == 2052.0  # the even neighbour of 2051; one by one it stays 2048


def compared(actual: torch.Tensor, expected: torch.Tensor) -> list[str]:
    c = Comparison("paddle.matmul", {}, actual, expected, ToleranceOptions())
    find_comparator("paddle.matmul").judge(c)
    return c.findings.differences


def test_an_error_as_small_as_the_whole_allows_is_no_difference() -> None:
    expected = torch.linspace(-1000, 1000, 1001)
    assert not compared(expected + 1e-3, expected)


def test_an_error_of_a_thousandth_of_the_whole_is_a_difference() -> None:
    expected = torch.linspace(-1000, 1000, 1001)
    assert compared(expected + 0.5, expected)
    assert compared(expected * 1.001, expected)
    assert compared(torch.zeros_like(expected), expected)


def test_one_wrong_element_is_a_difference() -> None:
    expected = torch.linspace(-1, 1, 1001)
    wrong = expected.clone()
    wrong[500] += 1e-3
    assert compared(wrong, expected)


def test_tensordot_axes_in_tensors_meet_equal_extents() -> None:
    from pytest_paddleapi.case.prepared import prepare
    from pytest_paddleapi.config import parse_call
    from pytest_paddleapi.process.messages import CaseOptions

    config = 'paddle.tensordot(Tensor([3, 4, 5],"float32"), Tensor([5, 3, 4],"float32"), list[AXES,AXES])'
    case = prepare(parse_call(config.replace("AXES", 'Tensor([2],"int64")')), CaseOptions())
    left, right = case.values["axes"]
    assert [(3, 4, 5)[i] for i in left] == [(5, 3, 4)[j] for j in right]
    assert len(set(left)) == len(set(right)) == 2
