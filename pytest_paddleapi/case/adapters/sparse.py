"""Sparse arguments: a config writes their shape, the values that are not zero are stored (``to_sparse_coo``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import paddle

from ..tensors import map_leaves
from .registry import Arguments, adapter

Layout = Callable[[paddle.Tensor], paddle.Tensor]


def coo(dense_dims: int = 0) -> Layout:
    """COO, with the last ``dense_dims`` axes dense."""

    def convert(tensor: paddle.Tensor) -> paddle.Tensor:
        return tensor.to_sparse_coo(tensor.ndim - dense_dims)

    return convert


def csr(tensor: paddle.Tensor) -> paddle.Tensor:
    """CSR of a matrix, or of a batch of matrices. Paddle gives no gradient through this conversion."""
    return tensor.to_sparse_csr()


def uncoalesced(tensor: paddle.Tensor) -> paddle.Tensor:
    """COO in disorder, each value stored as two parts at the same place."""
    array = tensor.numpy()
    places = np.argwhere(array != 0)
    values = array[array != 0]
    if array.dtype.kind in "fc":
        parts = np.concatenate([values / 2, values / 2]).astype(array.dtype)
    else:
        first = (values // 3).astype(array.dtype)
        parts = np.concatenate([first, values - first])
    order = np.argsort(np.arange(len(parts)) * 7919 % max(len(parts), 1), kind="stable")
    indices = np.concatenate([places, places])[order].T
    return paddle.sparse.sparse_coo_tensor(
        paddle.to_tensor(np.ascontiguousarray(indices)), paddle.to_tensor(parts[order]), list(array.shape)
    )


def sparse(**layouts: Layout) -> Arguments:
    """Convert the arguments of these names, wherever they are tensors."""

    def convert(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        def one(name: str, value: Any) -> Any:
            layout = layouts.get(name)
            return layout(value) if layout and isinstance(value, paddle.Tensor) else value

        return {name: one(name, value) for name, value in arguments.items()}

    return convert


def dense(results: Any) -> Any:
    """Results with dense tensors in place of sparse ones, differentiable where Paddle can be asked for a gradient."""
    return map_leaves(results, _dense)


def _dense(value: Any) -> Any:
    if not isinstance(value, paddle.Tensor) or not value.is_sparse():
        return value
    if value.is_sparse_coo() and not value.stop_gradient:
        return value.to_dense()
    if value.is_sparse_csr():
        value = value.detach().to_sparse_coo(2)
    # By hand: bool has no kernel, and what Paddle makes of its own sparse tensor is not what is to be tested.
    indices, values = value.indices().numpy(), value.values().numpy()
    array = np.zeros(list(value.shape), values.dtype)
    np.logical_or.at(array, tuple(indices), values) if array.dtype == bool else np.add.at(array, tuple(indices), values)
    return paddle.to_tensor(array)


def stored(results: Any) -> Any:
    """The indices and the values of a sparse result."""
    return results.indices(), results.values()


def _bias_or_sparse(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Two COO tensors of one shape; or a dense vector that is added to each stored row."""
    x, y = arguments.get("x"), arguments.get("y")
    if isinstance(x, paddle.Tensor) and isinstance(y, paddle.Tensor) and x.ndim > y.ndim == 1:
        return {**arguments, "x": coo(1)(x)}
    return sparse(x=coo(), y=coo())(arguments)


_UNARY = (
    "abs",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cast",
    "deg2rad",
    "expm1",
    "isnan",
    "log1p",
    "neg",
    "pow",
    "rad2deg",
    "reshape",
    "sin",
    "sinh",
    "slice",
    "sqrt",
    "square",
    "sum",
    "tan",
    "tanh",
    "transpose",
    "nn.functional.relu",
    "nn.functional.relu6",
    "nn.functional.leaky_relu",
    "nn.functional.softmax",
)
_ABOUT = "x is COO"

adapter(*(f"paddle.sparse.{name}" for name in _UNARY), arguments=sparse(x=coo()), results=dense, about=_ABOUT)
adapter("paddle.sparse.pca_lowrank", arguments=sparse(x=coo()), results=dense, about=_ABOUT)
adapter("paddle.sparse.add", arguments=_bias_or_sparse, results=dense, about="x and y are COO, a shorter y is dense")
adapter(
    "paddle.sparse.subtract",
    "paddle.sparse.multiply",
    "paddle.sparse.divide",
    "paddle.sparse.is_same_shape",
    arguments=sparse(x=coo(), y=coo(), self=coo()),
    results=dense,
    about="x and y are COO",
)
adapter(
    "paddle.sparse.mask_as",
    "paddle.sparse.masked_matmul",
    arguments=sparse(mask=coo()),
    results=dense,
    about="mask is COO",
)
adapter(
    "paddle.sparse.matmul",
    "paddle.sparse.mv",
    "paddle.sparse.addmm",
    arguments=sparse(x=coo()),
    results=dense,
    about="x is COO, the rest is dense",
)
adapter(
    *(f"paddle.sparse.nn.functional.{name}" for name in ("max_pool3d", "conv3d", "conv2d")),
    *(f"paddle.sparse.nn.functional.subm_{name}" for name in ("conv3d", "conv2d", "conv3d_igemm", "conv2d_igemm")),
    arguments=sparse(x=coo(1)),
    results=dense,
    about="x is COO with dense channels",
)
adapter(
    "paddle.sparse.nn.functional.attention",
    arguments=sparse(sparse_mask=csr),
    results=dense,
    about="sparse_mask is CSR",
)
adapter(
    "paddle.sparse.coalesce",
    "paddle.Tensor.coalesce",
    arguments=sparse(x=uncoalesced, self=uncoalesced, arg0=uncoalesced),
    results=stored,
    about="x is COO with repeated indices; the indices and values are compared",
)
adapter(
    "paddle.Tensor.is_coalesced",
    arguments=sparse(x=uncoalesced, self=uncoalesced, arg0=uncoalesced),
    about="x is COO with repeated indices",
)
adapter(
    "paddle.Tensor.to_dense",
    "paddle.Tensor.indices",
    "paddle.Tensor.values",
    "paddle.Tensor.nnz",
    "paddle.Tensor.sparse_dim",
    "paddle.Tensor.dense_dim",
    arguments=sparse(x=coo(), self=coo(), arg0=coo()),
    about=_ABOUT,
)
adapter("paddle.Tensor.crows", "paddle.Tensor.cols", arguments=sparse(x=csr, self=csr, arg0=csr), about="x is CSR")
adapter(
    "paddle.Tensor.to_sparse_coo",
    "paddle.Tensor.to_sparse_csr",
    "paddle.sparse.sparse_coo_tensor",
    "paddle.sparse.sparse_csr_tensor",
    results=dense,
)
