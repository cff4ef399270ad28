"""Shapes, axes, counts and offsets that stand in tensors, for the families of shape manipulation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...config import DtypeRef, TensorSpec, TypeRef
from ..dtypes import dtype_name
from .makers import axis_of, indices, integers, ordinary
from .registry import Draw, inputs


def _of(draw: Draw, *names: str) -> tuple[int, ...]:
    """The shape of the first of these arguments that is a tensor."""
    for name in names:
        value = draw.arg(name)
        if isinstance(value, TensorSpec):
            return value.shape
    return ()


def _placed(draw: Draw, whole: list[int]) -> Any:
    """``whole`` for a tensor that is the entire argument, else its element for a tensor within a list."""
    if len(draw.path) > 1:
        return np.full(draw.shape, whole[draw.path[1]])
    return np.asarray(whole[: int(np.prod(draw.shape, dtype=np.int64))]).reshape(draw.shape)


def _written(draw: Draw, length: int) -> list[int | None]:
    """The argument's plain numbers, None where a tensor stands."""
    value = draw.arg(str(draw.path[0]))
    if isinstance(value, TensorSpec):
        return [None] * length
    return [None if isinstance(item, TensorSpec) else int(item) for item in value]


def _count(draw: Draw) -> int:
    value = draw.arg(str(draw.path[0]))
    return int(np.prod(value.shape, dtype=np.int64)) if isinstance(value, TensorSpec) else len(value)


def target_shape(draw: Draw) -> Any:
    """A shape with as many elements as ``x``: its own one reversed, merged or padded with 1.

    Within a list the tensors take what the written numbers leave, as much of it as each can.
    """
    shape, count = _of(draw, "x", "input"), _count(draw)
    if len(draw.path) == 1:
        if count < len(shape):
            whole = [*shape[: count - 1], math.prod(shape[count - 1 :])] if count else []
        else:
            whole = [*shape[::-1], *[1] * (count - len(shape))]
        return _placed(draw, whole)
    written = _written(draw, count)
    known = [shape[i] if size == 0 and i < len(shape) else size for i, size in enumerate(written)]
    rest = math.prod(shape) // max(1, math.prod(size for size in known if size not in (None, -1)))
    missing = [i for i, size in enumerate(known) if size is None]
    for i in missing:
        last = i == missing[-1] and -1 not in known
        share = rest if last else (shape[i] if i < len(shape) and shape[i] and rest % shape[i] == 0 else 1)
        known[i], rest = share, rest // max(share, 1)
    return _placed(draw, [size or 0 for size in known])


def unflattened_shape(draw: Draw) -> Any:
    """Sizes whose product is the size of the axis: all of it in the last tensor, 1 in the others."""
    shape, count = _of(draw, "x"), _count(draw)
    axis = draw.arg("axis", 0)
    size = shape[axis if isinstance(axis, int) else int(np.asarray(draw.values("axis")).reshape(-1)[0])]
    known = _written(draw, count)
    rest = size // max(1, math.prod(part for part in known if part not in (None, -1)))
    missing = [i for i, part in enumerate(known) if part is None]
    for i in missing:
        known[i] = rest if i == missing[-1] and -1 not in known else 1
    return _placed(draw, [part or 0 for part in known])


def expanded_shape(draw: Draw) -> Any:
    """The shape of ``x``, axes of size 1 grown and new ones in front."""
    shape, count = _of(draw, "x"), _count(draw)
    aligned = [1] * (count - len(shape)) + list(shape)
    return _placed(draw, [int(draw.rng.integers(2, 4)) if size == 1 else size for size in aligned[:count]])


def _bounds(draw: Draw, which: int) -> Any:
    """Starts (0), ends (1) or steps (2) of slices that take something and leave something."""
    shape, count = _of(draw, "x", "input"), _count(draw)
    axes = draw.arg("axes") or list(range(count))
    whole = []
    for place in range(count):
        axis = axes[place] if place < len(axes) and isinstance(axes[place], int) else place
        size = shape[axis] if -len(shape) <= axis < len(shape) else 1
        start, end, step = (_plain_at(draw.arg(name), place) for name in ("starts", "ends", "strides"))
        backwards = step is not None and step < 0
        if which == 2:
            forwards = start is None or end is None or (start % max(size, 1) < (end % max(size, 1) or size))
            whole.append(2 if forwards else -2)
        elif (which == 0) != backwards:
            other = end if which == 0 else start
            whole.append(min(1, max(size - 1, 0)) if other is None or other < 0 or other > 1 else 0)
        else:
            other = start if which == 1 else end
            whole.append(max(size - 1, 0) if other is None or 0 <= other < size - 2 else size)
    return _placed(draw, whole)


def _plain_at(value: Any, place: int) -> int | None:
    if isinstance(value, (list, tuple)) and place < len(value) and isinstance(value[place], int):
        return int(value[place])
    return None


def slice_start(draw: Draw) -> Any:
    """Starts of slices."""
    return _bounds(draw, 0)


def slice_end(draw: Draw) -> Any:
    """Ends of slices."""
    return _bounds(draw, 1)


def slice_step(draw: Draw) -> Any:
    """Steps of slices."""
    return _bounds(draw, 2)


def crop_shape(draw: Draw) -> Any:
    """Sizes that fit behind the written offsets; behind tensors (see :func:`crop_offset`) all but one."""
    shape, offsets = _of(draw, "x"), draw.arg("offsets")
    whole = []
    for place, size in enumerate(shape):
        offset = 0 if offsets is None else _plain_at(offsets, place)
        whole.append(max(size - (1 if offset is None else offset), 1))
    return _placed(draw, whole)


def crop_offset(draw: Draw) -> Any:
    """The largest offsets that fit before the written sizes, 1 at most."""
    shape, sizes = _of(draw, "x"), draw.arg("shape")
    whole = []
    for place, size in enumerate(shape):
        wanted = _plain_at(sizes, place)
        room = size - wanted if wanted is not None and wanted >= 0 else size - max(size - 1, 1)
        whole.append(max(0, min(1, room)))
    return _placed(draw, whole)


def sections(draw: Draw) -> Any:
    """Sizes of parts that make up the axis together with the written ones."""
    shape, axis = _of(draw, "x"), draw.arg("axis", 0)
    size = shape[axis if isinstance(axis, int) else int(np.asarray(draw.values("axis")).reshape(-1)[0])]
    known = _written(draw, _count(draw))
    missing = [i for i, part in enumerate(known) if part is None]
    rest = size - sum(part for part in known if part is not None and part >= 0)
    for i in missing:
        share = rest if i == missing[-1] and -1 not in known else rest // (len(missing) + (-1 in known))
        known[i] = max(share, 0)
    return _placed(draw, [part or 0 for part in known])


def bits(draw: Draw) -> Any:
    """Ordinary values; bytes that are to be read as Booleans are 0 or 1."""
    target = draw.arg("shape_or_dtype")
    if isinstance(target, (str, DtypeRef, TypeRef)) and dtype_name(target) == "bool":
        return draw.rng.integers(0, 2, draw.shape)
    return ordinary(draw)


def lengths(draw: Draw) -> Any:
    """Lengths of sequences from 0 to the longest that the mask has room for."""
    longest = draw.arg("maxlen")
    if isinstance(longest, TensorSpec):
        longest = int(np.asarray(draw.values("maxlen")).reshape(-1)[0])
    longest = 12 if longest is None else longest
    found = draw.rng.integers(0, longest + 1, draw.shape)
    if found.size:
        found.reshape(-1)[-1] = longest
    return found


def beams(draw: Draw) -> Any:
    """For each step the beam before it."""
    return draw.rng.integers(0, max(draw.shape[-1], 1), draw.shape)


def one_of_inputs(draw: Draw) -> Any:
    """Which of several tensors a row comes from."""
    return draw.rng.integers(0, len(draw.arg("inputs")), draw.shape)


def below_index_num(draw: Draw) -> Any:
    """Indices below ``index_num``."""
    return draw.rng.integers(0, draw.arg("index_num"), draw.shape)


inputs("paddle.reshape", shape=target_shape)
inputs("paddle.view", x=bits)
inputs("paddle.unflatten", shape=unflattened_shape, axis=axis_of("x"))
inputs("paddle.expand", "paddle.broadcast_to", shape=expanded_shape)
inputs("paddle.tile", repeat_times=integers(1, 4))
inputs("paddle.Tensor.repeat", repeats=integers(1, 4))
inputs("paddle.squeeze", axis=axis_of("x"))
inputs("paddle.unsqueeze", axis=axis_of("x"))
inputs("paddle.split", num_or_sections=sections, axis=axis_of("x"))
inputs("paddle.chunk", "paddle.tensor_split", axis=axis_of("x"))
inputs("paddle.concat", "paddle.cat", "paddle.concatenate", axis=integers(0, 1))
inputs("paddle.slice", starts=slice_start, ends=slice_end)
inputs("paddle.strided_slice", starts=slice_start, ends=slice_end, strides=slice_step)
inputs("paddle.crop", shape=crop_shape, offsets=crop_offset)
inputs("paddle.narrow", start=integers(0, 2))
inputs("paddle.roll", shifts=integers(-5, 6))
inputs("paddle.repeat_interleave", repeats=integers(1, 4))
inputs("paddle.multiplex", index=one_of_inputs)
inputs("paddle.shard_index", input=below_index_num)
inputs("paddle.nn.functional.sequence_mask", x=lengths, maxlen=integers(5, 13))
inputs("paddle.nn.functional.gather_tree", parents=beams)
inputs("paddle.index_sample", index=indices(of="x", axis=1))
