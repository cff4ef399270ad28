"""Matrix decompositions by what they promise: they are not unique, so their factors are not compared one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..tensors import to_torch
from .comparison import Comparison
from .registry import comparator
from .sums import compare_gradient_sums, sum_tolerance
from .tolerance import Tolerance


def matrix_of(c: Comparison, name: str = "x") -> torch.Tensor:
    """A tensor argument as it was given to both sides."""
    value = c.argument(name)
    if not isinstance(value, np.ndarray):
        raise TypeError(f"argument {name!r} of {c.api} is no tensor")
    return to_torch(value)


def same_forms(c: Comparison) -> bool:
    """Check structure, shapes and dtypes of all outputs."""
    if not c.same_structure():
        return False
    fine = True
    for index, (actual, expected) in enumerate(zip(c.actual_leaves(), c.expected_leaves())):
        fine &= c.same_form(f"output {index}", actual, expected)
    return fine


def holds(c: Comparison, what: str, actual: torch.Tensor, expected: torch.Tensor) -> bool:
    """Check an identity that the factors must satisfy."""
    return c.pair(what, actual, expected, sum_tolerance(c, expected))


def orthonormal(c: Comparison, what: str, matrix: torch.Tensor) -> None:
    """Check that the columns are orthonormal."""
    gram = matrix.mH @ matrix
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype).expand_as(gram)
    holds(c, f"{what} has orthonormal columns", gram, eye)


def gap_tolerance(c: Comparison, expected: torch.Tensor, spectrum: torch.Tensor) -> Tolerance:
    """The tolerance of a gradient through eigenvectors or singular vectors.

    Their condition is the size of the spectrum over its smallest gap (Golub and Van Loan, Matrix Computations,
    theorem 8.1.12); rounding errors are that much larger.
    """
    tolerance = sum_tolerance(c, expected)
    if spectrum.shape[-1] < 2 or expected.numel() == 0:
        return tolerance
    values = spectrum.abs() if not spectrum.is_complex() else torch.view_as_real(spectrum).norm(dim=-1)
    gaps = (spectrum.unsqueeze(-1) - spectrum.unsqueeze(-2)).abs()
    gaps = gaps + torch.eye(gaps.shape[-1], dtype=gaps.dtype) * values.amax()
    condition = float(values.amax() / gaps.amin().clamp_min(torch.finfo(gaps.dtype).tiny))
    size = float(torch.linalg.vector_norm(expected)) / expected.numel() ** 0.5
    error = 16 * torch.finfo(expected.dtype).eps * condition
    return tolerance.at_least(
        error * size, error, f"vectors are conditioned by the gaps of the spectrum ({condition:.3g})"
    )


def compare_gradients_by_gap(c: Comparison, spectrum: torch.Tensor) -> None:
    for name, actual, expected in c.gradient_pairs():
        c.pair(f"gradient of {name}", actual, expected, gap_tolerance(c, expected, spectrum))
        c.count(gradients=1)


@comparator("paddle.linalg.svd", meaning="singular values; U S VH = x; orthonormal U and V")
def svd(c: Comparison) -> None:
    if not same_forms(c):
        return
    u, s, vh = c.actual_leaves()
    _, values, _ = c.expected_leaves()
    holds(c, "output 1, singular values", s, values)
    k = s.shape[-1]
    holds(c, "U S VH reconstructs x", (u[..., :k] * s.unsqueeze(-2).to(u.dtype)) @ vh[..., :k, :], matrix_of(c))
    orthonormal(c, "output 0", u)
    orthonormal(c, "output 2 transposed", vh.mH)
    c.count(outputs=3)
    compare_gradients_by_gap(c, values.square())


@comparator("paddle.linalg.qr", meaning="Q R = x; orthonormal Q; R triangular and unique up to the phases of its rows")
def qr(c: Comparison) -> None:
    if not same_forms(c):
        return
    r, expected = c.actual_leaves()[-1], c.expected_leaves()[-1]
    if len(c.actual_leaves()) == 2:
        q = c.actual_leaves()[0]
        holds(c, "Q R reconstructs x", q @ r, matrix_of(c))
        orthonormal(c, "output 0", q)
        c.count(outputs=1)
    holds(c, "R, with a positive diagonal", _positive_diagonal(r), _positive_diagonal(expected))
    holds(c, "R below its diagonal", r.tril(-1), torch.zeros_like(r))
    c.count(outputs=1)
    compare_gradient_sums(c)


def _positive_diagonal(r: torch.Tensor) -> torch.Tensor:
    diagonal = torch.diagonal(r, dim1=-2, dim2=-1)
    phase = torch.where(diagonal == 0, torch.ones_like(diagonal), diagonal / diagonal.abs())
    rest = phase.new_ones((*phase.shape[:-1], r.shape[-2] - phase.shape[-1]))
    return torch.cat([phase.conj(), rest], -1).unsqueeze(-1) * r


@comparator("paddle.linalg.eigh", meaning="eigenvalues; x V = V w; orthonormal V; Hermitian part of the gradient")
def eigh(c: Comparison) -> None:
    if not same_forms(c):
        return
    values, vectors = c.actual_leaves()
    holds(c, "output 0, eigenvalues", values, c.expected_leaves()[0])
    _eigenpairs(c, values, vectors)
    orthonormal(c, "output 1", vectors)
    c.count(outputs=2)
    compare_hermitian_gradients(c, c.expected_leaves()[0])


def _eigenpairs(c: Comparison, values: torch.Tensor, vectors: torch.Tensor) -> None:
    matrix = matrix_of(c).to(vectors.dtype)
    holds(c, "x V = V diag(w)", matrix @ vectors, vectors * values.unsqueeze(-2).to(vectors.dtype))


def compare_hermitian_gradients(c: Comparison, spectrum: torch.Tensor) -> None:
    """Gradients of an argument that must be Hermitian: only their Hermitian part is defined."""
    for name, actual, expected in c.gradient_pairs():
        if name == "x":
            actual, expected = (actual + actual.mH) / 2, (expected + expected.mH) / 2
            c.note("of the gradient of x the Hermitian part was compared: x must be Hermitian")
        c.pair(f"gradient of {name}", actual, expected, gap_tolerance(c, expected, spectrum))
        c.count(gradients=1)


@comparator("paddle.linalg.eigvalsh", "paddle.eigvalsh", meaning="eigenvalues; Hermitian part of the gradient")
def eigvalsh(c: Comparison) -> None:
    if same_forms(c):
        holds(c, "output 0", c.actual, c.expected)
        c.count(outputs=1)
        compare_hermitian_gradients(c, c.expected[..., :1])


@comparator("paddle.linalg.cholesky", "paddle.cholesky", meaning="elements; Hermitian part of the gradient")
def cholesky(c: Comparison) -> None:
    if same_forms(c):
        holds(c, "output 0", c.actual, c.expected)
        c.count(outputs=1)
        compare_hermitian_gradients(c, c.expected[..., :1, 0])


@comparator("paddle.linalg.pinv", meaning="elements; for a Hermitian argument the Hermitian part of the gradient")
def pinv(c: Comparison) -> None:
    if same_forms(c):
        holds(c, "output 0", c.actual, c.expected)
        c.count(outputs=1)
        if c.argument("hermitian") is True:
            compare_hermitian_gradients(c, c.expected[..., :1, 0])
        else:
            compare_gradient_sums(c)


@comparator("paddle.linalg.eig", meaning="eigenvalues in any order; x V = V w; columns of V of length 1")
def eig(c: Comparison) -> None:
    if not same_forms(c):
        return
    values, vectors = c.actual_leaves()
    expected = c.expected_leaves()[0]
    holds(c, "output 0, eigenvalues", matched(values, expected), expected)
    _eigenpairs(c, values, vectors)
    lengths = torch.linalg.vector_norm(vectors, dim=-2)
    holds(c, "output 1 has columns of length 1", lengths, torch.ones_like(lengths))
    c.count(outputs=2)
    compare_gradients_by_gap(c, expected)


@comparator("paddle.linalg.eigvals", meaning="eigenvalues in any order")
def eigvals(c: Comparison) -> None:
    if same_forms(c):
        holds(c, "output 0", matched(c.actual, c.expected), c.expected)
        c.count(outputs=1)
        compare_gradients_by_gap(c, c.expected)


def matched(actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """The rows of ``actual``, each in the order in which its elements lie nearest those of ``expected``."""
    rows = []
    for found, wanted in zip(actual.reshape(-1, actual.shape[-1]), expected.reshape(-1, expected.shape[-1])):
        distance = (found.unsqueeze(0) - wanted.unsqueeze(1)).abs()
        order = []
        for row in distance:
            order.append(int(row.argmin()))
            distance[:, order[-1]] = torch.inf
        rows.append(found[order])
    return torch.stack(rows).reshape(expected.shape) if rows else actual


@comparator("paddle.linalg.lu", meaning="elements; where the pivots differ, P L U = x with entries of L up to 1")
def lu(c: Comparison) -> None:
    if not same_forms(c):
        return
    factors, pivots = c.actual_leaves()[:2]
    expected, expected_pivots = c.expected_leaves()[:2]
    for index, (actual, other) in enumerate(list(zip(c.actual_leaves(), c.expected_leaves()))[2:], 2):
        c.pair(f"output {index}", actual, other)
        c.count(outputs=1)
    c.count(outputs=2)
    if torch.equal(pivots, expected_pivots):
        holds(c, "output 0", factors, expected)
        compare_gradient_sums(c)
        return
    c.note("gradients not compared: the rows were exchanged in another order")
    first = torch.arange(1, pivots.shape[-1] + 1)
    if not bool(((pivots >= first) & (pivots <= factors.shape[-2])).all()):
        c.differs("output 1", "row exchanges that are none")
        return
    permutation, lower, upper = torch.lu_unpack(factors, pivots)
    holds(c, "P L U reconstructs x", permutation @ lower @ upper, matrix_of(c))
    largest = float(lower.abs().max())
    if largest > 1 + c.tolerance(lower.real.dtype).atol:
        c.differs("output 0", f"an entry {largest:.6g} of L: the largest of a column must be the pivot")


@comparator("paddle.linalg.lu_unpack", meaning="the factors that were asked for, element by element")
def lu_unpack(c: Comparison) -> None:
    if not c.same_structure():
        return
    wanted = [c.argument("unpack_pivots", True), *[c.argument("unpack_ludata", True)] * 2]
    for index, (actual, expected, asked) in enumerate(zip(c.actual_leaves(), c.expected_leaves(), wanted)):
        if asked:
            c.pair(f"output {index}", actual, expected)
            c.count(outputs=1)
    compare_gradient_sums(c)


@comparator("paddle.linalg.lstsq", meaning="elements of what the driver computes; the rest is empty")
def lstsq(c: Comparison) -> None:
    if not c.same_structure():
        return
    for index, (actual, expected) in enumerate(zip(c.actual_leaves(), c.expected_leaves())):
        if index and expected.shape == (0,):
            if actual.numel() or actual.dtype != expected.dtype:
                form = f"{actual.dtype} of shape {list(actual.shape)}"
                c.differs(f"output {index}", f"{form}, it should be empty and {expected.dtype}")
        else:
            c.pair(f"output {index}", actual, expected, sum_tolerance(c, expected))
        c.count(outputs=1)
    compare_gradient_sums(c)


@comparator(
    "paddle.linalg.svd_lowrank",
    "paddle.linalg.pca_lowrank",
    "paddle.sparse.pca_lowrank",
    meaning="singular values; U S VH reconstructs a matrix of that rank; orthonormal U and V",
)
def lowrank(c: Comparison) -> None:
    """The algorithm is random, but for a matrix whose rank is ``q`` at most (the input rule) it is exact."""
    if not same_forms(c):
        return
    matrix = matrix_of(c)
    subtracted: Any = c.argument("M")
    if subtracted is not None:
        matrix = matrix - to_torch(subtracted)
    if "pca" in c.api and c.argument("center", True):
        matrix = matrix - matrix.mean(-2, keepdim=True)
    u, s, v = c.actual_leaves()
    holds(c, "output 1, singular values", s, torch.linalg.svdvals(matrix)[..., : s.shape[-1]])
    holds(c, "U S VH reconstructs the matrix", (u * s.unsqueeze(-2).to(u.dtype)) @ v.mH, matrix)
    orthonormal(c, "output 0", u)
    orthonormal(c, "output 2", v)
    c.count(outputs=3)
