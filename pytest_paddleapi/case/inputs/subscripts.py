"""Index tensors of subscripts: ``x[...]``, ``x[...] = value`` and ``index_put``.

Where values are written, no place is named twice if there are places enough; where that cannot be had,
the values agree at the places that are named again, because the order of writing is open.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ...config import TensorSpec
from ..reference.subscripts import places_named
from .makers import index_values, ordinary
from .registry import CallValues, Draw, inputs

#: Elements of a tensor beyond which nobody looks for places that are named twice: it takes 8 bytes for each.
_LARGE = 1 << 27

#: Positions in the axes that a subscript's integer tensors of one shape share, drawn once for all of them.
_joint: WeakKeyDictionary[CallValues, dict[tuple[int, ...], Any]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Part:
    """One part of a subscript, where it stands, and the axes of the tensor that it takes."""

    value: Any
    place: int
    axis: int
    axes: int


def _is_mask(value: Any) -> bool:
    if isinstance(value, TensorSpec):
        return value.dtype == "bool"
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(item, bool) for item in value)


def _axes_taken(value: Any) -> int:
    if value is None or isinstance(value, bool):
        return 0
    return len(value.shape) if isinstance(value, TensorSpec) and value.dtype == "bool" else 1


def _layout(item: Any, rank: int) -> list[Part]:
    """The parts of a subscript with the axes that they take."""
    written = list(item) if isinstance(item, tuple) else [item]
    found, axis = [], 0
    for place, value in enumerate(written):
        if value is Ellipsis:
            axis = rank - sum(_axes_taken(later) for later in written[place + 1 :])
            continue
        axes = _axes_taken(value)
        found.append(Part(value, place, axis, axes))
        axis += axes
    return found


def _subscript(draw: Draw) -> tuple[tuple[int, ...], list[Part], Any]:
    """The shape of the tensor, the layout of the subscript, and the subscript as a tuple or one value."""
    shape = draw.shape_of("x")
    item = draw.arg("item") if "item" in draw.call.arguments else draw.arg("indices")
    if isinstance(item, list) and "indices" in draw.call.arguments:
        item = tuple(item)
    return shape, _layout(item, len(shape)), item


def index_tensor(draw: Draw) -> Any:
    """Values of a tensor anywhere in a subscript."""
    shape, parts, item = _subscript(draw)
    place = draw.path[1] if isinstance(item, tuple) and len(draw.path) > 1 else 0
    part = next(part for part in parts if part.place == place)
    size = shape[part.axis] if part.axis < len(shape) else 1
    if isinstance(part.value, slice):
        return _slice_bound(draw, part.value, size)
    if draw.dtype == "bool":
        return _mask(draw, shape, parts, part)
    if not draw.shape or not _written(draw):
        return index_values(draw, size, negative=True)
    return _apart(draw, shape, parts, part)


def _written(draw: Draw) -> bool:
    """Whether values are written at the places, not added and not all the same."""
    value = draw.arg("value")
    return isinstance(value, TensorSpec) and value.numel > 1 and not draw.arg("accumulate", False)


def _slice_bound(draw: Draw, part: slice, size: int) -> Any:
    which = draw.path[-1]
    step = part.step if isinstance(part.step, int) else 1
    first = which == 0
    value = (min(1, max(size - 1, 0)) if first == (step > 0) else max(size - 1, 0)) if which < 2 else 1
    return np.full(draw.shape, value)


def _apart(draw: Draw, shape: tuple[int, ...], parts: list[Part], part: Part) -> Any:
    """Indices that, together with the subscript's other tensors, name no place twice if possible."""
    peers = [
        p for p in parts if isinstance(p.value, TensorSpec) and p.value.dtype != "bool" and p.value.shape == draw.shape
    ]
    sizes = [shape[peer.axis] if peer.axis < len(shape) else 1 for peer in peers]
    count, room = int(np.prod(draw.shape, dtype=np.int64)), math.prod(sizes)
    if count > room or room > 1 << 26:
        return index_values(draw, shape[part.axis], negative=True, unique=True)
    drawn = _joint.setdefault(draw.call, {})
    if draw.shape not in drawn:
        drawn[draw.shape] = np.unravel_index(draw.rng.permutation(room)[:count], sizes)
    flat = drawn[draw.shape][[peer.place for peer in peers].index(part.place)]
    size = shape[part.axis]
    return np.where(draw.rng.random(count) < 0.25, flat - size, flat).reshape(draw.shape)


def _mask(draw: Draw, shape: tuple[int, ...], parts: list[Part], part: Part) -> Any:
    """A mask with as many True as the other index tensors or the value ask for, else about half."""
    numel = int(np.prod(draw.shape, dtype=np.int64))
    wanted = _trues(draw, shape, parts, part)
    if wanted is None or wanted > numel:
        wanted = min(numel, max(1, numel // 2))
    flat = np.zeros(numel, bool)
    flat[draw.rng.permutation(numel)[:wanted]] = True
    return flat.reshape(draw.shape)


def _trues(draw: Draw, shape: tuple[int, ...], parts: list[Part], part: Part) -> int | None:
    """The number of True in a mask, where something fixes it."""
    others = [p.value for p in parts if p is not part]
    for value in others:
        if isinstance(value, TensorSpec) and value.dtype != "bool" and value.shape and value.shape[-1] != 1:
            return value.shape[-1]
        if isinstance(value, (list, tuple)) and value:
            return sum(value) if _is_mask(value) else len(value)
    value = draw.arg("value")
    if isinstance(value, TensorSpec):
        behind = _axes_behind(parts, len(shape))
        if len(value.shape) > behind and value.shape[len(value.shape) - 1 - behind] != 1:
            return value.shape[len(value.shape) - 1 - behind]
    masks = [p for p in parts if _is_mask(p.value)]
    if len(masks) > 1:
        sizes = [math.prod(p.value.shape) if isinstance(p.value, TensorSpec) else sum(p.value) for p in masks]
        return max(1, min(sizes) // 2)
    return None


def _axes_behind(parts: list[Part], rank: int) -> int:
    """How many axes of the result stand behind the last one that comes from index tensors."""
    advanced = [p for p in parts if isinstance(p.value, (TensorSpec, list, tuple)) and _axes_taken(p.value)]
    dropped = [p for p in parts if isinstance(p.value, int) and not isinstance(p.value, bool)]
    dropped += [p for p in advanced if isinstance(p.value, TensorSpec) and not p.value.shape]
    advanced = [p for p in advanced if not (isinstance(p.value, TensorSpec) and not p.value.shape)]
    lost = {p.axis for p in dropped}
    covered = {axis for p in advanced for axis in range(p.axis, p.axis + p.axes)}
    first, last = min(covered), max(covered)
    between = [axis for axis in range(first, last) if axis not in covered and axis not in lost]
    start = first if between else last + 1
    new = [p for p in parts if p.value is None and (between or p.place > advanced[-1].place)]
    return sum(axis not in covered and axis not in lost for axis in range(0 if between else start, rank)) + len(new)


def agreeing(draw: Draw) -> Any:
    """Ordinary values that agree wherever the subscript names one place twice."""
    values = np.asarray(ordinary(draw))
    if values.size < 2 or draw.arg("accumulate", False) or not _may_repeat(draw):
        return values
    shape, _, item = _subscript(draw)
    if math.prod(shape) > _LARGE:
        return values
    made = draw.values("item" if "item" in draw.call.arguments else "indices")
    made = tuple(made) if isinstance(item, tuple) else made
    try:
        places = places_named(shape, made)
    except (IndexError, RuntimeError):
        # The subscript does not fit: both frameworks will say so.
        return values
    _, first, inverse = np.unique(places.reshape(-1), return_index=True, return_inverse=True)
    if first.size == places.size:
        return values
    if values.size == places.size:
        return values.reshape(-1)[first[inverse]].reshape(draw.shape)
    return np.broadcast_to(values.reshape(-1)[0], draw.shape)


def _may_repeat(draw: Draw) -> bool:
    _, parts, _ = _subscript(draw)
    return any(
        (isinstance(p.value, TensorSpec) and p.value.dtype != "bool" and p.value.shape)
        or (isinstance(p.value, (list, tuple)) and not _is_mask(p.value))
        for p in parts
    )


inputs("paddle.Tensor.__getitem__", item=index_tensor)
inputs("paddle.Tensor.__setitem__", item=index_tensor, value=agreeing)
inputs("paddle.index_put", indices=index_tensor, value=agreeing)
