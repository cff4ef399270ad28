"""Sparse tensors, as the dense ones with the same elements.

A stored element is one that is not zero (the inputs are made so), and only stored elements have a gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as nnf

from ..dtypes import torch_dtype
from .arguments import as_ints
from .registry import reference

Function = Callable[..., torch.Tensor]


def pattern(x: torch.Tensor, dense_dims: int = 0) -> torch.Tensor:
    """Where elements are stored: all of a row of the last ``dense_dims`` axes, or none."""
    found = x.detach() != 0
    if dense_dims and x.numel():
        axes = list(range(x.dim() - dense_dims, x.dim()))
        found = found.any(dim=axes[0], keepdim=True) if len(axes) == 1 else found.sum(axes, keepdim=True) > 0
        found = found.expand_as(x)
    return found


def stored(x: torch.Tensor, dense_dims: int = 0) -> torch.Tensor:
    """``x``, through which a gradient reaches the stored elements only."""
    return torch.where(pattern(x, dense_dims), x, torch.zeros_like(x))


def _elementwise(function: Function) -> Function:
    """``function`` of the stored elements; the others stay zero, whatever it makes of zero."""

    def apply(x: torch.Tensor) -> torch.Tensor:
        found = pattern(x)
        # Ones in the gaps, so that a derivative that is infinite at zero does not make NaN of them.
        result = function(torch.where(found, x, torch.ones_like(x)))
        return torch.where(found, result, torch.zeros_like(result))

    return apply


def _unary(function: Function) -> Function:
    apply = _elementwise(function)

    def rule(x: torch.Tensor, name: Any = None) -> torch.Tensor:
        return apply(x)

    return rule


_FUNCTIONS: dict[str, Function] = {
    **{
        name: getattr(torch, name)
        for name in (
            "abs",
            "asin",
            "asinh",
            "atan",
            "atanh",
            "deg2rad",
            "expm1",
            "isnan",
            "log1p",
            "neg",
            "rad2deg",
            "sin",
            "sinh",
            "sqrt",
            "square",
            "tan",
            "tanh",
        )
    },
    "nn.functional.relu": torch.relu,
    "nn.functional.relu6": nnf.relu6,
}
for _name, _function in _FUNCTIONS.items():
    reference(f"paddle.sparse.{_name}")(_unary(_function))


@reference("paddle.sparse.pow")
def sparse_pow(x: torch.Tensor, factor: float, name: Any = None) -> torch.Tensor:
    return _elementwise(lambda t: torch.pow(t, factor))(x)


@reference("paddle.sparse.nn.functional.leaky_relu")
def leaky_relu(x: torch.Tensor, negative_slope: float = 0.01, name: Any = None) -> torch.Tensor:
    return _elementwise(lambda t: nnf.leaky_relu(t, negative_slope))(x)


@reference("paddle.sparse.cast")
def cast(x: torch.Tensor, index_dtype: Any = None, value_dtype: Any = None, name: Any = None) -> torch.Tensor:
    return stored(x).to(torch_dtype(value_dtype) or x.dtype)


@reference("paddle.sparse.add")
def add(x: torch.Tensor, y: torch.Tensor, name: Any = None) -> torch.Tensor:
    """A vector ``y`` is added to the stored rows only."""
    if not isinstance(y, torch.Tensor):
        raise TypeError("y is a tensor")
    if x.dim() > y.dim() == 1:
        return torch.where(pattern(x, 1), x + y, torch.zeros_like(x))
    return stored(x) + stored(_alike(x, y))


@reference("paddle.sparse.subtract")
def subtract(x: torch.Tensor, y: torch.Tensor, name: Any = None) -> torch.Tensor:
    if not isinstance(y, torch.Tensor):
        raise TypeError("y is a tensor")
    return stored(x) - stored(_alike(x, y))


@reference("paddle.sparse.multiply")
def multiply(x: torch.Tensor, y: Any, name: Any = None) -> torch.Tensor:
    if isinstance(y, (int, float)):
        return (stored(x) * y).to(x.dtype)
    return stored(x) * stored(_alike(x, y))


@reference("paddle.sparse.divide")
def divide(x: torch.Tensor, y: Any, name: Any = None) -> torch.Tensor:
    """Integers give floats, as with ``paddle.divide``."""
    return stored(x) / (y if isinstance(y, (int, float)) else stored(_alike(x, y)))


def _alike(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if x.shape != y.shape:
        raise ValueError(f"sparse tensors of one shape, not {list(x.shape)} and {list(y.shape)}")
    return y


@reference("paddle.sparse.is_same_shape")
def is_same_shape(x: torch.Tensor, y: torch.Tensor) -> bool:
    return x.shape == y.shape


@reference("paddle.sparse.mask_as", constant=("mask",))
def mask_as(x: torch.Tensor, mask: torch.Tensor, name: Any = None) -> torch.Tensor:
    return torch.where(pattern(_alike(x, mask)), x, torch.zeros_like(x))


@reference("paddle.sparse.masked_matmul", constant=("mask",))
def masked_matmul(x: torch.Tensor, y: torch.Tensor, mask: torch.Tensor, name: Any = None) -> torch.Tensor:
    """The mask chooses elements of the product; its values do not matter."""
    product = x @ y
    return torch.where(pattern(_alike(product, mask)), product, torch.zeros_like(product))


@reference("paddle.sparse.matmul")
def matmul(x: torch.Tensor, y: torch.Tensor, name: Any = None) -> torch.Tensor:
    if x.dim() < 2 or x.shape[:-2] != y.shape[:-2]:
        raise ValueError(f"matrices with the same batch axes, not {list(x.shape)} and {list(y.shape)}")
    return stored(x) @ y


@reference("paddle.sparse.mv")
def mv(x: torch.Tensor, vec: torch.Tensor, name: Any = None) -> torch.Tensor:
    return stored(x) @ vec


@reference("paddle.sparse.addmm")
def addmm(
    input: torch.Tensor, x: torch.Tensor, y: torch.Tensor, beta: float = 1.0, alpha: float = 1.0, name: Any = None
) -> torch.Tensor:
    return beta * input + alpha * (stored(x) @ y)


@reference("paddle.sparse.sum")
def sparse_sum(
    x: torch.Tensor, axis: Any = None, dtype: Any = None, keepdim: bool = False, name: Any = None
) -> torch.Tensor:
    """Of all elements it is one in a tensor with at least one axis: a sparse tensor has no fewer."""
    wanted = torch_dtype(dtype)
    if wanted is None:
        wanted = torch.int64 if x.dtype in (torch.bool, torch.int32) else x.dtype
    axes = list(range(x.dim())) if axis is None else as_ints(axis)
    total = stored(x).sum(axes, keepdim=keepdim, dtype=wanted)
    return total if total.dim() else total.reshape(1)


@reference("paddle.sparse.transpose")
def transpose(x: torch.Tensor, perm: Sequence[int], name: Any = None) -> torch.Tensor:
    return stored(x).permute(as_ints(perm))


@reference("paddle.sparse.reshape")
def reshape(x: torch.Tensor, shape: Any, name: Any = None) -> torch.Tensor:
    """0 keeps the extent of the same axis of ``x``."""
    wanted = [x.shape[i] if extent == 0 else extent for i, extent in enumerate(as_ints(shape))]
    return stored(x).reshape(wanted)


@reference("paddle.sparse.slice")
def sparse_slice(x: torch.Tensor, axes: Any, starts: Any, ends: Any, name: Any = None) -> torch.Tensor:
    x = stored(x)
    for axis, start, end in zip(as_ints(axes), as_ints(starts), as_ints(ends)):
        where = [slice(None)] * x.dim()
        where[axis] = slice(start, end)
        x = x[tuple(where)]
    return x


@reference("paddle.sparse.coalesce", "paddle.Tensor.coalesce")
def coalesce(x: torch.Tensor, name: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Sorted indices and their values."""
    x = x.detach()
    return x.nonzero().T.contiguous(), x[x != 0]


@reference("paddle.Tensor.is_coalesced")
def is_coalesced(x: torch.Tensor) -> bool:
    """The indices that the adapter makes are repeated."""
    return False


@reference("paddle.sparse.pca_lowrank", no_gradient="its backward is that of qr, which Paddle documents as unsupported")
def pca_lowrank(
    x: torch.Tensor, q: int | None = None, center: bool = True, niter: int = 2, name: Any = None
) -> tuple[torch.Tensor, ...]:
    from .linalg import pca_lowrank as of_dense

    return of_dense(x, q, center, niter)


@reference("paddle.sparse.nn.functional.softmax")
def softmax(x: torch.Tensor, axis: int = -1, name: Any = None) -> torch.Tensor:
    """Over the stored elements of each row."""
    found = pattern(x)
    rest = torch.where(found, x, torch.full_like(x, -math.inf))
    # A row without stored elements is taken out first: it has no maximum.
    rest = torch.where(found.any(axis, keepdim=True), rest, torch.zeros_like(rest))
    return torch.where(found, torch.softmax(rest, axis), torch.zeros_like(x))


@reference("paddle.sparse.nn.functional.attention", constant=("sparse_mask", "key_padding_mask", "attn_mask"))
def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sparse_mask: torch.Tensor,
    key_padding_mask: torch.Tensor | None = None,
    attn_mask: torch.Tensor | None = None,
    name: Any = None,
) -> torch.Tensor:
    """``softmax(Q K^T / sqrt(d)) V`` over the elements that the mask stores; zeros in the other masks exclude too."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    seen = pattern(sparse_mask).reshape(scores.shape)
    if key_padding_mask is not None:
        seen = seen & (key_padding_mask != 0)[:, None, None, :]
    if attn_mask is not None:
        seen = seen & (attn_mask != 0)
    return softmax(torch.where(seen, scores, torch.zeros_like(scores))) @ value


# Tensors that change between the layouts ----------------------------------------------------------


@reference("paddle.Tensor.to_dense")
def to_dense(x: torch.Tensor) -> torch.Tensor:
    return stored(x)


@reference("paddle.Tensor.to_sparse_coo", "paddle.Tensor.to_sparse_csr")
def to_sparse(x: torch.Tensor, sparse_dim: int | None = None) -> torch.Tensor:
    """Paddle has no gradient through the conversion to CSR."""
    return stored(x, 0 if sparse_dim is None else x.dim() - sparse_dim)


@reference("paddle.Tensor.is_dense")
def is_dense(x: torch.Tensor) -> bool:
    return True


@reference("paddle.Tensor.is_sparse", "paddle.Tensor.is_sparse_coo", "paddle.Tensor.is_sparse_csr")
def is_sparse(x: torch.Tensor) -> bool:
    """Of a tensor as it is written: dense."""
    return False


@reference("paddle.Tensor.indices")
def indices(x: torch.Tensor) -> torch.Tensor:
    return x.detach().nonzero().T.contiguous()


@reference("paddle.Tensor.values")
def values(x: torch.Tensor) -> torch.Tensor:
    return x[pattern(x)]


@reference("paddle.Tensor.nnz")
def nnz(x: torch.Tensor) -> int:
    return int(torch.count_nonzero(x))


@reference("paddle.Tensor.sparse_dim")
def sparse_dim(x: torch.Tensor) -> int:
    return x.dim()


@reference("paddle.Tensor.dense_dim")
def dense_dim(x: torch.Tensor) -> int:
    return 0


@reference("paddle.Tensor.crows")
def crows(x: torch.Tensor) -> torch.Tensor:
    """The number of elements before each row, for each matrix of a batch, one after the other."""
    counts = pattern(x).sum(-1)
    return nnf.pad(counts.cumsum(-1), (1, 0)).reshape(-1)


@reference("paddle.Tensor.cols")
def cols(x: torch.Tensor) -> torch.Tensor:
    return x.detach().nonzero()[:, -1]


@reference("paddle.sparse.sparse_coo_tensor", constant=("indices",))
def sparse_coo_tensor(
    indices: Any, values: Any, shape: Any = None, dtype: Any = None, place: Any = None, stop_gradient: bool = True
) -> torch.Tensor:
    """Elements of the same place are added. Without a shape it is the smallest that holds them."""
    elements = torch.as_tensor(values)
    where = torch.as_tensor(indices, device=elements.device).long()
    if dtype is not None:
        elements = elements.to(torch_dtype(dtype))
    if stop_gradient:
        elements = elements.detach()
    extents = as_ints(shape) if shape is not None else [*(where.amax(1) + 1).tolist(), *elements.shape[1:]]
    result = torch.zeros(extents, dtype=elements.dtype, device=elements.device)
    return result.index_put(tuple(where), elements, accumulate=True)


@reference("paddle.sparse.sparse_csr_tensor", constant=("crows", "cols"))
def sparse_csr_tensor(
    crows: Any, cols: Any, values: Any, shape: Any, dtype: Any = None, place: Any = None, stop_gradient: bool = True
) -> torch.Tensor:
    bounds = torch.as_tensor(crows).long()
    rows = torch.repeat_interleave(torch.arange(len(bounds) - 1, device=bounds.device), bounds.diff())
    return sparse_coo_tensor(
        torch.stack([rows, torch.as_tensor(cols, device=bounds.device).long()]),
        values,
        shape,
        dtype,
        None,
        stop_gradient,
    )
