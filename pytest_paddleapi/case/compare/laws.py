"""Distributions that random results are judged by, and their probability integral transform.

A :class:`Law` knows its support and its distribution function ``F``. A result ``v`` that was rounded
stands for the interval [v - h, v + h] (integers: (v - 1, v]); ``F(left) + V (F(right) - F(left))`` with an
own uniform ``V`` is then exactly uniform if ``v`` follows the law (the randomised transform, Ferguson
1967), whatever the distribution, also where each value has its own parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .statistics_checks import Array, repetition_problem, sample_positions, uniform_problems

Parameter = Any  # a number, or an array that broadcasts to the result


@dataclass(frozen=True)
class Law:
    """A distribution: ``cdf`` takes values and the parameters, broadcast to one shape."""

    name: str
    cdf: Callable[..., Array]
    parameters: tuple[Parameter, ...]
    low: Parameter = -math.inf
    high: Parameter = math.inf
    discrete: bool = False


def normal(mean: Parameter, std: Parameter) -> Law:
    """Normal distribution; ``std`` 0 gives ``mean`` itself."""
    return Law("normal", lambda v, m, s: _phi(_standardised(v, m, s)), (mean, std))


def log_normal(mean: Parameter, std: Parameter) -> Law:
    """exp of a normal distribution."""

    def cdf(v: Array, m: Array, s: Array) -> Array:
        with np.errstate(divide="ignore"):
            inside = _phi(_standardised(np.log(np.maximum(v, 0.0)), m, s))
        return np.asarray(np.where(v <= 0, 0.0, inside))

    return Law("log-normal", cdf, (mean, std), low=0.0)


def truncated_normal(mean: float, std: float, low: float, high: float) -> Law:
    """Normal distribution, conditioned on [low, high]."""

    def cdf(v: Array, m: Array, s: Array, a: Array, b: Array) -> Array:
        first, last = _phi((a - m) / s), _phi((b - m) / s)
        return np.asarray(np.clip((_phi((v - m) / s) - first) / (last - first), 0.0, 1.0))

    return Law("truncated normal", cdf, (mean, std, low, high), low, high)


def uniform(low: float, high: float) -> Law:
    """Uniform distribution between the two; rounding may reach either."""
    low, high = min(low, high), max(low, high)

    def cdf(v: Array, a: Array, b: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(b > a, np.clip((v - a) / (b - a), 0.0, 1.0), (v >= a).astype(np.float64))

    return Law("uniform", cdf, (low, high), low, high)


def exponential(rate: Parameter) -> Law:
    """Exponential distribution of the given rate."""
    return Law("exponential", lambda v, r: -np.expm1(-r * np.maximum(v, 0.0)), (rate,), low=0.0)


def cauchy(location: Parameter, scale: Parameter) -> Law:
    """Cauchy distribution."""
    return Law("Cauchy", lambda v, m, s: 0.5 + np.arctan((v - m) / s) / math.pi, (location, scale))


def gamma(shape: Parameter) -> Law:
    """Gamma distribution with rate 1."""

    def cdf(v: Array, a: Array) -> Array:
        return _torch(torch.special.gammainc, np.maximum(a, 1e-300), np.clip(v, 0.0, 1e300))

    return Law("gamma", cdf, (shape,), low=0.0)


def integers(low: int, high: int) -> Law:
    """Whole numbers in [low, high), all equally likely."""

    def cdf(v: Array, a: Array, b: Array) -> Array:
        return np.asarray(np.clip((np.floor(v) - a + 1.0) / (b - a), 0.0, 1.0))

    return Law("integers", cdf, (low, high), low, high - 1, discrete=True)


def poisson(rate: Parameter) -> Law:
    """Poisson distribution."""

    def cdf(v: Array, r: Array) -> Array:
        inside = np.maximum(np.floor(v), 0.0) + 1.0
        return np.where(v < 0, 0.0, np.where(r <= 0, 1.0, _torch(torch.special.gammaincc, inside, np.maximum(r, 0.0))))

    return Law("Poisson", cdf, (rate,), low=0.0, discrete=True)


def geometric(probability: Parameter) -> Law:
    """Number of trials up to the first success: 1, 2, ..."""

    def cdf(v: Array, p: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(v < 1, 0.0, -np.expm1(np.floor(v) * np.log1p(-p)))

    return Law("geometric", cdf, (probability,), low=1.0, discrete=True)


def binomial(count: Parameter, probability: Parameter) -> Law:
    """Binomial distribution."""

    def cdf(v: Array, n: Array, p: Array) -> Array:
        k = np.floor(v)
        inside = (k >= 0) & (k < n) & (p > 0) & (p < 1)
        a, b = np.where(inside, n - k, 1.0), np.where(inside, k + 1.0, 1.0)
        found = incomplete_beta(a, b, np.where(inside, 1.0 - p, 0.5))
        edge = np.where(k < 0, 0.0, np.where((k >= n) | (p <= 0), 1.0, 0.0))
        return np.where(inside, found, edge)

    return Law("binomial", cdf, (count, probability), 0.0, count, discrete=True)


def categorical(weights: Array) -> Law:
    """Indices into rows of weights (rows, categories); the values have shape (rows, samples)."""
    total = np.cumsum(np.asarray(weights, np.float64), axis=-1)
    total = total / total[..., -1:]

    def cdf(v: Array) -> Array:
        index = np.clip(v, 0, total.shape[-1] - 1).astype(np.int64)
        return np.where(v < 0, 0.0, np.take_along_axis(total, index, axis=-1))

    return Law("categorical", cdf, (), 0, total.shape[-1] - 1, discrete=True)


def law_problems(law: Law, values: torch.Tensor, what: str) -> list[str]:
    """What speaks against ``values`` (real) being independent draws from ``law``."""
    if values.numel() == 0:
        return []
    problem = _support_problem(law, values, what)
    if problem:
        return [problem]
    sample, parameters, shape = _sampled(law, values)
    left, right = _interval(sample, values.dtype, law.discrete)
    first, last = law.cdf(left, *parameters), law.cdf(right, *parameters)
    noise = np.random.Generator(np.random.PCG64(20240229)).random(first.shape)
    problems = uniform_problems(first + noise * (last - first), f"{what} ({law.name})", shape)
    if not law.discrete and values.dtype in (torch.float32, torch.float64) and _is_spread(first, last):
        repeated = repetition_problem(sample, f"{what} ({law.name})")
        problems += [repeated] if repeated else []
    return problems


def _sampled(law: Law, values: torch.Tensor) -> tuple[Array, list[Array], tuple[int, ...] | None]:
    """At most as many values as the statistics take, with their parameters, and the shape if it is whole."""
    array = values.double().numpy()
    parameters = [np.broadcast_to(np.asarray(p, np.float64), array.shape) for p in law.parameters]
    where = sample_positions(array.size)
    if where.stop == array.size or law.name == "categorical":
        return array, parameters, array.shape
    return array.reshape(-1)[where], [p.reshape(-1)[where] for p in parameters], None


def _support_problem(law: Law, values: torch.Tensor, what: str) -> str | None:
    count = values.numel()
    if values.is_floating_point() and bool(values.isnan().any()):
        return f"{what}: {int(values.isnan().sum())} of {count} values are NaN"
    low, high = (_bound(b, values) for b in (law.low, law.high))
    if law.discrete and values.is_floating_point():
        broken = values.double() != values.double().round()
        if bool(broken.any()):
            worst = values[broken][0].item()
            return (
                f"{what}: {int(broken.sum())} of {count} values are no whole numbers, which the {law.name} "
                f"distribution gives only, such as {worst!r}"
            )
    outside = (values < low) | (values > high)
    if bool(outside.any()):
        worst = values[outside][0].item()
        return (
            f"{what}: {int(outside.sum())} of {count} values lie outside the {law.name} distribution, such as {worst!r}"
        )
    return None


def _bound(bound: Parameter, values: torch.Tensor) -> torch.Tensor:
    """A bound as the result's own dtype has it, so that a rounded bound is not outside."""
    if isinstance(bound, float) and math.isinf(bound):
        return torch.tensor(bound, dtype=torch.float64)
    return torch.as_tensor(np.asarray(bound)).to(values.dtype)


def _interval(values: Array, dtype: torch.dtype, discrete: bool) -> tuple[Array, Array]:
    if discrete:
        return values - 1.0, values
    info = torch.finfo(dtype)
    half = 0.5 * float(info.eps) * np.abs(values) + 0.5 * float(info.smallest_normal) * float(info.eps)
    endless = np.isinf(values)
    with np.errstate(invalid="ignore"):
        left = np.where(endless, np.where(values > 0, float(info.max), -math.inf), values - half)
        right = np.where(endless, np.where(values > 0, math.inf, float(info.min)), values + half)
    return left, right


def _is_spread(first: Array, last: Array) -> bool:
    """The dtype is fine enough for the law: hardly any value has a share of its own."""
    return bool((last - first).max(initial=0.0) < 1e-6)


def _standardised(v: Array, mean: Array, std: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(std > 0, (v - mean) / std, np.where(v < mean, -math.inf, math.inf))


def _phi(z: Array) -> Array:
    return _torch(torch.special.ndtr, z)


def _torch(function: Callable[..., torch.Tensor], *arrays: Array) -> Array:
    return np.asarray(function(*(torch.from_numpy(np.ascontiguousarray(a, np.float64)) for a in arrays)).numpy())


def incomplete_beta(a: Array, b: Array, x: Array) -> Array:
    """The regularised incomplete beta function I_x(a, b), to about 1e-10.

    By its continued fraction (DLMF 8.17.22), evaluated with the modified Lentz method where it converges
    fast, x < (a + 1) / (a + b + 2), and by I_x(a, b) = 1 - I_{1-x}(b, a) elsewhere.
    """
    a, b, x = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (a, b, x)))
    swap = x > (a + 1.0) / (a + b + 2.0)
    p, q, z = np.where(swap, b, a), np.where(swap, a, b), np.where(swap, 1.0 - x, x)
    tiny = 1e-300
    c, d = np.ones_like(z), 1.0 - (p + q) * z / (p + 1.0)
    d = 1.0 / np.where(np.abs(d) < tiny, tiny, d)
    fraction = d.copy()
    for m in range(1, 2000):
        for top in (
            m * (q - m) * z / ((p + 2 * m - 1) * (p + 2 * m)),
            -(p + m) * (p + q + m) * z / ((p + 2 * m) * (p + 2 * m + 1)),
        ):
            d = 1.0 + top * d
            c = 1.0 + top / c
            d = 1.0 / np.where(np.abs(d) < tiny, tiny, d)
            c = np.where(np.abs(c) < tiny, tiny, c)
            step = c * d
            fraction = fraction * step
        if np.abs(step - 1.0).max(initial=0.0) < 1e-12:
            break
    log_gamma = torch.special.gammaln
    with np.errstate(divide="ignore"):
        front = p * np.log(z) + q * np.log1p(-z)
    front = front + _torch(log_gamma, p + q) - _torch(log_gamma, p) - _torch(log_gamma, q)
    value = np.exp(front) * fraction / p
    return np.asarray(np.where(swap, 1.0 - value, value))
