"""Values for products, distances and norms."""

from __future__ import annotations

from typing import Any

import numpy as np

from .makers import ordinary
from .registry import Draw, inputs


def tensordot_axes(draw: Draw) -> Any:
    """Axes as tensors: different ones, and on both sides of equal extent where the shapes allow it."""
    x, y = draw.shape_of("x"), draw.shape_of("y")
    count = int(np.prod(draw.shape, dtype=np.int64))
    if not draw.shape:
        limit = min(len(x), len(y))
        fitting = [k for k in range(limit + 1) if _fits(x[len(x) - k :], y[:k])]
        return np.asarray(fitting[-1] if fitting else 0)
    rank = min(len(x), len(y))
    return np.arange(count).reshape(draw.shape) % max(rank, 1)


def _fits(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    return all(a == b or 1 in (a, b) for a, b in zip(left, right))


def around_max_norm(draw: Draw) -> Any:
    """Slices along ``axis`` whose norms lie on both sides of ``max_norm``, far from it."""
    values = np.asarray(ordinary(draw))
    axis, p, limit = draw.arg("axis", 0), draw.arg("p", 2.0), draw.arg("max_norm", 1.0)
    if values.size == 0 or not isinstance(axis, int) or not -values.ndim <= axis < values.ndim or not p:
        return values
    rows = np.moveaxis(values, axis, 0)
    flat = np.abs(rows.reshape(rows.shape[0], -1)).astype(np.float64)
    norms = flat.max(1) if np.isinf(p) else (flat**p).sum(1) ** (1 / p)
    wanted = np.where(np.arange(len(norms)) % 2 == 0, 1.7, 0.5) * float(limit)
    return np.moveaxis(rows * (wanted / norms).reshape(-1, *[1] * (values.ndim - 1)), 0, axis)


def ascending_steps(draw: Draw) -> Any:
    """Sample points of an integral: ascending along the integrated axis, unevenly spaced."""
    axis = draw.arg("axis", -1) if len(draw.shape) > 1 else -1
    steps = draw.rng.uniform(0.1, 1.0, draw.shape)
    return np.cumsum(steps, axis=axis) if draw.shape else steps


def step(draw: Draw) -> Any:
    return draw.rng.uniform(0.2, 2.0, draw.shape)


inputs("paddle.tensordot", axes=tensordot_axes)
inputs("paddle.renorm", x=around_max_norm)
inputs("paddle.trapezoid", x=ascending_steps, dx=step)
inputs("paddle.cumulative_trapezoid", x=ascending_steps, dx=step)
