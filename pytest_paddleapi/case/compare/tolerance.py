"""How far two results may be apart."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ...process.messages import ToleranceOptions

#: (rtol, atol) by dtype from ``torch.testing.assert_close`` (its documentation has the table). Float8
#: is not in it: one unit in the last place there.
_TORCH_TABLE: dict[torch.dtype, tuple[float, float]] = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
    torch.float8_e4m3fn: (0.125, 2**-9),
    torch.float8_e5m2: (0.25, 2**-16),
}
#: Our default is this many times Torch's table: of 950 float passes on the CPU only 15 need more.
TABLE_FACTOR = 10.0


@dataclass(frozen=True)
class Tolerance:
    """``|actual - expected| <= atol + rtol * |expected|``; ``source`` says where it comes from."""

    atol: float
    rtol: float
    source: str

    def __str__(self) -> str:
        return f"atol {self.atol:g}, rtol {self.rtol:g} ({self.source})"

    def at_least(self, atol: float, rtol: float, why: str) -> Tolerance:
        """Widened by a rule that knows why its result is less exact; zero tolerance stays zero."""
        if self.source == BITWISE.source or (atol <= self.atol and rtol <= self.rtol):
            return self
        return Tolerance(max(atol, self.atol), max(rtol, self.rtol), f"{self.source}, widened: {why}")


BITWISE = Tolerance(0.0, 0.0, "bitwise")
EXACT = Tolerance(0.0, 0.0, "exact dtype")


def tolerance_for(options: ToleranceOptions, api: str, dtype: torch.dtype) -> Tolerance:
    """The tolerance of one value: the per-API file first, then the chosen kind."""
    name = str(dtype).removeprefix("torch.")
    for key in (f"{api}:{name}", api):
        if key in options.per_api:
            atol, rtol = options.per_api[key]
            return Tolerance(atol, rtol, f"tolerances file, {key}")
    if not (dtype.is_floating_point or dtype.is_complex):
        return EXACT
    if options.kind == "bitwise":
        return BITWISE
    if options.kind == "fixed":
        return Tolerance(options.atol, options.rtol, "fixed")
    rtol, atol = _TORCH_TABLE[dtype]
    return Tolerance(atol * TABLE_FACTOR, rtol * TABLE_FACTOR, f"{TABLE_FACTOR:g} x Torch's table for {name}")


#: Of the largest result, in units of the dtype: how far the rounding of inputs to 16 bits moves a sum of products. With
#: n terms, each off by up to one unit of itself, that is about 0.4 of the root mean square of the results, whose
#: largest is some four times that; a sum that cancels needs as much, which is why it is not relative to each result.
_MIXED_UNITS = 4.0


def coarser_of(dtype: torch.dtype, lowered: torch.dtype | None) -> torch.dtype:
    """``dtype``, or what a part of the computation was lowered to where that is less exact."""
    if lowered is None or not dtype.is_floating_point:
        return dtype
    return lowered if torch.finfo(lowered).eps > torch.finfo(dtype).eps else dtype


def mixed_tolerance(tolerance: Tolerance, expected: torch.Tensor, lowered: torch.dtype) -> Tolerance:
    """Widened for results of which one side computed a part in ``lowered`` and the other did not."""
    if not expected.is_floating_point() or not expected.numel():
        return tolerance
    largest = float(torch.nan_to_num(expected.detach().double(), 0.0, 0.0, 0.0).abs().max())
    atol = _MIXED_UNITS * torch.finfo(lowered).eps * largest
    return tolerance.at_least(atol, tolerance.rtol, f"one side computed in {str(lowered).removeprefix('torch.')}")
