"""Padding of tensors by constants, reflections, edges, or the other end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from .registry import reference
from .spatial import channel_last, ints

_FORMATS = {3: ("NCL", "NLC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}


def _axes_and_amounts(
    x: torch.Tensor, pad: Any, mode: str, data_format: str | None, from_left: bool
) -> list[tuple[int, int, int]]:
    """(axis, before, after) for every padded axis, after the four notes in the documentation of pad."""
    amounts = ints(pad)
    if len(amounts) % 2:
        raise ValueError(f"pad needs an even number of amounts: {amounts}")
    n = x.ndim
    plain = isinstance(pad, (list, tuple))
    if mode == "constant" and plain and len(amounts) != 2 * (n - 2):
        if len(amounts) > 2 * n:
            raise ValueError(f"pad {amounts} is longer than twice the {n} axes")
        axes = list(range(n)) if len(amounts) == 2 * n and from_left else list(range(n - 1, -1, -1))
    else:
        if n not in _FORMATS:
            raise ValueError(f"x needs 3 to 5 axes, it has {n}")
        last = channel_last(data_format or _FORMATS[n][0], allowed=_FORMATS[n])
        axes = list(range(n - 2, 0, -1)) if last else list(range(n - 1, 1, -1))
        if len(amounts) != 2 * (n - 2):
            raise ValueError(f"pad needs {2 * (n - 2)} amounts, it has {amounts}")
    return [(axis, before, after) for axis, before, after in zip(axes, amounts[0::2], amounts[1::2])]


def _source(size: int, before: int, after: int, mode: str) -> torch.Tensor:
    """For each place of a padded axis, the place that it is copied from."""
    places = torch.arange(-before, size + after)
    if mode == "replicate":
        if size == 0:
            raise ValueError("an empty axis has no edge to replicate")
        return places.clamp(0, size - 1)
    if mode == "circular":
        if size == 0 or max(before, after) > size:
            raise ValueError(f"circular padding {before}, {after} is larger than the axis of {size}")
        return places % size
    if max(before, after) >= size:
        raise ValueError(f"reflecting padding {before}, {after} must be smaller than the axis of {size}")
    places = places.abs()
    return torch.where(places >= size, 2 * (size - 1) - places, places)


def pad_axes(x: torch.Tensor, amounts: Sequence[tuple[int, int, int]], mode: str, value: Any) -> torch.Tensor:
    if any(p < 0 for _, *both in amounts for p in both):
        raise ValueError(f"padding must not be negative: {amounts}")
    if mode == "constant":
        pairs = {axis: (before, after) for axis, before, after in amounts}
        flat = [p for axis in range(x.ndim - 1, -1, -1) for p in pairs.get(axis, (0, 0))]
        return F.pad(x, flat, value=value)
    for axis, before, after in amounts:
        if before or after:
            x = x.index_select(axis, _source(x.shape[axis], before, after, mode))
    return x


@reference("paddle.nn.functional.pad", constant=("pad", "value"))
def pad(x, pad, mode="constant", value=0.0, data_format=None, pad_from_left_axis=True, name=None):
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise ValueError(f"unknown mode {mode!r}")
    if isinstance(pad, torch.Tensor) and pad.numel() == 0:
        return x.clone()
    if isinstance(value, torch.Tensor):
        value = value.item()
    return pad_axes(x, _axes_and_amounts(x, pad, mode, data_format, pad_from_left_axis), mode, value)


@reference("paddle.nn.functional.zeropad2d", constant=("padding",))
def zeropad2d(x, padding, data_format="NCHW", name=None):
    """(left, right, top, bottom) of height and width."""
    if x.ndim != 4:
        raise ValueError(f"x needs 4 axes, it has {x.ndim}")
    if isinstance(padding, int):
        padding = [padding] * 4
    return pad_axes(x, _axes_and_amounts(x, padding, "constant", data_format, True), "constant", 0)
