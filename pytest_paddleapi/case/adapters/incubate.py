"""Fused calls that return places for outputs that were not asked for."""

from __future__ import annotations

from typing import Any

import paddle

from .registry import adapter


def present(value: Any) -> Any:
    """The outputs that were computed; the others are None or tensors without memory."""
    if not isinstance(value, (list, tuple)):
        return value
    return type(value)(v for v in value if not _is_absent(v))


def _is_absent(value: Any) -> bool:
    return value is None or (isinstance(value, paddle.Tensor) and not value._is_initialized())


adapter(
    "paddle.incubate.nn.functional.fused_layer_norm",
    "paddle.incubate.nn.functional.fused_rms_norm",
    results=lambda value: list(present(value)) if isinstance(value, (list, tuple)) else [value],
    about="the outputs that the arguments ask for",
)
adapter(
    "paddle.incubate.nn.functional.fused_rotary_position_embedding",
    results=present,
    about="the outputs whose inputs were given",
)
