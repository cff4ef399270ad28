"""Inputs of transposed convolutions: the size of the result, where it comes as a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from .registry import Draw, inputs


def transposed_size(draw: Draw) -> Any:
    """The smallest size that the call can give, for each axis, so that any stride allows it.

    Where the padding is not plain numbers it is left out of the sum.
    """
    x, weight = draw.shape_of("x"), draw.shape_of("weight")
    n = len(weight) - 2
    last = str(draw.arg("data_format", "NC")).endswith("C") and len(str(draw.arg("data_format", "NC"))) > 2
    spatial = x[1:-1] if last else x[2:]
    stride, dilation, padding = (
        _numbers(draw.arg(k, d), n) for k, d in (("stride", 1), ("dilation", 1), ("padding", 0))
    )
    sizes = [
        (size - 1) * s + d * (k - 1) + 1 - 2 * p
        for size, s, d, k, p in zip(spatial, stride, dilation, weight[2:], padding)
    ]
    if len(draw.path) > 1 and draw.path[1] < len(sizes):
        return np.full(draw.shape, sizes[draw.path[1]])
    return np.resize(sizes, draw.shape)


def _numbers(value: Any, n: int) -> list[int]:
    if isinstance(value, int):
        return [value] * n
    if isinstance(value, (list, tuple)) and all(isinstance(v, int) for v in value):
        return list(value)[:n] * (n if len(value) == 1 else 1)
    return [0] * n


inputs(*(f"paddle.nn.functional.conv{n}d_transpose" for n in (1, 2, 3)), output_size=transposed_size)
