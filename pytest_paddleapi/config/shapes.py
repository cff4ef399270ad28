"""Arithmetic on the shapes of a call, total: whatever the arguments are, the answer is a shape or a count."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from .model import ITEMSIZE, Call, DtypeRef, TensorSpec, TypeRef

Shape = tuple[int, ...]

#: Counts stop here: a yobibyte fits on no machine, and exact products of thousands of dimensions take seconds.
MOST = 2**80
#: CPU kernels and references compute narrower floats in float32.
_COMPUTE_BYTES = 4
#: Of int64 and float64, the widest of the defaults.
_DEFAULT_BYTES = 8


def product(factors: Iterable[int]) -> int:
    """The product, :data:`MOST` at most; negative factors count as 0."""
    total = 1
    for factor in factors:
        if factor <= 0:
            return 0
        total = min(total * factor, MOST)
    return total


class Arguments:
    """The arguments of a call by place or name. Every question has an answer for any value."""

    def __init__(self, call: Call) -> None:
        self.places = call.args
        self.named = dict(call.kwargs)
        self.tensors = tuple(call.tensors())

    def get(self, place: int, *names: str) -> Any:
        """The value given by one of the names, or by place; None if by neither."""
        for name in names:
            if name in self.named:
                return self.named[name]
        return self.places[place] if place < len(self.places) else None

    def shape(self, place: int, *names: str) -> Shape | None:
        """The shape of an argument that is a tensor."""
        value = self.get(place, *names)
        return value.shape if isinstance(value, TensorSpec) else None

    def integer(self, place: int, *names: str, default: int) -> int:
        """An argument that is an integer (or a sequence that begins with one)."""
        return integer(self.get(place, *names), default)

    def shapes(self) -> list[Shape]:
        """The shapes of all tensors, in the order written."""
        return [spec.shape for spec in self.tensors]

    def channels_last(self) -> bool:
        """``data_format=`` names a layout such as NHWC."""
        layout = self.named.get("data_format")
        return isinstance(layout, str) and layout.endswith("C")

    def width(self) -> int:
        """Bytes of an element of the result: of ``dtype=``, else of the widest tensor, else 8.

        It is 4 at least where tensors go in: what is computed from narrower ones is computed in float32.
        """
        least = _COMPUTE_BYTES if self.tensors else 1
        name = dtype_name(self.named.get("dtype"))
        if name is not None:
            return max(least, ITEMSIZE[name])
        return max((least, *(ITEMSIZE[spec.dtype] for spec in self.tensors))) if self.tensors else _DEFAULT_BYTES


def dtype_name(value: Any) -> str | None:
    """The dtype that a value names, in the language's spelling."""
    if isinstance(value, (DtypeRef, TypeRef)):
        value = value.name.rpartition(".")[2]
    return value if isinstance(value, str) and value in ITEMSIZE else None


def spec_bytes(spec: TensorSpec) -> int:
    """Bytes of a tensor at the precision that it is computed in."""
    return product(spec.shape) * max(_COMPUTE_BYTES, ITEMSIZE[spec.dtype])


def integer(value: Any, default: int) -> int:
    """``value`` as an integer, or its first element; floats are rounded up, within :data:`MOST`."""
    if isinstance(value, (list, tuple)) and value:
        value = value[0]
    if isinstance(value, int):
        return max(-MOST, min(int(value), MOST))
    if isinstance(value, float) and math.isfinite(value):
        return math.ceil(max(-float(MOST), min(value, float(MOST))))
    return default


def integers(value: Any, count: int, default: int) -> list[int]:
    """``count`` integers from a sequence (its last one repeated) or from one value for all."""
    given = list(value) if isinstance(value, (list, tuple)) else [value]
    found = [integer(item, default) for item in given[:count]] or [default]
    return found + [found[-1]] * (count - len(found))


def shape_value(value: Any) -> Shape | None:
    """A shape that is given as an argument; a tensor among its items, whose value is unknown, counts as 1."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (integer(value, 0),)
    if not isinstance(value, (list, tuple)):
        return None
    return tuple(integer(item, 1) for item in value)


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """The shape that the shapes broadcast to; where they do not fit, the larger dimension."""
    rank = max((len(shape) for shape in shapes), default=0)
    dims = [1] * rank
    for shape in shapes:
        for index, dim in enumerate(shape, rank - len(shape)):
            if dim != 1:
                dims[index] = dim if dims[index] == 1 or dim == 0 else max(dims[index], dim)
    return tuple(dims)


def axis_of(shape: Shape, axis: int) -> int | None:
    """``axis`` counted from the front; None if the shape has no such axis."""
    place = axis + len(shape) if axis < 0 else axis
    return place if 0 <= place < len(shape) else None
