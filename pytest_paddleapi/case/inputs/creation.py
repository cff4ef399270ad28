"""Shapes, bounds and steps given as tensors."""

from __future__ import annotations

from typing import Any

from ...config import FLOATING
from .makers import integers, ordinary, uniform
from .registry import Draw, inputs

small_sizes = integers(1, 5)


def fill(draw: Draw) -> Any:
    """A number that any dtype can hold."""
    return draw.rng.integers(0, 2, draw.shape) if draw.dtype == "bool" else draw.rng.integers(1, 9, draw.shape)


for _name in ("zeros", "ones", "empty"):
    inputs(f"paddle.{_name}", sizes=small_sizes, shape=small_sizes)
for _name in ("new_zeros", "new_ones", "new_empty"):
    inputs(f"paddle.Tensor.{_name}", sizes=small_sizes, size=small_sizes)
inputs("paddle.Tensor.new_full", size=small_sizes, fill_value=fill)
inputs("paddle.full", shape=small_sizes, fill_value=fill)
inputs("paddle.full_like", fill_value=fill)
inputs("paddle.eye", num_rows=small_sizes, num_columns=small_sizes)


def first(draw: Draw) -> Any:
    return draw.rng.integers(-2, 3, draw.shape)


def last(draw: Draw) -> Any:
    return draw.rng.integers(5, 12, draw.shape)


def step(draw: Draw) -> Any:
    """Exact in binary, so that the number of steps is certain."""
    return (
        draw.rng.choice([0.5, 1.0, 2.0], draw.shape) if draw.dtype in FLOATING else draw.rng.integers(1, 4, draw.shape)
    )


inputs(
    "paddle.arange",
    "paddle.range",
    start=lambda draw: last(draw) if draw.arg("end") is None else first(draw),
    end=last,
    step=step,
)
inputs("paddle.linspace", start=first, stop=last, num=integers(2, 9))
inputs("paddle.logspace", start=integers(0, 3), stop=integers(2, 5), num=integers(2, 7), base=uniform(1.5, 3.0))
inputs("paddle.vander", x=ordinary)
