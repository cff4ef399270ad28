"""Arguments that Paddle takes in several forms: one number or many, plain or in tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def as_int(value: Any) -> int:
    """A plain integer, or the only element of a tensor."""
    return int(value.reshape(-1)[0]) if isinstance(value, torch.Tensor) else int(value)


def as_ints(value: Any) -> list[int]:
    """Integers from an integer, a tensor, or a sequence that may hold one-element tensors."""
    if isinstance(value, torch.Tensor):
        return [int(item) for item in value.reshape(-1).tolist()]
    if isinstance(value, (list, tuple)):
        return [as_int(item) for item in value]
    return [int(value)]


def given_shape(shape: Any, more: Sequence[Any]) -> list[int]:
    """A shape that was written as one sequence or tensor, or as separate positional integers.

    A trailing None among the separate ones is Paddle's unused ``name``.
    """
    rest = [part for part in more if part is not None]
    if isinstance(shape, (list, tuple)) or (isinstance(shape, torch.Tensor) and shape.dim() > 0):
        return as_ints(shape)
    return [as_int(shape), *(as_int(part) for part in rest)]


def axes_of(axis: Any, rank: int) -> list[int]:
    """Axes as non-negative numbers; None gives all of them.

    Raises:
        IndexError: an axis is out of range.
    """
    if axis is None:
        return list(range(rank))
    found = as_ints(axis)
    for one in found:
        if not -max(rank, 1) <= one < max(rank, 1):
            raise IndexError(f"axis {one} is out of range for a tensor of {rank} dimensions")
    return [one % max(rank, 1) for one in found]


def same_dtype(tensors: Sequence[torch.Tensor], api: str) -> None:
    """Refuse what Paddle's documentation refuses: tensors of different dtypes in one list.

    Raises:
        TypeError: the dtypes differ.
    """
    found = {tensor.dtype for tensor in tensors}
    if len(found) > 1:
        raise TypeError(f"{api} takes tensors of one dtype, here are {', '.join(sorted(map(str, found)))}")
