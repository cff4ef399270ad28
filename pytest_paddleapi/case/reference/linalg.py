"""Decompositions, inverses and solutions of linear systems."""

from __future__ import annotations

from typing import Any

import torch

from ..gauges import ORDER, PHASES
from .registry import NoEquivalent, reference, renames

renames(
    """
    paddle.linalg.det = torch.linalg.det(x:A)
    paddle.linalg.inv = torch.linalg.inv(x:A)
    paddle.inverse = torch.linalg.inv(x:A)
    paddle.linalg.cholesky = torch.linalg.cholesky(x:input, upper)
    paddle.cholesky = torch.linalg.cholesky(x:input, upper)
    paddle.linalg.svdvals = torch.linalg.svdvals(x:A)
    paddle.linalg.eigvalsh = torch.linalg.eigvalsh(x:input, UPLO)
    paddle.eigvalsh = torch.linalg.eigvalsh(x:input, UPLO)
    paddle.linalg.diagonal = torch.diagonal(x:input, offset=0, axis1:dim1=0, axis2:dim2=1)
    paddle.linalg.matrix_power = torch.linalg.matrix_power(x:input, n)
    paddle.linalg.householder_product = torch.linalg.householder_product(x:input, tau)
    """
)


@reference("paddle.linalg.matrix_transpose")
def matrix_transpose(x: torch.Tensor, name: Any = None) -> torch.Tensor:
    return x.mT


@reference("paddle.linalg.matrix_exp")
def matrix_exp(x: torch.Tensor, name: Any = None) -> torch.Tensor:
    """A 0-D tensor is the exponent of a number."""
    return torch.exp(x) if x.dim() == 0 else torch.linalg.matrix_exp(x)


@reference("paddle.linalg.slogdet")
def slogdet(x: torch.Tensor, name: Any = None) -> torch.Tensor:
    """Sign and logarithm in one tensor, of the dtype of ``x``."""
    sign, logarithm = torch.linalg.slogdet(x)
    return torch.stack([sign, logarithm.to(sign.dtype)])


@reference("paddle.linalg.svd", constant=("out",), gauges={0: PHASES, 2: PHASES})
def svd(x: torch.Tensor, full_matrices: bool = False, name: Any = None, *, out: Any = None) -> tuple[torch.Tensor, ...]:
    return tuple(torch.linalg.svd(x, full_matrices=full_matrices))


@reference("paddle.linalg.qr", gauges={0: PHASES, 1: PHASES})
def qr(x: torch.Tensor, mode: str = "reduced", name: Any = None) -> Any:
    q, r = torch.linalg.qr(x, mode=mode)
    return r if mode == "r" else (q, r)


@reference("paddle.linalg.eig", gauges={0: ORDER, 1: ORDER})
def eig(x: torch.Tensor, name: Any = None) -> tuple[torch.Tensor, ...]:
    return tuple(torch.linalg.eig(x))


@reference("paddle.linalg.eigvals", gauges={0: ORDER})
def eigvals(x: torch.Tensor, name: Any = None) -> torch.Tensor:
    return torch.linalg.eigvals(x)


@reference("paddle.linalg.eigh", gauges={1: PHASES})
def eigh(x: torch.Tensor, UPLO: str = "L", name: Any = None) -> tuple[torch.Tensor, ...]:
    return tuple(torch.linalg.eigh(x, UPLO=UPLO))


@reference("paddle.linalg.lu")
def lu(x: torch.Tensor, pivot: bool = True, get_infos: bool = False, name: Any = None) -> tuple[torch.Tensor, ...]:
    if not pivot:
        raise NotImplementedError("Torch factors without pivoting on CUDA only")
    factors, pivots, infos = torch.linalg.lu_factor_ex(x)
    return (factors, pivots, infos) if get_infos else (factors, pivots)


@reference("paddle.linalg.lu_unpack")
def lu_unpack(
    x: torch.Tensor, y: torch.Tensor, unpack_ludata: bool = True, unpack_pivots: bool = True, name: Any = None
) -> tuple[torch.Tensor, ...]:
    return tuple(torch.lu_unpack(x, y, unpack_data=unpack_ludata, unpack_pivots=unpack_pivots))


@reference("paddle.linalg.lu_solve")
def lu_solve(b: torch.Tensor, lu: torch.Tensor, pivots: torch.Tensor, trans: str = "N", name: Any = None) -> Any:
    """``trans`` says what is solved for: the matrix, its transpose or its conjugate transpose."""
    if b.dim() < 2 or lu.dim() < 2:
        raise ValueError("b and lu are matrices")
    permutation, lower, upper = torch.lu_unpack(lu, pivots)
    matrix = permutation @ lower @ upper
    if trans not in ("N", "T", "C"):
        raise ValueError(f"trans is 'N', 'T' or 'C', not {trans!r}")
    return torch.linalg.solve({"N": matrix, "T": matrix.mT, "C": matrix.mH}[trans], b)


@reference("paddle.linalg.solve", constant=("out",))
def solve(x: torch.Tensor, y: torch.Tensor, left: bool = True, name: Any = None, *, out: Any = None) -> torch.Tensor:
    return torch.linalg.solve(x, y, left=left)


@reference("paddle.linalg.triangular_solve")
def triangular_solve(
    x: torch.Tensor,
    y: torch.Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
    name: Any = None,
) -> torch.Tensor:
    matrix = x.mT if transpose else x
    return torch.linalg.solve_triangular(matrix, y, upper=upper != transpose, unitriangular=unitriangular)


@reference("paddle.linalg.cholesky_solve")
def cholesky_solve(x: torch.Tensor, y: torch.Tensor, upper: bool = False, name: Any = None) -> torch.Tensor:
    """Only one triangle of the factor is looked at, so only that one has a gradient."""
    return torch.cholesky_solve(x, y.triu() if upper else y.tril(), upper=upper)


@reference("paddle.linalg.cholesky_inverse")
def cholesky_inverse(x: torch.Tensor, upper: bool = False, name: Any = None) -> torch.Tensor:
    """The inverse of ``x @ x.T``, or of ``x.T @ x`` (formulas of Paddle's documentation)."""
    if x.dim() != 2:
        raise ValueError(f"the factor is one matrix, not {list(x.shape)}")
    return torch.linalg.inv(x.mT @ x if upper else x @ x.mT)


@reference("paddle.linalg.pinv", constant=("rcond",))
def pinv(x: torch.Tensor, rcond: Any = 1e-15, hermitian: bool = False, name: Any = None) -> torch.Tensor:
    """Inverts singular values above ``rcond`` times the largest, and drops the others, in gradients too."""
    if x.is_complex() and not hermitian:
        raise NoEquivalent("Paddle's documentation asks for hermitian=True with complex numbers")
    if x.numel() == 0:
        return x.mT
    if hermitian:
        values, right = torch.linalg.eigh(x)
        left = right
    else:
        left, values, right_adjoint = torch.linalg.svd(x, full_matrices=False)
        right = right_adjoint.mH
    size = values.abs()
    kept = size > torch.as_tensor(rcond, dtype=size.dtype, device=x.device) * size.amax(-1, keepdim=True)
    inverted = torch.where(kept, 1 / values, torch.zeros_like(values))
    return (right * inverted.unsqueeze(-2)) @ left.mH


@reference("paddle.linalg.lstsq")
def lstsq(
    x: torch.Tensor, y: torch.Tensor, rcond: float | None = None, driver: str | None = None, name: Any = None
) -> tuple[torch.Tensor, ...]:
    """Solution, squared residuals, rank and singular values; what a driver does not compute is empty."""
    driver = driver or "gelsy"
    found = torch.linalg.lstsq(x, y, rcond=rcond, driver=driver)
    rows, columns = x.shape[-2:]
    nothing = x.new_empty(0)
    residuals = nothing
    # LAPACK's gelsy does not give residuals; neither framework makes up for it.
    if rows > columns and driver != "gelsy":
        residuals = (x @ found.solution - y).abs().square().sum(-2)
    # The empty one is int64 in Paddle, and its dtype is not documented.
    rank = found.rank.int() if driver != "gels" else torch.empty(0, dtype=torch.int64, device=x.device)
    values = found.singular_values if driver in ("gelsd", "gelss") else nothing
    return found.solution, residuals, rank, values


@reference("paddle.linalg.ormqr")
def ormqr(
    x: torch.Tensor, tau: torch.Tensor, y: torch.Tensor, left: bool = True, transpose: bool = False, name: Any = None
) -> torch.Tensor:
    """The result has the shape of ``y``."""
    return torch.ormqr(x, tau, y, left=left, transpose=transpose)


_QR_BACKWARD = "its backward is that of qr, which Paddle documents as unsupported"


@reference("paddle.linalg.svd_lowrank", no_gradient=_QR_BACKWARD)
def svd_lowrank(
    x: torch.Tensor,
    q: int | None = None,
    niter: int = 2,
    M: torch.Tensor | None = None,
    name: Any = None,
) -> tuple[torch.Tensor, ...]:
    return _lowrank(x if M is None else x - M, q, niter)


@reference("paddle.linalg.pca_lowrank", no_gradient=_QR_BACKWARD)
def pca_lowrank(
    x: torch.Tensor, q: int | None = None, center: bool = True, niter: int = 2, name: Any = None
) -> tuple[torch.Tensor, ...]:
    return _lowrank(x - x.mean(-2, keepdim=True) if center else x, q, niter)


def _lowrank(x: torch.Tensor, q: int | None, niter: int) -> tuple[torch.Tensor, ...]:
    rows, columns = x.shape[-2:]
    limit = min(rows, columns)
    if niter < 0:
        raise ValueError(f"niter is not negative, it is {niter}")
    if limit == 0:
        # Of an empty matrix there are no components, however many are asked for.
        batch = x.shape[:-2]
        return x.new_zeros(*batch, rows, 0), x.new_zeros(*batch, 0), x.new_zeros(*batch, columns, 0)
    if q is not None and not 0 <= q <= limit:
        raise ValueError(f"q lies between 0 and {limit}, it is {q}")
    return tuple(torch.svd_lowrank(x, q=min(6, limit) if q is None else q, niter=niter))


@reference("paddle.linalg.cov", constant=("fweights", "aweights"))
def cov(
    x: torch.Tensor,
    rowvar: bool = True,
    ddof: bool = True,
    fweights: torch.Tensor | None = None,
    aweights: torch.Tensor | None = None,
    name: Any = None,
) -> torch.Tensor:
    data = x if rowvar or x.dim() < 2 else x.mT
    return torch.cov(data, correction=int(ddof), fweights=fweights, aweights=aweights)


@reference("paddle.linalg.corrcoef")
def corrcoef(x: torch.Tensor, rowvar: bool = True, name: Any = None) -> torch.Tensor:
    return torch.corrcoef(x if rowvar or x.dim() < 2 else x.mT)
