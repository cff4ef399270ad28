"""Sizes as people write them."""

from __future__ import annotations

import math

import pytest

__all__ = ["LEAST_SIZE", "read_size"]

#: Less than the frameworks take for themselves is a slip of the unit.
LEAST_SIZE = 64 << 20
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def read_size(text: str, flag: str) -> int:
    """Bytes of a text such as ``16GiB``, ``500MB`` or ``1048576``.

    Raises:
        pytest.UsageError: it is none; the message names ``flag``.
    """
    number = text.strip().lower().removesuffix("b")
    digits = number.rstrip("kmgti")
    unit = _UNITS.get(number[len(digits) :])
    try:
        value = float(digits)
    except ValueError:
        value = -1.0
    if unit is None or not 0 < value < math.inf:
        raise pytest.UsageError(f"{flag}={text} is not a size: write bytes, or a number with MB, GB, MiB or GiB")
    return int(value * unit)
