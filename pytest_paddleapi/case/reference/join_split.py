"""Several tensors into one, and one into several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .arguments import as_int, as_ints, same_dtype
from .registry import reference


@reference("paddle.concat", "paddle.cat", "paddle.concatenate", constant=("out",))
def concat(x, axis=0, name=None, *, out=None):
    """End to end along an existing axis; one rank and one dtype."""
    same_dtype(x, "concat")
    if len({tensor.dim() for tensor in x}) > 1:
        raise ValueError("concat takes tensors with one number of axes")
    return torch.cat(list(x), as_int(axis))


@reference("paddle.stack", constant=("out",))
def stack(x, axis=0, name=None, *, out=None):
    """Side by side along a new axis."""
    same_dtype(x, "stack")
    return torch.stack(list(x), as_int(axis))


def _stacked(function: Any, x: Any, api: str) -> torch.Tensor:
    tensors = [x] if isinstance(x, torch.Tensor) else list(x)
    same_dtype(tensors, api)
    return function(tensors)


@reference("paddle.hstack")
def hstack(x, name=None):
    """Along the second axis, vectors along their only one."""
    return _stacked(torch.hstack, x, "hstack")


@reference("paddle.vstack", "paddle.row_stack")
def vstack(x, name=None):
    """Along the first axis, vectors as rows."""
    return _stacked(torch.vstack, x, "vstack")


@reference("paddle.dstack")
def dstack(x, name=None):
    """Along the third axis."""
    return _stacked(torch.dstack, x, "dstack")


@reference("paddle.column_stack")
def column_stack(x, name=None):
    """As ``hstack``, vectors as columns."""
    return _stacked(torch.column_stack, x, "column_stack")


@reference("paddle.split")
def split(x, num_or_sections, axis=0, name=None):
    """Equal parts, or parts of given sizes of which one may be -1.

    Raises:
        ValueError: the parts do not make up the axis.
    """
    axis = as_int(axis)
    if isinstance(num_or_sections, int):
        return _equal_parts(x, num_or_sections, axis)
    sections = as_ints(num_or_sections)
    size = x.shape[axis]
    if sections.count(-1) == 1:
        rest = size - sum(part for part in sections if part != -1)
        sections = [rest if part == -1 else part for part in sections]
    if size == 0:
        # An empty axis has only empty parts, whatever was asked for.
        sections = [0] * len(sections)
    if sum(sections) != size or min(sections, default=0) < 0:
        raise ValueError(f"parts of {sections} do not make up an axis of {size}")
    return list(torch.split(x, sections, axis))


def _equal_parts(x: torch.Tensor, count: int, axis: int) -> list[torch.Tensor]:
    size = x.shape[axis]
    if count <= 0 or size % count:
        raise ValueError(f"an axis of {size} has no {count} equal parts")
    return list(torch.split(x, [size // count] * count, axis))


@reference("paddle.chunk")
def chunk(x, chunks, axis=0, name=None):
    """Equal parts."""
    return _equal_parts(x, chunks, as_int(axis))


@reference("paddle.Tensor.split_with_sizes")
def split_with_sizes(self, split_sizes, dim=0):
    """Parts of given sizes."""
    return split(self, split_sizes, dim)


def _tensor_split(x: torch.Tensor, num_or_indices: Any, axis: int) -> list[torch.Tensor]:
    """Nearly equal parts, or cuts at indices; a part whose end lies before its start is empty."""
    if x.dim() == 0:
        raise ValueError("a scalar cannot be split")
    if isinstance(num_or_indices, int):
        return list(torch.tensor_split(x, num_or_indices, axis))
    return list(torch.tensor_split(x, tuple(as_ints(num_or_indices)), axis))


@reference("paddle.tensor_split")
def tensor_split(x, num_or_indices, axis=0, name=None):
    """Along any axis."""
    return _tensor_split(x, num_or_indices, as_int(axis))


@reference("paddle.hsplit")
def hsplit(x, num_or_indices, name=None):
    """Along the second axis, vectors along their only one."""
    return _tensor_split(x, num_or_indices, 1 if x.dim() > 1 else 0)


@reference("paddle.vsplit")
def vsplit(x, num_or_indices, name=None):
    """Along the first axis of at least two."""
    return _split_along(x, num_or_indices, 0, rank=2)


@reference("paddle.dsplit")
def dsplit(x, num_or_indices, name=None):
    """Along the third axis."""
    return _split_along(x, num_or_indices, 2, rank=3)


def _split_along(x: torch.Tensor, num_or_indices: Any, axis: int, rank: int) -> list[torch.Tensor]:
    if x.dim() < rank:
        raise ValueError(f"{rank} axes at least are needed, the tensor has {x.dim()}")
    return _tensor_split(x, num_or_indices, axis)


@reference("paddle.unbind")
def unbind(input, axis=0):
    """Every slice along an axis, without it."""
    return list(torch.unbind(input, axis))


@reference("paddle.unstack")
def unstack(x, axis=0, num=None):
    """As ``unbind``; ``num`` must be the size of the axis where it is given."""
    if num is not None and num != x.shape[axis]:
        raise ValueError(f"unstack: num is {num}, the axis has {x.shape[axis]}")
    return list(torch.unbind(x, axis))


@reference("paddle.block_diag")
def block_diag(inputs, name=None):
    """Matrices along the diagonal of one; vectors are rows, scalars 1 by 1."""
    return torch.block_diag(*inputs)


@reference("paddle.cartesian_prod")
def cartesian_prod(x, name=None):
    """Every choice of one element from each vector; of a single vector, the vector."""
    tensors = [x] if isinstance(x, torch.Tensor) else list(x)
    if any(tensor.dim() != 1 for tensor in tensors):
        raise ValueError("cartesian_prod takes vectors")
    if len(tensors) == 1:
        return tensors[0].reshape(-1)
    return torch.cartesian_prod(*tensors)


@reference("paddle.combinations")
def combinations(x, r=2, with_replacement=False, name=None):
    """Every choice of ``r`` elements in their order."""
    if x.dim() != 1 or r < 0:
        raise ValueError("combinations takes a vector and a length that is not negative")
    return torch.combinations(x, r, with_replacement)


@reference("paddle.nn.utils.parameters_to_vector", no_gradient="Paddle joins the values outside of the graph")
def parameters_to_vector(parameters, name=None):
    """The elements of all tensors in one vector."""
    same_dtype(parameters, "parameters_to_vector")
    return torch.cat([tensor.reshape(-1) for tensor in parameters])


@reference(
    "paddle.nn.utils.vector_to_parameters",
    mutates=("parameters",),
    no_gradient="Paddle hands the values over outside of the graph",
)
def vector_to_parameters(vec, parameters, name=None):
    """The vector cut into the tensors, which change; elements beyond them are not used.

    Raises:
        ValueError: the vector is too short.
    """
    if vec.dim() != 1 or vec.numel() < sum(tensor.numel() for tensor in parameters):
        raise ValueError("vector_to_parameters: the vector has fewer elements than the tensors")
    _fill_from(vec, parameters)


def _fill_from(vec: torch.Tensor, parameters: Sequence[torch.Tensor]) -> None:
    start = 0
    for tensor in parameters:
        tensor.copy_(vec[start : start + tensor.numel()].reshape(tensor.shape))
        start += tensor.numel()
