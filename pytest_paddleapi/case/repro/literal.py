"""Plain values as Python source."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...config import DtypeRef, TypeRef


def literal(value: Any, other: Callable[[Any], str]) -> str:
    """Source that gives ``value``; ``other`` writes what is no plain value.

    Raises:
        LookupError: it cannot be written.
    """
    if isinstance(value, list):
        return f"[{', '.join(other(item) for item in value)}]"
    if isinstance(value, tuple) and type(value) is tuple:
        inside = ", ".join(other(item) for item in value)
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{other(key)}: {other(item)}" for key, item in value.items()) + "}"
    if isinstance(value, slice):
        return f"slice({other(value.start)}, {other(value.stop)}, {other(value.step)})"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f'float("{value}")'
    if isinstance(value, complex):
        return f"complex({literal(value.real, other)}, {literal(value.imag, other)})"
    if value is Ellipsis:
        return "..."
    if isinstance(value, DtypeRef):
        return f'DtypeRef("{value.name}", "{value.kind}")'
    if isinstance(value, TypeRef):
        return f'TypeRef("{value.name}")'
    if value is None or isinstance(value, (bool, int, str, bytes)):
        return repr(value)
    raise LookupError(f"a {type(value).__name__} cannot be written into a script")
