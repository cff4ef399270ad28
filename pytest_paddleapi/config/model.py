"""What one config line means: an API name and the values that it is called with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Union

#: Bytes of one element, by the dtype names of the config language.
ITEMSIZE: dict[str, int] = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
}

FLOATING = frozenset({"float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"})
COMPLEX = frozenset({"complex64", "complex128"})
INTEGRAL = frozenset({"uint8", "int8", "int16", "int32", "int64"})


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor that the call takes; ``shape`` may be empty (0-D) and hold zeros."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def numel(self) -> int:
        count = 1
        for dim in self.shape:
            count *= dim
        return count

    @property
    def nbytes(self) -> int:
        return self.numel * ITEMSIZE[self.dtype]


@dataclass(frozen=True, slots=True)
class DtypeRef:
    """``Dtype(float16)`` or, with ``kind="VarType"``, Paddle's older ``VarType(float16)``."""

    name: str
    kind: str = "Dtype"


@dataclass(frozen=True, slots=True)
class TypeRef:
    """A Python or NumPy type given as a value: ``type(bool)``, ``type(numpy.float64)``."""

    name: str


# Containers are Python's own (list, tuple, dict, slice), so rules can use them as they are.
Value = Union[
    None,
    bool,
    int,
    float,
    complex,
    str,
    "list[Any]",
    "tuple[Any, ...]",
    "dict[Any, Any]",
    slice,
    TensorSpec,
    DtypeRef,
    TypeRef,
    Any,
]


@dataclass(frozen=True, slots=True)
class Call:
    """One API call. Two calls are the same case when :func:`~.printing.print_call` agrees."""

    api: str
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()

    def tensors(self) -> Iterator[TensorSpec]:
        """Every tensor of the call, depth first, in the order written."""
        for value in self.args:
            yield from _tensors(value)
        for _, value in self.kwargs:
            yield from _tensors(value)


def _tensors(value: Any) -> Iterator[TensorSpec]:
    if isinstance(value, TensorSpec):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, slice):
        for item in (value.start, value.stop, value.step):
            yield from _tensors(item)
