"""Indices to gather from and to scatter to."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...config import TensorSpec
from .makers import axis_of, distinct, index_values, indices, ordinary
from .registry import Draw, inputs


def _size(shape: tuple[int, ...], axis: Any) -> int:
    if not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        return 1 if not shape else shape[0]
    return shape[axis]


def _axis(draw: Draw, name: str, default: int) -> int:
    value = draw.arg(name, default)
    if isinstance(value, TensorSpec):
        return int(np.asarray(draw.values(name)).reshape(-1)[0])
    return default if value is None else int(value)


def _data(draw: Draw) -> tuple[int, ...]:
    for name in ("x", "input", "arr"):
        if isinstance(draw.arg(name), TensorSpec):
            return draw.shape_of(name)
    return ()


def rows(draw: Draw) -> Any:
    """Indices of slices along ``axis``, from both ends; Torch's argument order gives ``dim``."""
    axis = draw.arg("dim") if draw.arg("dim") is not None else _axis(draw, "axis", 0)
    torch_order = draw.arg("dim") is not None
    return index_values(draw, _size(_data(draw), axis), negative=not torch_order)


def rows_from_front(draw: Draw) -> Any:
    """Indices of slices along ``axis``, none of them negative."""
    return index_values(draw, _size(_data(draw), _axis(draw, "axis", 0)))


def rows_or_none(draw: Draw) -> Any:
    """As :func:`rows`; of an empty axis 0, where the call has nothing to fill."""
    if _size(_data(draw), _axis(draw, "axis", 0)) == 0:
        return np.zeros(draw.shape, np.int64)
    return rows(draw)


def swapped(draw: Draw) -> Any:
    """An axis, or the index where the axis comes first: ``gather(x, 0, index)``."""
    axis = draw.arg("index")
    if not isinstance(axis, int):
        return axis_of("x")(draw)
    return index_values(draw, _size(_data(draw), axis))


def scatter_rows(draw: Draw) -> Any:
    """Rows to scatter to: each once if they overwrite and there is room."""
    if draw.arg("dim") is not None:
        return along(draw, draw.arg("dim"), unique=draw.arg("reduce") is None)
    return index_values(draw, _size(_data(draw), 0), negative=True, unique=bool(draw.arg("overwrite", True)))


def scatter_updates(draw: Draw) -> Any:
    """Ordinary values, alike for rows that are named again; or the index, where the axis comes first."""
    axis = draw.arg("index")
    if isinstance(axis, int):
        reduce = draw.arg("reduce") or draw.arg("name")
        return along(draw, axis, unique=reduce is None)
    values = np.asarray(ordinary(draw))
    if not draw.arg("overwrite", True) or not isinstance(axis, TensorSpec) or not values.size or not axis.shape:
        return values
    named = np.asarray(draw.values("index")).reshape(-1)
    size = max(_size(_data(draw), 0), 1)
    _, first, inverse = np.unique(named % size, return_index=True, return_inverse=True)
    if first.size < named.size <= len(values):
        values[: named.size] = values[first[inverse]]
    return values


def along(draw: Draw, axis: int, *, unique: bool, negative: bool = False) -> Any:
    """Indices along one axis; ``unique`` names none twice in a line if there is room."""
    shape = _data(draw)
    size = _size(shape, axis)
    if not unique or not draw.shape or not -len(draw.shape) <= axis < len(draw.shape):
        return index_values(draw, size, negative=negative)
    wanted = draw.shape[axis]
    if wanted > size or 0 in draw.shape:
        return index_values(draw, size, negative=negative)
    lines = int(np.prod(draw.shape, dtype=np.int64)) // wanted
    if lines * size > 1 << 26:
        # One order for all lines, so that many long lines need no memory.
        order = np.broadcast_to(draw.rng.permutation(size)[:wanted], (lines, wanted))
    else:
        order = np.argsort(draw.rng.random((lines, size)), axis=-1)[:, :wanted]
    rest = [extent for place, extent in enumerate(draw.shape) if place != axis % len(draw.shape)]
    return np.moveaxis(order.reshape(*rest, wanted), -1, axis)


def along_axis(draw: Draw) -> Any:
    """Indices for ``take_along_axis``."""
    return index_values(draw, _size(_data(draw), _axis(draw, "axis", 0)), negative=True)


def put_indices(draw: Draw) -> Any:
    """Indices for ``put_along_axis``: each once in a line if they assign, also after broadcasting."""
    assigns = draw.arg("reduce", "assign") == "assign"
    return along(draw, _axis(draw, "axis", 0), unique=assigns)


def put_values(draw: Draw) -> Any:
    """Distinct values, so that no two are the largest; all the same where indices must repeat."""
    target, index = draw.arg("arr"), draw.arg("indices")
    axis = _axis(draw, "axis", 0)
    if draw.arg("reduce", "assign") != "assign":
        return distinct(draw) if draw.arg("reduce") in ("amin", "amax") else ordinary(draw)
    crowded = isinstance(index, TensorSpec) and isinstance(target, TensorSpec) and index.shape
    if crowded and draw.shape and _size(index.shape, axis) > _size(target.shape, axis):
        return np.broadcast_to(np.asarray(ordinary(draw)).reshape(-1)[:1], draw.shape)
    return ordinary(draw)


def by_column(draw: Draw) -> Any:
    """Index tuples in the last axis, each number in the range of its axis, from both ends."""
    shape = _data(draw) or _shape_argument(draw)
    if not draw.shape or draw.shape[-1] == 0:
        return np.zeros(draw.shape, np.int64)
    found = np.zeros(draw.shape, np.int64)
    single = type(draw.spec)(draw.shape[:-1], draw.dtype)
    for column in range(draw.shape[-1]):
        limit = shape[column] if column < len(shape) else 1
        found[..., column] = index_values(Draw(draw.call, single, draw.path, draw.rng), limit, negative=True)
    return found


def _shape_argument(draw: Draw) -> tuple[int, ...]:
    shape = draw.arg("shape")
    if isinstance(shape, TensorSpec) or any(isinstance(item, TensorSpec) for item in shape or ()):
        made = draw.values("shape")
        return tuple(int(np.asarray(item).reshape(-1)[0]) for item in np.asarray(made).reshape(-1))
    return tuple(int(item) for item in shape or ())


def flat_index(draw: Draw) -> Any:
    """Flat indices from both ends; beyond them where they wrap round or stop."""
    size = int(np.prod(_data(draw), dtype=np.int64))
    if size == 0:
        # There is nothing to take, and both frameworks will say so.
        return np.zeros(draw.shape, np.int64)
    if draw.arg("mode", "raise") == "raise":
        return index_values(draw, size, negative=True)
    return draw.rng.integers(-2 * size, 2 * size, draw.shape)


def room(draw: Draw) -> Any:
    """Sizes of a tensor that updates are scattered into."""
    return draw.rng.integers(4, 8, draw.shape)


inputs("paddle.gather", index=rows, axis=swapped)
# No negative ones: they read the right rows, but on the CPU their gradient is written outside of the tensor.
inputs("paddle.index_select", index=rows_from_front, axis=swapped)
inputs("paddle.index_add", index=rows, axis=swapped)
inputs("paddle.index_fill", index=rows_or_none)
inputs("paddle.scatter", index=scatter_rows, updates=scatter_updates)
inputs("paddle.gather_nd", "paddle.scatter_nd_add", index=by_column)
inputs("paddle.scatter_nd", index=by_column, shape=room)
inputs("paddle.take", index=flat_index)
inputs("paddle.take_along_axis", "paddle.take_along_dim", indices=along_axis)
inputs("paddle.put_along_axis", indices=put_indices, values=put_values, arr=distinct)
inputs("paddle.scatter_add", "paddle.scatter_reduce", index=indices(of="input", axis="dim"), src=distinct)
