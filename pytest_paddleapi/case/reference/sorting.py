"""Order: sorting, the largest and the k-th, searching, unique elements, and masks of sequence lengths."""

from __future__ import annotations

from typing import Any

import torch

from ..dtypes import torch_dtype
from .arguments import as_int
from .registry import NoEquivalent, reference


@reference("paddle.sort")
def sort(x, axis=-1, descending=False, stable=False, name=None):
    """The elements in order along an axis."""
    return torch.sort(x, dim=axis, descending=bool(descending), stable=bool(stable)).values


@reference("paddle.msort", constant=("out",))
def msort(input, *, out=None):
    """Along the first axis."""
    return torch.sort(input, dim=0).values


@reference("paddle.argsort")
def argsort(x, axis=-1, descending=False, stable=False, name=None):
    """Where the sorted elements come from."""
    return torch.sort(x, dim=axis, descending=bool(descending), stable=bool(stable)).indices


@reference("paddle.topk", constant=("out",))
def topk(x, k, axis=None, largest=True, sorted=True, name=None, *, out=None):
    """The k largest or smallest along an axis, with their indices.

    Raises:
        ValueError: k is not positive.
    """
    k = as_int(k)
    if k < 1:
        raise ValueError(f"topk: k must be 1 at least, it is {k}")
    return tuple(torch.topk(x, k, -1 if axis is None else axis, bool(largest), bool(sorted)))


@reference("paddle.kthvalue")
def kthvalue(x, k, axis=None, keepdim=False, name=None):
    """The k-th smallest along an axis, with its index."""
    axis = -1 if axis is None else axis
    if 0 in x.shape and x.shape[axis] != 0:
        return _nothing_left(x, axis, keepdim)
    return tuple(torch.kthvalue(x, as_int(k), axis, bool(keepdim)))


def _nothing_left(x: torch.Tensor, axis: int, keepdim: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Values and indices of a reduction of an empty tensor along an axis that is not empty."""
    values = x.narrow(axis, 0, 1) if keepdim else x.select(axis, 0)
    return values, torch.empty(values.shape, dtype=torch.int64)


@reference("paddle.mode")
def mode(x, axis=-1, keepdim=False, name=None):
    """The most frequent element along an axis, with the index of one that has its value."""
    if x.dim() and x.shape[axis] == 0:
        raise NoEquivalent("an empty axis has no most frequent element")
    if x.numel() == 0:
        return _nothing_left(x, axis, keepdim)
    return tuple(torch.mode(x, axis, bool(keepdim)))


@reference("paddle.argmax")
def argmax(x, axis=None, keepdim=False, dtype="int64", name=None):
    """The index of the largest; without an axis in the flat tensor."""
    return _extreme(torch.argmax, x, axis, keepdim, dtype)


@reference("paddle.argmin")
def argmin(x, axis=None, keepdim=False, dtype="int64", name=None):
    """The index of the smallest; without an axis in the flat tensor."""
    return _extreme(torch.argmin, x, axis, keepdim, dtype)


def _extreme(function: Any, x: torch.Tensor, axis: Any, keepdim: Any, dtype: Any) -> torch.Tensor:
    wanted = torch_dtype(dtype)
    if wanted not in (torch.int32, torch.int64):
        raise TypeError(f"the index can be int32 or int64, not {dtype}")
    axis = None if axis is None else as_int(axis)
    if (x.numel() if axis is None or x.dim() == 0 else x.shape[axis]) == 0:
        raise NoEquivalent("nothing is the largest or smallest of an empty axis")
    return function(x, axis, bool(keepdim)).to(wanted)


@reference("paddle.searchsorted", constant=("out",))
def searchsorted(sorted_sequence, values, out_int32=False, right=False, name=None, *, side=None, out=None, sorter=None):
    """Where values would have to be put in along the last axis."""
    sorted_sequence, values = _alike(sorted_sequence, values)
    return torch.searchsorted(
        sorted_sequence,
        values,
        out_int32=bool(out_int32),
        right=bool(right) or side == "right",
        sorter=None if sorter is None else sorter.long(),
    )


def _alike(first: torch.Tensor, second: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both in their common dtype: Torch searches in nothing else."""
    common = torch.promote_types(first.dtype, second.dtype)
    return first.to(common), second.to(common)


@reference("paddle.bucketize", constant=("out",))
def bucketize(x, sorted_sequence, out_int32=False, right=False, name=None, *, out=None):
    """``searchsorted`` in one vector of boundaries."""
    if sorted_sequence.dim() != 1:
        raise ValueError("bucketize takes one vector of boundaries")
    sorted_sequence, x = _alike(sorted_sequence, x)
    return torch.searchsorted(sorted_sequence, x, out_int32=bool(out_int32), right=bool(right))


@reference("paddle.unique")
def unique(
    x,
    return_index=False,
    return_inverse=False,
    return_counts=False,
    axis=None,
    dtype="int64",
    sorted=True,
    name=None,
):
    """The different elements, or slices along an axis, in ascending order.

    With them, as asked for: the first place of each, the number of each element's value, and counts.
    """
    x = x.reshape(-1) if axis is None else x
    axis = 0 if axis is None else axis
    if x.shape[axis] and not x.numel():
        raise NoEquivalent("slices without elements have no order")
    found, inverse, counts = torch.unique(x, sorted=True, return_inverse=True, return_counts=True, dim=axis)
    extras = [
        (return_index, _first_places(inverse, found.shape[axis])),
        (return_inverse, inverse),
        (return_counts, counts),
    ]
    return _with_extras(found, extras, dtype)


def _first_places(inverse: torch.Tensor, count: int) -> torch.Tensor:
    first = torch.full((count,), inverse.numel(), dtype=torch.int64)
    return first.scatter_reduce(0, inverse, torch.arange(inverse.numel()), "amin")


def _with_extras(found: torch.Tensor, extras: list[tuple[Any, torch.Tensor]], dtype: Any) -> Any:
    wanted = torch_dtype(dtype)
    chosen = [extra.to(wanted) for asked, extra in extras if asked]
    return (found, *chosen) if chosen else found


@reference("paddle.unique_consecutive")
def unique_consecutive(x, return_inverse=False, return_counts=False, axis=None, dtype="int64", name=None):
    """The first of each run of equal elements, or slices along an axis."""
    x = x.reshape(-1) if axis is None else x
    axis = 0 if axis is None else axis
    if x.shape[axis] and not x.numel():
        raise NoEquivalent("slices without elements make no runs")
    found, inverse, counts = torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=axis)
    return _with_extras(found, [(return_inverse, inverse), (return_counts, counts)], dtype)


@reference("paddle.isin")
def isin(x, test_x, assume_unique=False, invert=False, name=None):
    """For each element whether it is among others."""
    return torch.isin(x, test_x, assume_unique=bool(assume_unique), invert=bool(invert))


@reference("paddle.nn.functional.sequence_mask")
def sequence_mask(x, maxlen=None, dtype="int64", name=None):
    """1 where the position is below the length, in a new last axis; as long as the largest length by default."""
    if maxlen is None:
        maxlen = x.max() if x.numel() else 0
    positions = torch.arange(as_int(maxlen), dtype=x.dtype if x.is_floating_point() else torch.int64)
    return (positions < x.unsqueeze(-1)).to(torch_dtype(dtype))


@reference("paddle.nn.functional.gather_tree")
def gather_tree(ids, parents):
    """The chosen words of each beam, traced back from the last step through the parents.

    ``ids`` and ``parents`` are [steps, batch, beams].
    """
    if ids.dim() != 3 or parents.shape != ids.shape:
        raise ValueError("gather_tree takes two tensors of one shape [steps, batch, beams]")
    result = ids.clone()
    if not ids.numel():
        return result
    beam = parents[-1].long()
    for step in range(ids.shape[0] - 2, -1, -1):
        result[step] = torch.gather(ids[step], 1, beam)
        beam = torch.gather(parents[step].long(), 1, beam)
    return result
