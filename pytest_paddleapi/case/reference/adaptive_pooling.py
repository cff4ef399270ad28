"""Adaptive and fractional pooling: windows that follow from the size of the result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from .pooling import FORMATS
from .registry import NoEquivalent, reference
from .spatial import channel_last, from_first, ints, spread, to_first, wide, zeros_from

_AVG: dict[int, Any] = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}
_MAX: dict[int, Any] = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}


def _output_sizes(n: int, value: Any, x: torch.Tensor, *, tensors: bool = False) -> list[int]:
    """The asked sizes of a tensor with channels first; None keeps the input's.

    Raises:
        TypeError: a size is a tensor, which Paddle documents for averages over images only.
    """
    if not tensors and any(
        isinstance(v, torch.Tensor) for v in (value if isinstance(value, (list, tuple)) else [value])
    ):
        raise TypeError("output_size must be numbers")
    if isinstance(value, (list, tuple)):
        if len(value) != n:
            raise ValueError(f"output_size {value} needs {n} numbers")
        sizes = [int(x.shape[2 + i]) if v is None else ints(v)[0] for i, v in enumerate(value)]
        asked = [size for size, v in zip(sizes, value) if v is not None]
    else:
        sizes = asked = spread(value, n, "output_size")
    if any(size < 1 for size in asked):
        raise ValueError(f"output_size must be positive: {value}")
    return sizes


def adaptive_avg(n: int, x: torch.Tensor, output_size: Any) -> torch.Tensor:
    """Of a tensor with channels first; the mean of nothing is not a number."""
    if x.ndim != n + 2:
        raise ValueError(f"x needs {n + 2} axes, it has {x.ndim}")
    sizes = _output_sizes(n, output_size, x, tensors=n == 2)
    if x.numel() == 0:
        return zeros_from([*x.shape[:2], *sizes], x) + (math.nan if 0 in x.shape[2:] else 0.0)
    return _AVG[n](wide(x), sizes).to(x.dtype)


def _adaptive_avg(n: int, x: torch.Tensor, output_size: Any, data_format: str) -> torch.Tensor:
    last = channel_last(data_format, allowed=FORMATS[n])
    return from_first(adaptive_avg(n, to_first(x, last), output_size), last)


@reference("paddle.nn.functional.adaptive_avg_pool1d")
def adaptive_avg_pool1d(x, output_size, name=None):
    return _adaptive_avg(1, x, output_size, "NCL")


@reference("paddle.nn.functional.adaptive_avg_pool2d")
def adaptive_avg_pool2d(x, output_size, data_format="NCHW", name=None):
    return _adaptive_avg(2, x, output_size, data_format)


@reference("paddle.nn.functional.adaptive_avg_pool3d")
def adaptive_avg_pool3d(x, output_size, data_format="NCDHW", name=None):
    return _adaptive_avg(3, x, output_size, data_format)


def _adaptive_max(n: int, x: torch.Tensor, output_size: Any, mask: bool) -> Any:
    if x.ndim != n + 2:
        raise ValueError(f"x needs {n + 2} axes, it has {x.ndim}")
    sizes = _output_sizes(n, output_size, x)
    if x.numel() == 0:
        if 0 in x.shape[2:] and 0 not in (*x.shape[:2], *sizes):
            raise NoEquivalent("the maximum over no element does not exist")
        out, where = zeros_from([*x.shape[:2], *sizes], x), torch.zeros([*x.shape[:2], *sizes])
    else:
        out, where = _MAX[n](wide(x), sizes, return_indices=True)
    return (out.to(x.dtype), where.to(torch.int32)) if mask else out.to(x.dtype)


@reference("paddle.nn.functional.adaptive_max_pool1d")
def adaptive_max_pool1d(x, output_size, return_mask=False, name=None):
    return _adaptive_max(1, x, output_size, return_mask)


@reference("paddle.nn.functional.adaptive_max_pool2d")
def adaptive_max_pool2d(x, output_size, return_mask=False, name=None):
    return _adaptive_max(2, x, output_size, return_mask)


@reference("paddle.nn.functional.adaptive_max_pool3d")
def adaptive_max_pool3d(x, output_size, return_mask=False, name=None):
    return _adaptive_max(3, x, output_size, return_mask)


def fractional_windows(size: int, out: int, kernel: int, u: float) -> list[tuple[int, int]]:
    """(start, end) of each window along one axis (Graham, Fractional Max-Pooling, 2015, section 2).

    Paddle computes in float32 and, for windows that do not overlap (``kernel`` 0), maps u from (0, 1) onto
    the numbers that keep every window within the input (``FractionalRationalU`` in phi's pooling.h).
    """
    f = np.float32
    alpha = f(size - kernel) / f(out - (1 if kernel else 0)) if out > (1 if kernel else 0) else f(0)
    shift = f(u)
    if not kernel:
        base = size // out
        limits = (f(base + 2) / alpha - f(1), f(size + 1 - base) / alpha - f(out - 1))
        shift = f(u) * f(min(limits))
    windows = []
    for index in range(out):
        start = int((f(index) + shift) * alpha) - int(shift * alpha)
        end = start + kernel if kernel else int((f(index + 1) + shift) * alpha) - int(shift * alpha)
        windows.append((max(start, 0), min(end, size)))
    return windows


def fractional_max(x: torch.Tensor, windows: Sequence[Sequence[tuple[int, int]]]) -> tuple[torch.Tensor, torch.Tensor]:
    """The maxima over the products of ``windows`` of each axis, and their places in the flattened input."""
    n = len(windows)
    sizes = x.shape[2:]
    longest = [max(end - start for start, end in axis) for axis in windows]
    valid = torch.ones((), dtype=torch.bool)
    flat = torch.zeros((), dtype=torch.int64)
    for i, axis in enumerate(windows):
        starts = torch.tensor([start for start, _ in axis]).reshape(-1, 1)
        ends = torch.tensor([end for _, end in axis]).reshape(-1, 1)
        places = starts + torch.arange(longest[i])
        shape = [1] * (2 * n)
        shape[i], shape[n + i] = places.shape
        valid = valid & (places < ends).reshape(shape)
        flat = flat * sizes[i] + places.clamp(max=sizes[i] - 1).reshape(shape)
    out = [len(axis) for axis in windows]
    flat, valid = flat.reshape(-1, math.prod(longest)), valid.reshape(-1, math.prod(longest))
    values = wide(x).flatten(2)[:, :, flat].masked_fill(~valid, -math.inf)
    best = values.argmax(-1, keepdim=True)
    where = flat.expand(*x.shape[:2], *flat.shape).gather(-1, best).squeeze(-1)
    result = values.gather(-1, best).squeeze(-1)
    shape = [*x.shape[:2], *out]
    return result.reshape(shape).to(x.dtype), where.reshape(shape).to(torch.int32)


def _fractional(n: int, x: torch.Tensor, output_size: Any, kernel: Any, u: Any, mask: bool) -> Any:
    if x.ndim != n + 2:
        raise ValueError(f"x needs {n + 2} axes, it has {x.ndim}")
    sizes = _output_sizes(n, output_size, x)
    kernels = [0] * n if kernel is None else spread(kernel, n, "kernel_size")
    if u is not None and not 0 < u < 1:
        raise ValueError(f"random_u must be in (0, 1), it is {u}")
    if x.numel() == 0:
        if 0 in x.shape[2:] and 0 not in (*x.shape[:2], *sizes):
            raise NoEquivalent("the maximum over no element does not exist")
        out = zeros_from([*x.shape[:2], *sizes], x)
        return (out, torch.zeros(out.shape, dtype=torch.int32)) if mask else out
    if any(size < out + max(k, 1) - 1 for size, out, k in zip(x.shape[2:], sizes, kernels)):
        raise ValueError(f"input {list(x.shape)} is too small for {sizes} windows of {kernels}")
    if u is None:
        raise NoEquivalent("the windows are random")
    windows = [fractional_windows(*axis, float(u)) for axis in zip(x.shape[2:], sizes, kernels)]
    out, where = fractional_max(x, windows)
    return (out, where) if mask else out


@reference("paddle.nn.functional.fractional_max_pool2d")
def fractional_max_pool2d(x, output_size, kernel_size=None, random_u=None, return_mask=False, name=None):
    return _fractional(2, x, output_size, kernel_size, random_u, return_mask)


@reference("paddle.nn.functional.fractional_max_pool3d")
def fractional_max_pool3d(x, output_size, kernel_size=None, random_u=None, return_mask=False, name=None):
    return _fractional(3, x, output_size, kernel_size, random_u, return_mask)
