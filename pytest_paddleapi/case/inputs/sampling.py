"""Nucleus sampling: rows of probabilities, and masses between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .makers import uniform
from .registry import Draw, inputs


def distributions(draw: Draw) -> Any:
    """Rows that sum to one, some entries much likelier than others."""
    logits = 2.0 * draw.rng.standard_normal(draw.shape)
    odds = np.exp(logits - logits.max(axis=-1, keepdims=True, initial=-np.inf))
    return odds / odds.sum(axis=-1, keepdims=True)


inputs("paddle.tensor.top_p_sampling", "paddle.Tensor.top_p_sampling", x=distributions, ps=uniform(0.3, 0.9))
