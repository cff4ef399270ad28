"""Convolution and pooling of sparse volumes, channels last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as nnf

from .registry import NoEquivalent, reference
from .sparse import pattern

#: (before, after) for each spatial axis.
Padding = list[tuple[int, int]]


def _numbers(value: Any, rank: int) -> list[int]:
    found = [int(value)] * rank if isinstance(value, int) else [int(v) for v in value]
    if len(found) != rank:
        raise ValueError(f"{rank} numbers are asked for, not {value!r}")
    return found


def _padding(
    padding: Any, extents: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Padding:
    """Paddle's forms: a word, a number, one per axis, two per axis, or pairs for all axes."""
    rank = len(extents)
    if isinstance(padding, str):
        if padding.upper() == "VALID":
            return [(0, 0)] * rank
        totals = [
            max((math.ceil(n / s) - 1) * s + (k - 1) * d + 1 - n, 0)
            for n, k, s, d in zip(extents, kernel, stride, dilation)
        ]
        return [(total // 2, total - total // 2) for total in totals]
    if isinstance(padding, int):
        return [(padding, padding)] * rank
    if isinstance(padding[0], (list, tuple)):
        pairs = [tuple(pair) for pair in padding]
        return [(int(a), int(b)) for a, b in (pairs if len(pairs) == rank else pairs[1:-1])]
    if len(padding) == rank:
        return [(int(p), int(p)) for p in padding]
    return [(int(padding[2 * i]), int(padding[2 * i + 1])) for i in range(rank)]


def _pad(x: torch.Tensor, padding: Padding, value: float) -> torch.Tensor:
    """Channels first, spatial axes last."""
    return nnf.pad(x, [n for pair in reversed(padding) for n in pair], value=value)


@reference("paddle.sparse.nn.functional.max_pool3d")
def max_pool3d(
    x: torch.Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    data_format: str = "NDHWC",
    name: Any = None,
) -> torch.Tensor:
    """The largest of the stored elements of each window; a window without one stores nothing."""
    if data_format != "NDHWC":
        raise ValueError("channels are last")
    kernel = _numbers(kernel_size, 3)
    steps = _numbers(kernel if stride is None else stride, 3)
    pairs = _padding(padding, x.shape[1:4], kernel, steps, [1, 1, 1])
    lowest = torch.full_like(x, -math.inf)
    volume = torch.where(pattern(x, 1), x, lowest).movedim(-1, 1)
    found = nnf.max_pool3d(_pad(volume, pairs, -math.inf), kernel, steps, ceil_mode=ceil_mode).movedim(1, -1)
    return torch.where(torch.isinf(found.detach()), torch.zeros_like(found), found)


def _convolve(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    *,
    submanifold: bool,
) -> torch.Tensor:
    """The convolution of the stored sites.

    A site of the result is stored where its window has a stored one, or, in a submanifold convolution (Graham, Engelcke
    and van der Maaten, arXiv:1706.01307), where the input has one at its middle; only there the bias is added.
    """
    if groups != 1:
        raise NoEquivalent("sparse convolutions have one group")
    rank = x.dim() - 2
    kernel = list(weight.shape[:rank])
    spread = _numbers(dilation, rank)
    if submanifold:
        # The window is centred whatever padding says, and no site is skipped.
        steps = [1] * rank
        pairs = [((k - 1) * d // 2, (k - 1) * d - (k - 1) * d // 2) for k, d in zip(kernel, spread)]
    else:
        steps = _numbers(stride, rank)
        pairs = _padding(padding, x.shape[1:-1], kernel, steps, spread)
    convolve = nnf.conv3d if rank == 3 else nnf.conv2d
    sites = pattern(x, 1)
    volume = torch.where(sites, x, torch.zeros_like(x)).movedim(-1, 1)
    kernels = weight.movedim((-1, -2), (0, 1))
    result = convolve(_pad(volume, pairs, 0.0), kernels, stride=steps, dilation=spread).movedim(1, -1)
    if bias is not None:
        result = result + bias
    if submanifold:
        reached = sites[..., :1]
    else:
        counted = sites[..., :1].to(x.dtype).movedim(-1, 1)
        ones = torch.ones(1, 1, *kernel, dtype=x.dtype, device=x.device)
        reached = convolve(_pad(counted, pairs, 0.0), ones, stride=steps, dilation=spread).movedim(1, -1) > 0.5
    return torch.where(reached, result, torch.zeros_like(result))


@reference("paddle.sparse.nn.functional.conv3d")
def conv3d(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NDHWC",
    name: Any = None,
) -> torch.Tensor:
    return _convolve(x, weight, bias, stride, padding, dilation, groups, submanifold=False)


@reference("paddle.sparse.nn.functional.conv2d")
def conv2d(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NHWC",
    name: Any = None,
) -> torch.Tensor:
    return _convolve(x, weight, bias, stride, padding, dilation, groups, submanifold=False)


@reference("paddle.sparse.nn.functional.subm_conv3d", "paddle.sparse.nn.functional.subm_conv3d_igemm")
def subm_conv3d(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NDHWC",
    key: str | None = None,
    name: Any = None,
) -> torch.Tensor:
    return _convolve(x, weight, bias, stride, padding, dilation, groups, submanifold=True)


@reference("paddle.sparse.nn.functional.subm_conv2d", "paddle.sparse.nn.functional.subm_conv2d_igemm")
def subm_conv2d(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NHWC",
    key: str | None = None,
    name: Any = None,
) -> torch.Tensor:
    return _convolve(x, weight, bias, stride, padding, dilation, groups, submanifold=True)
