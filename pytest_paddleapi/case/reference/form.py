"""What is asked of a tensor's form, and changes of its dtype."""

from __future__ import annotations

from typing import Any

import torch

from ..dtypes import torch_dtype
from .promotion import is_integer
from .registry import reference


@reference("paddle.numel", "paddle.Tensor.numel")
def numel(x, name=None):
    """A 0-D int64 tensor."""
    return torch.tensor(x.numel(), dtype=torch.int64)


@reference("paddle.shape")
def shape(input):
    """A 1-D int64 tensor."""
    return torch.tensor(list(input.shape), dtype=torch.int64)


@reference("paddle.rank")
def rank(input):
    """A 0-D int32 tensor."""
    return torch.tensor(input.dim(), dtype=torch.int32)


@reference("paddle.is_empty")
def is_empty(x, name=None):
    """A 0-D bool tensor."""
    return torch.tensor(x.numel() == 0)


@reference("paddle.is_complex")
def is_complex(x):
    return x.is_complex()


@reference("paddle.is_floating_point")
def is_floating_point(x):
    return x.is_floating_point()


@reference("paddle.is_integer")
def is_integer_rule(x):
    """True for integers; a bool is none."""
    return is_integer(x.dtype)


@reference("paddle.is_tensor")
def is_tensor(x):
    return isinstance(x, torch.Tensor)


# Changes of dtype -------------------------------------------------------------------------------


@reference("paddle.cast")
def cast(x, dtype):
    """The values as ``dtype``: towards zero for integers, not zero for bool, the real part of complex ones."""
    return converted(x, torch_dtype(dtype))


def converted(x: torch.Tensor, dtype: Any) -> torch.Tensor:
    """``x`` as ``dtype``, a copy."""
    if x.is_complex() and not dtype.is_complex:
        x = x.real if dtype != torch.bool else x != 0
    return x.to(dtype, copy=True)


@reference("paddle.Tensor.astype")
def astype(self, dtype):
    return converted(self, torch_dtype(dtype))


def _named_cast(name: str, dtype: torch.dtype) -> None:
    def rule(self):
        return converted(self, dtype)

    rule.__name__ = rule.__qualname__ = name
    reference(f"paddle.Tensor.{name}")(rule)


for _name, _dtype in {
    "bool": torch.bool,
    "byte": torch.uint8,
    "uint8": torch.uint8,
    "char": torch.int8,
    "int8": torch.int8,
    "short": torch.int16,
    "int16": torch.int16,
    "int": torch.int32,
    "int32": torch.int32,
    "long": torch.int64,
    "int64": torch.int64,
    "half": torch.float16,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float": torch.float32,
    "float32": torch.float32,
    "double": torch.float64,
    "float64": torch.float64,
    "cfloat": torch.complex64,
    "complex64": torch.complex64,
    "cdouble": torch.complex128,
    "complex128": torch.complex128,
}.items():
    _named_cast(_name, _dtype)
