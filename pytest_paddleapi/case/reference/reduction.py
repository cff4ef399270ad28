"""Sums, products, extremes and logical reductions over axes, and their running forms."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..dtypes import torch_dtype
from .arguments import as_int, axes_of
from .promotion import is_integer
from .registry import NoEquivalent, reference

_NARROW = (torch.uint8, torch.int8, torch.int16, torch.int32)


def reduced_axes(x: torch.Tensor, axis: Any) -> list[int]:
    """The axes as numbers, each once; all of them for None and for an empty list."""
    if axis is None or (isinstance(axis, (list, tuple)) and not axis):
        return list(range(x.dim()))
    return list(dict.fromkeys(axes_of(axis, x.dim()))) if x.dim() else _scalar_axes(axis)


def _scalar_axes(axis: Any) -> list[int]:
    axes_of(axis, 0)
    return []


def cast(x: torch.Tensor, dtype: Any) -> torch.Tensor:
    """``x`` in ``dtype``, or as it is for None."""
    return x if dtype is None else x.to(torch_dtype(dtype))


def together(x: torch.Tensor, axis: Any) -> torch.Tensor:
    """The reduced axes as one, the last."""
    axes = reduced_axes(x, axis)
    if not axes:
        return x.unsqueeze(-1)
    kept = [i for i in range(x.dim()) if i not in axes]
    size = math.prod(x.shape[i] for i in axes)
    return x.permute(*kept, *axes).reshape([x.shape[i] for i in kept] + [size])


def kept_shape(x: torch.Tensor, axis: Any) -> list[int]:
    """The shape of the result with ``keepdim``."""
    axes = reduced_axes(x, axis)
    return [1 if i in axes else size for i, size in enumerate(x.shape)]


def restored(result: torch.Tensor, x: torch.Tensor, axis: Any, keepdim: bool) -> torch.Tensor:
    """A result of :func:`together` with its axes of size one, where they are to be kept."""
    return result.reshape(kept_shape(x, axis)) if keepdim else result


def sum_of(x: torch.Tensor, axis: Any, keepdim: bool) -> torch.Tensor:
    """The sum in the dtype of ``x``; 0-D tensors too."""
    axes = reduced_axes(x, axis)
    return torch.sum(x, dim=axes, keepdim=keepdim, dtype=x.dtype) if axes else x.clone()


@reference("paddle.sum", constant=("out",))
def sum(x, axis=None, dtype=None, keepdim=False, name=None, *, out=None):
    """In int64 for bool and int32, else in the dtype of ``x``; or in ``dtype``. As in Torch, keepdim may be third."""
    if isinstance(dtype, bool):
        dtype, keepdim = (None if isinstance(keepdim, bool) else keepdim), dtype
    if dtype is None and x.dtype in (torch.bool, torch.int32):
        dtype = torch.int64
    return sum_of(cast(x, dtype), axis, bool(keepdim))


@reference("paddle.nansum")
def nansum(x, axis=None, dtype=None, keepdim=False, name=None):
    """The sum, NaN counted as zero."""
    return sum(torch.where(torch.isnan(x), torch.zeros_like(x), x), axis, dtype, keepdim)


@reference("paddle.mean", constant=("out",))
def mean(x, axis=None, keepdim=False, name=None, *, dtype=None, out=None):
    """In the dtype of ``x`` (documentation of paddle.mean): of integers towards zero."""
    x = cast(x, dtype)
    if x.dtype == torch.bool:
        raise NoEquivalent("the mean of bools as a bool is not defined")
    axes = reduced_axes(x, axis)
    if is_integer(x.dtype):
        count = math.prod(x.shape[i] for i in axes)
        if count == 0:
            raise NoEquivalent("no integer is the mean of nothing")
        return torch.div(sum_of(x.long(), axis, bool(keepdim)), count, rounding_mode="trunc").to(x.dtype)
    result = torch.mean(x, dim=axes, keepdim=bool(keepdim)) if axes else x.clone()
    if x.is_complex() and x.numel() == 0:
        # Nothing has no mean: NaN, whose imaginary part is left open (here as Paddle has it).
        return torch.full_like(result, math.nan)
    return result


@reference("paddle.nanmean")
def nanmean(x, axis=None, keepdim=False, name=None):
    """The sum of what is not NaN by its count."""
    if is_integer(x.dtype) or x.dtype == torch.bool:
        raise NoEquivalent("Paddle documents floating-point tensors for nanmean")
    count = sum(~torch.isnan(x), axis, None, keepdim)
    return nansum(x, axis, None, keepdim) / count.to(x.dtype)


@reference("paddle.count_nonzero")
def count_nonzero(x, axis=None, keepdim=False, name=None):
    return sum_of((x != 0).to(torch.int64), axis, bool(keepdim))


@reference("paddle.prod", constant=("out",))
def prod(x, axis=None, keepdim=False, dtype=None, out=None, name=None):
    """The product in the dtype of ``x``, or in ``dtype``."""
    x = cast(x, dtype)
    if isinstance(axis, torch.Tensor) and axis.shape == (0,):
        return x.clone()
    flat = together(x, axis)
    return restored(torch.prod(flat, dim=-1, dtype=x.dtype), x, axis, bool(keepdim))


def _logical(function: Any, x: torch.Tensor, axis: Any, keepdim: bool) -> torch.Tensor:
    x = x != 0 if x.dtype != torch.bool else x
    axes = reduced_axes(x, axis)
    return function(x, dim=axes, keepdim=bool(keepdim)) if axes else x.clone()


@reference("paddle.all")
def all(x, axis=None, keepdim=False, name=None, *, out=None):
    return _logical(torch.all, x, axis, keepdim)


@reference("paddle.any")
def any(x, axis=None, keepdim=False, name=None, *, out=None):
    return _logical(torch.any, x, axis, keepdim)


def _extreme(function: Any, x: torch.Tensor, axis: Any, keepdim: bool) -> torch.Tensor:
    axes = reduced_axes(x, axis)
    if 0 in [x.shape[i] for i in axes]:
        raise NoEquivalent("nothing is the largest or smallest of no values")
    return function(x, dim=axes, keepdim=bool(keepdim)) if axes else x.clone()


def _extreme_for_all(function: Any, x: torch.Tensor, axis: Any, keepdim: bool) -> torch.Tensor:
    """As :func:`_extreme`, with the whole gradient for each of several equal extremes.

    Note in the documentation of paddle.amax: amax shares the gradient evenly among equal values, max
    propagates it to all of them.
    """
    axes = reduced_axes(x, axis)
    if not axes:
        return x.clone()
    fixed = x.detach()
    value = function(fixed, dim=axes, keepdim=True)
    if x.requires_grad:
        # Zero in value, one in gradient.
        moves = torch.where(fixed == value, x - torch.nan_to_num(fixed), torch.zeros_like(x))
        value = value + moves.sum(dim=axes, keepdim=True)
    return value if keepdim else value.reshape([size for i, size in enumerate(x.shape) if i not in axes])


@reference("paddle.max")
def max(x, axis=None, keepdim=False, name=None):
    """The largest values; each of several equal ones gets the whole gradient."""
    return _extreme_for_all(torch.amax, x, axis, bool(keepdim))


@reference("paddle.min")
def min(x, axis=None, keepdim=False, name=None):
    return _extreme_for_all(torch.amin, x, axis, bool(keepdim))


@reference("paddle.amax", constant=("out",))
def amax(x, axis=None, keepdim=False, name=None, *, out=None):
    """The largest values; equal ones share the gradient."""
    return _extreme(torch.amax, x, axis, keepdim)


@reference("paddle.amin", constant=("out",))
def amin(x, axis=None, keepdim=False, name=None, *, out=None):
    return _extreme(torch.amin, x, axis, keepdim)


@reference("paddle.logsumexp", constant=("out",))
def logsumexp(x, axis=None, keepdim=False, name=None, *, out=None):
    """log(sum(exp(x))); float32 for integers."""
    x = x.float() if is_integer(x.dtype) else x
    axes = reduced_axes(x, axis)
    return torch.logsumexp(x, dim=axes, keepdim=bool(keepdim)) if axes else x.clone()


@reference("paddle.reduce_as")
def reduce_as(x, target, name=None):
    """Summed over the axes along which ``target`` would be broadcast to ``x``."""
    if target.dim() > x.dim():
        raise ValueError("the target should not have more axes than x")
    lead = x.dim() - target.dim()
    axes = list(range(lead))
    for i, size in enumerate(target.shape):
        if size == 1 and x.shape[lead + i] != 1:
            axes.append(lead + i)
        elif size != x.shape[lead + i]:
            raise ValueError(f"{list(target.shape)} cannot be broadcast to {list(x.shape)}")
    return (torch.sum(x, dim=axes, dtype=x.dtype) if axes else x.clone()).reshape(target.shape)


# Running forms ----------------------------------------------------------------------------------


def _along(x: torch.Tensor, axis: Any) -> tuple[torch.Tensor, int]:
    """The tensor and the axis to run along; flattened for None."""
    return (x.reshape(-1), 0) if axis is None else (x, as_int(axis))


@reference("paddle.cumsum", constant=("out",))
def cumsum(x, axis=None, dtype=None, name=None, *, out=None):
    """In int64 for narrower integers, else in the dtype of ``x``; or in ``dtype``."""
    if dtype is None and x.dtype in _NARROW:
        dtype = torch.int64
    x, axis = _along(cast(x, dtype), axis)
    return torch.cumsum(x, axis, dtype=x.dtype)


@reference("paddle.cumsum_", returns_changed=True)
def cumsum_(x, axis=None, dtype=None, name=None):
    """As :func:`cumsum`, but integers keep their dtype."""
    return cumsum(x, axis, x.dtype if dtype is None else dtype)


@reference("paddle.cumprod", constant=("out",))
def cumprod(x, dim=None, *, dtype=None, out=None, name=None):
    x, axis = _along(cast(x, dtype), dim)
    return torch.cumprod(x, axis, dtype=x.dtype)


@reference("paddle.cumprod_", returns_changed=True)
def cumprod_(x, dim=None, dtype=None, name=None):
    return cumprod(x, dim, dtype=dtype)


def _running_extreme(function: Any, x: torch.Tensor, axis: Any, dtype: Any) -> tuple[torch.Tensor, torch.Tensor]:
    x, axis = _along(x, axis)
    values, indices = function(x, axis)
    return values, indices.to(torch_dtype(dtype))


@reference("paddle.cummax")
def cummax(x, axis=None, dtype="int64", name=None):
    """The largest so far, and where it is (the last of equal ones)."""
    return _running_extreme(torch.cummax, x, axis, dtype)


@reference("paddle.cummin")
def cummin(x, axis=None, dtype="int64", name=None):
    return _running_extreme(torch.cummin, x, axis, dtype)


@reference("paddle.logcumsumexp")
def logcumsumexp(x, axis=None, dtype=None, name=None):
    """log(cumsum(exp(x))); float32 for integers."""
    x = cast(x, dtype)
    x, axis = _along(x.float() if is_integer(x.dtype) else x, axis)
    return torch.logcumsumexp(x, axis)
