"""Elements read or written at places that index tensors name."""

from __future__ import annotations

from typing import Any

import torch

from .arguments import as_int, as_ints
from .promotion import Scalars, promoted
from .registry import reference

_REDUCTIONS = {
    "add": "sum",
    "sum": "sum",
    "mul": "prod",
    "multiply": "prod",
    "prod": "prod",
    "mean": "mean",
    "amin": "amin",
    "amax": "amax",
}


def _wrapped(index: torch.Tensor, size: int) -> torch.Tensor:
    """Negative indices count from the end."""
    index = index.long()
    return torch.where(index < 0, index + size, index)


# Whole slices along one axis -----------------------------------------------------------------


@reference("paddle.gather", constant=("out",))
def gather(x=None, index=None, axis=None, name=None, out=None, *, input=None, dim=None):
    """Slices along an axis; with an integer as second argument or ``dim``, Torch's own ``gather``."""
    if isinstance(index, int) or dim is not None:
        x = input if x is None else x
        where, places = (index, axis) if isinstance(index, int) else (dim, index if index is not None else axis)
        return torch.gather(x, where, places.long())
    axis = 0 if axis is None else as_int(axis)
    if index.dim() == 2 and index.shape[1] == 1:
        index = index.reshape(-1)
    if index.dim() > 1:
        raise ValueError(f"gather takes an index of no or one axis, this has the shape {list(index.shape)}")
    if index.dim() == 0:
        return x.select(axis, as_int(index))
    return x.index_select(axis, _wrapped(index, x.shape[axis]))


@reference("paddle.index_select", constant=("out",))
def index_select(x, index, axis=0, name=None, *, out=None):
    """Slices along an axis; the axis may also come before the index."""
    if isinstance(index, int):
        index, axis = axis, index
    return x.index_select(axis, _wrapped(index, x.shape[axis]))


@reference("paddle.index_fill")
def index_fill(x, index, axis, value, name=None):
    """Slices along an axis become one number; of an empty tensor nothing does."""
    if x.numel() == 0:
        return x.reshape(x.shape)
    index = _wrapped(index, x.shape[axis])
    if isinstance(value, torch.Tensor):
        value = value.reshape(()).to(x.dtype)
    elif not (x.is_floating_point() or x.is_complex()):
        value = int(value)
    return x.index_fill(axis, index, value)


@reference("paddle.index_add", constant=("out",))
def index_add(x, index, axis, value=None, alpha=1, name=None, *, out=None):
    """Slices of ``value`` are added along an axis; the axis may also come before the index."""
    if isinstance(index, int):
        index, axis = axis, index
    return x.index_add(axis, _wrapped(index, x.shape[axis]), value, alpha=alpha)


@reference("paddle.scatter", constant=("out",))
def scatter(
    x=None,
    index=None,
    updates=None,
    overwrite=True,
    name=None,
    out=None,
    *,
    input=None,
    dim=None,
    src=None,
    reduce=None,
    value=None,
):
    """Rows replaced by rows of ``updates`` or, without ``overwrite``, by the sum of those with their index.

    With an integer as second argument or ``dim`` it is Torch's own ``scatter``.
    """
    if isinstance(index, int) or dim is not None:
        x = input if x is None else x
        if isinstance(index, int):
            dim, index, given = index, updates, overwrite if overwrite is not True else src
            reduce = name if reduce is None else reduce
        else:
            given = src
        return _put(x, index, value if given is None else given, dim, reduce or "assign", True)
    rows = _wrapped(index.reshape(-1), x.shape[0])
    updates = updates.reshape(1, *updates.shape) if index.dim() == 0 else updates
    updates = updates[: rows.numel()]
    if overwrite:
        return x.index_put((rows,), updates)
    cleared = x.index_fill(0, rows, 0)
    return cleared.index_add(0, rows, updates)


# Single elements or slices by several axes ----------------------------------------------------


def _columns(x: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The last axis of ``index`` taken apart into indices for the first axes of ``x``."""
    return tuple(_wrapped(index[..., axis], x.shape[axis]) for axis in range(index.shape[-1]))


@reference("paddle.gather_nd")
def gather_nd(x, index, name=None):
    """``x[index[..., 0], index[..., 1], ...]``; without any column all of ``x`` each time."""
    if index.shape[-1] == 0:
        return x.expand(*index.shape[:-1], *x.shape)
    return x[_columns(x, index)]


@reference("paddle.scatter_nd_add")
def scatter_nd_add(x, index, updates, name=None):
    """``updates`` added where :func:`gather_nd` reads; indices may repeat."""
    if x.dtype != updates.dtype:
        raise TypeError(f"scatter_nd_add: x is {x.dtype}, updates is {updates.dtype}")
    if index.shape[-1] == 0:
        return x + updates.reshape(-1, *x.shape).sum(0, dtype=x.dtype)
    return x.index_put(_columns(x, index), updates, accumulate=True)


@reference("paddle.scatter_nd")
def scatter_nd(index, updates, shape, name=None):
    """As :func:`scatter_nd_add` into zeros."""
    return scatter_nd_add(updates.new_zeros(as_ints(shape)), index, updates)


@reference("paddle.index_sample")
def index_sample(x, index):
    """Of each row the elements that the row of ``index`` names."""
    if x.dim() != 2 or index.dim() != 2:
        raise ValueError("index_sample takes matrices")
    return torch.gather(x, 1, index.long())


@reference("paddle.index_put")
def index_put(x, indices, value, accumulate=False, name=None):
    """``x[indices] = value``, or added."""
    indices = tuple(index if index.dtype == torch.bool else index.long() for index in indices)
    return x.index_put(indices, value, accumulate)


@reference("paddle.take")
def take(x, index, mode="raise", name=None):
    """Elements by flat index; out of range they raise, wrap round, or stop at either end."""
    flat, size = x.reshape(-1), x.numel()
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"take: mode {mode!r}")
    if index.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"take: the index is {index.dtype}")
    places = index.long()
    if mode == "wrap":
        places = places % size if size else places
    elif mode == "clip":
        places = places.clip(0, max(size - 1, 0))
    return flat[_wrapped(places, size)]


# One axis, all others side by side ------------------------------------------------------------


@reference("paddle.take_along_axis", "paddle.take_along_dim", constant=("out",))
def take_along_axis(arr, indices, axis, broadcast=True, *, out=None):
    """``gather``; with ``broadcast`` the other axes of both are broadcast first."""
    if arr.dim() != indices.dim():
        raise ValueError("take_along_axis: array and indices have different numbers of axes")
    axis = axis % max(arr.dim(), 1)
    indices = _wrapped(indices, arr.shape[axis])
    if broadcast:
        common = [_common(a, i) for a, i in zip(arr.shape, indices.shape)]
        indices = indices.expand([*common[:axis], indices.shape[axis], *common[axis + 1 :]])
        arr = arr.expand([*common[:axis], arr.shape[axis], *common[axis + 1 :]])
    return torch.gather(arr, axis, indices)


def _common(a: int, b: int) -> int:
    return 0 if 0 in (a, b) else max(a, b)


@reference("paddle.put_along_axis")
def put_along_axis(arr, indices, values, axis, reduce="assign", include_self=True, broadcast=True):
    """``scatter`` with a reduction; with ``broadcast`` indices and values take the shape of ``arr`` elsewhere."""
    if arr.dim() != indices.dim():
        raise ValueError("put_along_axis: array and indices have different numbers of axes")
    axis = axis % max(arr.dim(), 1)
    if not isinstance(values, torch.Tensor):
        values = torch.tensor(values).to(arr.dtype).expand(indices.shape)
    if broadcast:
        wanted = [max(a, i) for a, i in zip(arr.shape, indices.shape)]
        wanted[axis] = indices.shape[axis]
        indices, values = indices.expand(wanted), values.expand(wanted)
    return _put(arr, indices, values, axis, reduce, include_self)


def _put(x: torch.Tensor, index: torch.Tensor, values: Any, axis: int, reduce: str, include_self: bool) -> torch.Tensor:
    index = _wrapped(index, x.shape[axis])
    if not isinstance(values, torch.Tensor):
        values = torch.tensor(values)
    values = values.to(x.dtype)
    if values.numel() == 1:
        values = values.expand(index.shape)
    # What lies beyond the indices is not used; Torch differentiates equal shapes only.
    values = values[tuple(slice(size) for size in index.shape)]
    if reduce == "assign":
        return x.scatter(axis, index, values)
    if reduce not in _REDUCTIONS:
        raise ValueError(f"put_along_axis: reduce {reduce!r}")
    return x.scatter_reduce(axis, index, values, _REDUCTIONS[reduce], include_self=include_self)


@reference("paddle.scatter_add")
def scatter_add(input, dim, index, src):
    """``put_along_axis`` with ``add``, without broadcasting."""
    return _put(input, index, src, dim, "add", True)


@reference("paddle.scatter_reduce")
def scatter_reduce(input, dim, index, src, reduce, *, include_self=True):
    """``put_along_axis`` without broadcasting, by Torch's names of the reductions."""
    return _put(input, index, src, dim, reduce, include_self)


# Masks ----------------------------------------------------------------------------------------


@reference("paddle.masked_select", constant=("out",))
def masked_select(x, mask, name=None, *, out=None):
    """The elements under the mask in one vector; both are broadcast."""
    return torch.masked_select(x, mask)


@reference("paddle.masked_fill")
def masked_fill(x, mask, value, name=None):
    """A number, or a tensor that broadcasts, under the mask; all are broadcast."""
    mask = mask.bool()
    if isinstance(value, torch.Tensor):
        shape = torch.broadcast_shapes(x.shape, mask.shape)
        return torch.where(mask, value.to(x.dtype).expand(shape), x.expand(shape))
    if not (x.is_floating_point() or x.is_complex()) and x.dtype != torch.bool:
        value = int(value)
    return torch.masked_fill(x, mask, value)


@reference("paddle.masked_scatter")
def masked_scatter(x, mask, value, name=None):
    """The elements of ``value`` in turn under the mask; tensor and mask are broadcast."""
    if x.dtype != value.dtype:
        raise TypeError(f"masked_scatter: x is {x.dtype}, value is {value.dtype}")
    return torch.masked_scatter(x, mask, value)


@reference("paddle.where", constant=("out",))
def where(condition, x=None, y=None, name=None, *, out=None):
    """Elements of ``x`` where the condition holds, else of ``y``; without both the places where it holds."""
    if x is None and y is None:
        return torch.nonzero(condition, as_tuple=True)
    x, y = _chosen(condition, x, y)
    return torch.where(condition, x, y)


@reference("paddle.where_", mutates=("x",))
def where_(condition, x=None, y=None, name=None):
    """``x`` takes the result."""
    _chosen(condition, x, y)
    return x.copy_(torch.where(condition, x, y))


def _chosen(condition: torch.Tensor, x: Any, y: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Both choices as tensors; a plain number is one of Paddle's default dtypes.

    Raises:
        TypeError: the condition is not Boolean, or Paddle does not mix the dtypes of the choices.
        ValueError: one of the two is missing.
    """
    if x is None or y is None:
        raise ValueError("where takes both choices or neither")
    if condition.dtype != torch.bool:
        raise TypeError(f"where: the condition is {condition.dtype}, not Boolean")
    made = [v if isinstance(v, torch.Tensor) else torch.tensor(v) for v in (x, y)]
    return promoted(made[0], made[1], Scalars.AS_TENSORS)


@reference("paddle.nonzero", constant=("out",))
def nonzero(x, as_tuple=False, *, out=None):
    """The indices of all elements that are not zero, as rows or as one vector for each axis."""
    if x.dim() == 0:
        raise ValueError("nonzero takes a tensor of one axis at least")
    return torch.nonzero(x, as_tuple=as_tuple)


@reference("paddle.argwhere")
def argwhere(input):
    """As :func:`nonzero`, as rows."""
    return nonzero(input)
