"""Inputs of pooling: maxima without ties, powers of positive numbers, indices that a pooling could have made."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...config import FLOATING
from .makers import distinct, ordinary
from .registry import Draw, inputs


def positive(draw: Draw) -> Any:
    """Magnitudes of ordinary values: a power is defined for every exponent, and even ones lose no sign."""
    return np.abs(ordinary(draw))


#: How many values an octave-spanning ladder may have so that rounding to the dtype keeps them apart.
_STEPS = {"float16": 2000, "bfloat16": 400}


def distinct_nearby(draw: Draw) -> Any:
    """Values that differ within every window: a permutation in each plane of batch and channel.

    In half precision there are too few numbers for a large plane; there a smaller block repeats.
    """
    if len(draw.shape) < 3 or draw.dtype not in FLOATING:
        return distinct(draw)
    last = str(draw.arg("data_format", "NC")).endswith("C") and len(str(draw.arg("data_format", "NC"))) > 2
    planes = (draw.shape[0], draw.shape[-1]) if last else draw.shape[:2]
    sizes = draw.shape[1:-1] if last else draw.shape[2:]
    block = list(sizes)
    while math.prod(block) > _STEPS.get(draw.dtype, math.inf):
        largest = block.index(max(block))
        block[largest] = -(-block[largest] // 2)
    count = math.prod(block)
    order = draw.rng.permuted(np.broadcast_to(np.arange(count), (math.prod(planes), count)), axis=1)
    values = ((order - count / 2) * (4.0 / max(count, 1)) + 1e-3).reshape(*planes, *block)
    values = np.tile(values, (1, 1, *(-(-size // b) if b else 1 for size, b in zip(sizes, block))))
    values = values[(slice(None), slice(None), *(slice(size) for size in sizes))]
    return np.moveaxis(values, 1, -1) if last else values


def unpool_indices(draw: Draw) -> Any:
    """For each element its own place in the flattened output, as pooling with a mask gives it.

    Each window of the pooling that is undone contributes one of its elements; windows that overlap may name
    the same element only in the real pooling, so here each place is used once.
    """
    shape = draw.shape
    n = len(shape) - 2
    if n < 1 or 0 in shape:
        return np.zeros(shape, np.int64)
    kernel = _spread(draw.arg("kernel_size"), n)
    stride = _spread(draw.arg("stride"), n) or kernel
    padding = _spread(draw.arg("padding", 0), n)
    count = math.prod(shape[2:])
    sizes = [(size - 1) * s + k - 2 * p for size, s, k, p in zip(shape[2:], stride, kernel, padding)]
    wanted = draw.arg("output_size")
    if isinstance(wanted, (list, tuple)) and all(isinstance(v, int) for v in wanted):
        sizes = list(wanted)[-n:]
    total = math.prod(max(size, 0) for size in sizes)
    if total < count:
        return np.zeros(shape, np.int64)
    rows = math.prod(shape[:2])
    flat = np.stack([draw.rng.permutation(total)[:count] for _ in range(rows)])
    return flat.reshape(shape)


def _spread(value: Any, n: int) -> list[int]:
    if isinstance(value, int):
        return [value] * n
    if isinstance(value, (list, tuple)) and all(isinstance(v, int) for v in value):
        return list(value) * n if len(value) == 1 else list(value)[-n:]
    return [] if value is None else [1] * n


def pooled_size(draw: Draw) -> Any:
    """Sizes of the result, where they come as tensors."""
    return draw.rng.integers(2, 5, draw.shape)


_MAXIMA = [f"paddle.nn.functional.{kind}{n}d" for kind in ("max_pool", "adaptive_max_pool") for n in (1, 2, 3)]
_MAXIMA += [f"paddle.nn.functional.fractional_max_pool{n}d" for n in (2, 3)]
inputs(*_MAXIMA, x=distinct_nearby, output_size=pooled_size)
inputs(*(f"paddle.nn.functional.adaptive_avg_pool{n}d" for n in (1, 2, 3)), output_size=pooled_size)
inputs("paddle.nn.functional.lp_pool1d", "paddle.nn.functional.lp_pool2d", x=positive)
inputs(*(f"paddle.nn.functional.max_unpool{n}d" for n in (1, 2, 3)), indices=unpool_indices)
