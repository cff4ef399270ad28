"""Under which dtype a case stands in the report."""

from __future__ import annotations

import re

__all__ = ["NO_TENSOR", "leading_dtype"]

#: Of a call without tensors.
NO_TENSOR = "none"

_TENSOR = re.compile(r"Tensor\(\[[^\]]*\],\s*[\"']([a-z0-9_]+)[\"']")
_INEXACT = ("float", "bfloat", "complex")


def leading_dtype(config: str) -> str:
    """The dtype of the first floating or complex tensor of a call, whose kernel is what is tested; without one that
    of its first tensor, since the others are mostly indices and masks; without any tensor :data:`NO_TENSOR`."""
    found = _TENSOR.findall(config)
    return next((dtype for dtype in found if dtype.startswith(_INEXACT)), found[0] if found else NO_TENSOR)
