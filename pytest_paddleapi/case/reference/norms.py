"""Norms of vectors and matrices, condition numbers and ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..dtypes import torch_dtype
from .registry import NoEquivalent, reference


@reference("paddle.linalg.vector_norm", constant=("out",))
def vector_norm(
    x: torch.Tensor,
    p: float = 2.0,
    axis: int | Sequence[int] | None = None,
    keepdim: bool = False,
    name: Any = None,
    *,
    dtype: Any = None,
    out: Any = None,
) -> torch.Tensor:
    """Over all axes by default. Norms of no elements are zero."""
    if not isinstance(p, (int, float)):
        raise ValueError(f"the order of a vector norm is a number, not {p!r}")
    if dtype is not None:
        x = x.to(torch_dtype(dtype))
    dim = axis if axis is None or isinstance(axis, int) else list(axis)
    if dim == []:
        raise ValueError("no axis is given")
    axes = range(x.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
    if math.prod(x.shape[a] for a in axes) == 0 and x.dim():
        if p < 0:
            raise NoEquivalent("a norm of negative order of no elements has no value")
        # The largest of no moduli is 0, like every other norm of them; Torch refuses to say so.
        p = 1.0 if p == math.inf else p
    return torch.linalg.vector_norm(x, ord=p, dim=dim, keepdim=keepdim)


@reference("paddle.linalg.matrix_norm")
def matrix_norm(
    x: torch.Tensor, p: Any = "fro", axis: Sequence[int] = (-2, -1), keepdim: bool = False, name: Any = None
) -> torch.Tensor:
    if isinstance(axis, int) or len(axis) != 2:
        raise ValueError(f"a matrix norm has two axes, not {axis!r}")
    if p not in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        raise ValueError(f"no matrix norm {p!r}")
    if x.is_complex():
        raise NoEquivalent("Paddle's documentation knows matrix norms of real numbers only")
    return torch.linalg.matrix_norm(x, ord=p, dim=(axis[0], axis[1]), keepdim=keepdim)


@reference("paddle.norm", "paddle.linalg.norm", constant=("out",))
def norm(
    x: torch.Tensor,
    p: Any = None,
    axis: int | Sequence[int] | None = None,
    keepdim: bool = False,
    out: Any = None,
    dtype: Any = None,
    name: Any = None,
) -> torch.Tensor:
    """A vector norm, or with two axes a matrix norm; the default is Frobenius (the table in Paddle's documentation)."""
    if dtype is not None:
        x = x.to(torch_dtype(dtype))
    if axis is not None and not isinstance(axis, int):
        axis = list(axis)
        if len(axis) == 1:
            axis = axis[0]
    if isinstance(axis, list) and len(axis) == 2:
        return matrix_norm(x, "fro" if p is None else p, axis, keepdim)
    if p == "fro" and (axis is None or isinstance(axis, int)):
        return vector_norm(x, 2.0, axis, keepdim)
    if isinstance(p, str):
        axes = list(range(x.dim())) if axis is None else axis
        return matrix_norm(x, p, axes if isinstance(axes, list) else [axes], keepdim)
    return vector_norm(x, 2.0 if p is None else p, axis, keepdim)


@reference("paddle.linalg.cond")
def cond(x: torch.Tensor, p: Any = None, name: Any = None) -> torch.Tensor:
    """Other orders than 2 and -2 need square matrices, also empty ones."""
    if p not in (None, 2, -2) and x.shape[-1] != x.shape[-2]:
        raise ValueError(f"order {p!r} needs square matrices, not {list(x.shape)}")
    return torch.linalg.cond(x, p)


@reference("paddle.linalg.matrix_rank")
def matrix_rank(
    x: torch.Tensor,
    tol: Any = None,
    hermitian: bool = False,
    atol: Any = None,
    rtol: Any = None,
    name: Any = None,
) -> torch.Tensor:
    """The number of singular values (moduli of eigenvalues) above the tolerance.

    It is ``tol``, or ``max(atol, largest * rtol)`` where ``rtol`` is by default 0 if ``atol`` is positive
    and else ``max(m, n) * eps`` (notes 2 to 4 of Paddle's documentation).
    """
    if tol is not None and (atol is not None or rtol is not None):
        raise ValueError("tol excludes atol and rtol")
    if x.numel() == 0:
        # An empty matrix has rank 0, whatever the tolerance.
        return torch.zeros(x.shape[:-2], dtype=torch.int64, device=x.device)
    size = torch.linalg.eigvalsh(x).abs() if hermitian else torch.linalg.svdvals(x)
    largest = size.amax(-1)
    relative = largest * max(x.shape[-2:]) * torch.finfo(size.dtype).eps
    if tol is not None:
        limit = torch.as_tensor(tol, dtype=size.dtype, device=x.device)
    elif atol is None and rtol is None:
        limit = relative
    else:
        absolute = torch.as_tensor(0.0 if atol is None else atol, dtype=size.dtype, device=x.device)
        if rtol is None:
            limit = torch.where(absolute > 0, absolute, relative)
        else:
            limit = torch.maximum(absolute, largest * torch.as_tensor(rtol, dtype=size.dtype, device=x.device))
    return (size > limit.unsqueeze(-1)).sum(-1)
