"""Decompositions, systems, norms and ranks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pytest_paddleapi.case.compare.comparison import Comparison
from pytest_paddleapi.case.compare.decompositions import gap_tolerance
from pytest_paddleapi.case.compare.registry import find_comparator
from pytest_paddleapi.case.gauges import ORDER, PHASES, gauge_cotangent
from pytest_paddleapi.case.prepared import prepare
from pytest_paddleapi.case.reference.registry import NoEquivalent, Reference, find_reference
from pytest_paddleapi.config import parse_call
from pytest_paddleapi.process.messages import CaseOptions, CaseResult, ToleranceOptions

from .support import check_row

TABLE = "linalg"
Run = Callable[..., CaseResult]


def rule(api: str) -> Any:
    found = find_reference(api)
    assert isinstance(found, Reference)
    return found.rule


def made(config: str) -> Any:
    """The values that the input rules make."""
    return prepare(parse_call(config), CaseOptions()).values


def matrix(*shape: int, seed: int = 0, dtype: Any = np.float64) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    array = rng.standard_normal(shape)
    if np.issubdtype(dtype, np.complexfloating):
        array = array + 1j * rng.standard_normal(shape)
    return torch.from_numpy(array.astype(dtype))


def test_config_passes(run_case: Run, table_row: tuple[str, int, int]) -> None:
    check_row(run_case, table_row)


# Values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0, 1, 2.5, -1.5, math.inf, -math.inf])
def test_vector_norms_are_numpys(p: float) -> None:
    x = matrix(3, 4)
    np.testing.assert_allclose(rule("paddle.linalg.vector_norm")(x, p, 1), np.linalg.norm(x, p, 1))
    np.testing.assert_allclose(rule("paddle.linalg.norm")(x, p), np.linalg.norm(x.ravel(), p))


@pytest.mark.parametrize("p", ["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
def test_matrix_norms_are_numpys(p: Any) -> None:
    x = matrix(3, 4, 5)
    expected = np.linalg.norm(x, p, (2, 0), keepdims=True)
    np.testing.assert_allclose(rule("paddle.linalg.matrix_norm")(x, p, [2, 0], True), expected)
    np.testing.assert_allclose(rule("paddle.norm")(x, p, (2, 0), True), expected)


def test_the_default_norm_of_two_axes_is_frobenius() -> None:
    x = matrix(3, 4)
    np.testing.assert_allclose(rule("paddle.linalg.norm")(x, axis=[0, 1]), np.linalg.norm(x))


def test_norms_of_nothing() -> None:
    nothing = torch.zeros(2, 0)
    assert rule("paddle.linalg.vector_norm")(nothing, math.inf, 1).tolist() == [0, 0]
    assert rule("paddle.linalg.vector_norm")(nothing, 2).item() == 0
    with pytest.raises(NoEquivalent):
        rule("paddle.linalg.vector_norm")(nothing, -math.inf, 1)


@pytest.mark.parametrize("p", [None, "fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
def test_condition_numbers_are_numpys(p: Any) -> None:
    x = matrix(3, 3)
    np.testing.assert_allclose(rule("paddle.linalg.cond")(x, p), np.linalg.cond(x, p))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, 3),
        ({"tol": 0.5}, 2),
        ({"atol": 0.5}, 2),
        ({"rtol": 0.5}, 1),
        ({"atol": 0.05, "rtol": 0.2}, 2),
        ({"atol": 0.0}, 3),
        ({"tol": torch.tensor([0.5, 0.01])}, [2, 3]),
    ],
)
def test_ranks_follow_the_documented_tolerances(arguments: Any, expected: Any) -> None:
    x = torch.diag(torch.tensor([4.0, 1.0, 0.1, 1e-9], dtype=torch.float32))
    assert rule("paddle.linalg.matrix_rank")(x, **arguments).tolist() == expected
    assert rule("paddle.linalg.matrix_rank")(-x, hermitian=True, **arguments).tolist() == expected


def test_pinv_drops_small_singular_values() -> None:
    x = torch.diag(torch.tensor([2.0, 1.0, 0.5]))
    expected = torch.diag(torch.tensor([0.5, 1.0, 0.0]))
    torch.testing.assert_close(rule("paddle.linalg.pinv")(x, rcond=0.3), expected)
    hermitian = matrix(3, 3, dtype=np.complex128)
    hermitian = hermitian + hermitian.mH
    found = rule("paddle.linalg.pinv")(hermitian, hermitian=True)
    np.testing.assert_allclose(found, np.linalg.pinv(hermitian), atol=1e-10)


def test_lu_solve_solves_the_matrix_its_transpose_and_its_adjoint() -> None:
    from scipy.linalg import lu_factor

    a, b = matrix(3, 3, dtype=np.complex128), matrix(3, 2, seed=1, dtype=np.complex128)
    factors, pivots = lu_factor(a.numpy())
    solve = rule("paddle.linalg.lu_solve")
    arguments = b, torch.from_numpy(factors), torch.from_numpy(pivots + 1).int()
    for trans, system in (("N", a), ("T", a.mT), ("C", a.mH)):
        np.testing.assert_allclose(solve(*arguments, trans), np.linalg.solve(system.resolve_conj().numpy(), b))


def test_lstsq_gives_what_the_driver_computes() -> None:
    a, b = matrix(5, 3), matrix(5, 2, seed=1)
    expected, residuals, rank, values = np.linalg.lstsq(a, b, rcond=None)
    found = rule("paddle.linalg.lstsq")(a, b, driver="gelsd")
    np.testing.assert_allclose(found[0], expected)
    np.testing.assert_allclose(found[1], residuals)
    assert found[2].item() == rank
    np.testing.assert_allclose(found[3], values)
    assert [part.numel() for part in rule("paddle.linalg.lstsq")(a, b)] == [6, 0, 1, 0]
    assert [part.numel() for part in rule("paddle.linalg.lstsq")(a, b, driver="gels")] == [6, 2, 0, 0]


def test_cov_and_corrcoef_are_numpys() -> None:
    x, counts = matrix(4, 6), np.array([1, 2, 1, 3, 1, 1])
    weights = np.linspace(0.5, 1.5, 6)
    found = rule("paddle.linalg.cov")(x, True, False, torch.from_numpy(counts), torch.from_numpy(weights))
    np.testing.assert_allclose(found, np.cov(x, ddof=0, fweights=counts, aweights=weights))
    np.testing.assert_allclose(rule("paddle.linalg.cov")(x, False), np.cov(x, rowvar=False))
    np.testing.assert_allclose(rule("paddle.linalg.corrcoef")(x, False), np.corrcoef(x, rowvar=False))


def test_triangular_solve_reads_one_triangle() -> None:
    a, b = matrix(3, 3) + 3 * torch.eye(3), matrix(3, 2, seed=1)
    solve = rule("paddle.linalg.triangular_solve")
    np.testing.assert_allclose(solve(a, b), np.linalg.solve(np.triu(a), b))
    np.testing.assert_allclose(solve(a, b, False, True), np.linalg.solve(np.tril(a).T, b))
    unit = np.tril(a, -1) + np.eye(3)
    np.testing.assert_allclose(solve(a, b, False, False, True), np.linalg.solve(unit, b))


def test_cholesky_inverse_is_that_of_the_documented_product() -> None:
    u = torch.tensor([[3.0, 0.0, 0.0], [5.0, 3.0, 0.0], [-1.0, 1.0, 2.0]])
    found = rule("paddle.linalg.cholesky_inverse")(u)
    np.testing.assert_allclose(found[0], [0.61728382, -0.25925916, 0.22222219], rtol=1e-4)


# Inputs ------------------------------------------------------------------------------------------


def test_matrices_have_separate_singular_values_and_a_small_condition() -> None:
    x = made('paddle.linalg.svd(Tensor([2, 6, 4],"float64"))')["x"]
    np.testing.assert_allclose(np.linalg.svd(x)[1], [np.geomspace(1.9, 1 / 1.9, 4)] * 2)


def test_eigenvalues_are_separate_and_some_complex() -> None:
    values = np.linalg.eigvals(made('paddle.linalg.eig(Tensor([6, 6],"float64"))')["x"])
    gaps = np.abs(values[:, None] - values) + np.eye(6)
    assert gaps.min() > 0.1
    assert np.iscomplex(values).any()


def test_hermitian_matrices_are_indefinite() -> None:
    x = made('paddle.linalg.eigh(Tensor([5, 5],"complex128"))')["x"]
    np.testing.assert_allclose(x, x.conj().T)
    assert (np.linalg.eigvalsh(x) < 0).any()


def test_rank_matrices_lack_rank() -> None:
    x = made('paddle.linalg.matrix_rank(Tensor([6, 5],"float32"))')["x"]
    assert np.linalg.matrix_rank(x) == 3


def test_low_rank_matrices_keep_their_rank_when_centred() -> None:
    x = made('paddle.linalg.pca_lowrank(Tensor([8, 6],"float64"), q=3)')["x"]
    assert np.linalg.matrix_rank(x - x.mean(0)) == 3


def test_pivots_are_row_exchanges() -> None:
    y = made('paddle.linalg.lu_unpack(Tensor([40, 5, 3],"float64"), Tensor([40, 3],"int32"))')["y"]
    assert ((y >= [1, 2, 3]) & (y <= 5)).all()
    assert (y > [1, 2, 3]).any()


# Comparators -------------------------------------------------------------------------------------


def differences(api: str, arguments: Any, actual: Any, expected: Any, gradients: Any = None) -> list[str]:
    c = Comparison(api, arguments, actual, expected, ToleranceOptions())
    if gradients:
        c.actual_gradients, c.expected_gradients = gradients
    find_comparator(api).judge(c)
    return c.findings.differences


def test_what_least_squares_does_not_compute_is_empty_and_of_its_dtype() -> None:
    empty = torch.empty(0)
    expected = (torch.ones(3, 2), empty, torch.tensor(3, dtype=torch.int32), empty)
    wrong_dtype, wrong_shape = (*expected[:3], empty.double()), (*expected[:3], torch.ones(3))
    assert not differences("paddle.linalg.lstsq", {}, expected, expected)
    assert differences("paddle.linalg.lstsq", {}, wrong_dtype, expected)
    assert differences("paddle.linalg.lstsq", {}, wrong_shape, expected)


def phases(count: int) -> torch.Tensor:
    return torch.polar(torch.ones(count, dtype=torch.float64), torch.arange(count, dtype=torch.float64) + 1)


def test_svd_allows_phases_and_nothing_else() -> None:
    x = matrix(4, 3, dtype=np.complex128)
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    arguments = {"x": x.numpy()}
    turned = (u * phases(3), s, phases(3).conj()[:, None] * vh)
    assert not differences("paddle.linalg.svd", arguments, turned, (u, s, vh))
    assert differences("paddle.linalg.svd", arguments, (u * phases(3), s, vh), (u, s, vh))
    assert differences("paddle.linalg.svd", arguments, (u, s * 1.001, vh), (u, s, vh))
    assert differences("paddle.linalg.svd", arguments, (u, s.flip(0), vh), (u, s, vh))
    assert differences("paddle.linalg.svd", arguments, (u * 2, s, vh / 2), (u, s, vh))
    assert differences("paddle.linalg.svd", arguments, (u, s.float(), vh), (u, s, vh))


def test_qr_allows_phases_and_nothing_else() -> None:
    x = matrix(4, 3)
    q, r = torch.linalg.qr(x)
    signs = torch.tensor([1.0, -1.0, -1.0], dtype=torch.float64)
    arguments = {"x": x.numpy()}
    assert not differences("paddle.linalg.qr", arguments, (q * signs, signs[:, None] * r), (q, r))
    assert differences("paddle.linalg.qr", arguments, (q * signs, r), (q, r))
    turn = torch.linalg.qr(matrix(3, 3, seed=5))[0]
    assert differences("paddle.linalg.qr", arguments, (q @ turn, turn.mT @ r), (q, r))
    assert not differences("paddle.linalg.qr", arguments, signs[:, None] * r, r)
    assert differences("paddle.linalg.qr", arguments, r * 1.001, r)


def test_eigh_allows_phases_and_compares_the_hermitian_part_of_gradients() -> None:
    x = matrix(3, 3)
    x = x + x.mT
    w, v = torch.linalg.eigh(x)
    signs = torch.tensor([1.0, -1.0, -1.0], dtype=torch.float64)
    arguments = {"x": x.numpy()}
    gradient = matrix(3, 3, seed=7)
    one_triangle = gradient.tril(-1) + gradient.triu(1).mT + torch.diag(gradient.diagonal())
    assert not differences("paddle.linalg.eigh", arguments, (w, v * signs), (w, v))
    pair = ({"x": one_triangle}, {"x": gradient})
    assert not differences("paddle.linalg.eigh", arguments, (w, v), (w, v), pair)
    pair = ({"x": one_triangle * 1.01}, {"x": gradient})
    assert differences("paddle.linalg.eigh", arguments, (w, v), (w, v), pair)
    assert differences("paddle.linalg.eigh", arguments, (w.flip(0), v.flip(1)), (w, v))
    assert differences("paddle.linalg.eigh", arguments, (w, v.mT.contiguous()), (w, v))


def test_eig_allows_any_order() -> None:
    x = matrix(4, 4)
    w, v = torch.linalg.eig(x)
    order = [2, 0, 3, 1]
    arguments = {"x": x.numpy()}
    assert not differences("paddle.linalg.eig", arguments, (w[order], v[:, order] * phases(4)), (w, v))
    assert differences("paddle.linalg.eig", arguments, (w[order], v), (w, v))
    twice = (torch.stack([w[0], w[0], w[2], w[3]]), torch.stack([v[:, 0], v[:, 0], v[:, 2], v[:, 3]], 1))
    assert differences("paddle.linalg.eig", arguments, twice, (w, v))
    assert not differences("paddle.linalg.eigvals", arguments, w[order], w)
    assert differences("paddle.linalg.eigvals", arguments, w * 1.001, w)


def test_lu_accepts_other_pivots_only_if_they_factor_x() -> None:
    x = torch.tensor([[1.0, 2.0], [-1.0, 5.0]], dtype=torch.float64)  # a tie: both rows may come first
    arguments = {"x": x.numpy()}
    stays = (torch.tensor([[1.0, 2.0], [-1.0, 7.0]], dtype=torch.float64), torch.tensor([1, 2], dtype=torch.int32))
    swaps = (torch.tensor([[-1.0, 5.0], [-1.0, 7.0]], dtype=torch.float64), torch.tensor([2, 2], dtype=torch.int32))
    assert not differences("paddle.linalg.lu", arguments, stays, swaps)
    assert differences("paddle.linalg.lu", arguments, (stays[0] * 1.01, stays[1]), swaps)
    assert differences("paddle.linalg.lu", arguments, (stays[0], torch.tensor([1, 3], dtype=torch.int32)), swaps)
    assert differences("paddle.linalg.lu", arguments, (swaps[0] * 1.01, swaps[1]), swaps)


def test_low_rank_factors_must_reconstruct_what_was_centred() -> None:
    x = made('paddle.linalg.pca_lowrank(Tensor([8, 6],"float64"), q=3)')["x"]
    centred = torch.from_numpy(x - x.mean(0))
    u, s, vh = torch.linalg.svd(centred, full_matrices=False)
    right = (u[:, :3], s[:3], vh[:3].mT)
    other = tuple(part.clone() for part in right)
    arguments = {"x": x, "q": 3}
    assert not differences("paddle.linalg.pca_lowrank", arguments, right, other)
    assert differences("paddle.linalg.pca_lowrank", {**arguments, "center": False}, right, other) == []
    shifted = {"x": x + 1.0, "q": 3, "center": False}
    assert differences("paddle.linalg.pca_lowrank", shifted, right, other)
    assert differences("paddle.linalg.pca_lowrank", arguments, (right[0], right[1] * 1.01, right[2]), other)


def test_lstsq_leaves_out_what_is_not_computed() -> None:
    a, b = matrix(5, 3), matrix(5, 2, seed=1)
    right = rule("paddle.linalg.lstsq")(a, b, driver="gels")
    arguments = {"x": a.numpy(), "y": b.numpy()}
    other_dtype = (*right[:2], torch.empty(0, dtype=torch.int64), right[3])
    assert not differences("paddle.linalg.lstsq", arguments, other_dtype, right)
    assert differences("paddle.linalg.lstsq", arguments, (*right[:2], torch.ones(1), right[3]), right)
    assert differences("paddle.linalg.lstsq", arguments, (right[0] * 1.001, *right[1:]), right)


# Gradients of results that are not unique ---------------------------------------------------------


def test_the_fed_gradient_does_not_see_phases() -> None:
    y, weight = matrix(3, 3, dtype=np.complex128), matrix(3, 3, seed=1, dtype=np.complex128)
    fed, turned = (gauge_cotangent(PHASES, value, weight) for value in (y, y * phases(3)))
    torch.testing.assert_close(turned, fed * phases(3))
    assert gauge_cotangent(None, y, weight) is weight


def test_the_fed_gradient_does_not_see_the_order() -> None:
    y, weight = matrix(3, 4), matrix(3, 4, seed=1)
    order = [2, 0, 3, 1]
    torch.testing.assert_close(gauge_cotangent(ORDER, y[:, order], weight), gauge_cotangent(ORDER, y, weight)[:, order])


def test_vectors_of_a_narrow_gap_have_a_wide_tolerance() -> None:
    c = Comparison("paddle.linalg.svd", {}, None, None, ToleranceOptions())
    gradient = torch.ones(3, 3)
    wide = gap_tolerance(c, gradient, torch.tensor([1.0, 1.0 + 1e-4, 2.0]))
    narrow = gap_tolerance(c, gradient, torch.tensor([1.0, 1.5, 2.0]))
    assert wide.rtol > 10 * narrow.rtol
    assert "gaps" in wide.source
