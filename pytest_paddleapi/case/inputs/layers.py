"""Inputs of normalisations, embeddings, paddings and resamplings."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...config import TensorSpec
from .makers import index_values, integers, probabilities, uniform
from .registry import Draw, inputs

_F = "paddle.nn.functional."

inputs(_F + "batch_norm", running_var=uniform(0.5, 2.0))
inputs(_F + "instance_norm", running_var=uniform(0.5, 2.0))


def rows_of_weight(draw: Draw) -> Any:
    """Row numbers; the padding row, where there is one, among them."""
    rows = draw.shape_of("weight")[0] if draw.shape_of("weight") else 1
    values = np.asarray(index_values(draw, rows))
    padding = draw.arg("padding_idx")
    if isinstance(padding, int) and values.size > 2 and rows > 1:
        flat = values.reshape(-1)
        flat[int(draw.rng.integers(2, flat.size))] = padding % rows
    return values


inputs(_F + "embedding", x=rows_of_weight)


def classes(draw: Draw) -> Any:
    """Labels below ``num_classes``, which may be a tensor or, as -1, unknown."""
    count = draw.arg("num_classes", -1)
    if isinstance(count, TensorSpec):
        count = int(np.asarray(draw.values("num_classes")).reshape(-1)[0])
    return index_values(draw, count if isinstance(count, int) and count > 0 else 7)


inputs(_F + "one_hot", x=classes, num_classes=integers(5, 9))
inputs(_F + "label_smooth", label=probabilities, prior_dist=probabilities)


def pad_amounts(draw: Draw) -> Any:
    """Amounts that fit the axis that they pad, from the last one forward: reflections need them smaller."""
    flat = np.zeros(int(np.prod(draw.shape, dtype=np.int64)), np.int64)
    sizes = draw.shape_of("x")
    last = str(draw.arg("data_format") or "NC")
    axes = sizes[1:-1] if last.endswith("C") and len(last) > 2 else sizes[2:]
    for index in range(flat.size):
        size = axes[-1 - index // 2] if index // 2 < len(axes) else 3
        flat[index] = draw.rng.integers(0, max(1, min(size, 4)))
    if flat.size:
        flat[0] = min(1, max((axes[-1] if axes else 2) - 1, 0))
    return flat.reshape(draw.shape)


def one_pad_amount(draw: Draw) -> Any:
    return pad_amounts(draw) if len(draw.path) == 1 else draw.rng.integers(0, 3, draw.shape)


inputs(_F + "pad", pad=one_pad_amount)
inputs(_F + "zeropad2d", padding=one_pad_amount)


def resampled_size(draw: Draw) -> Any:
    """Output sizes near the input's, for a tensor in place of, or among, numbers."""
    n = len(draw.shape_of("x")) - 2
    return draw.rng.integers(3, 12, draw.shape) if n else np.ones(draw.shape)


def resampling_scale(draw: Draw) -> Any:
    """Scales that float32 holds exactly."""
    return np.asarray([0.5, 1.5, 2.0, 2.5, 3.0])[draw.rng.integers(0, 5, draw.shape)]


for _name in ("interpolate", "upsample"):
    inputs(_F + _name, size=resampled_size, scale_factor=resampling_scale)


def sampling_grid(draw: Draw) -> Any:
    """Places within and somewhat outside the image, away from the pixels' centres and borders.

    A coordinate is turned into pixels as ``grid_sample`` does, drawn there with a fraction in
    [0.1, 0.4] or [0.6, 0.9], and turned back.
    """
    shape = draw.shape
    sizes = list(reversed(draw.shape_of("x")[2:]))
    if not shape or shape[-1] != len(sizes) or 0 in sizes:
        return uniform(-1.2, 1.2)(draw)
    corners = draw.arg("align_corners", True)
    parts = []
    for size in sizes:
        reach = max(1, min(size // 4, 2))
        whole = draw.rng.integers(-reach, size - 1 + reach, shape[:-1])
        fraction = draw.rng.uniform(0.1, 0.4, shape[:-1]) + 0.5 * draw.rng.integers(0, 2, shape[:-1])
        pixel = whole + fraction
        if corners:
            parts.append(2 * pixel / (size - 1) - 1 if size > 1 else draw.rng.uniform(-0.9, 0.9, shape[:-1]))
        else:
            parts.append((2 * pixel + 1) / size - 1)
    return np.stack(parts, axis=-1)


inputs(_F + "grid_sample", grid=sampling_grid)


def grid_shape(draw: Draw) -> Any:
    """[batch, channels, (depth,) height, width] for the matrices in ``theta``; one number, where it is one of
    a list, by its place."""
    theta = draw.shape_of("theta")
    axes = 4 if len(theta) < 2 or theta[1] == 2 else 5
    values = np.asarray([theta[0] if theta else 1, 3, *(4 + i for i in range(axes - 2))])
    if len(draw.path) > 1:
        return np.full(draw.shape, values[draw.path[1]] if draw.path[1] < axes else 1)
    return np.resize(values, draw.shape)


inputs(_F + "affine_grid", out_shape=grid_shape)
