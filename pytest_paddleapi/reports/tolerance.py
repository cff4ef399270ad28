"""How far a difference is from what the tolerance allows, as one number."""

from __future__ import annotations

import math
import re
from typing import Any

__all__ = ["excess", "number"]

_BOUNDS = re.compile(r"atol ([0-9.e+-]+|inf), rtol ([0-9.e+-]+|inf)")


def number(value: Any) -> float | None:
    """A stored measurement; ``nan`` and infinities stand as text in a results file."""
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None


def excess(max_abs: Any, max_rel: Any, tolerance: Any) -> float | None:
    """The smaller of ``max_abs / atol`` and ``max_rel / rtol``; None where nothing was measured.

    An element passes if ``|difference| <= atol + rtol * |expected|``. So up to 1 every element passes; and where one
    fails, both quotients exceed 1. (Above 1 a case may pass all the same: the two maxima may be of different elements,
    and the two allowances add up.) NaN and infinite differences are infinite; so is any difference from tolerance zero.
    """
    found = _BOUNDS.search(str(tolerance or ""))
    bounds = [number(text) for text in found.groups()] if found is not None else []
    quotients = [
        _quotient(difference, bound)
        for difference, bound in zip((number(max_abs), number(max_rel)), bounds)
        if difference is not None and bound is not None
    ]
    return min(quotients, default=None)


def _quotient(difference: float, bound: float) -> float:
    if math.isnan(difference) or math.isinf(difference):
        return math.inf
    if difference == 0.0:
        return 0.0
    return difference / bound if bound > 0.0 else math.inf
