"""Values for reductions: distinct where ties matter, products that stay in range, missing values, counts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...config import COMPLEX, FLOATING
from .makers import axis_of, distinct, integers, one_of, ordinary, uniform
from .registry import Draw, Maker, inputs


def with_missing(maker: Maker) -> Maker:
    """Floats with a NaN in one place of five, but not in all places along the reduced axes."""

    def make(draw: Draw) -> Any:
        values = maker(draw)
        holes = draw.rng.random(draw.shape) < 0.2
        first = np.zeros(draw.shape, bool)
        axis = draw.arg("axis")
        axes = axis if isinstance(axis, (list, tuple)) else [axis] if isinstance(axis, int) else []
        whole = all(isinstance(one, int) and -len(draw.shape) <= one < len(draw.shape) for one in axes)
        at = {one % len(draw.shape) for one in axes} if whole and axes and draw.shape else set(range(len(draw.shape)))
        first[tuple(slice(0, 1) if i in at else slice(None) for i in range(len(draw.shape)))] = True
        holes &= ~first
        return np.where(holes, math.nan, values) if draw.dtype in FLOATING or draw.dtype in COMPLEX else values

    return make


def factors(draw: Draw) -> Any:
    """Numbers so near one that the product of all of them is a moderate number."""
    count = int(np.prod(draw.shape, dtype=np.int64))
    signs = draw.rng.choice([-1.0, 1.0], draw.shape)
    if draw.dtype == "bool":
        return ordinary(draw)
    if draw.dtype not in FLOATING and draw.dtype not in COMPLEX:
        larger = draw.rng.random(draw.shape) < min(1.0, 4.0 / max(count, 1))
        return np.where(larger, draw.rng.integers(2, 4, draw.shape), 1) * (1 if draw.dtype == "uint8" else signs)
    sizes = np.exp(draw.rng.normal(0.0, min(0.5, 2.0 / math.sqrt(max(count, 1))), draw.shape))
    if draw.dtype in COMPLEX:
        return sizes * np.exp(1j * draw.rng.uniform(-3.0, 3.0, draw.shape))
    return sizes * signs


def mostly(value: bool) -> Maker:
    """Nearly all true (not zero), or nearly all false: so that all() and any() are not the same everywhere."""

    def make(draw: Draw) -> Any:
        odd = draw.rng.random(draw.shape) < 0.15
        truth = ~odd if value else odd
        numbers = np.asarray(ordinary(draw))
        return truth if draw.dtype == "bool" else np.where(truth, np.where(numbers == 0, 1, numbers), 0)

    return make


inputs("paddle.sum", "paddle.mean", "paddle.cumsum", axis=axis_of())
inputs("paddle.max", "paddle.min", "paddle.amax", "paddle.amin", x=distinct, axis=axis_of())
inputs("paddle.prod", x=factors, axis=axis_of())
inputs("paddle.cumprod", x=factors)
inputs("paddle.all", x=mostly(True), axis=axis_of())
inputs("paddle.any", x=mostly(False), axis=axis_of())
inputs("paddle.count_nonzero", x=mostly(False), axis=axis_of())
inputs("paddle.cummax", "paddle.cummin", x=distinct)
inputs("paddle.median", x=distinct)
inputs("paddle.quantile", x=distinct, q=uniform(0.0, 1.0))
inputs("paddle.nanquantile", x=with_missing(distinct), q=uniform(0.0, 1.0))
inputs("paddle.nanmedian", x=with_missing(distinct), axis=axis_of())
inputs("paddle.nansum", "paddle.nanmean", x=with_missing(ordinary), axis=axis_of())
inputs("paddle.std", "paddle.var", "paddle.logsumexp", axis=axis_of())


# Histograms ---------------------------------------------------------------------------------------


def inside_bins(values: Any, low: float, high: float, bins: int, rng: np.random.Generator) -> Any:
    """The values moved into the middle half of their bins, so that rounding changes no count."""
    width = (high - low) / bins
    if width <= 0:
        return values
    place = np.floor((values - low) / width)
    return low + (place + rng.uniform(0.25, 0.75, np.shape(values))) * width


def binned(draw: Draw) -> Any:
    """Inside their bins, a few outside of a given range; without one the ends of the range are among them."""
    bins, low, high = draw.arg("bins", 100), draw.arg("min", 0.0), draw.arg("max", 0.0)
    if draw.dtype not in FLOATING:
        return ordinary(draw)
    given = not (low == 0 and high == 0)
    if given and not high > low:
        return ordinary(draw)
    low, high = (float(low), float(high)) if given else (-2.0, 2.0)
    reach = 0.2 * (high - low) if given else 0.0
    values = inside_bins(draw.rng.uniform(low - reach, high + reach, draw.shape), low, high, int(bins), draw.rng)
    if not given and values.size >= 2:
        ends = values.reshape(-1)
        ends[draw.rng.permutation(values.size)[:2]] = (low, high)
        values = ends.reshape(draw.shape)
    return values


def points(draw: Draw) -> Any:
    """Points inside their boxes, see :func:`binned`."""
    dims = draw.shape[-1]
    bins, ranges = draw.arg("bins", 10), draw.arg("ranges")
    values = np.empty((int(np.prod(draw.shape[:-1], dtype=np.int64)), dims))
    for axis in range(dims):
        values[:, axis] = _coordinate(draw, axis, bins, ranges, len(values))
    return values.reshape(draw.shape)


def _coordinate(draw: Draw, axis: int, bins: Any, ranges: Any, count: int) -> Any:
    rng = draw.rng
    if isinstance(bins, tuple):
        edges = np.asarray(draw.values("bins")[axis]).astype(np.float64)
        cells = rng.integers(0, len(edges) - 1, count)
        inner = edges[cells] + rng.uniform(0.25, 0.75, count) * np.diff(edges)[cells]
        return np.where(rng.random(count) < 0.1, edges[-1] + 1.0, inner)
    number = bins if isinstance(bins, int) else bins[axis] if axis < len(bins) else 1
    low, high = (-2.0, 2.0) if ranges is None else (float(ranges[2 * axis]), float(ranges[2 * axis + 1]))
    reach = 0.0 if ranges is None else 0.2 * (high - low)
    values = inside_bins(rng.uniform(low - reach, high + reach, count), low, high, number, rng)
    if ranges is None and count >= 2:
        values[rng.permutation(count)[:2]] = (low, high)
    return values


def edges(draw: Draw) -> Any:
    """Ascending edges of unequal bins."""
    return np.cumsum(draw.rng.uniform(0.5, 1.5, draw.shape)) - 1.0


inputs("paddle.histogram", "paddle.histogram_bin_edges", input=binned, weight=uniform(0.1, 2.0))
inputs("paddle.histogramdd", x=points, bins=edges, weights=uniform(0.1, 2.0))
inputs("paddle.bincount", x=integers(0, 21), minlength=one_of([0, 5, 40]), weights=ordinary)
