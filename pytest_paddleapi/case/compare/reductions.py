"""Sums over axes, and gradients of broadcast operands, which are sums too: what adding many numbers may lose."""

from __future__ import annotations

import math

import torch

from .comparison import Comparison
from .long_sums import long_sum_tolerance, rms
from .registry import comparator
from .tolerance import Tolerance


def _summed(c: Comparison, expected: torch.Tensor, terms: float, size: float) -> Tolerance:
    return long_sum_tolerance(c, expected.dtype, terms, size)


def _input_size(c: Comparison) -> tuple[float, float]:
    """Number of elements and typical size of ``x``."""
    x = c.argument("x")
    return (float(x.size), rms(x)) if hasattr(x, "size") else (1.0, 1.0)


def _sum_outputs(c: Comparison, scale_by_terms: bool) -> None:
    if not c.same_structure():
        return
    count, size = _input_size(c)
    for index, (actual, expected) in enumerate(zip(c.actual_leaves(), c.expected_leaves())):
        tolerance = None
        if isinstance(expected, torch.Tensor) and expected.numel():
            terms = max(count / expected.numel(), 1.0)
            tolerance = _summed(c, expected, terms, size / terms if scale_by_terms else size)
        c.pair(f"output {index}", actual, expected, tolerance)
        c.count(outputs=1)


@comparator("paddle.sum", "paddle.nansum", "paddle.reduce_as", meaning="element by element, as far as long sums go")
def judge_sum(c: Comparison) -> None:
    """A sum of n terms is exact to n roundings of its partial sums."""
    _sum_outputs(c, scale_by_terms=False)
    c.gradients_elementwise()


@comparator("paddle.mean", "paddle.nanmean", meaning="element by element, as far as long sums go")
def judge_mean(c: Comparison) -> None:
    """A sum over its number of terms."""
    _sum_outputs(c, scale_by_terms=True)
    c.gradients_elementwise()


@comparator("paddle.cumsum", meaning="element by element, as far as long sums go")
def judge_cumsum(c: Comparison) -> None:
    """The last element is a sum of all along the axis, and so is the first of the gradient."""
    x = c.argument("x")
    length = max((float(v.numel()) for v in c.expected_leaves() if isinstance(v, torch.Tensor)), default=1.0)
    axis = c.argument("axis")
    if isinstance(axis, int) and -len(x.shape) <= axis < len(x.shape):
        length = float(x.shape[axis])
    if c.same_structure():
        for index, (actual, expected) in enumerate(zip(c.actual_leaves(), c.expected_leaves())):
            c.pair(f"output {index}", actual, expected, _summed(c, expected, length, rms(x)))
            c.count(outputs=1)
    for name, actual, expected in c.gradient_pairs():
        size = rms(next((g for g in c.cotangents if g is not None), None))
        c.pair(f"gradient of {name}", actual, expected, _summed(c, expected, length, size))
        c.count(gradients=1)


_BINARY = (
    *("add", "subtract", "sub", "multiply", "mul", "divide", "div", "true_divide", "floor_divide"),
    *("remainder", "mod", "floor_mod", "pow", "maximum", "minimum", "fmax", "fmin", "atan2", "hypot", "copysign"),
    *("heaviside", "logaddexp", "ldexp", "lerp", "complex", "polar", "gammainc", "gammaincc"),
)
_OPERATORS = ("add", "sub", "mul", "truediv", "div", "floordiv", "mod", "pow")


@comparator(
    *(f"paddle.{name}" for name in _BINARY),
    *(f"paddle.Tensor.__{side}{name}__" for name in _OPERATORS for side in ("", "r")),
    "paddle.nn.functional.prelu",
    meaning="element by element; gradients of broadcast operands as far as long sums go",
)
def judge_broadcast(c: Comparison) -> None:
    """The gradient of an operand that was broadcast is a sum over the axes that it was repeated along."""
    c.outputs_elementwise()
    largest = max((g.numel() for g in c.cotangents if g is not None), default=1)
    fed = max((rms(g) for g in c.cotangents if g is not None), default=1.0)
    for name, actual, expected in c.gradient_pairs():
        terms = largest / max(expected.numel(), 1)
        tolerance = None
        if terms > 1:
            # Sums of terms of both signs grow with the root of their number: that gives the size of one. A
            # single sum may have cancelled, but its terms are seldom smaller than the output's gradient.
            size = max(rms(expected) / math.sqrt(terms), fed)
            tolerance = _summed(c, expected, terms, size)
        c.pair(f"gradient of {name}", actual, expected, tolerance)
        c.count(gradients=1)
