"""Paddle's rules for operands of different dtypes; where they refuse a pair, so does the reference."""

from __future__ import annotations

import enum
from typing import Any

import torch

from .registry import NoEquivalent


class PromotionError(TypeError):
    """Paddle's documentation says that these dtypes do not mix."""


def is_float(dtype: torch.dtype) -> bool:
    """True for real floating-point dtypes."""
    return dtype.is_floating_point


def is_integer(dtype: torch.dtype) -> bool:
    """True for integers; bool is none."""
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)


def kind(dtype: torch.dtype) -> str:
    """``bool``, ``int``, ``float`` or ``complex``."""
    if dtype.is_complex:
        return "complex"
    if dtype.is_floating_point:
        return "float"
    return "bool" if dtype == torch.bool else "int"


class Scalars(enum.Enum):
    """What a 0-D tensor may do beside one of another dtype, which is not the same in all of Paddle's operators."""

    #: It gives way within its kind, and mixes with other kinds: arithmetic and comparisons.
    GIVE_WAY = enum.auto()
    #: It mixes with any dtype by the general table: floor division.
    MIX = enum.auto()
    #: It is a tensor like any other: extremes, logic, ``atan2`` and others.
    AS_TENSORS = enum.auto()


def common_dtype(x: torch.Tensor, y: torch.Tensor, scalars: Scalars = Scalars.GIVE_WAY) -> torch.dtype:
    """The dtype in which Paddle computes with two tensors.

    Two tensors of different dtypes mix when both are real floats, or when one of them is complex. A
    0-D tensor mixes with any dtype, and beside a tensor with dimensions gives way where both are of one
    kind (``scalars``; Paddle's "data type promotion" guide and ``phi/common/type_promotion.h``).

    Raises:
        PromotionError: the pair does not mix, an int64 with a float32 tensor for example.
    """
    a, b = x.dtype, y.dtype
    if a == b:
        return a
    if scalars is not Scalars.AS_TENSORS and (x.dim() == 0 or y.dim() == 0):
        if scalars is Scalars.GIVE_WAY and x.dim() != y.dim() and kind(a) == kind(b):
            return b if x.dim() == 0 else a
        return torch.promote_types(a, b)
    if a.is_complex or b.is_complex or (is_float(a) and is_float(b)):
        return torch.promote_types(a, b)
    raise PromotionError(f"Paddle promotes among floats and with complex numbers only, not {a} with {b}")


def promoted(
    x: torch.Tensor, y: torch.Tensor, scalars: Scalars = Scalars.GIVE_WAY
) -> tuple[torch.Tensor, torch.Tensor]:
    """Both tensors in their common dtype.

    Raises:
        PromotionError: see :func:`common_dtype`.
        TypeError: one of them is no tensor.
    """
    for value in (x, y):
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"Paddle takes a tensor here, not {type(value).__name__}")
    dtype = common_dtype(x, y, scalars)
    return x.to(dtype), y.to(dtype)


def with_scalar(x: torch.Tensor, scalar: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """A tensor and a Python number, for Tensor operators such as ``x + 2.5``.

    An integer gives way to any numeric tensor; beside a bool tensor it is an int64. A float makes an
    integer or bool tensor a float32 one. A complex number makes a complex tensor of the same precision.
    """
    dtype = x.dtype
    if isinstance(scalar, complex):
        wanted = dtype if dtype.is_complex else torch.complex128 if dtype == torch.float64 else torch.complex64
    elif isinstance(scalar, bool):
        wanted = dtype
    elif isinstance(scalar, int):
        wanted = torch.int64 if dtype == torch.bool else dtype
    else:
        wanted = dtype if is_float(dtype) or dtype.is_complex else torch.float32
    return x.to(wanted), filled(scalar, wanted)


def filled(scalar: Any, dtype: torch.dtype) -> torch.Tensor:
    """A 0-D tensor with ``scalar``; integers wrap round as a C cast does."""
    if is_integer(dtype) and isinstance(scalar, int):
        return torch.tensor(scalar, dtype=torch.int64).to(dtype)
    return torch.tensor(scalar, dtype=dtype)


def same_dtype(*tensors: torch.Tensor) -> None:
    """Refuse operands of different dtypes, for APIs outside of Paddle's promotion.

    Raises:
        PromotionError: they differ.
        NoEquivalent: they differ, but one is empty, so that Paddle may not notice.
    """
    found = {tensor.dtype for tensor in tensors}
    if len(found) > 1:
        if any(tensor.numel() == 0 for tensor in tensors):
            raise NoEquivalent(
                "operands of different dtypes, one of them empty: the dtype of the result is not defined"
            )
        raise PromotionError(f"Paddle takes operands of one dtype here, not {', '.join(sorted(map(str, found)))}")


def no_complex(*tensors: torch.Tensor) -> None:
    """Refuse complex operands.

    Raises:
        TypeError: one is complex.
    """
    if any(tensor.is_complex() for tensor in tensors):
        raise TypeError("not defined for complex numbers")
