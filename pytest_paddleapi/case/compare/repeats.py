"""Elements that are used many times: their gradient is a sum over all uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .comparison import Comparison
from .long_sums import long_sum_tolerance, rms
from .registry import comparator


def _uses(c: Comparison, gradient: torch.Tensor) -> float:
    """How often one element of an input is used: evenly, or as often as its index is named."""
    results = [value.numel() for value in c.cotangents if value is not None]
    if not results or not gradient.numel():
        return 1.0
    evenly = max(results) / gradient.numel()
    named = [most_named(c.argument(name)) for name in ("index", "indices", "item", "repeats")]
    return max([evenly, *named])


def most_named(index: Any) -> float:
    """How often the most frequent number of an index tensor occurs; 1 where there is none.

    For an index of several columns or tensors this counts too many uses, never too few.
    """
    if isinstance(index, (list, tuple)):
        found = [most_named(part) for part in index if isinstance(part, np.ndarray)]
        return max(found, default=1.0)
    if not isinstance(index, np.ndarray) or not index.size or index.dtype.kind not in "iu":
        return 1.0
    return float(np.unique(index, return_counts=True)[1].max())


@comparator(
    "paddle.expand",
    "paddle.expand_as",
    "paddle.broadcast_to",
    "paddle.broadcast_tensors",
    "paddle.tile",
    "paddle.Tensor.repeat",
    "paddle.repeat_interleave",
    "paddle.cartesian_prod",
    "paddle.combinations",
    "paddle.gather",
    "paddle.gather_nd",
    "paddle.index_select",
    "paddle.index_sample",
    "paddle.take",
    "paddle.take_along_axis",
    "paddle.take_along_dim",
    "paddle.Tensor.__getitem__",
    "paddle.where",
    "paddle.masked_fill",
    "paddle.as_strided",
    meaning="element by element; a gradient that sums over many uses, as exact as that sum",
)
def judge_repeated(c: Comparison) -> None:
    """Outputs are copies and agree; gradients are sums of known length."""
    c.outputs_elementwise()
    for name, actual, expected in c.gradient_pairs():
        uses = _uses(c, expected)
        tolerance = long_sum_tolerance(c, expected.dtype, uses, _size(c)) if uses > 64 else None
        c.pair(f"gradient of {name}", actual, expected, tolerance)
        c.count(gradients=1)


def _size(c: Comparison) -> float:
    """The size of the output gradients; a million elements of each tell it well enough."""
    return max((rms(value.reshape(-1)[:1_000_000]) for value in c.cotangents if value is not None), default=1.0)
