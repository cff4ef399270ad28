"""Inputs of random APIs: probabilities, rates, weights, and shapes that stay small."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...config import TensorSpec
from .makers import integers, uniform
from .registry import Draw, inputs


def extents(draw: Draw) -> Any:
    """A shape, or one extent of it, given as a tensor: such that at most some 4,096 elements come of it."""
    whole = draw.arg(str(draw.path[0]))
    rank = draw.spec.numel if isinstance(whole, TensorSpec) else len(whole)
    return draw.rng.integers(1, max(2, int(4096 ** (1.0 / max(rank, 1)))) + 1, draw.shape).clip(1, 16)


def chances(draw: Draw) -> Any:
    """Probabilities in [0, 1], some of them 0 and some 1."""
    values = draw.rng.random(draw.shape)
    kind = draw.rng.random(draw.shape)
    return np.where(kind < 0.05, 0.0, np.where(kind > 0.95, 1.0, values))


def rates(draw: Draw) -> Any:
    """Rates of a Poisson distribution: small and large ones, which kernels treat by different methods."""
    small, large = draw.rng.uniform(0.1, 8.0, draw.shape), draw.rng.uniform(12.0, 60.0, draw.shape)
    return np.where(draw.rng.random(draw.shape) < 0.3, large, small)


def weights(draw: Draw) -> Any:
    """Weights of categories (not normalised); some are 0 where enough others remain to draw from."""
    values = draw.rng.uniform(0.1, 1.0, draw.shape)
    if not draw.shape or not values.size:
        return values
    count = draw.arg("num_samples", 1)
    needed = count if isinstance(count, int) and not draw.arg("replacement", False) else 1
    spare = (draw.shape[-1] - needed) // 4
    if spare > 0:
        values[..., draw.rng.permutation(draw.shape[-1])[:spare]] = 0.0
    return values


for _api in ("paddle.rand", "paddle.randn"):
    inputs(_api, shape=extents, args=extents, size=extents)
inputs("paddle.uniform", shape=extents, min=uniform(-2.0, -1.0), max=uniform(1.0, 2.0))
inputs("paddle.standard_normal", shape=extents)
inputs("paddle.randint", shape=extents)
inputs("paddle.normal", shape=extents, std=uniform(0.5, 2.0))
inputs("paddle.normal_", std=uniform(0.5, 2.0))
inputs("paddle.log_normal", shape=extents, mean=uniform(-1.0, 1.0), std=uniform(0.25, 1.0))
inputs("paddle.bernoulli", x=chances)
inputs("paddle.bernoulli_", p=chances)
inputs("paddle.poisson", x=rates)
inputs("paddle.standard_gamma", x=uniform(0.2, 6.0))
inputs("paddle.binomial", count=integers(1, 60), prob=uniform(0.05, 0.95))
inputs("paddle.multinomial", x=weights, num_samples=integers(1, 3))
inputs("paddle.geometric_", probs=uniform(0.2, 0.8))
inputs("paddle.randperm", n=integers(5, 50))
