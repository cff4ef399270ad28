"""Values for norms."""

from __future__ import annotations

from typing import Any

import numpy as np

from .makers import ordinary
from .registry import Draw, inputs


def counted(draw: Draw) -> Any:
    """Ordinary values; for the norm of order 0, which counts those that are not zero, a third of them are."""
    values = np.asarray(ordinary(draw))
    if draw.arg("p") == 0 and not isinstance(draw.arg("p"), str):
        return np.where(draw.rng.random(draw.shape) < 0.33, 0, values)
    return values


inputs("paddle.norm", "paddle.linalg.norm", "paddle.linalg.vector_norm", x=counted)
