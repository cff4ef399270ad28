"""Inputs of dropout-like APIs."""

from __future__ import annotations

from .makers import integers, uniform
from .registry import Draw, inputs


def classes(draw: Draw) -> object:
    """Labels below ``num_classes``."""
    count = draw.arg("num_classes")
    return integers(0, count if isinstance(count, int) else 10)(draw)


inputs("paddle.nn.functional.dropout", p=uniform(0.2, 0.8))
inputs("paddle.nn.functional.dropout2d", p=uniform(0.2, 0.8))
inputs("paddle.nn.functional.dropout3d", p=uniform(0.2, 0.8))
inputs("paddle.incubate.nn.functional.fused_dropout_add", p=uniform(0.2, 0.8))
inputs("paddle.nn.functional.class_center_sample", label=classes)
