"""Values to sort and to search in, and masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...config import FLOATING, TensorSpec
from .makers import axis_of, distinct, index_values, ordinary
from .registry import Draw, inputs


def few_values(draw: Draw) -> Any:
    """Each of a few values several times."""
    if draw.dtype == "bool":
        return ordinary(draw)
    return draw.rng.integers(0, 5, draw.shape) * (0.5 if draw.dtype in FLOATING else 1)


def runs(draw: Draw) -> Any:
    """A few values in runs of two or three on average."""
    count = int(np.prod(draw.shape, dtype=np.int64))
    starts = draw.rng.random(count) < 0.4
    return (np.cumsum(starts) % 4).reshape(draw.shape)


def boundaries(draw: Draw) -> Any:
    """Ascending values along the last axis; in any order where a sorter comes with them."""
    values = distinct(draw)
    return values if isinstance(draw.arg("sorter"), TensorSpec) or not draw.shape else np.sort(values, axis=-1)


def sorter(draw: Draw) -> Any:
    """The order that sorts the sequence."""
    return np.argsort(draw.values("sorted_sequence"), axis=-1)


def looked_up(draw: Draw) -> Any:
    """Half of the values are boundaries themselves, so that left and right differ; the rest lie anywhere."""
    known = np.asarray(draw.values("sorted_sequence"))
    known = known.astype(np.float32 if known.dtype.itemsize < 4 else known.dtype).reshape(-1)
    others = np.asarray(ordinary(draw))
    if not known.size or not others.size:
        return others
    picked = known[draw.rng.integers(0, known.size, draw.shape)]
    return np.where(draw.rng.random(draw.shape) < 0.5, picked, others)


def how_many(draw: Draw) -> Any:
    """A count from 1 to the size of the axis."""
    spec, axis = draw.arg("x"), draw.arg("axis")
    size = spec.shape[-1 if axis is None else axis] if spec.shape else 1
    return draw.rng.integers(1, max(size, 1) + 1, draw.shape)


def member(draw: Draw) -> Any:
    """Small whole numbers, of which about half are also in the other tensor; each once if that is promised."""
    sizes = [draw.arg(name).numel for name in ("x", "test_x") if isinstance(draw.arg(name), TensorSpec)]
    count = int(np.prod(draw.shape, dtype=np.int64))
    span = max([2 * size for size in sizes] or [8])
    if draw.arg("assume_unique"):
        return index_values(draw, span, unique=True)
    return draw.rng.integers(0, min(span, 200), count).reshape(draw.shape)


def mixed(draw: Draw) -> Any:
    """Booleans with both values among them where there is room; a single one is True."""
    found = draw.rng.integers(0, 2, draw.shape).astype(bool)
    flat = found.reshape(-1)
    if flat.size > 1 and flat.all():
        flat[int(draw.rng.integers(0, flat.size))] = False
    if flat.size and not flat.any():
        flat[int(draw.rng.integers(0, flat.size))] = True
    return flat.reshape(draw.shape)


def with_zeros(draw: Draw) -> Any:
    """Ordinary values of which half are 0."""
    return np.where(mixed(draw), ordinary(draw), 0) if draw.dtype != "bool" else mixed(draw)


def scattered_mask(draw: Draw) -> Any:
    """A mask with no more True than there are values to put under it."""
    found = mixed(draw)
    target, source = draw.arg("x"), draw.arg("value")
    if not isinstance(target, TensorSpec) or not isinstance(source, TensorSpec):
        return found
    whole = np.broadcast_shapes(target.shape, draw.shape)
    repeats = int(np.prod(whole, dtype=np.int64)) // max(found.size, 1)
    allowed = source.numel // max(repeats, 1)
    flat = found.reshape(-1)
    under = np.flatnonzero(flat)
    if under.size > allowed:
        flat[draw.rng.permutation(under)[allowed:]] = False
    return flat.reshape(draw.shape)


inputs("paddle.sort", "paddle.argsort", x=distinct)
inputs("paddle.msort", "paddle.compat.sort", input=distinct)
inputs("paddle.topk", x=distinct, k=how_many)
inputs("paddle.kthvalue", x=distinct)
inputs("paddle.argmax", "paddle.argmin", x=distinct, axis=axis_of("x"))
inputs("paddle.mode", "paddle.unique", x=few_values)
inputs("paddle.compat.unique", input=few_values)
inputs("paddle.unique_consecutive", x=runs)
inputs("paddle.searchsorted", sorted_sequence=boundaries, values=looked_up, sorter=sorter)
inputs("paddle.bucketize", sorted_sequence=boundaries, x=looked_up)
inputs("paddle.isin", x=member, test_x=member)
inputs("paddle.nonzero", x=with_zeros)
inputs("paddle.argwhere", input=with_zeros)
inputs("paddle.where", condition=mixed)
inputs("paddle.masked_select", "paddle.masked_fill", mask=mixed)
inputs("paddle.masked_scatter", mask=scattered_mask)
