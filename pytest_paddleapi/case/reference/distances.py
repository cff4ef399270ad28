"""Distances, finite differences, numeric integrals, and sums along diagonals."""

from __future__ import annotations

from typing import Any

import torch

from .registry import reference


@reference("paddle.cdist")
def cdist(
    x: torch.Tensor,
    y: torch.Tensor,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
    name: Any = None,
) -> torch.Tensor:
    return torch.cdist(x, y, p=float(p), compute_mode="donot_use_mm_for_euclid_dist")


@reference("paddle.pdist", "paddle.nn.functional.pdist")
def pdist(x: torch.Tensor, p: float = 2.0, name: Any = None) -> torch.Tensor:
    """Distances of all pairs of rows i < j. Written out: Torch's own divides by zero on empty rows."""
    if x.dim() != 2:
        raise ValueError(f"pdist takes a matrix, not {list(x.shape)}")
    first, second = torch.triu_indices(x.shape[0], x.shape[0], offset=1, device=x.device)
    difference = x[first] - x[second]
    if difference.numel() == 0:
        return difference.sum(-1)
    return torch.linalg.vector_norm(difference, ord=float(p), dim=-1)


@reference("paddle.dist")
def dist(x: torch.Tensor, y: torch.Tensor, p: float = 2, name: Any = None) -> torch.Tensor:
    """The norm of the broadcast difference as one vector; of nothing it is zero."""
    difference = x - y
    if difference.numel() == 0:
        return difference.sum()
    return torch.dist(x, y, p=float(p))


@reference("paddle.diff", constant=("out",))
def diff(
    x: torch.Tensor,
    n: int = 1,
    axis: int = -1,
    prepend: torch.Tensor | None = None,
    append: torch.Tensor | None = None,
    name: Any = None,
    *,
    out: Any = None,
) -> torch.Tensor:
    if n < 1:
        raise ValueError(f"n must be at least 1, it is {n}")
    return torch.diff(x, n=n, dim=axis, prepend=prepend, append=append)


@reference("paddle.trapezoid", constant=("dx",))
def trapezoid(
    y: torch.Tensor, x: torch.Tensor | None = None, dx: Any = None, axis: int = -1, name: Any = None
) -> torch.Tensor:
    return _areas(y, x, dx, axis).sum(axis)


@reference("paddle.cumulative_trapezoid", constant=("dx",))
def cumulative_trapezoid(
    y: torch.Tensor, x: torch.Tensor | None = None, dx: Any = None, axis: int = -1, name: Any = None
) -> torch.Tensor:
    return _areas(y, x, dx, axis).cumsum(axis)


def _areas(y: torch.Tensor, x: torch.Tensor | None, dx: Any, axis: int) -> torch.Tensor:
    """The area over each interval along ``axis``, by the trapezoid rule."""
    if not y.is_floating_point() or (x is not None and not x.is_floating_point()):
        raise TypeError("the trapezoid rule takes floats (documentation of paddle.trapezoid)")
    if x is not None and dx is not None:
        raise ValueError("x and dx exclude each other")
    if x is not None:
        step: Any = _steps(x, -1 if x.dim() == 1 else axis)
        if x.dim() == 1:
            shape = [1] * y.dim()
            shape[axis] = step.shape[0]
            step = step.reshape(shape)
    else:
        step = 1.0 if dx is None else dx
    first, second = _neighbours(y, axis)
    return (first + second) * step * 0.5


def _neighbours(t: torch.Tensor, axis: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Both ends of each interval along ``axis``; there is none between fewer than two points."""
    count = max(t.shape[axis] - 1, 0)
    return t.narrow(axis, 0, count), t.narrow(axis, t.shape[axis] - count, count)


def _steps(x: torch.Tensor, axis: int) -> torch.Tensor:
    first, second = _neighbours(x, axis)
    return second - first


@reference("paddle.trace")
def trace(x: torch.Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1, name: Any = None) -> torch.Tensor:
    """The result keeps the dtype, of integers too."""
    return torch.diagonal(x, offset, axis1, axis2).sum(-1, dtype=x.dtype)


@reference("paddle.renorm")
def renorm(x: torch.Tensor, p: float, axis: int, max_norm: float) -> torch.Tensor:
    return torch.renorm(x, p=p, dim=axis, maxnorm=max_norm)
