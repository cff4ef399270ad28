"""Deformable convolution (Dai et al. 2017, arXiv 1703.06211; with a mask Zhu et al. 2018, arXiv 1811.11168)."""

from __future__ import annotations

from typing import Any

import torch

from .registry import reference


def _two(value: Any) -> tuple[int, int]:
    if isinstance(value, (list, tuple)):
        first, second = (int(v) for v in value)
        return first, second
    return int(value), int(value)


def bilinear_samples(image: torch.Tensor, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Values of ``image`` (C, H, W) at real positions (any shape P): (C, *P); pixels outside count as zero."""
    channels, height, width = image.shape
    flat = image.reshape(channels, -1)
    top, left = y.detach().floor(), x.detach().floor()
    down, right = y - top, x - left
    total = None
    for row, row_weight in ((top, 1 - down), (top + 1, down)):
        for column, column_weight in ((left, 1 - right), (left + 1, right)):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            index = (row.clamp(0, height - 1) * width + column.clamp(0, width - 1)).long()
            values = flat.index_select(1, index.reshape(-1)).reshape(channels, *y.shape)
            part = values * (row_weight * column_weight * inside)
            total = part if total is None else total + part
    return total


@reference("paddle.vision.ops.deform_conv2d")
def deform_conv2d(
    x, offset, weight, bias=None, stride=1, padding=0, dilation=1, deformable_groups=1, groups=1, mask=None, name=None
):  # fmt: skip
    """Each tap of the kernel looks at its own shifted place (offsets: y then x for each tap)."""
    batch, _channels, height, width = x.shape
    filters, _, kernel_h, kernel_w = weight.shape
    (stride_h, stride_w), (pad_h, pad_w), (step_h, step_w) = _two(stride), _two(padding), _two(dilation)
    rows = (height + 2 * pad_h - (step_h * (kernel_h - 1) + 1)) // stride_h + 1
    columns = (width + 2 * pad_w - (step_w * (kernel_w - 1) + 1)) // stride_w + 1
    taps = kernel_h * kernel_w
    if offset.shape[1] != 2 * deformable_groups * taps or tuple(offset.shape[2:]) != (rows, columns):
        raise ValueError(
            f"offset of shape {list(offset.shape)} for {deformable_groups} x {taps} taps at {rows} x {columns}"
        )
    shifts = offset.reshape(batch, deformable_groups, taps, 2, rows, columns)
    tap_y = (torch.arange(kernel_h) * step_h).repeat_interleave(kernel_w)[:, None, None]
    tap_x = (torch.arange(kernel_w) * step_w).repeat(kernel_h)[:, None, None]
    base_y = (torch.arange(rows) * stride_h - pad_h)[None, :, None] + tap_y
    base_x = (torch.arange(columns) * stride_w - pad_w)[None, None, :] + tap_x
    kernel = weight.reshape(groups, filters // groups, -1)
    scale = None if mask is None else mask.reshape(batch, deformable_groups, 1, taps, rows, columns)
    out = []
    for image in range(batch):
        sampled = []
        for group, part in enumerate(x[image].chunk(deformable_groups) if deformable_groups > 1 else (x[image],)):
            y, z = shifts[image, group, :, 0] + base_y, shifts[image, group, :, 1] + base_x
            values = bilinear_samples(part, y, z)
            sampled.append(values if scale is None else values * scale[image, group])
        matrix = torch.cat(sampled).reshape(groups, -1, rows * columns)
        out.append((kernel @ matrix).reshape(filters, rows, columns))
    result = torch.stack(out) if out else x.new_zeros((0, filters, rows, columns))
    return result if bias is None else result + bias.reshape(1, -1, 1, 1)
