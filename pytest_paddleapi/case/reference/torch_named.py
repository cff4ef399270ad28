"""``paddle.compat``: functions with Torch's own names, arguments and results. And methods that copy values."""

from __future__ import annotations

import torch

from .arguments import as_int
from .registry import reference


@reference("paddle.compat.sort", constant=("out",))
def sort(input, dim=-1, descending=False, stable=False, out=None):
    """Values and indices."""
    return tuple(torch.sort(input, dim=dim, descending=bool(descending), stable=bool(stable)))


@reference("paddle.compat.split")
def split(tensor, split_size_or_sections, dim=0):
    """Parts of one size, of which the last may be smaller, or of given sizes."""
    return tuple(torch.split(tensor, split_size_or_sections, as_int(dim)))


@reference("paddle.compat.unique")
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The different elements in ascending order; inverse and counts as asked for."""
    return torch.unique(input, True, bool(return_inverse), bool(return_counts), dim)


@reference("paddle.Tensor.stride")
def stride(self, dim=None):
    """Strides in elements, of all axes or of one."""
    return list(self.stride()) if dim is None else self.stride(dim)


@reference("paddle.Tensor.is_contiguous")
def is_contiguous(self):
    """Whether the elements lie in order without gaps."""
    return self.is_contiguous()


@reference("paddle.Tensor.set_value", mutates=("self",), no_gradient="set_value copies outside of the graph")
def set_value(self, value):
    """The tensor takes the values of another one of its shape and dtype; nothing is returned."""
    if self.shape != value.shape or self.dtype != value.dtype:
        raise ValueError(f"set_value: {list(value.shape)} {value.dtype} into {list(self.shape)} {self.dtype}")
    self.copy_(value)


@reference("paddle.Tensor.copy_", mutates=("self",), no_gradient="copy_ copies outside of the graph")
def copy_(self, other, *args):
    """The tensor takes the values of another one."""
    return self.copy_(other)


@reference("paddle.Tensor.cpu")
def cpu(self):
    """The same values on the host."""
    return self.clone()
