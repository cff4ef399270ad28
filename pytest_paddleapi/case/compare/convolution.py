"""Convolutions: element by element, with room for the rounding of their sums."""

from __future__ import annotations

import numpy as np
import torch

from .comparison import Comparison
from .long_sums import long_sum_tolerance, rms
from .registry import comparator

_NAMES = tuple(f"paddle.nn.functional.conv{n}d{kind}" for kind in ("", "_transpose") for n in (1, 2, 3))


@comparator(*_NAMES, meaning="element by element, with room for the rounding of long sums")
def convolution(c: Comparison) -> None:
    """Terms in a sum: channels times kernel for results, batch times positions for weights and bias."""
    if not c.same_structure():
        return
    (actual,), (expected,) = c.actual_leaves(), c.expected_leaves()
    x, weight = c.argument("x"), c.argument("weight")
    if not all(isinstance(v, np.ndarray) for v in (x, weight)) or not isinstance(expected, torch.Tensor):
        c.pair("output 0", actual, expected)
        c.count(outputs=1)
        return
    transposed = c.api.endswith("_transpose")
    fed = c.cotangents[0] if c.cotangents else None
    groups = max(int(c.argument("groups", 1)), 1)
    per_filter = weight.size / max(weight.shape[0], 1)
    per_channel = weight.size / max(weight.shape[1], 1) / groups
    inputs, outputs = x.size, expected.numel()
    channels_in = weight.shape[0] if transposed else weight.shape[1] * groups
    channels_out = weight.shape[1] * groups if transposed else weight.shape[0]
    positions = outputs / max(channels_out, 1)
    g, sx, sw = rms(fed), rms(x), rms(weight)
    scales = {
        "x": (per_filter if transposed else per_channel, g * sw),
        "weight": (inputs / max(channels_in, 1) if transposed else positions, g * sx),
        "bias": (positions, g),
    }
    terms = per_channel if transposed else per_filter
    c.pair("output 0", actual, expected, long_sum_tolerance(c, expected.dtype, terms, sx * sw))
    c.count(outputs=1)
    for name, got, wanted in c.gradient_pairs():
        c.pair(f"gradient of {name}", got, wanted, long_sum_tolerance(c, wanted.dtype, *scales[name]))
        c.count(gradients=1)
