"""Elements moved, repeated, cut out or replaced at places that numbers name."""

from __future__ import annotations

from typing import Any

import torch

from .arguments import as_int, as_ints, axes_of
from .registry import reference


@reference("paddle.roll")
def roll(x, shifts, axis=None, name=None):
    """Shifted round; without an axis as one flat vector."""
    steps = as_ints(shifts)
    if axis is None:
        if len(steps) != 1:
            raise ValueError("roll without an axis takes one shift")
        return torch.roll(x, steps[0])
    return torch.roll(x, steps, as_ints(axis))


@reference("paddle.flip", "paddle.reverse")
def flip(x, axis, name=None):
    """The order along the axes reversed."""
    return torch.flip(x, as_ints(axis))


@reference("paddle.rot90")
def rot90(x, k=1, axes=(0, 1), name=None):
    """Quarter turns from the first to the second axis."""
    return torch.rot90(x, k, as_ints(axes))


@reference("paddle.repeat_interleave")
def repeat_interleave(x, repeats, axis=None, name=None, *, output_size=None):
    """Each element repeated in its place; without an axis as one flat vector.

    Raises:
        ValueError: a plain count is not positive.
    """
    if isinstance(repeats, int) and repeats < 1:
        raise ValueError(f"repeat_interleave: {repeats} repeats")
    if axis is None:
        x, axis = x.reshape(-1), 0
    counts = repeats.reshape(-1) if isinstance(repeats, torch.Tensor) else repeats
    return torch.repeat_interleave(x, counts, axis, output_size=output_size)


@reference("paddle.crop")
def crop(x, shape=None, offsets=None, name=None):
    """A box of ``shape`` that starts at ``offsets``; -1 takes all that is left.

    Raises:
        ValueError: the box does not fit.
    """
    starts = [0] * x.dim() if offsets is None else as_ints(offsets)
    sizes = list(x.shape) if shape is None else as_ints(shape)
    for axis, (start, size) in enumerate(zip(starts, sizes)):
        size = x.shape[axis] - start if size == -1 else size
        if start < 0 or size < 0 or start + size > x.shape[axis]:
            raise ValueError(f"crop: {size} from {start} on does not fit into an axis of {x.shape[axis]}")
        x = x.narrow(axis, start, size)
    return x.reshape(x.shape)


@reference("paddle.narrow")
def narrow(input, dim, start, length):
    """``length`` indices from ``start`` on."""
    return input.narrow(dim, as_int(start), length)


def sliced(x: torch.Tensor, axis: int, start: int | None, stop: int | None, step: int) -> torch.Tensor:
    """``x[start:stop:step]`` along one axis by Python's rules, backwards too."""
    size = x.shape[axis]
    if step > 0:
        first, last, _ = slice(start, stop, step).indices(size)
        if step == 1:
            return x.narrow(axis, first, max(last - first, 0)) if last > first else x.narrow(axis, 0, 0)
        key: list[Any] = [slice(None)] * (axis % x.dim()) + [slice(first, max(last, first), step)]
        return x[tuple(key)]
    places = range(*slice(start, stop, step).indices(size))
    return x.index_select(axis, torch.tensor(list(places), dtype=torch.int64))


@reference("paddle.slice")
def slice_(input, axes, starts, ends):
    """Slices along some axes; ends beyond the axis stand for its end, as in Python."""
    rank = input.dim()
    axes = [max(0, axis + rank) if axis < 0 else min(rank - 1, axis) for axis in as_ints(axes)]
    found = input
    for axis, start, end in zip(axes, as_ints(starts), as_ints(ends)):
        found = sliced(found, axis, start, end, 1)
    return found.reshape(found.shape)


@reference("paddle.strided_slice")
def strided_slice(x, axes, starts, ends, strides, name=None):
    """Slices with steps, backwards too, by Python's rules.

    An end that counts back beyond the front stops before the first element.
    """
    found = x
    for axis, start, end, step in zip(axes_of(axes, x.dim()), as_ints(starts), as_ints(ends), as_ints(strides)):
        found = sliced(found, axis, start, end, step)
    return found.reshape(found.shape)


@reference("paddle.slice_scatter")
def slice_scatter(x, value, axes, starts, ends, strides, name=None):
    """``x`` with ``value``, in its dtype and broadcast, in the place that a strided slice takes."""
    places = torch.arange(x.numel()).reshape(x.shape)
    places = strided_slice(places, axes, starts, ends, strides)
    return put_at(x, places, value)


def put_at(x: torch.Tensor, places: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """``x`` with ``value``, broadcast to the shape of ``places``, at these flat indices.

    Leading axes of size 1 that ``value`` has too many are dropped.
    """
    while value.dim() > places.dim() and value.shape[0] == 1:
        value = value[0]
    value = value.to(x.dtype).expand(places.shape).reshape(-1)
    return x.reshape(-1).scatter(0, places.reshape(-1), value).reshape(x.shape)


@reference("paddle.select_scatter")
def select_scatter(x, values, axis, index, name=None):
    """``x`` with ``values`` as its slice ``index`` along ``axis``."""
    return torch.select_scatter(x, values.to(x.dtype), axis, index)


@reference("paddle.diagonal")
def diagonal(x, offset=0, axis1=0, axis2=1, name=None):
    """The diagonals of two axes in a new last axis."""
    return torch.diagonal(x, offset, axis1, axis2)


@reference("paddle.diagonal_scatter")
def diagonal_scatter(x, y, offset=0, axis1=0, axis2=1, name=None):
    """``x`` with ``y`` in the place of its diagonals."""
    return torch.diagonal_scatter(x, y.to(x.dtype), offset, axis1, axis2)


@reference("paddle.Tensor.fill_diagonal_tensor")
def fill_diagonal_tensor(x, y, offset=0, dim1=0, dim2=1, name=None):
    """``x`` with ``y`` in the place of its diagonals."""
    return torch.diagonal_scatter(x, y.to(x.dtype), offset, dim1, dim2)


@reference("paddle.Tensor.fill_diagonal_", mutates=("x",))
def fill_diagonal_(x, value, offset=0, wrap=False, name=None):
    """A number along a diagonal.

    ``wrap`` starts again after each square of a tall matrix and one free row, as in NumPy. With more
    than two axes, which must be equal, all indices of an element agree; ``offset`` shifts the last one.
    """
    if x.numel() == 0:
        return x
    if x.dim() > 2 and len(set(x.shape)) > 1:
        raise ValueError("fill_diagonal_ takes equal axes where there are more than two")
    if x.dim() == 2 and not wrap:
        torch.diagonal(x, offset).fill_(value)
        return x
    columns = x.shape[-1]
    places = torch.arange(0, x.numel(), max(sum(_strides(x.shape)), 1))
    column = places % max(columns, 1) + offset
    places = (places + offset)[(column >= 0) & (column < columns)]
    return x.copy_(put_at(x, places, torch.tensor(value)))


def _strides(shape: torch.Size) -> list[int]:
    found, step = [], 1
    for size in reversed(shape):
        found.append(step)
        step *= size
    return found


@reference("paddle.diag_embed", "paddle.nn.functional.diag_embed")
def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    """The last axis as the diagonal of two new ones."""
    return torch.diag_embed(input, offset, dim1, dim2)


@reference("paddle.Tensor.fill_", mutates=("x",))
def fill_(x, value):
    """Every element becomes one number, in the tensor's dtype."""
    if isinstance(value, torch.Tensor):
        value = value.item()
    return x.fill_(int(value) if not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool) else value)


@reference("paddle.Tensor.zero_", mutates=("x",))
def zero_(x):
    """Every element becomes 0."""
    return x.zero_()


@reference("paddle.increment", mutates=("x",), no_gradient="increment changes a leaf, which no gradient may pass")
def increment(x, value=1.0, name=None):
    """The only element grows by ``value``, in the tensor's dtype; the tensor itself changes."""
    if x.numel() != 1:
        raise ValueError("increment takes a tensor of one element")
    return x.add_(value if x.is_floating_point() else int(value))


@reference("paddle.shard_index")
def shard_index(input, index_num, nshards, shard_id, ignore_value=-1):
    """Indices within one of ``nshards`` equal shares of ``index_num``; others become ``ignore_value``."""
    share = (index_num + nshards - 1) // nshards
    inside = torch.div(input, share, rounding_mode="floor") == shard_id
    return torch.where(inside, input % share, torch.full_like(input, ignore_value))


@reference("paddle.multiplex")
def multiplex(inputs, index, name=None):
    """Row ``i`` of the input that ``index[i]`` names."""
    rows = torch.stack(list(inputs))
    choice = index.reshape(-1).long()
    return rows[choice, torch.arange(choice.numel())]
