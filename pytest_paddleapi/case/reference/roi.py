"""Pooling over regions of interest, written from the papers and Paddle's documentation.

roi_align: He et al. 2017, "Mask R-CNN", with the half-pixel shift of Detectron2 (``aligned``);
roi_pool: Girshick 2015, "Fast R-CNN"; psroi_pool: Dai et al. 2016, "R-FCN" (arXiv 1605.06409).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from .registry import reference


def _pair(size: Any) -> tuple[int, int]:
    if isinstance(size, (list, tuple)):
        height, width = size
        return int(height), int(width)
    return int(size), int(size)


def _images(boxes: torch.Tensor, boxes_num: torch.Tensor, batch: int) -> list[int]:
    """For each box the image that it lies in.

    Raises:
        ValueError: the counts do not fit the batch or the boxes.
    """
    counts = [int(n) for n in boxes_num.reshape(-1)]
    if len(counts) != batch or sum(counts) != len(boxes):
        raise ValueError(f"{counts} boxes per image do not fit {len(boxes)} boxes in {batch} images")
    return [image for image, count in enumerate(counts) for _ in range(count)]


class _Patches(torch.autograd.Function):  # type: ignore[misc]
    """out[r, c] = rows[r] @ x[image, c, top:bottom, left:right] @ columns[r].T for each region r.

    Written with its own backward, as autograd would make one gradient of full size for each region.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, regions: list[_Region]) -> torch.Tensor:
        ctx.regions, ctx.shape, ctx.dtype = regions, x.shape, x.dtype
        out = [
            torch.einsum("ph,chw,qw->cpq", r.rows, x[r.image, :, r.vertical, r.horizontal], r.columns) for r in regions
        ]
        return torch.stack(out)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        gradient = torch.zeros(ctx.shape, dtype=ctx.dtype)
        for r, g in zip(ctx.regions, grads[0]):
            part = torch.einsum("ph,cpq,qw->chw", r.rows, g, r.columns)
            gradient[r.image, :, r.vertical, r.horizontal] += part
        return gradient, None


class _Region:
    """One region: the part of its image that it sees, and the weights of that part's rows and columns."""

    def __init__(self, image: int, rows: torch.Tensor, columns: torch.Tensor) -> None:
        self.image = image
        self.vertical, self.rows = _used(rows)
        self.horizontal, self.columns = _used(columns)


def _used(weights: torch.Tensor) -> tuple[slice, torch.Tensor]:
    touched = weights.any(dim=0).nonzero().reshape(-1)
    span = slice(int(touched[0]), int(touched[-1]) + 1) if len(touched) else slice(0, 1)
    return span, weights[:, span]


def _linear_weights(start: torch.Tensor, extent: torch.Tensor, bins: int, ratio: int, size: int) -> torch.Tensor:
    """(bins, size): the mean over a bin's sampling points of linear interpolation along one axis.

    A point further than one pixel outside counts as zero, one less far as the border's value.
    """
    step = extent / bins
    points = ratio if ratio > 0 else int(torch.ceil(step))
    weights = torch.zeros((bins, size), dtype=start.dtype)
    if points <= 0:
        return weights
    bin_index = torch.arange(bins, dtype=start.dtype)[:, None]
    offsets = (torch.arange(points, dtype=start.dtype) + 0.5) * step / points
    where = start + bin_index * step + offsets
    inside = ((where >= -1) & (where <= size)).to(start.dtype)
    where = where.clamp(min=0)
    low = where.floor().long().clamp(max=size - 1)
    high = (low + 1).clamp(max=size - 1)
    fraction = torch.where(low == size - 1, 0.0, where - low)
    weights.scatter_add_(1, low, (1 - fraction) * inside)
    weights.scatter_add_(1, high, fraction * inside)
    return weights / points


@reference("paddle.vision.ops.roi_align", constant=("boxes",))
def roi_align(
    x, boxes, boxes_num, output_size, spatial_scale=1.0, sampling_ratio=-1, aligned=True, name=None
):  # fmt: skip
    height, width = _pair(output_size)
    batch, channels, rows, columns = x.shape
    images = _images(boxes, boxes_num, batch)
    if not images or 0 in (channels, rows, columns):
        # Connected to x all the same, so that its gradient is zero and not absent.
        return x.new_zeros((len(boxes), channels, height, width)) + x.sum() * 0
    dtype = x.dtype if x.dtype is torch.float64 else torch.float32
    corners = boxes.to(dtype) * spatial_scale - (0.5 if aligned else 0.0)
    regions = []
    for image, (left, top, right, bottom) in zip(images, corners):
        w, h = right - left, bottom - top
        if not aligned:
            w, h = w.clamp(min=1.0), h.clamp(min=1.0)
        vertical = _linear_weights(top, h, height, sampling_ratio, rows)
        regions.append(_Region(image, vertical, _linear_weights(left, w, width, sampling_ratio, columns)))
    return _Patches.apply(x.to(dtype), regions).to(x.dtype)


def _rounded(boxes: torch.Tensor) -> torch.Tensor:
    """To the next whole number, halves away from zero as C's round does."""
    return torch.where(boxes >= 0, (boxes + 0.5).floor(), (boxes - 0.5).ceil())


def _bins(start: torch.Tensor, step: torch.Tensor, bins: int, size: int) -> Iterator[tuple[int, int]]:
    """First and last+1 pixel of each bin, from rounded-down starts and rounded-up ends, inside the image."""
    for index in range(bins):
        first = int((index * step + start).floor())
        last = int(((index + 1) * step + start).ceil())
        yield min(max(first, 0), size), min(max(last, 0), size)


@reference("paddle.vision.ops.roi_pool", constant=("boxes",))
def roi_pool(x, boxes, boxes_num, output_size, spatial_scale=1.0, name=None):
    """The largest value of each bin; 0 for an empty one. The gradient goes to the first largest value."""
    height, width = _pair(output_size)
    batch, channels, rows, columns = x.shape
    images = _images(boxes, boxes_num, batch)
    flat = x.reshape(batch, channels, rows * columns)
    index = torch.full((len(images), channels, height, width), -1, dtype=torch.long)
    corners = _rounded(boxes.to(x.dtype) * spatial_scale)
    one = torch.ones((), dtype=x.dtype)
    for region, (image, (left, top, right, bottom)) in enumerate(zip(images, corners)):
        tall, wide = torch.maximum(bottom - top + 1, one), torch.maximum(right - left + 1, one)
        zero = torch.zeros_like(top)
        vertical = [
            (a + int(top), b + int(top)) for a, b in _bins(zero, tall / height, height, rows + columns + int(tall))
        ]
        horizontal = [
            (a + int(left), b + int(left)) for a, b in _bins(zero, wide / width, width, rows + columns + int(wide))
        ]
        for p, (first, last) in enumerate(vertical):
            first, last = min(max(first, 0), rows), min(max(last, 0), rows)
            for q, (begin, end) in enumerate(horizontal):
                begin, end = min(max(begin, 0), columns), min(max(end, 0), columns)
                if last <= first or end <= begin:
                    continue
                patch = x.detach()[image, :, first:last, begin:end].reshape(channels, -1)
                place = patch.argmax(-1)
                row, column = place // (end - begin) + first, place % (end - begin) + begin
                index[region, :, p, q] = row * columns + column
    empty = index < 0
    picked = flat[images].gather(2, index.clamp(min=0).reshape(len(images), channels, height * width))
    return torch.where(empty, 0.0, picked.reshape(index.shape))


@reference("paddle.vision.ops.psroi_pool", constant=("boxes",))
def psroi_pool(x, boxes, boxes_num, output_size, spatial_scale=1.0, name=None):
    """The mean of each bin, taken from that bin's own group of channels."""
    height, width = _pair(output_size)
    batch, channels, rows, columns = x.shape
    if height * width == 0 or channels % (height * width):
        raise ValueError(f"{channels} channels do not make {height} x {width} groups")
    images = _images(boxes, boxes_num, batch)
    grouped = x.reshape(batch, channels // (height * width), height, width, rows, columns)
    corners = _rounded(boxes.to(x.dtype))
    out = []
    for image, (left, top, right, bottom) in zip(images, corners):
        first_row, first_column = top * spatial_scale, left * spatial_scale
        tall = ((bottom + 1) * spatial_scale - first_row).clamp(min=0.1)
        wide = ((right + 1) * spatial_scale - first_column).clamp(min=0.1)
        vertical = _mean_weights(_bins(first_row, tall / height, height, rows), rows, x.dtype)
        horizontal = _mean_weights(_bins(first_column, wide / width, width, columns), columns, x.dtype)
        out.append(torch.einsum("cpqhw,ph,qw->cpq", grouped[image], vertical, horizontal))
    if not out:
        return x.new_zeros((0, channels // (height * width), height, width)) + x.sum() * 0
    return torch.stack(out)


def _mean_weights(spans: Iterator[tuple[int, int]], size: int, dtype: torch.dtype) -> torch.Tensor:
    rows = []
    for first, last in spans:
        row = torch.zeros(size, dtype=dtype)
        if last > first:
            row[first:last] = 1.0 / (last - first)
        rows.append(row)
    return torch.stack(rows)
