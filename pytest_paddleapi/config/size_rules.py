"""How large the results of a call are: broadcasting, creation, combinations, indexing.

A rule takes the arguments and gives the number of elements of the results, or a pair: with the elements of the buffers
that the computation fills on the way; None where the arguments are not what the rule knows. A rule is total: it has an
answer for every call of the language. Calls without a rule are taken to give results as large as their inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Union

from .shapes import MOST, Arguments, Shape, axis_of, broadcast, integer, integers, product, shape_value

Elements = Union[int, "tuple[int, int]", None]
Rule = Callable[[Arguments], Elements]

#: By the name of the call without its module, in-place and reflected forms included.
RULES: dict[str, Rule] = {}

# Their result has the shape that all tensors broadcast to.
_BROADCASTING = """
    add subtract sub multiply mul divide div truediv floordiv floor_divide floor_mod mod remainder pow maximum minimum
    fmax fmin atan2 hypot logaddexp copysign heaviside nextafter ldexp gcd lcm bitwise_and bitwise_or bitwise_xor
    bitwise_left_shift bitwise_right_shift logical_and logical_or logical_xor and or xor lshift rshift equal not_equal
    less less_than less_equal greater_than greater_equal eq ne lt le gt ge isclose where lerp masked_fill masked_scatter
    complex polar gammainc gammaincc cross dist cosine_similarity
"""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule under names as in :data:`RULES`."""

    def add(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return add


# Elementwise and broadcasting -----------------------------------------------------------------


@rule(*_BROADCASTING.split())
def _binary(a: Arguments) -> Elements:
    return product(broadcast(a.shapes())) if a.tensors else None


@rule("broadcast_tensors")
def _broadcast_tensors(a: Arguments) -> Elements:
    return product([len(a.tensors), *broadcast(a.shapes())])


@rule("expand", "broadcast_to", "expand_as", "view_as")
def _expand(a: Arguments) -> Elements:
    shape, other = a.shape(0, "x"), a.shape(1, "y", "other")
    wanted = other or shape_value(a.get(1, "shape", "repeat_times"))
    if shape is None or wanted is None:
        return None
    # -1 keeps the dimension.
    return product(broadcast([shape, tuple(dim if dim >= 0 else 1 for dim in wanted)]))


@rule("tile")
def _tile(a: Arguments) -> Elements:
    shape, times = a.shape(0, "x"), shape_value(a.get(1, "repeat_times"))
    return None if shape is None or times is None else product([*shape, *times])


@rule("repeat_interleave")
def _repeat_interleave(a: Arguments) -> Elements:
    shape = a.shape(0, "x")
    return None if shape is None else product([*shape, a.integer(1, "repeats", default=2)])


@rule("one_hot")
def _one_hot(a: Arguments) -> Elements:
    shape = a.shape(0, "x")
    return None if shape is None else product([*shape, a.integer(1, "num_classes", default=1000)])


@rule("sequence_mask")
def _sequence_mask(a: Arguments) -> Elements:
    shape = a.shape(0, "x")
    return None if shape is None else product([*shape, a.integer(1, "maxlen", default=1000)])


@rule("pad", "zeropad2d")
def _pad(a: Arguments) -> Elements:
    shape, widths = a.shape(0, "x"), a.get(1, "pad", "padding")
    if shape is None:
        return None
    spatial = range(len(shape))[1:-1] if a.channels_last() else range(len(shape))[2:]
    if isinstance(widths, (list, tuple)):
        amounts = integers(widths, len(widths), 0) if widths else []
    else:
        amounts = [integer(widths, 0)] * (2 * len(spatial))
    # Widths for all axes begin with the first; widths for some begin with the last that is no channel.
    axes = range(len(shape)) if len(amounts) == 2 * len(shape) else reversed(spatial)
    grown = list(shape)
    for axis, before, after in zip(axes, amounts[::2], amounts[1::2]):
        grown[axis] += max(0, before) + max(0, after)
    return product(grown)


@rule("interpolate", "upsample")
def _interpolate(a: Arguments) -> Elements:
    shape = a.shape(0, "x")
    if shape is None or len(shape) < 3:
        return None
    size, scale = a.get(1, "size"), a.get(2, "scale_factor")
    spatial = len(shape) - 2
    channels, dims = (shape[-1], shape[1:-1]) if a.channels_last() else (shape[1], shape[2:])
    if size is not None:
        return product([shape[0], channels, *integers(size, spatial, 1)])
    factors = scale if isinstance(scale, (list, tuple)) else [scale] * spatial
    grown = [integer(f * dim, dim) if _is_real(f) else dim for f, dim in zip(factors, dims)]
    return product([shape[0], channels, *grown])


def _is_real(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < MOST)


# Creation -------------------------------------------------------------------------------------


@rule("zeros", "ones", "full", "empty", "rand", "randn", "uniform", "standard_normal", "gaussian", "standard_gamma")
def _filled(a: Arguments) -> Elements:
    shape = shape_value(a.get(0, "shape"))
    return None if shape is None else product(shape)


@rule("normal", "randint", "log_normal")
def _drawn(a: Arguments) -> Elements:
    shape = shape_value(a.get(2, "shape"))
    return None if shape is None else product(shape)


@rule("eye")
def _eye(a: Arguments) -> Elements:
    rows = a.integer(0, "num_rows", default=1)
    return product([rows, a.integer(1, "num_columns", default=rows)])


@rule("tril_indices", "triu_indices")
def _triangle(a: Arguments) -> Elements:
    rows = a.integer(0, "row", default=1)
    return product([2, rows, a.integer(1, "col", default=rows)])


@rule("randperm")
def _randperm(a: Arguments) -> Elements:
    return product([a.integer(0, "n", default=1)])


@rule("linspace", "logspace")
def _spaced(a: Arguments) -> Elements:
    return product([a.integer(2, "num", default=1)])


@rule("arange")
def _arange(a: Arguments) -> Elements:
    start, end, step = a.get(0, "start"), a.get(1, "end"), a.get(2, "step")
    if end is None:
        start, end = 0, start
    span = [1 if value is None else value for value in (start, end, step)]
    if not all(_is_real(value) and math.isfinite(value) for value in span) or span[2] == 0:
        return None
    return product([max(0, integer((span[1] - span[0]) / span[2], 0))])


# Combinations ---------------------------------------------------------------------------------


@rule("meshgrid")
def _meshgrid(a: Arguments) -> Elements:
    return product([len(a.tensors), *(product(shape) for shape in a.shapes())])


@rule("cartesian_prod")
def _cartesian_prod(a: Arguments) -> Elements:
    return _meshgrid(a)


@rule("combinations")
def _combinations(a: Arguments) -> Elements:
    shape = a.shape(0, "x")
    if shape is None:
        return None
    size = a.integer(1, "r", default=2)
    if size <= 0:
        return 0
    count, rows = product(shape), 1
    repeat = a.get(2, "with_replacement") is True
    for step in range(1, min(size, 64) + 1):
        rows = min(rows * max(0, count + step - 1 if repeat else count - step + 1) // step, MOST)
    return product([rows, size])


@rule("diag", "diagflat")
def _diag(a: Arguments) -> Elements:
    shape = a.shape(0, "x")
    if shape is None:
        return None
    if len(shape) == 2:
        return product(shape)
    side = product(shape) + abs(a.integer(1, "offset", default=0))
    return product([side, side])


@rule("diag_embed")
def _diag_embed(a: Arguments) -> Elements:
    shape = a.shape(0, "input", "x")
    if not shape:
        return None
    side = shape[-1] + abs(a.integer(1, "offset", default=0))
    return product([*shape[:-1], side, side])


@rule("block_diag")
def _block_diag(a: Arguments) -> Elements:
    shapes = [broadcast([shape, (1, 1)]) for shape in a.shapes()]
    return product([sum(shape[-2] for shape in shapes), sum(shape[-1] for shape in shapes)])


# Indexing -------------------------------------------------------------------------------------


@rule("scatter_nd")
def _scatter_nd(a: Arguments) -> Elements:
    shape = shape_value(a.get(2, "shape"))
    return None if shape is None else product(shape)


@rule("embedding")
def _embedding(a: Arguments) -> Elements:
    ids, weight = a.shape(0, "x", "input"), a.shape(1, "weight")
    return product([*ids, *weight[-1:]]) if ids is not None and weight else None


@rule("take", "index_sample")
def _take(a: Arguments) -> Elements:
    index = a.shape(1, "index")
    return None if index is None else product(index)


@rule("gather", "index_select")
def _gather(a: Arguments) -> Elements:
    x, index = a.shape(0, "x"), a.shape(1, "index")
    if x is None or index is None:
        return None
    return product([*index, *_without_axis(x, a.integer(2, "axis", default=0))])


@rule("take_along_axis")
def _take_along_axis(a: Arguments) -> Elements:
    x, index = a.shape(0, "arr"), a.shape(1, "indices")
    if x is None or index is None:
        return None
    axis = axis_of(x, a.integer(2, "axis", default=0))
    return product(broadcast([index, tuple(1 if place == axis else dim for place, dim in enumerate(x))]))


def _without_axis(shape: Shape, axis: int) -> Shape:
    place = axis_of(shape, axis)
    return shape if place is None else shape[:place] + shape[place + 1 :]


@rule("gather_nd")
def _gather_nd(a: Arguments) -> Elements:
    x, index = a.shape(0, "x"), a.shape(1, "index")
    return product([*index[:-1], *x[index[-1] :]]) if x is not None and index else None


@rule("bincount", "histogram")
def _counted(a: Arguments) -> Elements:
    return product([a.integer(2, "minlength", "bins", default=1000) + 1000])
