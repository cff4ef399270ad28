"""Sums whose number of terms is known: how far rounding may take them apart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from .comparison import Comparison
from .tolerance import Tolerance

#: Adding n terms of size s one after the other passes through partial sums of about sqrt(n) s, each rounded
#: to eps/2 of itself, so the errors add up to about 0.3 eps n s (Higham, Accuracy and Stability of Numerical
#: Algorithms, section 4.2). The worst of many thousand elements is some five times that, and both sides err.
FACTOR = 2.0


def rms(values: Any) -> float:
    """Root mean square of a tensor or an array; 1 where it is empty, missing or not finite."""
    if values is None:
        return 1.0
    array = values.detach().double().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
    if array.size == 0:
        return 1.0
    array = np.abs(array.astype(np.complex128 if np.iscomplexobj(array) else np.float64))
    found = float(np.sqrt(np.mean(np.square(array))))
    return found if math.isfinite(found) else 1.0


def long_sum_tolerance(c: Comparison, dtype: torch.dtype, terms: float, size: float) -> Tolerance:
    """The ordinary tolerance, widened by what adding ``terms`` numbers of about ``size`` may lose."""
    tolerance = c.tolerance(dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        return tolerance
    # Half precision is summed in float32 on every device and rounded once.
    epsilon = torch.finfo(dtype if dtype not in (torch.float16, torch.bfloat16) else torch.float32).eps
    return tolerance.at_least(FACTOR * epsilon * terms * size, tolerance.rtol, f"{terms:.3g} terms were added up")
