"""Pooling: maximum, average, power average, adaptive, and its inverse.

Sizes and windows are Paddle's: ``ceil((size + padding - kernel) / stride) + 1`` windows in ceil mode, windows
cut off at the edges of the input.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from .registry import NoEquivalent, reference
from .spatial import channel_last, from_first, ints, pad_spatial, padding_pairs, spread, to_first, wide, zeros_from

FORMATS = {1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
_MAX_POOL: dict[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}


class Windows:
    """The windows of one pooling call over a tensor with channels first."""

    def __init__(self, n: int, x: torch.Tensor, kernel: Any, stride: Any, padding: Any, ceil: bool, last: bool) -> None:
        if x.ndim != n + 2:
            raise ValueError(f"x needs {n + 2} axes, it has {x.ndim}")
        self.n = n
        self.kernel = spread(kernel, n, "kernel_size")
        self.stride = self.kernel if stride is None else spread(stride, n, "stride")
        if any(v < 1 for v in (*self.kernel, *self.stride)):
            raise ValueError("kernel_size and stride must be positive")
        if isinstance(padding, str) and padding.upper() == "VALID" and ceil:
            raise ValueError("ceil_mode has no meaning with VALID padding")
        self.sizes = list(x.shape[2:])
        self.pairs, _ = padding_pairs(padding, self.sizes, self.kernel, self.stride, last)
        self.ceil = ceil
        self.out = [
            self._count(size, sum(pair), k, s)
            for size, pair, k, s in zip(self.sizes, self.pairs, self.kernel, self.stride)
        ]

    def _count(self, size: int, padding: int, kernel: int, stride: int) -> int:
        room = size + padding - kernel
        if room < 0 and not (self.ceil and room > -stride):
            if size == 0 and room + stride >= 0:
                return 0
            raise ValueError("the window is larger than the padded input")
        return (room + stride - 1 if self.ceil else room) // stride + 1

    def check(self, *, padding_counts: bool) -> None:
        """Refuse windows, which ceil mode may make, that hold nothing.

        Raises:
            NoEquivalent: a window lies outside the input (and its padding, where that counts).
        """
        for (before, after), size, count, k, s in zip(self.pairs, self.sizes, self.out, self.kernel, self.stride):
            first, last = (-before, size + after) if padding_counts else (0, size)
            ends = [i * s - before for i in (0, count - 1)]
            if count and (last <= first or ends[0] + k <= first or ends[1] >= last):
                raise NoEquivalent("a window holds no element of the input, so its result is not defined")

    def padded(self, x: torch.Tensor, value: float) -> torch.Tensor:
        """``x`` with so much padding that the windows without padding are exactly these."""
        pairs = []
        for (before, _), size, count, k, s in zip(self.pairs, self.sizes, self.out, self.kernel, self.stride):
            pairs.append((before, (count - 1) * s + k - size - before))
        return pad_spatial(x, pairs, value)

    def divisors(self, x: torch.Tensor, exclusive: bool) -> torch.Tensor:
        """How many elements each window averages over: those in the input, or those in input and padding."""
        result = torch.ones((), dtype=x.dtype)
        for axis in range(self.n):
            (before, after), size = self.pairs[axis], self.sizes[axis]
            starts = torch.arange(self.out[axis]) * self.stride[axis] - before
            ends = torch.clamp(starts + self.kernel[axis], max=size if exclusive else size + after)
            lengths = ends - (torch.clamp(starts, min=0) if exclusive else starts)
            shape = [1] * self.n
            shape[axis] = -1
            result = result * lengths.reshape(shape).to(x.dtype)
        return result


def window_sums(x: torch.Tensor, w: Windows) -> torch.Tensor:
    """The sum over each window of an already padded tensor."""
    for axis in range(w.n):
        x = x.unfold(2 + axis, w.kernel[axis], w.stride[axis]).sum(-1)
    return x


def avg_pool(
    n: int,
    x: torch.Tensor,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil: bool,
    exclusive: bool,
    divisor: Any,
    data_format: str,
) -> torch.Tensor:
    last = channel_last(data_format, allowed=FORMATS[n])
    dtype, x = x.dtype, wide(to_first(x, last))
    w = Windows(n, x, kernel, stride, padding, ceil, last)
    if 0 in (*x.shape[:2], *w.out):
        return from_first(zeros_from([*x.shape[:2], *w.out], x), last).to(dtype)
    w.check(padding_counts=True)
    out = window_sums(w.padded(x, 0.0), w) / (w.divisors(x, exclusive) if divisor is None else divisor)
    return from_first(out.to(dtype), last)


@reference("paddle.nn.functional.avg_pool1d")
def avg_pool1d(x, kernel_size, stride=None, padding=0, exclusive=True, ceil_mode=False, name=None):
    return avg_pool(1, x, kernel_size, stride, padding, ceil_mode, exclusive, None, "NCL")


@reference("paddle.nn.functional.avg_pool2d")
def avg_pool2d(
    x,
    kernel_size,
    stride=None,
    padding=0,
    ceil_mode=False,
    exclusive=True,
    divisor_override=None,
    data_format="NCHW",
    name=None,
):
    return avg_pool(2, x, kernel_size, stride, padding, ceil_mode, exclusive, divisor_override, data_format)


@reference("paddle.nn.functional.avg_pool3d")
def avg_pool3d(
    x,
    kernel_size,
    stride=None,
    padding=0,
    ceil_mode=False,
    exclusive=True,
    divisor_override=None,
    data_format="NCDHW",
    name=None,
):
    return avg_pool(3, x, kernel_size, stride, padding, ceil_mode, exclusive, divisor_override, data_format)


def max_pool(
    n: int, x: torch.Tensor, kernel: Any, stride: Any, padding: Any, mask: bool, ceil: bool, data_format: str
) -> Any:
    """The maximum and, if asked for, where it stands in the flattened, unpadded input (int32)."""
    last = channel_last(data_format, allowed=FORMATS[n])
    if mask and last:
        raise ValueError("return_mask needs channels first")
    dtype, x = x.dtype, wide(to_first(x, last))
    w = Windows(n, x, kernel, stride, padding, ceil, last)
    if 0 in (*x.shape[:2], *w.out):
        out = from_first(zeros_from([*x.shape[:2], *w.out], x).to(dtype), last)
        return (out, torch.zeros(out.shape, dtype=torch.int32)) if mask else out
    w.check(padding_counts=False)
    padded = w.padded(x, -math.inf)
    out, where = _MAX_POOL[n](padded, w.kernel, w.stride, return_indices=True)
    out = from_first(out.to(dtype), last)
    return (out, unpadded_index(where, list(padded.shape[2:]), w.sizes, [a for a, _ in w.pairs])) if mask else out


def unpadded_index(where: torch.Tensor, padded: Sequence[int], sizes: Sequence[int], before: Sequence[int]) -> Any:
    """Flat indices into a padded tensor as flat indices into the tensor without padding."""
    parts = []
    for size in reversed(padded):
        parts.append(where % size)
        where = where // size
    index = torch.zeros_like(where)
    for part, size, first in zip(reversed(parts), sizes, before):
        index = index * size + part - first
    return index.to(torch.int32)


@reference("paddle.nn.functional.max_pool1d")
def max_pool1d(x, kernel_size, stride=None, padding=0, return_mask=False, ceil_mode=False, name=None):
    return max_pool(1, x, kernel_size, stride, padding, return_mask, ceil_mode, "NCL")


@reference("paddle.nn.functional.max_pool2d")
def max_pool2d(
    x, kernel_size, stride=None, padding=0, return_mask=False, ceil_mode=False, data_format="NCHW", name=None
):
    return max_pool(2, x, kernel_size, stride, padding, return_mask, ceil_mode, data_format)


@reference("paddle.nn.functional.max_pool3d")
def max_pool3d(
    x, kernel_size, stride=None, padding=0, return_mask=False, ceil_mode=False, data_format="NCDHW", name=None
):
    return max_pool(3, x, kernel_size, stride, padding, return_mask, ceil_mode, data_format)


def lp_pool(
    n: int, x: torch.Tensor, p: float, kernel: Any, stride: Any, padding: Any, ceil: bool, data_format: str
) -> torch.Tensor:
    """``(sum of x ** p) ** (1 / p)`` over each window (documentation of nn.LPPool1D); the maximum, its limit, for
    ``p`` = inf."""
    if p == 0:
        raise ValueError("norm_type must not be 0")
    last = channel_last(data_format, allowed=FORMATS[n])
    dtype, x = x.dtype, wide(to_first(x, last))
    w = Windows(n, x, kernel, stride, padding, ceil, last)
    if 0 in (*x.shape, *w.out):
        return from_first(zeros_from([*x.shape[:2], *w.out], x).to(dtype), last)
    w.check(padding_counts=math.isfinite(p))
    if p == -math.inf:
        raise NoEquivalent("the formula has no value for norm_type -inf")
    if p == math.inf:
        out = _MAX_POOL[n](w.padded(x, -math.inf), w.kernel, w.stride)
    else:
        out = torch.pow(window_sums(w.padded(torch.pow(x, p), 0.0), w), 1.0 / p)
    return from_first(out.to(dtype), last)


@reference("paddle.nn.functional.lp_pool1d")
def lp_pool1d(x, norm_type, kernel_size, stride=None, padding=0, ceil_mode=False, data_format="NCL", name=None):
    if isinstance(padding, bool):  # Torch's positions: (input, norm_type, kernel_size, stride, ceil_mode)
        padding, ceil_mode = 0, padding
    return lp_pool(1, x, float(norm_type), kernel_size, stride, padding, ceil_mode, data_format)


@reference("paddle.nn.functional.lp_pool2d")
def lp_pool2d(x, norm_type, kernel_size, stride=None, padding=0, ceil_mode=False, data_format="NCHW", name=None):
    if isinstance(padding, bool):
        padding, ceil_mode = 0, padding
    return lp_pool(2, x, float(norm_type), kernel_size, stride, padding, ceil_mode, data_format)


def unpool(
    n: int, x: torch.Tensor, indices: torch.Tensor, kernel: Any, stride: Any, padding: Any, output_size: Any
) -> torch.Tensor:
    """Each element goes where its index points in the flattened output; the rest is zero."""
    if x.ndim != n + 2 or indices.shape != x.shape:
        raise ValueError(f"x {list(x.shape)} and indices {list(indices.shape)} must have the same {n + 2} axes")
    kernel = spread(kernel, n, "kernel_size")
    strides = kernel if stride is None else spread(stride, n, "stride")
    pads = [a for a, _ in padding_pairs(padding, x.shape[2:], kernel, strides, False)[0]]
    default = [(size - 1) * s + k - 2 * p for size, s, k, p in zip(x.shape[2:], strides, kernel, pads)]
    sizes = default if output_size is None else ints(output_size)[-n:]
    if output_size is not None:
        if len(ints(output_size)) not in (n, n + 2):
            raise ValueError(f"output_size {output_size} needs {n} or {n + 2} numbers")
        if any(not d - s < size < d + s for size, d, s in zip(sizes, default, strides)):
            raise ValueError(f"output_size {output_size} is not within one stride of {default}")
    if any(size < 0 for size in sizes):
        raise ValueError(f"the output would have sizes {sizes}")
    count = math.prod(sizes)
    if 0 in (*x.shape, count):
        return zeros_from([*x.shape[:2], *sizes], x)
    flat = torch.zeros([*x.shape[:2], count], dtype=x.dtype)
    flat = flat.scatter(2, indices.long().flatten(2), x.flatten(2))
    return flat.reshape([*x.shape[:2], *sizes])


@reference("paddle.nn.functional.max_unpool1d")
def max_unpool1d(x, indices, kernel_size, stride=None, padding=0, data_format="NCL", output_size=None, name=None):
    channel_last(data_format, allowed=("NCL",))
    return unpool(1, x, indices, kernel_size, stride, padding, output_size)


@reference("paddle.nn.functional.max_unpool2d")
def max_unpool2d(x, indices, kernel_size, stride=None, padding=0, data_format="NCHW", output_size=None, name=None):
    channel_last(data_format, allowed=("NCHW",))
    return unpool(2, x, indices, kernel_size, stride, padding, output_size)


@reference("paddle.nn.functional.max_unpool3d")
def max_unpool3d(x, indices, kernel_size, stride=None, padding=0, data_format="NCDHW", output_size=None, name=None):
    channel_last(data_format, allowed=("NCDHW",))
    return unpool(3, x, indices, kernel_size, stride, padding, output_size)
