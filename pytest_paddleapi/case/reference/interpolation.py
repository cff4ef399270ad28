"""Resampling of images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from .adaptive_pooling import adaptive_avg
from .registry import reference
from .spatial import channel_last, from_first, ints, to_first, wide, zeros_from

_FORMATS = {3: ("NCW", "NWC", "NCL", "NLC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}
_RANKS = {"linear": (3,), "bilinear": (4,), "bicubic": (4,), "trilinear": (5,), "nearest": (4, 5), "area": (3, 4, 5)}


def _positions(size: int, out: int, scale: float | None, *, corners: bool, half: bool) -> Any:
    """Where each output lies on the input axis. Computed in float32, as both frameworks do, because the floor
    of a position decides which neighbours count."""
    f = np.float32
    if corners:
        ratio = f(size - 1) / f(out - 1) if out > 1 else f(0)
    else:
        ratio = f(1.0 / scale) if scale else f(size) / f(out)
    index = np.arange(out, dtype=np.float32)
    if corners or not half:
        return ratio * index
    return ratio * (index + f(0.5)) - f(0.5)


def _mix(x: torch.Tensor, axis: int, taps: list[tuple[Any, Any]]) -> torch.Tensor:
    """Sum of ``x`` at the places of each tap times the weights of the tap, along ``axis``."""
    shape = [1] * x.ndim
    shape[axis] = -1
    result: Any = None
    for places, weights in taps:
        part = x.index_select(axis, torch.from_numpy(places.astype(np.int64)))
        if weights is not None:
            part = part * torch.from_numpy(weights.astype(np.float64)).to(x.dtype).reshape(shape)
        result = part if result is None else result + part
    return result


def _nearest(x: torch.Tensor, axis: int, out: int, scale: float | None) -> torch.Tensor:
    size = x.shape[axis]
    places = np.minimum(np.floor(_positions(size, out, scale, corners=False, half=False)), size - 1)
    return _mix(x, axis, [(places, None)])


def _linear(x: torch.Tensor, axis: int, out: int, scale: float | None, corners: bool, half: bool) -> torch.Tensor:
    size = x.shape[axis]
    where = np.maximum(_positions(size, out, scale, corners=corners, half=half), np.float32(0))
    low = np.minimum(np.floor(where), size - 1)
    share = where - np.floor(where)
    high = np.minimum(low + 1, size - 1)
    return _mix(x, axis, [(low, 1 - share), (high, share)])


def _cubic(x: torch.Tensor, axis: int, out: int, scale: float | None, corners: bool) -> torch.Tensor:
    """Keys' kernel with a = -0.75 (Cubic convolution interpolation for digital image processing, 1981)."""
    size, a = x.shape[axis], -0.75
    where = _positions(size, out, scale, corners=corners, half=True)
    low = np.floor(where)
    t = (where - low).astype(np.float64)

    def near(d: Any) -> Any:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Any) -> Any:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    weights = [far(t + 1), near(t), near(1 - t), far(2 - t)]
    return _mix(x, axis, [(np.clip(low + k - 1, 0, size - 1), w) for k, w in enumerate(weights)])


def _sizes(x: torch.Tensor, size: Any, scale_factor: Any, recompute: Any) -> tuple[list[int], list[float | None]]:
    """Output sizes of the spatial axes, and the scales where they were given and count as such."""
    n = x.ndim - 2
    if (size is None) == (scale_factor is None):
        raise ValueError("give size or scale_factor, and only one of them")
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor has no meaning with size")
        sizes = ints(size)
        if len(sizes) != n:
            raise ValueError(f"size {sizes} needs {n} numbers")
        if any(s < 1 for s in sizes):
            raise ValueError(f"size must be positive: {sizes}")
        return sizes, [None] * n
    if isinstance(scale_factor, torch.Tensor):
        scale_factor = scale_factor.tolist()
    if isinstance(scale_factor, (list, tuple)):
        scales = [float(s) for s in scale_factor]
        scales = scales * n if len(scales) == 1 and n > 1 and not isinstance(scale_factor, tuple) else scales
    else:
        scales = [float(scale_factor)] * n
    if len(scales) != n or any(s <= 0 for s in scales):
        raise ValueError(f"scale_factor {scales} needs {n} positive numbers")
    sizes = [math.floor(float(extent) * s) for extent, s in zip(x.shape[2:], scales)]
    return sizes, [None] * n if recompute else list(scales)


def _interpolate(
    x: torch.Tensor,
    size: Any,
    scale_factor: Any,
    mode: str,
    align_corners: bool,
    align_mode: int,
    data_format: str | None,
    recompute: Any = None,
    antialias: bool = False,
) -> torch.Tensor:
    kind = mode.lower()
    if kind not in _RANKS:
        raise ValueError(f"unknown mode {mode!r}")
    if x.ndim not in _RANKS[kind]:
        raise ValueError(f"{kind} takes {_RANKS[kind]} axes, x has {x.ndim}")
    if kind == "nearest" and align_corners:
        raise ValueError("align_corners has no meaning for nearest")
    if align_mode not in (0, 1):
        raise ValueError(f"align_mode must be 0 or 1, not {align_mode!r}")
    if antialias and kind not in ("bilinear", "bicubic"):
        raise ValueError("antialias is for bilinear and bicubic")
    last = channel_last((data_format or _FORMATS[x.ndim][0]).upper(), allowed=_FORMATS[x.ndim])
    dtype, x = x.dtype, to_first(x, last)
    sizes, scales = _sizes(x, size, scale_factor, recompute)
    if kind == "area" and size is None:
        raise ValueError("area needs a size")
    if kind == "area":
        return from_first(adaptive_avg(x.ndim - 2, x, sizes), last)
    if x.numel() == 0 or 0 in sizes:
        return from_first(zeros_from([*x.shape[:2], *sizes], x), last)
    x = wide(x)
    if antialias:
        given: Any = None if None in scales else tuple(scales)
        x = F.interpolate(x, None if given else sizes, given, kind, align_corners, antialias=True)
    else:
        for axis, (out, scale) in enumerate(zip(sizes, scales), start=2):
            if kind == "nearest":
                x = _nearest(x, axis, out, scale)
            elif kind == "bicubic":
                x = _cubic(x, axis, out, scale, align_corners)
            else:
                x = _linear(x, axis, out, scale, align_corners, align_mode == 0)
    return from_first(x.to(dtype), last)


@reference("paddle.nn.functional.interpolate", constant=("size", "scale_factor"))
def interpolate(
    x,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=False,
    align_mode=0,
    data_format=None,
    recompute_scale_factor=None,
    antialias=False,
    name=None,
):
    """Also in Torch's positions, where ``recompute_scale_factor`` and ``antialias`` come sixth and seventh."""
    if not isinstance(align_mode, int) or isinstance(align_mode, bool):
        recompute_scale_factor, antialias = align_mode, bool(data_format)
        align_mode, data_format = 0, None
    return _interpolate(
        x,
        size,
        scale_factor,
        mode,
        align_corners,
        align_mode,
        data_format,
        recompute_scale_factor,
        antialias,
    )


@reference("paddle.nn.functional.upsample", constant=("size", "scale_factor"))
def upsample(
    x,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=False,
    align_mode=0,
    data_format=None,
    name=None,
):
    return _interpolate(x, size, scale_factor, mode, align_corners, align_mode, data_format)
