"""One pair of tensors, element by element."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from .tolerance import Tolerance

#: float8 and float16 differences are taken in float32, where they are exact.
WIDER = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float8_e4m3fn: torch.float32,
    torch.float8_e5m2: torch.float32,
    torch.complex32: torch.complex64,
}


@dataclass(frozen=True)
class PairResult:
    """What the comparison of two tensors of one shape and dtype found."""

    elements: int
    mismatched: int
    max_abs: float
    max_rel: float
    #: (index, actual, expected) of the worst absolute and the worst relative difference.
    worst_abs: tuple[tuple[int, ...], Any, Any] | None = None
    worst_rel: tuple[tuple[int, ...], Any, Any] | None = None


def compare_elements(actual: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance) -> PairResult:
    """Compare two tensors of one shape and dtype.

    NaN equals NaN; an infinity equals only the same infinity. The largest differences are taken over
    the finite pairs; where a pair is not comparable (one NaN, say) they are infinite.
    """
    elements = actual.numel()
    if elements == 0 or torch.equal(actual, expected):
        return PairResult(elements, 0, 0.0, 0.0)
    if actual.dtype in WIDER:
        actual, expected = actual.to(WIDER[actual.dtype]), expected.to(WIDER[actual.dtype])
    if not (actual.is_floating_point() or actual.is_complex()):
        # Differences of int64 or uint8 wrap round; float64 does not.
        difference = (actual.to(torch.float64) - expected.to(torch.float64)).abs()
        bad = actual != expected
        return summarise(actual, expected, difference, expected.to(torch.float64).abs(), bad)
    difference = (actual - expected).abs()
    size = expected.abs()
    largest = float(difference.max())
    if math.isfinite(largest) and not bool((difference > tolerance.atol + tolerance.rtol * size).any()):
        # Every pair is finite, and it holds: nearly always so, and in half the time of what follows.
        relative = torch.nan_to_num(difference.div_(size), nan=0.0, posinf=math.inf)
        return PairResult(elements, 0, largest, float(relative.max()))
    same = (actual == expected) | both_nan(actual, expected)
    difference = torch.where(same, torch.zeros_like(difference), difference)
    # Negated, so that a NaN or infinite difference is bad.
    bad = ~(difference <= tolerance.atol + tolerance.rtol * size) & ~same
    # An infinite expected value makes the bound infinite: only the same infinity will do.
    bad |= ~torch.isfinite(expected) & ~same
    return summarise(actual, expected, difference, size, bad)


def both_nan(actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Where both are NaN; of complex numbers, where each part is the same or NaN in both."""
    if not actual.is_complex():
        return torch.isnan(actual) & torch.isnan(expected)
    a, e = torch.view_as_real(actual), torch.view_as_real(expected)
    return ((a == e) | (torch.isnan(a) & torch.isnan(e))).all(dim=-1)


def summarise(
    actual: torch.Tensor, expected: torch.Tensor, difference: torch.Tensor, size: torch.Tensor, bad: torch.Tensor
) -> PairResult:
    """The worst of the elements that are ``bad``; ``size`` is what a difference is relative to."""
    mismatched = int(bad.sum())
    difference = torch.nan_to_num(difference, nan=math.inf, posinf=math.inf)
    relative = torch.nan_to_num(difference / size, nan=0.0, posinf=math.inf)
    max_abs, max_rel = float(difference.max()), float(relative.max())
    if not mismatched:
        return PairResult(actual.numel(), 0, max_abs, max_rel)
    masked_abs = torch.where(bad, difference, torch.full_like(difference, -1))
    masked_rel = torch.where(bad, relative, torch.full_like(relative, -1))
    return PairResult(
        actual.numel(),
        mismatched,
        max_abs,
        max_rel,
        _at(actual, expected, int(masked_abs.argmax())),
        _at(actual, expected, int(masked_rel.argmax())),
    )


def _at(actual: torch.Tensor, expected: torch.Tensor, flat: int) -> tuple[tuple[int, ...], Any, Any]:
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), actual.shape))
    return index, actual[index].item(), expected[index].item()


def tightest_decade(actual: torch.Tensor, expected: torch.Tensor) -> int | None:
    """The smallest k for which the pair passes with ``atol = rtol = 10**k``; None if none up to 10**6 does.

    A pair that is equal bit by bit gives -20.
    """
    if actual.numel() == 0 or torch.equal(actual, expected):
        return -20
    for exponent in range(-17, 7):
        if not compare_elements(actual, expected, Tolerance(10.0**exponent, 10.0**exponent, "")).mismatched:
            return exponent
    return None
