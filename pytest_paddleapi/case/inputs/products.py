"""Values for products, distances and norms."""

from __future__ import annotations

from typing import Any

import numpy as np

from .makers import ordinary
from .registry import Draw, InputError, inputs


def tensordot_axes(draw: Draw) -> Any:
    """Axes as tensors: one list for both sides, or a list for each, of equal extents."""
    x, y = draw.shape_of("x"), draw.shape_of("y")
    if not draw.shape:
        return np.zeros(())
    count = draw.shape[-1]
    pairs = _pairs(x, y, count, same=len(draw.path) == 1 and len(draw.shape) == 1)
    sides = np.asarray(pairs, dtype=np.int64).reshape(-1, 2).T
    if sides.shape[1] < count:
        raise InputError(f"{list(x)} and {list(y)} have no {count} axes of equal extents")
    if len(draw.shape) == 2:
        return sides[: draw.shape[0]]
    return sides[draw.path[1] if len(draw.path) > 1 else 0]


def _pairs(x: tuple[int, ...], y: tuple[int, ...], count: int, *, same: bool) -> list[tuple[int, int]]:
    """Up to ``count`` pairs of axes that can be contracted, each axis once."""
    found: list[tuple[int, int]] = []
    for i, extent in enumerate(x):
        free = [j for j in range(len(y)) if y[j] == extent and j not in [b for _, b in found] and (j == i or not same)]
        if free and len(found) < count:
            found.append((i, free[0]))
    return found


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
