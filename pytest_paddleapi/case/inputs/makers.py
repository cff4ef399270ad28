"""Makers of values that many input rules share.

Each returns, or is, a function from :class:`~.registry.Draw` to an array of the asked shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...config import COMPLEX, FLOATING, TensorSpec
from .registry import Draw, InputError, Maker

#: Magnitudes of ordinary values: no smaller than LOW, so that nothing sits on a kink at zero, and
#: small enough that products of many stay far from the limits of float16.
LOW, HIGH = 0.05, 2.0


def ordinary(draw: Draw) -> Any:
    """Values that suit most arguments: both signs, more small than large ones, none at zero.

    Floats have magnitudes in [0.05, 2]; integers lie in [-8, 8] (unsigned [0, 16]); bools are even odds.
    """
    rng, shape, dtype = draw.rng, draw.shape, draw.dtype
    if dtype in FLOATING:
        return _signed(rng, shape, dtype)
    if dtype in COMPLEX:
        part = "float32" if dtype == "complex64" else "float64"
        return _signed(rng, shape, part) + 1j * _signed(rng, shape, part)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    low, high = (0, 17) if dtype == "uint8" else (-8, 9)
    return rng.integers(low, high, shape)


def _signed(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    kind: Any = np.float64 if dtype == "float64" else np.float32
    unit = rng.random(shape, dtype=kind) * 2 - 1
    # The square makes small values common; LOW is added with the sign of the rest.
    return np.copysign(LOW + (HIGH - LOW) * unit * unit, unit)


def uniform(low: float, high: float) -> Maker:
    """Floats (or integers, from the whole numbers between) in ``[low, high)``."""

    def make(draw: Draw) -> Any:
        if draw.dtype in COMPLEX:
            return draw.rng.uniform(low, high, draw.shape) + 1j * draw.rng.uniform(low, high, draw.shape)
        if draw.dtype in FLOATING:
            kind: Any = np.float64 if draw.dtype == "float64" else np.float32
            return draw.rng.random(draw.shape, dtype=kind) * (high - low) + low
        first, last = int(np.ceil(low)), max(int(np.ceil(low)) + 1, int(np.ceil(high)))
        return draw.rng.integers(first, last, draw.shape)

    return make


def integers(low: int, high: int) -> Maker:
    """Integers in ``[low, high)``; for float dtypes whole numbers."""

    def make(draw: Draw) -> Any:
        return draw.rng.integers(low, high, draw.shape)

    return make


def nonzero(draw: Draw) -> Any:
    """As :func:`ordinary`, but no integer is zero: for divisors."""
    values = ordinary(draw)
    if draw.dtype in FLOATING or draw.dtype in COMPLEX or draw.dtype == "bool":
        return values
    return np.where(values == 0, 3, values)


def distinct(draw: Draw) -> Any:
    """Values that all differ where the dtype can hold as many: for sorting and maxima without ties.

    Raises:
        Nothing: where the dtype is too narrow, values repeat.
    """
    count = int(np.prod(draw.shape, dtype=np.int64))
    order = draw.rng.permutation(count)
    if draw.dtype == "bool":
        return (order % 2 == 0).reshape(draw.shape)
    if draw.dtype in FLOATING:
        # Steps that stay apart after rounding to float16 where that is possible at all.
        return ((order - count / 2) * (4.0 / max(count, 1)) + 1e-3).reshape(draw.shape)
    if draw.dtype in COMPLEX:
        return ((order - count / 2) * (4.0 / max(count, 1)) * (1 + 0.5j)).reshape(draw.shape)
    info = np.iinfo(draw.dtype)
    span = min(max(count, 1), int(info.max) - int(info.min) + 1)
    low = -(span // 2) if info.min < 0 else 0
    return (order % span + low).reshape(draw.shape)


def permuted(draw: Draw) -> Any:
    """A permutation of 0 .. n-1 in each row of the last axis."""
    if not draw.shape:
        return np.zeros(())
    return draw.rng.permuted(np.broadcast_to(np.arange(draw.shape[-1]), draw.shape), axis=-1)


def sorted_last(draw: Draw) -> Any:
    """Ordinary values, ascending along the last axis."""
    values = distinct(draw) if draw.dtype != "bool" else ordinary(draw)
    return np.sort(values, axis=-1) if draw.shape else values


def indices(
    size: int | None = None,
    *,
    of: str | None = None,
    axis: str | int | None = None,
    default: int = 0,
    negative: bool = False,
    unique: bool = False,
) -> Maker:
    """Indices below ``size``, or below the extent of axis ``axis`` of the tensor argument ``of``.

    ``axis`` is a number, or the name of the argument that holds it (``default`` if it is absent);
    None takes the flattened size. All of the range is used where there is room: the first and the
    last index are always among them. ``negative`` mixes in indices from the end, ``unique`` repeats none
    (as far as the range allows).

    Raises:
        InputError: the axis is empty, but indices are asked for.
    """

    def make(draw: Draw) -> Any:
        limit = size if size is not None else _extent(draw, of or "x", axis, default)
        return index_values(draw, limit, negative=negative, unique=unique)

    return make


def index_values(draw: Draw, limit: int, *, negative: bool = False, unique: bool = False) -> Any:
    """Integers in ``[0, limit)`` in the shape of ``draw`` (see :func:`indices`)."""
    count = int(np.prod(draw.shape, dtype=np.int64))
    if count == 0:
        return np.zeros(draw.shape, np.int64)
    if limit <= 0:
        raise InputError(f"argument {draw.path[0]!r} needs indices, but the axis that they point into is empty")
    if unique and count <= limit:
        flat = draw.rng.permutation(limit)[:count]
    else:
        flat = draw.rng.integers(0, limit, count)
        if count >= 2:
            flat[draw.rng.permutation(count)[:2]] = (0, limit - 1)
    if negative:
        flat = np.where(draw.rng.random(count) < 0.25, flat - limit, flat)
    return flat.reshape(draw.shape)


def _extent(draw: Draw, of: str, axis: str | int | None, default: int) -> int:
    shape = draw.shape_of(of)
    if axis is None:
        return int(np.prod(shape, dtype=np.int64))
    where = draw.arg(axis, default) if isinstance(axis, str) else axis
    if isinstance(where, TensorSpec):
        where = int(np.asarray(draw.values(str(axis))).reshape(-1)[0])
    if where is None:
        where = default
    if not isinstance(where, int) or not shape:
        return 1 if not shape else int(shape[default])
    return int(shape[where]) if -len(shape) <= where < len(shape) else 1


def axis_of(of: str = "x") -> Maker:
    """A valid axis, as a tensor, of argument ``of``; distinct where several are asked for."""

    def make(draw: Draw) -> Any:
        rank = max(1, len(draw.shape_of(of)))
        return index_values(draw, rank, unique=True)

    return make


def one_of(values: Sequence[Any]) -> Maker:
    """Each element is one of ``values``."""

    def make(draw: Draw) -> Any:
        return np.asarray(values)[draw.rng.integers(0, len(values), draw.shape)]

    return make


def probabilities(draw: Draw) -> Any:
    """Positive values that sum to one along the last axis."""
    values = draw.rng.random(draw.shape) + 0.1
    return values / values.sum(axis=-1, keepdims=True) if draw.shape else np.ones(())


def positive_definite(draw: Draw) -> Any:
    """Symmetric (Hermitian) positive definite matrices, well conditioned (about 10)."""
    if len(draw.shape) < 2 or draw.shape[-1] != draw.shape[-2]:
        raise InputError(f"argument {draw.path[0]!r} must be square matrices, its shape is {list(draw.shape)}")
    n = draw.shape[-1]
    noise = draw.rng.standard_normal(draw.shape)
    if draw.dtype in COMPLEX:
        noise = noise + 1j * draw.rng.standard_normal(draw.shape)
    gram = noise @ np.conj(np.swapaxes(noise, -1, -2)) / max(n, 1)
    return gram + 0.5 * np.eye(n)


def well_conditioned(draw: Draw) -> Any:
    """Matrices (any shape) that are far from singular: noise with a strong diagonal."""
    if len(draw.shape) < 2:
        return ordinary(draw)
    rows, columns = draw.shape[-2:]
    noise = draw.rng.standard_normal(draw.shape)
    if draw.dtype in COMPLEX:
        noise = noise + 1j * draw.rng.standard_normal(draw.shape)
    # Different diagonal entries keep singular and eigenvalues apart.
    ladder = np.zeros((rows, columns))
    k = min(rows, columns)
    ladder[np.arange(k), np.arange(k)] = 2.0 + np.arange(k) / max(k, 1)
    return 0.5 * noise / np.sqrt(max(rows, columns, 1)) + ladder
