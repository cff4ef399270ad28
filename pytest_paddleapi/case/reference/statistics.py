"""Variance, medians, quantiles and histograms."""

from __future__ import annotations

import math
from typing import Any

import torch

from .arguments import as_int
from .promotion import is_integer, same_dtype
from .reduction import reduced_axes, restored, together
from .registry import NoEquivalent, reference


def _variance(x: torch.Tensor, axis: Any, correction: float, keepdim: bool) -> torch.Tensor:
    """The mean square distance from the mean, over n - correction."""
    if is_integer(x.dtype) or x.dtype == torch.bool:
        raise NoEquivalent("Paddle documents floating-point tensors for the variance")
    axes = reduced_axes(x, axis)
    count = math.prod(x.shape[i] for i in axes)
    centre = x.mean(dim=axes, keepdim=True) if axes else x
    total = (x - centre).square()
    total = total.sum(dim=axes, keepdim=bool(keepdim)) if axes else total
    # As Torch and NumPy: NaN for one value less its mean, and never a negative divisor.
    return total / max(count - correction, 0)


@reference("paddle.var", constant=("out",))
def var(x, axis=None, unbiased=None, keepdim=False, name=None, *, correction=1, out=None):
    if unbiased is not None and correction != 1:
        raise ValueError("give unbiased or correction, not both")
    return _variance(x, axis, correction if unbiased is None else float(bool(unbiased)), keepdim)


@reference("paddle.std")
def std(x, axis=None, unbiased=True, keepdim=False, name=None, *, correction=1, out=None):
    """The root of the variance; float32 for integers."""
    if is_integer(x.dtype):
        raise NoEquivalent("Paddle documents floating-point tensors for the standard deviation")
    return torch.sqrt(
        var(x, axis, unbiased, keepdim) if correction == 1 else var(x, axis, None, keepdim, correction=correction)
    )


# Medians ----------------------------------------------------------------------------------------


def _check_median(axis: Any, mode: str) -> None:
    if mode not in ("avg", "min"):
        raise ValueError(f"mode is 'avg' or 'min', not {mode!r}")
    if isinstance(axis, (list, tuple)) and not axis:
        raise ValueError("the list of axes should not be empty")


def _middle(flat: torch.Tensor, count: torch.Tensor, mode: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The middle of the first ``count`` sorted values of each row, and the index of the lower of two."""
    if flat.shape[-1] == 0:
        if not flat.is_floating_point():
            raise NoEquivalent("no integer is the median of nothing")
        empty = torch.full(flat.shape[:-1], math.nan, dtype=flat.dtype)
        return empty, torch.zeros(flat.shape[:-1], dtype=torch.int64)
    ordered, places = torch.sort(flat, dim=-1, stable=True)
    low = ((count - 1).clamp(min=0) // 2).unsqueeze(-1)
    high = (count // 2).clamp(max=flat.shape[-1] - 1).unsqueeze(-1)
    lower = ordered.gather(-1, low).squeeze(-1)
    index = places.gather(-1, low).squeeze(-1)
    if mode == "min":
        return lower, index
    upper = ordered.gather(-1, high).squeeze(-1)
    total = lower + upper
    return total / 2 if flat.is_floating_point() else torch.div(total, 2, rounding_mode="trunc"), index


@reference("paddle.median", constant=("out",))
def median(x, axis=None, keepdim=False, mode="avg", name=None, *, out=None):
    """Of an even number the mean of the two in the middle (float64 for float64, else float32), or the lower.

    NaN where there is one. With ``min`` along an axis, also the index: of the first NaN, or of the value.
    """
    _check_median(axis, mode)
    if isinstance(axis, (list, tuple)):
        raise ValueError("the axis should be one integer")
    if mode == "avg" and x.dtype != torch.float64:
        x = x.float()
    flat = together(x, axis)
    values, index = _middle(flat, torch.full(flat.shape[:-1], flat.shape[-1]), mode)
    if flat.is_floating_point() and flat.shape[-1]:
        holes = torch.isnan(flat)
        first = holes.to(torch.uint8).argmax(dim=-1)
        values = torch.where(holes.any(dim=-1), torch.full_like(values, math.nan), values)
        index = torch.where(holes.any(dim=-1), first, index)
    values = restored(values, x, axis, bool(keepdim))
    if mode == "min" and axis is not None:
        return values, restored(index, x, axis, bool(keepdim))
    return values


@reference("paddle.nanmedian")
def nanmedian(x, axis=None, keepdim=False, mode="avg", name=None):
    """The median of what is not NaN, in the dtype of ``x`` (of integers towards zero); NaN where nothing is left."""
    _check_median(axis, mode)
    flat = together(x, axis)
    holes = torch.isnan(flat)
    values, index = _middle(flat, (~holes).sum(dim=-1), mode)
    values = restored(values, x, axis, bool(keepdim))
    if mode == "min" and isinstance(axis, int):
        return values, restored(index, x, axis, bool(keepdim))
    return values


# Quantiles --------------------------------------------------------------------------------------


def _levels(q: Any, dtype: torch.dtype) -> list[torch.Tensor]:
    values = q.detach().reshape(-1).tolist() if isinstance(q, torch.Tensor) else q
    values = values if isinstance(values, (list, tuple)) else [values]
    if not values:
        raise ValueError("q should not be empty")
    numbers = [v.item() if isinstance(v, torch.Tensor) else v for v in values]
    if not all(0 <= v <= 1 for v in numbers):
        raise ValueError("q should be in [0, 1]")
    return [torch.tensor(v, dtype=dtype) for v in numbers]


def _at_rank(ordered: torch.Tensor, rank: torch.Tensor, interpolation: str) -> torch.Tensor:
    """The sorted values at a rank that need not be whole."""

    def pick(position: torch.Tensor) -> torch.Tensor:
        return ordered.gather(-1, position.long().unsqueeze(-1)).squeeze(-1)

    if interpolation == "nearest":
        return pick(torch.round(rank))
    below, above = torch.floor(rank), torch.ceil(rank)
    if interpolation == "lower":
        return pick(below)
    if interpolation == "higher":
        return pick(above)
    if interpolation == "midpoint":
        return (pick(above) + pick(below)) / 2
    return torch.lerp(pick(below), pick(above), rank - below)


def _quantile(x: torch.Tensor, q: Any, axis: Any, keepdim: bool, interpolation: str, ignore_nan: bool) -> torch.Tensor:
    """q * (n - 1) is a rank among the sorted values; several levels stand along a new first axis."""
    if interpolation not in ("linear", "lower", "higher", "nearest", "midpoint"):
        raise ValueError(f"interpolation {interpolation!r}")
    if isinstance(axis, tuple):
        raise ValueError("axes are given as a list")
    flat = together(x, axis)
    if flat.shape[-1] == 0:
        raise ValueError("there is no quantile of nothing")
    holes = torch.isnan(flat)
    count = (~holes).sum(dim=-1)
    ordered = torch.sort(flat, dim=-1).values
    results = []
    for level in _levels(q, x.dtype):
        rank = level * (count - 1).to(x.dtype)
        if ignore_nan:
            rank = rank.clamp(min=0)
        else:
            # NaN sorts last, and makes the quantile of its row NaN.
            rank = torch.where(holes.any(dim=-1), torch.full_like(rank, flat.shape[-1] - 1), rank)
        results.append(restored(_at_rank(ordered, rank, interpolation), x, axis, keepdim))
    return torch.stack(results) if len(results) > 1 else results[0]


@reference("paddle.quantile", constant=("q", "out"))
def quantile(x, q, axis=None, keepdim=False, interpolation="linear", name=None, *, out=None):
    return _quantile(x, q, axis, bool(keepdim), interpolation, ignore_nan=False)


@reference("paddle.nanquantile", constant=("q",))
def nanquantile(x, q, axis=None, keepdim=False, interpolation="linear"):
    return _quantile(x, q, axis, bool(keepdim), interpolation, ignore_nan=True)


# Histograms -------------------------------------------------------------------------------------


def histogram_range(data: torch.Tensor, low: float, high: float, margin: float) -> tuple[float, float]:
    """The range as given, that of the data where both ends are equal, widened by ``margin`` where it is a point."""
    if low == high:
        low, high = float(data.min()), float(data.max())
    if low == high:
        return low - margin, high + margin
    if low > high:
        raise ValueError("max must be larger than min")
    return low, high


@reference("paddle.histogram", constant=("weight",))
def histogram(input, bins=100, min=0.0, max=0.0, weight=None, density=False, name=None):
    """Counts (int64), or sums of weights or densities (float32), in equal bins; the last includes its end."""
    if weight is not None:
        same_dtype(input, weight)
    data = input.reshape(-1)
    if data.numel() == 0:
        return torch.zeros(bins, dtype=torch.float32 if density or weight is not None else torch.int64)
    low, high = histogram_range(data, float(min), float(max), 1.0)
    wide = data.double()
    inside = (wide >= low) & (wide <= high)
    place = torch.floor((wide - low) * bins / (high - low)).long().clamp(max=bins - 1)[inside]
    amount = None if weight is None else weight.reshape(-1).double()[inside]
    found = torch.bincount(place, amount, bins)
    if not density:
        return found if weight is None else found.float()
    return (found.double() / (found.sum() * (high - low) / bins)).float()


@reference("paddle.histogram_bin_edges")
def histogram_bin_edges(input, bins=100, min=0.0, max=0.0, name=None):
    if float(min) == float(max) != 0:
        # Unlike paddle.histogram, which looks at the data then.
        low, high = float(min) - 0.5, float(max) + 0.5
    else:
        low, high = histogram_range(input, float(min), float(max), 0.5)
    return torch.linspace(low, high, bins + 1, dtype=torch.float64).float()


@reference("paddle.histogramdd", constant=("weights",), no_gradient="counts are not differentiable")
def histogramdd(x, bins=10, ranges=None, density=False, weights=None, name=None):
    """Counts in the dtype of ``x`` in boxes, and the edges; as numpy.histogramdd."""
    dims = x.shape[-1]
    data = x.reshape(-1, dims)
    if isinstance(bins, tuple):
        edges = [edge.to(x.dtype) for edge in bins]
    else:
        counts = [bins] * dims if isinstance(bins, int) else list(bins)
        bounds = _ranges(data, ranges, dims)
        edges = [torch.linspace(low, high, n + 1, dtype=x.dtype) for n, (low, high) in zip(counts, bounds)]
    if len(edges) != dims:
        raise ValueError(f"bins for {len(edges)} dimensions, there are {dims}")
    weight = torch.ones(len(data), dtype=torch.float64) if weights is None else weights.reshape(-1).double()
    sizes = [len(edge) - 1 for edge in edges]
    flat, inside = torch.zeros(len(data), dtype=torch.int64), torch.ones(len(data), dtype=torch.bool)
    for axis, edge in enumerate(edges):
        column = data[:, axis].contiguous()
        place = torch.searchsorted(edge, column, right=True) - 1
        place = torch.where(column == edge[-1], sizes[axis] - 1, place)
        inside &= (place >= 0) & (place < sizes[axis])
        flat = flat * sizes[axis] + place
    found = torch.bincount(flat[inside], weight[inside], math.prod(sizes)).reshape(sizes)
    if density:
        found = found / found.sum()
        for axis, edge in enumerate(edges):
            width = edge.double().diff().reshape([-1 if i == axis else 1 for i in range(dims)])
            found = found / width
    return found.to(x.dtype), edges


def _ranges(data: torch.Tensor, ranges: Any, dims: int) -> list[tuple[float, float]]:
    if ranges is not None:
        if len(ranges) != 2 * dims:
            raise ValueError(f"ranges should have {2 * dims} numbers")
        return [(float(ranges[2 * i]), float(ranges[2 * i + 1])) for i in range(dims)]
    return [(float(data[:, i].min()), float(data[:, i].max())) for i in range(dims)]


@reference("paddle.bincount", constant=("weights",))
def bincount(x, weights=None, minlength=0, name=None):
    """Counts in int64; sums of weights in their dtype (float32 and float64), in float64 for integers."""
    return torch.bincount(x, weights, as_int(minlength))
