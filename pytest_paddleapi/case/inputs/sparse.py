"""Values of sparse tensors: about half of them are zero, which are not stored."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ...config import TensorSpec
from .linalg import low_rank
from .makers import LOW, axis_of, index_values, integers, nonzero, ordinary, uniform
from .registry import Draw, Maker, inputs


def with_gaps(maker: Maker = ordinary, dense_dims: int = 0) -> Maker:
    """Values of ``maker``, of which about half (whole rows of the last ``dense_dims`` axes) are replaced by zero."""

    def make(draw: Draw) -> Any:
        values = np.asarray(maker(draw))
        kept = draw.shape[: len(draw.shape) - dense_dims]
        mask = draw.rng.random(kept) < 0.55
        if mask.size and not mask.any():
            mask.reshape(-1)[draw.rng.integers(mask.size)] = True
        return np.where(mask.reshape(*mask.shape, *[1] * (len(draw.shape) - len(kept))), values, 0)

    return make


def some_nan(draw: Draw) -> Any:
    """Ordinary values, a third of them NaN where the dtype has it."""
    values = np.asarray(ordinary(draw))
    return np.where(draw.rng.random(draw.shape) < 0.33, np.nan, values) if values.dtype.kind in "fc" else values


def _binary_x(draw: Draw) -> Any:
    y = draw.arg("y")
    bias = isinstance(y, TensorSpec) and len(y.shape) == 1 < len(draw.shape)
    return with_gaps(dense_dims=1 if bias else 0)(draw)


def _binary_y(draw: Draw) -> Any:
    bias = len(draw.shape) == 1 < len(draw.shape_of("x"))
    return ordinary(draw) if bias else with_gaps()(draw)


def same_count_per_matrix(draw: Draw) -> Any:
    """A mask with equally many elements in each matrix of the batch, and one at least in each row."""
    *batch, rows, columns = draw.shape
    count = min(columns, max(1, columns // 2 + 1))
    order = np.argsort(draw.rng.random((*batch, rows, columns)), axis=-1)
    return (order < count).astype(float)


def coo_indices(draw: Draw) -> Any:
    """One row of indices for each sparse axis of ``shape``; no place twice where there are enough of them."""
    shape = draw.arg("shape")
    axes, count = draw.shape
    extents = [max(int(e), 1) for e in shape[:axes]] if isinstance(shape, (list, tuple)) else [count + 1] * axes
    places = int(np.prod(extents))
    chosen = draw.rng.permutation(places)[:count] if count <= places else draw.rng.integers(0, places, count)
    return np.stack(np.unravel_index(chosen, extents))


def csr_bounds(draw: Draw) -> Any:
    """From 0 to the number of values, never falling, no row longer than the columns of ``shape``."""
    count = int(np.prod(draw.shape_of("values")))
    rows = draw.shape[0] - 1
    lengths = np.full(rows, count // max(rows, 1))
    lengths[: count - int(lengths.sum())] += 1
    return np.concatenate([[0], np.cumsum(lengths)])


def csr_columns(draw: Draw) -> Any:
    """Ascending different columns within each row."""
    shape = draw.arg("shape")
    columns = int(shape[1]) if isinstance(shape, (list, tuple)) else 4
    bounds = draw.values("crows")
    rows = [np.sort(draw.rng.permutation(columns)[: end - start]) for start, end in pairwise(bounds)]
    found = np.concatenate(rows) if rows else np.zeros(0, int)
    return found if found.shape == draw.shape else index_values(draw, columns)


_ORDINARY = (
    "abs",
    "asinh",
    "atan",
    "cast",
    "deg2rad",
    "expm1",
    "neg",
    "rad2deg",
    "reshape",
    "sin",
    "sinh",
    "square",
    "sum",
    "tan",
    "tanh",
    "transpose",
    "matmul",
    "mv",
    "addmm",
    "nn.functional.relu",
    "nn.functional.relu6",
    "nn.functional.leaky_relu",
    "nn.functional.softmax",
    "is_same_shape",
)

_PARTS = ("to_dense", "indices", "values", "nnz", "sparse_dim", "dense_dim", "crows", "cols")

inputs(*(f"paddle.sparse.{name}" for name in _ORDINARY), x=with_gaps(), y=ordinary)
inputs("paddle.sparse.slice", x=with_gaps(), axes=axis_of("x"), starts=integers(0, 2), ends=integers(2, 9))
inputs("paddle.sparse.add", "paddle.sparse.subtract", "paddle.sparse.multiply", x=_binary_x, y=_binary_y)
# Nothing is divided by a gap: all of y is stored.
inputs("paddle.sparse.divide", x=with_gaps(), y=nonzero)
inputs("paddle.sparse.asin", "paddle.sparse.atanh", x=with_gaps(uniform(-0.9, 0.9)))
inputs("paddle.sparse.sqrt", "paddle.sparse.log1p", "paddle.sparse.pow", x=with_gaps(uniform(LOW, 2.0)))
inputs("paddle.sparse.isnan", x=with_gaps(some_nan))
inputs("paddle.sparse.mask_as", "paddle.sparse.masked_matmul", mask=with_gaps(nonzero))
inputs("paddle.sparse.pca_lowrank", x=low_rank)
inputs("paddle.sparse.coalesce", "paddle.Tensor.coalesce", "paddle.Tensor.is_coalesced", x=with_gaps())
inputs(
    *(f"paddle.Tensor.{name}" for name in _PARTS),
    "paddle.Tensor.to_sparse_csr",
    x=with_gaps(),
)
inputs("paddle.Tensor.to_sparse_coo", x=with_gaps())
inputs(
    *(f"paddle.sparse.nn.functional.{name}" for name in ("max_pool3d", "conv3d", "conv2d")),
    *(f"paddle.sparse.nn.functional.subm_{name}" for name in ("conv3d", "conv2d", "conv3d_igemm", "conv2d_igemm")),
    x=with_gaps(dense_dims=1),
)
inputs("paddle.sparse.nn.functional.attention", sparse_mask=same_count_per_matrix)
inputs("paddle.sparse.sparse_coo_tensor", indices=coo_indices)
inputs("paddle.sparse.sparse_csr_tensor", crows=csr_bounds, cols=csr_columns)
