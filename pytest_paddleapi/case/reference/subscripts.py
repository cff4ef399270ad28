"""``x[...]`` and ``x[...] = value`` with every kind of index.

Paddle follows NumPy: integers, slices (backwards too), ``None``, ``Ellipsis``, Boolean and integer
tensors or lists, and tuples that mix them. Two points where it is nearer to Torch: an integer, or a
0-D integer tensor, drops its axis before the tensors of the same subscript are looked at; and a list
is always an array, never a tuple.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from .arguments import as_int
from .rearrangements import put_at, sliced
from .registry import reference


@reference("paddle.Tensor.__getitem__")
def getitem(x, item):
    """``x[item]``."""
    return _taken(x, _parts(item))


@reference("paddle.Tensor.__setitem__", mutates=("x",))
def setitem(x, item, value):
    """``x[item] = value``: the value is cast to the dtype of ``x`` and broadcast."""
    parts = _parts(item)
    value = _value(value, x)
    if any(isinstance(part, slice) and (part.step or 1) < 0 for part in parts):
        # Torch has no slices that run backwards: set by flat indices.
        places = _taken(torch.arange(x.numel()).reshape(x.shape), parts)
        x.copy_(put_at(x, places, value))
        return
    x[tuple(parts)] = value


def _value(value: Any, x: torch.Tensor) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value.to(x.dtype)
    if isinstance(value, complex) and not x.is_complex():
        raise TypeError(f"a complex number cannot go into a tensor of {x.dtype}")
    return torch.tensor(value).to(x.dtype)


def _parts(item: Any) -> list[Any]:
    """The subscript as a list of parts that Torch reads in the same way."""
    return [_part(part) for part in (item if isinstance(item, tuple) else (item,))]


def _part(part: Any) -> Any:
    if isinstance(part, slice):
        return slice(*(None if bound is None else as_int(bound) for bound in (part.start, part.stop, part.step)))
    if isinstance(part, (list, tuple, range)):
        return _as_tensor(part)
    if isinstance(part, torch.Tensor):
        if part.dtype == torch.bool:
            return part
        return as_int(part) if part.dim() == 0 else part.long()
    return part


def _as_tensor(values: Any) -> torch.Tensor:
    """A list as an index tensor; 0-D tensors in it count as numbers."""
    found = torch.tensor(_plain(values))
    return found.long() if found.numel() == 0 else found


def _plain(values: Any) -> Any:
    if isinstance(values, (list, tuple, range)):
        return [_plain(value) for value in values]
    return values.tolist() if isinstance(values, torch.Tensor) else values


def _taken(x: torch.Tensor, parts: list[Any]) -> torch.Tensor:
    """``x[parts]``, with the slices that run backwards taken first, axis by axis."""
    axis = 0
    forwards: list[Any] = []
    for place, part in enumerate(parts):
        if part is Ellipsis:
            axis = x.dim() - _axes(parts[place + 1 :])
        elif isinstance(part, slice) and (part.step or 1) < 0:
            x = sliced(x, axis, part.start, part.stop, part.step)
            part, axis = slice(None), axis + 1
        else:
            axis += _axes([part])
        forwards.append(part)
    return x[tuple(forwards)]


def _axes(parts: list[Any]) -> int:
    """How many axes of the tensor these parts of a subscript take."""
    count = 0
    for part in parts:
        if isinstance(part, torch.Tensor) and part.dtype == torch.bool:
            count += part.dim()
        elif part is not None and not isinstance(part, bool):
            count += 1
    return count


def places_named(shape: Sequence[int], item: Any) -> np.ndarray[Any, Any]:
    """The flat indices of the elements that a subscript names, with NumPy arrays where it has tensors.

    Raises:
        IndexError: the subscript does not fit the shape.
    """
    whole = torch.arange(math.prod(shape)).reshape(tuple(shape))
    return _taken(whole, _parts(_with_tensors(item))).numpy()


def _with_tensors(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_with_tensors(part) for part in value)
    if isinstance(value, slice):
        return slice(*(_with_tensors(bound) for bound in (value.start, value.stop, value.step)))
    return value
