"""Shapes, axes and views: everything that gives the same elements under other indices."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..dtypes import torch_dtype
from .arguments import as_int, as_ints, axes_of, given_shape
from .registry import NoEquivalent, reference, renames

renames(
    """
    paddle.ravel = torch.ravel(input)
    paddle.view_as_real = torch.view_as_real(input)
    paddle.moveaxis = torch.movedim(x:input, source, destination)
    """
)


@reference("paddle.reshape")
def reshape(x, shape, *more, name=None):
    """0 copies the size of the same axis; of an empty tensor it is a size like any other."""
    return x.reshape(_resolved(x, given_shape(shape, more)))


def _resolved(x: torch.Tensor, shape: list[int]) -> list[int]:
    """Paddle's target shape with its 0s and its -1 worked out.

    Raises:
        ValueError: a 0 stands beyond the axes of ``x``.
    """
    if x.numel() == 0:
        return _resolved_empty(x, shape)
    if any(size == 0 and axis >= x.dim() for axis, size in enumerate(shape)):
        raise ValueError(f"0 in the shape {shape} stands beyond the {x.dim()} axes of the tensor")
    return [x.shape[axis] if size == 0 else size for axis, size in enumerate(shape)]


def _resolved_empty(x: torch.Tensor, shape: list[int]) -> list[int]:
    """Sizes for an empty tensor, where -1 is ambiguous beside a 0.

    What fits any tensor of these axes is wanted: -1 takes the product of the axes that are not empty,
    divided by the sizes that are not 0, as for a tensor whose empty axes are dropped on both sides.
    """
    if -1 not in shape:
        return shape
    if 0 not in shape:
        return [0 if size == -1 else size for size in shape]
    kept = math.prod(size for size in x.shape if size)
    rest = math.prod(size for size in shape if size > 0)
    if kept % rest:
        raise ValueError(f"an empty tensor of shape {list(x.shape)} cannot have the shape {shape}")
    return [kept // rest if size == -1 else size for size in shape]


@reference("paddle.view")
def view(x, shape_or_dtype, *more, name=None):
    """A shape, or a dtype: then the last axis is counted in elements of that."""
    if isinstance(shape_or_dtype, (int, list, tuple)) and not isinstance(shape_or_dtype, bool):
        return x.view(given_shape(shape_or_dtype, more))
    return x.view(torch_dtype(shape_or_dtype))


@reference("paddle.transpose")
def transpose(x, perm=None, *more, name=None, dim0=None, dim1=None, axis0=None, axis1=None):
    """A permutation, or two axes to swap."""
    first = dim0 if dim0 is not None else axis0
    second = dim1 if dim1 is not None else axis1
    if first is None and isinstance(perm, int):
        first = perm
    if second is None and more and isinstance(more[0], int):
        second = more[0]
    if first is not None and second is not None:
        return x.transpose(first, second)
    return x.permute(as_ints(perm))


@reference("paddle.swapaxes", "paddle.swapdims")
def swapaxes(x, perm=None, *more, name=None, dim0=None, dim1=None, axis0=None, axis1=None):
    """Aliases of ``transpose``."""
    return transpose(x, perm, *more, dim0=dim0, dim1=dim1, axis0=axis0, axis1=axis1)


@reference("paddle.permute")
def permute(input, dims, *more):
    """The permutation as one sequence or as separate integers."""
    return input.permute(given_shape(dims, more))


@reference("paddle.t")
def t(input, name=None):
    """The transpose of a matrix; vectors and scalars stay as they are."""
    return torch.t(input)


@reference("paddle.matrix_transpose")
def matrix_transpose(x, name=None):
    """The last two axes swapped."""
    if x.dim() < 2:
        raise ValueError(f"matrix_transpose wants two axes at least, the tensor has {x.dim()}")
    return x.mT


@reference("paddle.squeeze")
def squeeze(x, axis=None, name=None):
    """Axes of size 1 go: all, or those among ``axis``; the others stay."""
    if axis is None or (isinstance(axis, (list, tuple)) and not axis):
        return x.squeeze()
    if isinstance(axis, torch.Tensor) and axis.numel() == 0:
        return x.reshape(x.shape)
    return x.squeeze(tuple(set(axes_of(axis, x.dim()))))


@reference("paddle.unsqueeze")
def unsqueeze(x, axis, name=None):
    """Axes of size 1 are put in one after another, in the order given."""
    for one in as_ints(axis):
        x = x.unsqueeze(one)
    return x.reshape(x.shape)


@reference("paddle.flatten")
def flatten(x, start_axis=0, stop_axis=-1, name=None):
    """A run of axes becomes one.

    Raises:
        ValueError: the run ends before it starts.
    """
    rank = max(x.dim(), 1)
    if start_axis % rank > stop_axis % rank:
        raise ValueError(f"flatten: stop_axis {stop_axis} lies before start_axis {start_axis}")
    return torch.flatten(x, start_axis, stop_axis)


@reference("paddle.unflatten")
def unflatten(x, axis, shape, name=None):
    """One axis becomes several."""
    return x.unflatten(as_int(axis), as_ints(shape))


@reference("paddle.expand")
def expand(x, shape, *more, name=None):
    """-1 keeps the size of an axis."""
    sizes = given_shape(shape, more)
    return x.expand(sizes) if sizes else x.reshape(x.shape)


@reference("paddle.expand_as")
def expand_as(x, y, name=None):
    """Expanded to the shape of ``y``, whose dtype does not matter."""
    return x.expand(y.shape)


@reference("paddle.view_as")
def view_as(x, other, name=None):
    """Viewed in the shape of ``other``."""
    return x.view(other.shape)


@reference("paddle.broadcast_to")
def broadcast_to(x, shape, name=None):
    """As ``expand``, with the shape in one sequence."""
    return x.expand(as_ints(shape))


@reference("paddle.broadcast_tensors")
def broadcast_tensors(input, name=None):
    """All tensors in their common shape."""
    shape = torch.broadcast_shapes(*(tensor.shape for tensor in input))
    return [tensor.expand(shape) for tensor in input]


@reference("paddle.broadcast_shape")
def broadcast_shape(x_shape, y_shape):
    """The common shape of two shapes, as a list."""
    return list(torch.broadcast_shapes(as_ints(x_shape), as_ints(y_shape)))


@reference("paddle.broadcast_shapes")
def broadcast_shapes(*shapes):
    """The common shape of any number of shapes, as a list."""
    return list(torch.broadcast_shapes(*(as_ints(shape) for shape in shapes)))


@reference("paddle.tile")
def tile(x, repeat_times, name=None):
    """The whole repeated along its axes; missing counts in front are 1."""
    return torch.tile(x, tuple(as_ints(repeat_times)))


@reference("paddle.Tensor.repeat")
def repeat(input, repeats, *more):
    """``tile`` with the counts as one sequence or as separate integers."""
    return torch.tile(input, tuple(given_shape(repeats, more)))


@reference("paddle.atleast_1d")
def atleast_1d(*inputs, name=None):
    """Scalars become vectors."""
    return _at_least(1, inputs)


@reference("paddle.atleast_2d")
def atleast_2d(*inputs, name=None):
    """Vectors become rows."""
    return _at_least(2, inputs)


@reference("paddle.atleast_3d")
def atleast_3d(*inputs, name=None):
    """Vectors of n become [1, n, 1], matrices get a last axis."""
    return _at_least(3, inputs)


def _at_least(axes: int, inputs: tuple[Any, ...]) -> Any:
    if len(inputs) == 1 and isinstance(inputs[0], (list, tuple)):
        if not all(isinstance(item, torch.Tensor) for item in inputs[0]):
            inputs = (torch.tensor(inputs[0]),)
        else:
            inputs = tuple(inputs[0])
    function = {1: torch.atleast_1d, 2: torch.atleast_2d, 3: torch.atleast_3d}[axes]
    found = [function(item if isinstance(item, torch.Tensor) else torch.tensor(item)) for item in inputs]
    return found[0] if len(found) == 1 else found


@reference("paddle.as_strided")
def as_strided(x, shape, stride, offset=0, name=None):
    """Strides are in elements, the offset is in bytes from the start of the storage."""
    size = x.element_size()
    if offset % size:
        raise NoEquivalent(f"the offset of {offset} bytes cuts an element of {size} bytes")
    return torch.as_strided(x, as_ints(shape), as_ints(stride), offset // size)


@reference("paddle.unfold")
def unfold(x, axis, size, step, name=None):
    """Windows of ``size`` along ``axis``, in a new last axis."""
    return x.unfold(axis, size, step)


@reference("paddle.as_complex")
def as_complex(x, name=None):
    """The last axis, of two elements, as real and imaginary part."""
    if not x.dim() or x.shape[-1] != 2:
        raise ValueError(f"as_complex takes a last axis of two elements, the shape is {list(x.shape)}")
    return torch.complex(x[..., 0], x[..., 1])


@reference("paddle.view_as_complex")
def view_as_complex(input):
    """Another name of ``as_complex``."""
    return as_complex(input)


@reference("paddle.as_real")
def as_real(x, name=None):
    """Real and imaginary part in a new last axis."""
    return torch.view_as_real(x)


@reference("paddle.Tensor.set_", mutates=("x",), no_gradient="set_ has no backward")
def set_(x, source=None, shape=None, stride=None, offset=0, name=None):
    """``x`` takes the storage of ``source`` with a shape, strides in elements and an offset in bytes.

    Without a source it becomes an empty vector.
    """
    if source is None:
        x.data = x.new_empty([0])
        return x
    shape = list(source.shape) if shape is None else as_ints(shape)
    stride = _dense_strides(shape) if stride is None else as_ints(stride)
    last = offset // x.element_size() + sum((size - 1) * step for size, step in zip(shape, stride))
    if 0 not in shape and last >= source.numel():
        raise NoEquivalent("the new shape and strides reach beyond the storage of the source")
    x.data = as_strided(source, shape, stride, offset).clone()
    return x


def _dense_strides(shape: list[int]) -> list[int]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return strides[::-1]


@reference("paddle.Tensor.resize_", mutates=("x",), no_gradient="resize_ has no backward")
def resize_(x, shape, fill_zero=False, name=None):
    """The first elements in a new shape; what is missing is zero with ``fill_zero``, else undefined."""
    shape, old = as_ints(shape), x.detach().reshape(-1)
    missing = math.prod(shape) - old.numel()
    if missing > 0 and not fill_zero:
        raise NoEquivalent("the elements beyond the old end are undefined")
    if missing > 0:
        old = torch.cat([old, old.new_zeros(missing)])
    x.data = old[: math.prod(shape)].reshape(shape).clone()
    return x


@reference("paddle.Tensor.contiguous", "paddle.clone")
def copied(x, name=None):
    """The same tensor in its own memory."""
    return x.clone()


@reference("paddle.Tensor.detach", "paddle.Tensor.detach_", no_gradient="the result takes no part in the backward run")
def detach(x):
    """The same values, without a gradient."""
    return x.detach()


@reference("paddle.Tensor.item")
def item(self, *args):
    """The Python number at a flat index or at an index for each axis; the only one without."""
    if not args:
        return self.item()
    if len(args) == 1:
        return self.reshape(-1)[args[0]].item()
    if len(args) != self.dim():
        raise ValueError(f"{len(args)} indices for a tensor of {self.dim()} axes")
    return self[args].item()


@reference("paddle.tolist")
def tolist(x):
    """Nested Python lists, a number for a scalar."""
    return x.tolist()


@reference("paddle.Tensor.numpy")
def numpy(self, *args):
    """The values as they are."""
    return self.detach()


@reference("paddle.Tensor.dim", "paddle.Tensor.ndimension")
def dim(var):
    """The number of axes, a Python integer."""
    return var.dim()


@reference("paddle.Tensor.__len__")
def length(var):
    """The size of the first axis.

    Raises:
        TypeError: a scalar has none.
    """
    return len(var)


@reference("paddle.Tensor.element_size")
def element_size(self):
    """Bytes of one element."""
    return self.element_size()


@reference("paddle.Tensor.is_same_shape")
def is_same_shape(self, y):
    """Whether the shapes agree."""
    return self.shape == y.shape


@reference("paddle.Tensor.get_strides")
def get_strides(self):
    """Strides in elements."""
    return list(self.stride())


@reference("paddle.Tensor.type_as")
def type_as(self, other):
    """The values in the other's dtype."""
    return self.to(other.dtype)
