"""New tensors: filled, counted up, and arranged from others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from ..dtypes import torch_dtype
from .arguments import as_int, as_ints
from .promotion import is_integer
from .registry import NoEquivalent, reference

#: Paddle's default floating-point dtype.
DEFAULT = torch.float32


def dtype_or(dtype: Any, default: torch.dtype) -> torch.dtype:
    """The dtype that was asked for, or the default."""
    return torch_dtype(dtype) or default


def plain(value: Any) -> Any:
    """A Python number from a number, a numeric text or a tensor of one element."""
    if isinstance(value, torch.Tensor):
        return value.detach().reshape(-1)[0].item()
    return float(value) if isinstance(value, str) else value


def filled(shape: list[int], value: Any, dtype: torch.dtype) -> torch.Tensor:
    """A tensor full of ``value`` as ``dtype``; a float becomes an integer towards zero."""
    value = plain(value)
    if is_integer(dtype) and isinstance(value, float):
        value = int(value)
    return torch.full(shape, value, dtype=dtype)


def _sizes(size: tuple[Any, ...], shape: Any, dtype: Any) -> tuple[list[int], Any]:
    """Shape and dtype from ``(2, 3)``, ``([2, 3], "int32")`` or ``shape=[2, 3]``."""
    given = list(size) if shape is None else [shape, *size]
    if len(given) > 1 and not isinstance(given[-1], (int, torch.Tensor)):
        # By position, the dtype follows the shape, and the unused name the dtype.
        given, after = given[:1], given[1:]
        dtype = after[0] if dtype is None else dtype
    sizes = as_ints(given[0]) if len(given) == 1 else [as_int(one) for one in given]
    return sizes, dtype


@reference("paddle.zeros")
def zeros(*sizes, shape=None, dtype=None, name=None, out=None, device=None, requires_grad=False, pin_memory=False):
    shape, dtype = _sizes(sizes, shape, dtype)
    return filled(shape, 0, dtype_or(dtype, DEFAULT))


@reference("paddle.ones")
def ones(*sizes, shape=None, dtype=None, name=None, out=None, device=None, requires_grad=False, pin_memory=False):
    shape, dtype = _sizes(sizes, shape, dtype)
    return filled(shape, 1, dtype_or(dtype, DEFAULT))


@reference("paddle.empty")
def empty(*sizes, shape=None, dtype=None, name=None, out=None, device=None, requires_grad=False, pin_memory=False):
    """Only shape and dtype mean anything."""
    shape, dtype = _sizes(sizes, shape, dtype)
    return torch.empty(shape, dtype=dtype_or(dtype, DEFAULT))


@reference("paddle.full", constant=("fill_value",))
def full(shape, fill_value, dtype=None, name=None, *, out=None, device=None, requires_grad=False, pin_memory=False):
    """bool for a bool, complex128 for a complex number, else float32; or ``dtype``."""
    default = DEFAULT
    if isinstance(fill_value, bool):
        default = torch.bool
    elif isinstance(fill_value, complex):
        default = torch.complex128
    return filled(as_ints(shape), fill_value, dtype_or(dtype, default))


@reference("paddle.full_like", constant=("x", "fill_value"))
def full_like(x, fill_value, dtype=None, name=None, *, device=None, requires_grad=False, pin_memory=False):
    return filled(list(x.shape), fill_value, dtype_or(dtype, x.dtype))


@reference("paddle.zeros_like", constant=("x",))
def zeros_like(x, dtype=None, name=None, *, device=None, requires_grad=False, pin_memory=False):
    return filled(list(x.shape), 0, dtype_or(dtype, x.dtype))


@reference("paddle.ones_like", constant=("x",))
def ones_like(x, dtype=None, name=None, *, device=None, requires_grad=False, pin_memory=False):
    return filled(list(x.shape), 1, dtype_or(dtype, x.dtype))


@reference("paddle.empty_like", constant=("x",))
def empty_like(x, dtype=None, name=None, *, device=None, requires_grad=False, pin_memory=False):
    return torch.empty(x.shape, dtype=dtype_or(dtype, x.dtype))


@reference("paddle.Tensor.new_full")
def new_full(var, size, fill_value, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    return filled(as_ints(size), fill_value, dtype_or(dtype, var.dtype))


@reference("paddle.Tensor.new_zeros")
def new_zeros(var, *sizes, size=None, dtype=None, device=None, requires_grad=False, pin_memory=False):
    shape, dtype = _sizes(sizes, size, dtype)
    return filled(shape, 0, dtype_or(dtype, var.dtype))


@reference("paddle.Tensor.new_ones")
def new_ones(var, *sizes, size=None, dtype=None, device=None, requires_grad=False, pin_memory=False):
    shape, dtype = _sizes(sizes, size, dtype)
    return filled(shape, 1, dtype_or(dtype, var.dtype))


@reference("paddle.Tensor.new_empty")
def new_empty(var, *sizes, size=None, dtype=None, device=None, requires_grad=False, pin_memory=False):
    shape, dtype = _sizes(sizes, size, dtype)
    return torch.empty(shape, dtype=dtype_or(dtype, var.dtype))


# Counted up -------------------------------------------------------------------------------------


def _whole(value: Any) -> bool:
    return is_integer(value.dtype) if isinstance(value, torch.Tensor) else isinstance(value, int)


def _in_dtype(value: Any, dtype: torch.dtype) -> Any:
    """A number as it is after a cast to ``dtype``."""
    number = plain(value)
    return int(number) if is_integer(dtype) else torch.tensor(number, dtype=dtype).item()


def _steps(start: float, stop: float, step: float, count: int, dtype: torch.dtype) -> torch.Tensor:
    wide = torch.int64 if is_integer(dtype) else torch.float64
    return (torch.arange(count, dtype=wide) * step + start).to(dtype)


@reference("paddle.arange", no_gradient="counting has no gradient")
def arange(
    start=0, end=None, step=1, dtype=None, *, out=None, device=None, requires_grad=False, pin_memory=False, name=None
):
    """int64 where all of the three are whole, else float32; or ``dtype``, to which they are cast first."""
    if end is None:
        start, end = 0, start
    kind = dtype_or(dtype, torch.int64 if all(map(_whole, (start, end, step))) else DEFAULT)
    first, last, width = (_in_dtype(v, kind) for v in (start, end, step))
    return _steps(first, last, width, max(math.ceil((last - first) / width), 0), kind)


@reference("paddle.range", no_gradient="counting has no gradient")
def range(start=0, end=None, step=1, dtype=None, *, out=None, device=None, requires_grad=False, name=None):
    """As :func:`arange`, but with the end, and float32 by default."""
    if end is None:
        start, end = 0, start
    kind = dtype_or(dtype, DEFAULT)
    first, last, width = (_in_dtype(v, kind) for v in (start, end, step))
    return _steps(first, last, width, max(math.floor((last - first) / width) + 1, 0), kind)


@reference("paddle.linspace", no_gradient="counting has no gradient")
def linspace(start, stop, num, dtype=None, name=None, *, out=None, device=None, requires_grad=False):
    """``num`` values from start to stop, both cast to the dtype first; integers towards zero."""
    kind = dtype_or(dtype, DEFAULT)
    count = as_int(num)
    if count < 0:
        raise ValueError(f"num should not be negative, it is {count}")
    wide = torch.linspace(_in_dtype(start, kind), _in_dtype(stop, kind), count, dtype=torch.float64)
    return torch.trunc(wide).to(kind) if is_integer(kind) else wide.to(kind)


@reference("paddle.logspace", no_gradient="counting has no gradient")
def logspace(start, stop, num, base=10.0, dtype=None, name=None):
    """``base`` to the powers from start to stop; all cast to the dtype first; integers towards zero."""
    kind = dtype_or(dtype, DEFAULT)
    powers = torch.linspace(_in_dtype(start, kind), _in_dtype(stop, kind), as_int(num), dtype=torch.float64)
    wide = torch.pow(torch.tensor(float(_in_dtype(base, kind)), dtype=torch.float64), powers)
    return torch.trunc(wide).to(kind) if is_integer(kind) else wide.to(kind)


@reference("paddle.eye")
def eye(
    num_rows, num_columns=None, dtype=None, name=None, *, out=None, device=None, requires_grad=False, pin_memory=False
):
    rows = as_int(num_rows)
    columns = rows if num_columns is None else as_int(num_columns)
    return torch.eye(rows, columns, dtype=dtype_or(dtype, DEFAULT))


# Triangles and diagonals ------------------------------------------------------------------------


@reference("paddle.tril", constant=("out",))
def tril(x, diagonal=0, name=None, *, out=None):
    if x.dim() < 2:
        raise ValueError("tril takes a tensor of two axes at least")
    return torch.tril(x, as_int(diagonal))


@reference("paddle.triu", constant=("out",))
def triu(x, diagonal=0, name=None, *, out=None):
    if x.dim() < 2:
        raise ValueError("triu takes a tensor of two axes at least")
    return torch.triu(x, as_int(diagonal))


def _triangle(function: Any, row: Any, col: Any, offset: Any, dtype: Any) -> torch.Tensor:
    rows = as_int(row)
    columns = rows if col is None else as_int(col)
    return function(rows, columns, as_int(offset)).to(dtype_or(dtype, torch.int64))


@reference("paddle.tril_indices")
def tril_indices(row, col, offset=0, dtype="int64"):
    return _triangle(torch.tril_indices, row, col, offset, dtype)


@reference("paddle.triu_indices")
def triu_indices(row, col=None, offset=0, dtype="int64"):
    return _triangle(torch.triu_indices, row, col, offset, dtype)


@reference("paddle.diag")
def diag(x, offset=0, padding_value=0, name=None):
    """A matrix with ``x`` on a diagonal and ``padding_value`` beside it; of a matrix, the diagonal."""
    if x.dim() == 2:
        return torch.diagonal(x, offset).clone()
    if x.dim() > 2:
        raise ValueError("diag takes a tensor of two axes at most")
    x = x.reshape(-1)
    matrix = torch.diag(x, offset)
    if padding_value == 0:
        return matrix
    on_diagonal = torch.diag(torch.ones(x.shape, dtype=torch.bool), offset)
    return torch.where(on_diagonal, matrix, filled([], padding_value, x.dtype))


@reference("paddle.diagflat")
def diagflat(x, offset=0, name=None):
    return torch.diag(x.reshape(-1), offset)


@reference("paddle.vander")
def vander(x, n=None, increasing=False, name=None):
    """Columns are powers of ``x``: x**(n-1) ... x**0, or the other way round."""
    if x.dim() != 1:
        raise ValueError("vander takes a tensor of one axis")
    n = len(x) if n is None else n
    if n < 0:
        raise ValueError("n should not be negative")
    powers = torch.ones(len(x), n, dtype=x.dtype)
    for column in torch.arange(1, max(n, 1)).tolist():
        powers = torch.cat([powers[:, :column], (powers[:, column - 1] * x).unsqueeze(1), powers[:, column + 1 :]], 1)
    return powers if increasing else powers.flip(1)


@reference("paddle.meshgrid")
def meshgrid(*args, name=None, indexing=None):
    tensors = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
    return list(torch.meshgrid(*(tensor.reshape(-1) for tensor in tensors), indexing=indexing or "ij"))


# Copies -----------------------------------------------------------------------------------------


@reference("paddle.assign", mutates=("output",), constant=("output",))
def assign(x, output=None):
    """A copy, also into ``output``; Python numbers and lists get NumPy's dtype (float64 for floats)."""
    if not isinstance(x, torch.Tensor):
        x = (
            torch.from_numpy(np.atleast_1d(np.asarray(x)))
            if not _has_tensors(x)
            else torch.stack([item.reshape(()) if isinstance(item, torch.Tensor) else torch.tensor(item) for item in x])
        )
    if output is None:
        return x.clone()
    if output.dtype != x.dtype:
        raise NoEquivalent("output gets another dtype, which Torch cannot do")
    if output.shape != x.shape:
        output.set_(x.detach().clone())
        return x.clone()
    return output.copy_(x)


def _has_tensors(values: Any) -> bool:
    return isinstance(values, (list, tuple)) and any(isinstance(item, torch.Tensor) for item in values)


@reference("paddle.to_tensor", constant=("data",))
def to_tensor(data, dtype=None, place=None, stop_gradient=True):
    """The dtype of a tensor, int64 for whole numbers, float32 for others and complex64; or ``dtype``."""
    if isinstance(data, torch.Tensor):
        return data.detach().to(dtype_or(dtype, data.dtype))
    array = np.asarray(data.tolist() if isinstance(data, np.ndarray) else _untensored(data))
    defaults = {"f": torch.float32, "c": torch.complex64}
    found = torch.from_numpy(np.array(array))
    return found.to(dtype_or(dtype, defaults.get(array.dtype.kind, found.dtype)))


@reference("paddle.tensor", "paddle.as_tensor", constant=("data",))
def tensor(data, dtype=None, device=None, requires_grad=False, pin_memory=False):
    return to_tensor(data, dtype)


@reference("paddle.asarray", constant=("obj",))
def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False):
    return to_tensor(obj, dtype)


def _untensored(data: Any) -> Any:
    if isinstance(data, (list, tuple)):
        return [_untensored(item) for item in data]
    return data.tolist() if isinstance(data, torch.Tensor) else data
