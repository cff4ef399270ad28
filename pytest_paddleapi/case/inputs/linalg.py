"""Values for linear algebra: well conditioned, with spectra that keep apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...config import COMPLEX, TensorSpec
from .makers import ordinary, positive_definite, uniform
from .registry import Draw, inputs


def gaussian(draw: Draw, shape: tuple[int, ...] | None = None) -> Any:
    """Normal noise of the dtype's kind."""
    shape = draw.shape if shape is None else shape
    noise = draw.rng.standard_normal(shape)
    return noise + 1j * draw.rng.standard_normal(shape) if draw.dtype in COMPLEX else noise


def orthonormal(draw: Draw, rows: int, columns: int) -> Any:
    """A matrix with orthonormal columns (rows where there are fewer) for each batch of ``draw``."""
    batch = draw.shape[:-2]
    if rows < columns:
        return _adjoint(orthonormal(draw, columns, rows))
    if 0 in (rows, columns, *batch):
        return np.zeros((*batch, rows, columns))
    return np.linalg.qr(gaussian(draw, (*batch, rows, columns)))[0]


def _adjoint(matrix: Any) -> Any:
    return np.conj(np.swapaxes(matrix, -1, -2))


def ladder(count: int) -> Any:
    """Distinct positive numbers from 1.9 down in equal ratios, of product 1; no ratio of two is a round cut-off."""
    return np.geomspace(1.9, 1 / 1.9, count) if count > 1 else np.full(count, 1.3)


def spread(draw: Draw) -> Any:
    """Matrices of any shape with the singular values of :func:`ladder`: condition number 3.6, determinant ±1."""
    if len(draw.shape) < 2:
        return ordinary(draw)
    rows, columns = draw.shape[-2:]
    k = min(rows, columns)
    return (orthonormal(draw, rows, k) * ladder(k)) @ orthonormal(draw, k, columns)


def hermitian(draw: Draw) -> Any:
    """Hermitian matrices with distinct eigenvalues of both signs."""
    if len(draw.shape) < 2 or draw.shape[-1] != draw.shape[-2]:
        return ordinary(draw)
    n = draw.shape[-1]
    vectors = orthonormal(draw, n, n)
    values = ladder(n) * np.where(np.arange(n) % 3 == 1, -1, 1)
    found = (vectors * values) @ _adjoint(vectors)
    return (found + _adjoint(found)) / 2


def diagonalizable(draw: Draw) -> Any:
    """Square matrices with distinct eigenvalues (in pairs for real dtypes) and mildly skewed eigenvectors."""
    if len(draw.shape) < 2 or draw.shape[-1] != draw.shape[-2] or 0 in draw.shape:
        return ordinary(draw)
    n = draw.shape[-1]
    radius = 1.0 + np.arange(n) / n
    middle = np.zeros((n, n), complex if draw.dtype in COMPLEX else float)
    if draw.dtype in COMPLEX:
        middle[np.arange(n), np.arange(n)] = radius * np.exp(2.4j * np.arange(n))
    else:
        middle[np.arange(n), np.arange(n)] = radius * np.where(np.arange(n) % 2 == 0, 1, -1)
        for i in range(1, n - 1, 3):
            angle = 0.5 + 2.0 * i / n
            turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
            middle[i : i + 2, i : i + 2] = radius[i] * turn
    skew = np.eye(n) + 0.3 * gaussian(draw) / np.sqrt(n)
    basis = orthonormal(draw, n, n) @ skew
    return basis @ middle @ np.linalg.inv(basis)


def triangular(draw: Draw) -> Any:
    """Triangular as the argument ``upper`` says (False by default), well conditioned, zero elsewhere."""
    if len(draw.shape) < 2:
        return ordinary(draw)
    noise = 0.6 * gaussian(draw) / np.sqrt(max(draw.shape[-1], 1))
    upper = bool(draw.arg("upper", draw.call.api == "paddle.linalg.triangular_solve"))
    part = np.triu(noise, 1) if upper else np.tril(noise, -1)
    rows, columns = draw.shape[-2:]
    diagonal = np.zeros((rows, columns))
    k = min(rows, columns)
    sizes = draw.rng.uniform(1.0, 2.0, k)
    diagonal[np.arange(k), np.arange(k)] = sizes
    return part + diagonal


def triangular_with_rest(draw: Draw) -> Any:
    """As :func:`triangular`, with numbers that must not be looked at on the other side of the diagonal."""
    values = triangular(draw)
    return np.where(values == 0, ordinary(draw), values) if len(draw.shape) >= 2 else values


def near_orthogonal(draw: Draw) -> Any:
    """Square matrices whose high powers neither vanish nor overflow."""
    if len(draw.shape) < 2 or draw.shape[-1] != draw.shape[-2]:
        return ordinary(draw)
    n = draw.shape[-1]
    return orthonormal(draw, n, n) * (1.0 + 0.02 * draw.rng.standard_normal((*draw.shape[:-2], 1, n)))


def small_entries(draw: Draw) -> Any:
    """Square matrices of norm about 1: for exponentials."""
    return gaussian(draw) / np.sqrt(max(draw.shape[-1], 1)) if draw.shape else ordinary(draw)


def low_rank(draw: Draw) -> Any:
    """Matrices of exact rank ``q`` with the singular values of :func:`ladder`, plus ``M`` where it is given.

    Centring changes nothing where there are more rows than ``q``.
    """
    if len(draw.shape) < 2:
        return ordinary(draw)
    rows, columns = draw.shape[-2:]
    q = draw.arg("q")
    limit = min(rows, columns)
    q = min(6, limit) if q is None else min(int(q), limit) if isinstance(q, int) else limit
    if 0 in draw.shape or q == 0:
        return np.zeros(draw.shape)
    subtracted = draw.values("M") if isinstance(draw.arg("M"), TensorSpec) else 0.0
    left = gaussian(draw, (*draw.shape[:-2], rows, q))
    if rows > q:
        left = np.linalg.qr(left - left.mean(-2, keepdims=True))[0]
    else:
        left = np.linalg.qr(left)[0]
    return (left * ladder(q)) @ orthonormal(draw, q, columns) + subtracted


def of_known_rank(draw: Draw) -> Any:
    """Integer matrices that lack rank: products of thin ones, exact in every dtype."""
    if len(draw.shape) < 2:
        return ordinary(draw)
    rows, columns = draw.shape[-2:]
    rank = max(1, (min(rows, columns) * 2) // 3)
    left = _integers(draw, (*draw.shape[:-2], rows, rank))
    if draw.arg("hermitian", False) is True and rows == columns:
        return left @ _adjoint(left)
    return left @ _integers(draw, (*draw.shape[:-2], rank, columns))


def _integers(draw: Draw, shape: tuple[int, ...]) -> Any:
    numbers = draw.rng.integers(-3, 4, shape).astype(float)
    return numbers + 1j * draw.rng.integers(-3, 4, shape) if draw.dtype in COMPLEX else numbers


def pinv_matrix(draw: Draw) -> Any:
    return hermitian(draw) if draw.arg("hermitian", False) is True else spread(draw)


def pivots(of: str) -> Any:
    """Row exchanges in LAPACK's form: the i-th (from 1) lies between i and the number of rows of ``of``."""

    def make(draw: Draw) -> Any:
        rows = draw.arg(of).shape[-2] if isinstance(draw.arg(of), TensorSpec) else draw.shape[-1]
        first = np.arange(1, draw.shape[-1] + 1)
        room = np.maximum(rows - first + 1, 1)
        return first + np.floor(draw.rng.random(draw.shape) * room).astype(np.int64)

    return make


def reflection_scales(draw: Draw) -> Any:
    return draw.rng.uniform(0.5, 1.5, draw.shape)


inputs("paddle.linalg.svd", x=spread)
inputs("paddle.linalg.svdvals", x=spread)
inputs("paddle.linalg.qr", x=spread)
inputs("paddle.linalg.lu", x=spread)
inputs("paddle.linalg.det", "paddle.linalg.slogdet", x=spread)
inputs("paddle.linalg.inv", "paddle.inverse", x=spread)
inputs("paddle.linalg.solve", x=spread)
inputs("paddle.linalg.lstsq", x=spread)
inputs("paddle.linalg.cond", x=spread)
inputs("paddle.linalg.pinv", x=pinv_matrix, rcond=uniform(1e-6, 1e-3))
inputs("paddle.linalg.eigh", "paddle.linalg.eigvalsh", "paddle.eigvalsh", x=hermitian)
inputs("paddle.linalg.eig", "paddle.linalg.eigvals", x=diagonalizable)
inputs("paddle.linalg.cholesky", "paddle.cholesky", x=positive_definite)
inputs("paddle.linalg.cholesky_solve", y=triangular)
inputs("paddle.linalg.cholesky_inverse", x=triangular)
inputs("paddle.linalg.triangular_solve", x=triangular_with_rest)
inputs("paddle.linalg.matrix_power", x=near_orthogonal)
inputs("paddle.linalg.matrix_exp", x=small_entries)
inputs(
    "paddle.linalg.matrix_rank",
    x=of_known_rank,
    tol=uniform(0.3, 3.0),
    atol=uniform(0.3, 3.0),
    rtol=uniform(0.01, 0.3),
)
inputs("paddle.linalg.svd_lowrank", "paddle.linalg.pca_lowrank", x=low_rank)
inputs("paddle.linalg.lu_unpack", y=pivots("x"))
inputs("paddle.linalg.lu_solve", lu=triangular_with_rest, pivots=pivots("lu"))
inputs("paddle.linalg.householder_product", "paddle.linalg.ormqr", tau=reflection_scales)
inputs("paddle.linalg.cov", fweights=uniform(1, 5), aweights=uniform(0.5, 2.0))
