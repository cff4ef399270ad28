"""Rearrangements of images: pixel and channel shuffles, shifts, blocks, sampling grids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from .registry import reference
from .spatial import channel_last, from_first, ints, pad_spatial, spread, to_first, wide, zeros_from

_IMAGE = ("NCHW", "NHWC")


def _image(x: torch.Tensor, data_format: str) -> tuple[torch.Tensor, bool]:
    last = channel_last(data_format, allowed=_IMAGE)
    if x.ndim != 4:
        raise ValueError(f"x needs 4 axes, it has {x.ndim}")
    return to_first(x, last), last


@reference("paddle.nn.functional.pixel_shuffle")
def pixel_shuffle(x, upscale_factor, data_format="NCHW", name=None):
    x, last = _image(x, data_format)
    r = upscale_factor
    n, c, h, w = x.shape
    if r < 1 or c % (r * r):
        raise ValueError(f"{c} channels cannot be split into blocks of {r} x {r}")
    blocks = x.reshape(n, c // (r * r), r, r, h, w).permute(0, 1, 4, 2, 5, 3)
    return from_first(blocks.reshape(n, c // (r * r), h * r, w * r), last)


@reference("paddle.nn.functional.pixel_unshuffle")
def pixel_unshuffle(x, downscale_factor, data_format="NCHW", name=None):
    x, last = _image(x, data_format)
    r = downscale_factor
    n, c, h, w = x.shape
    if r < 1 or h % r or w % r:
        raise ValueError(f"an image of {h} x {w} cannot be split into blocks of {r} x {r}")
    blocks = x.reshape(n, c, h // r, r, w // r, r).permute(0, 1, 3, 5, 2, 4)
    return from_first(blocks.reshape(n, c * r * r, h // r, w // r), last)


@reference("paddle.nn.functional.channel_shuffle")
def channel_shuffle(x, groups, data_format="NCHW", name=None):
    x, last = _image(x, data_format)
    n, c, h, w = x.shape
    if groups < 1 or c % groups:
        raise ValueError(f"{c} channels cannot be split into {groups} groups")
    mixed = x.reshape(n, groups, c // groups, h, w).transpose(1, 2).reshape(n, c, h, w)
    return from_first(mixed, last)


@reference("paddle.nn.functional.temporal_shift")
def temporal_shift(x, seg_num, shift_ratio=0.25, name=None, data_format="NCHW"):
    """The first ``shift_ratio`` of the channels come from the segment before, as many from the one after
    (Lin et al., TSM: Temporal Shift Module, 2019)."""
    x, last = _image(x, data_format)
    if not 0 < shift_ratio < 0.5:
        raise ValueError(f"shift_ratio must be in (0, 0.5), it is {shift_ratio}")
    n, c, h, w = x.shape
    if seg_num < 1 or n % seg_num:
        raise ValueError(f"{n} images cannot be split into segments of {seg_num}")
    first, second = int(c * shift_ratio), int(c * 2 * shift_ratio)
    frames = x.reshape(n // seg_num, seg_num, c, h, w)
    padded = F.pad(frames, (0, 0, 0, 0, 0, 0, 1, 1))
    parts = [padded[:, :seg_num, :first], padded[:, 2:, first:second], frames[:, :, second:]]
    return from_first(torch.cat(parts, 2).reshape(n, c, h, w), last)


def _four(paddings: Any) -> list[tuple[int, int]]:
    """Pairs of height and width from [top, left, bottom, right], [height, width], or one number."""
    amounts = ints(paddings)
    if len(amounts) == 4:
        top, left, bottom, right = amounts
        return [(top, bottom), (left, right)]
    return [(p, p) for p in spread(paddings, 2, "paddings")]


@reference("paddle.nn.functional.unfold")
def unfold(x, kernel_sizes, strides=1, paddings=0, dilations=1, name=None):
    if x.ndim != 4:
        raise ValueError(f"x needs 4 axes, it has {x.ndim}")
    kernel, stride = spread(kernel_sizes, 2, "kernel_sizes"), spread(strides, 2, "strides")
    dilation, pairs = spread(dilations, 2, "dilations"), _four(paddings)
    x = pad_spatial(x, pairs)
    counts = _blocks(x.shape[2:], kernel, stride, dilation)
    if 0 in x.shape:
        return zeros_from([x.shape[0], x.shape[1] * kernel[0] * kernel[1], counts[0] * counts[1]], x)
    return F.unfold(wide(x), kernel, dilation, 0, stride).to(x.dtype)


def _blocks(sizes: Sequence[int], kernel: list[int], stride: list[int], dilation: list[int]) -> list[int]:
    room = [size - d * (k - 1) - 1 for size, k, d in zip(sizes, kernel, dilation)]
    if any(r < 0 for r in room):
        raise ValueError(f"blocks of {kernel} do not fit an image of {list(sizes)}")
    return [r // s + 1 for r, s in zip(room, stride)]


@reference("paddle.nn.functional.fold")
def fold(x, output_sizes, kernel_sizes, strides=1, paddings=0, dilations=1, name=None):
    if x.ndim != 3:
        raise ValueError(f"x needs 3 axes, it has {x.ndim}")
    kernel, stride = spread(kernel_sizes, 2, "kernel_sizes"), spread(strides, 2, "strides")
    dilation, pairs = spread(dilations, 2, "dilations"), _four(paddings)
    sizes = spread(output_sizes, 2, "output_sizes")
    padded = [size + sum(pair) for size, pair in zip(sizes, pairs)]
    counts = _blocks(padded, kernel, stride, dilation)
    area = kernel[0] * kernel[1]
    if x.shape[1] % area or x.shape[2] != counts[0] * counts[1]:
        raise ValueError(f"x {list(x.shape)} does not have {counts} blocks of {kernel}")
    if 0 in x.shape:
        return zeros_from([x.shape[0], x.shape[1] // area, *sizes], x)
    parts = [x.real, x.imag] if x.is_complex() else [wide(x)]
    folded = [F.fold(part, padded, kernel, dilation, 0, stride) for part in parts]
    folded = [pad_spatial(part, [(-a, -b) for a, b in pairs]) for part in folded]
    return torch.complex(*folded) if x.is_complex() else folded[0].to(x.dtype)


@reference("paddle.nn.functional.affine_grid", constant=("out_shape",))
def affine_grid(theta, out_shape, align_corners=True, name=None):
    return F.affine_grid(wide(theta), ints(out_shape), align_corners).to(theta.dtype)


@reference("paddle.nn.functional.grid_sample")
def grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=True, name=None):
    if mode not in ("bilinear", "nearest"):
        raise ValueError(f"mode must be bilinear or nearest, not {mode!r}")
    if x.numel() == 0 or grid.numel() == 0:
        if x.ndim not in (4, 5) or grid.ndim != x.ndim or grid.shape[-1] != x.ndim - 2:
            raise ValueError(f"grid {list(grid.shape)} does not fit x {list(x.shape)}")
        return zeros_from([x.shape[0], x.shape[1], *grid.shape[1:-1]], x, grid)
    return F.grid_sample(wide(x), wide(grid), mode, padding_mode, align_corners).to(x.dtype)
