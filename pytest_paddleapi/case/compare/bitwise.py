"""Two runs of one framework: the same structure, the same dtypes and shapes, the same bits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..results import SideResult
from ..tensors import leaves
from .comparison import Comparison
from .elementwise import WIDER, PairResult, summarise
from .tolerance import BITWISE, EXACT, Tolerance

__all__ = ["RepeatComparison", "compare_bits"]

#: Integers of one width; a complex number is looked at by its parts.
_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def compare_bits(first: torch.Tensor, second: torch.Tensor) -> PairResult:
    """Compare two tensors of one shape and dtype bit by bit.

    NaN equals NaN whatever its payload; of a complex number each part does. 0.0 and -0.0 differ.
    """
    elements = first.numel()
    first, second = first.detach().contiguous(), second.detach().contiguous()
    if elements == 0 or torch.equal(_bits(first), _bits(second)):
        return PairResult(elements, 0, 0.0, 0.0)
    if not (first.is_floating_point() or first.is_complex()):
        # Differences of int64 or uint8 wrap round; float64 does not.
        wide = first.to(torch.float64), second.to(torch.float64)
        return summarise(first, second, (wide[0] - wide[1]).abs(), wide[1].abs(), first != second)
    bad = _differ(first, second)
    if not bool(bad.any()):
        return PairResult(elements, 0, 0.0, 0.0)
    wider = WIDER.get(first.dtype, first.dtype)
    first, second = first.to(wider), second.to(wider)
    difference = torch.where(bad, (first - second).abs(), 0.0)
    return summarise(first, second, difference, second.abs(), bad)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return tensor.view(_INTEGERS[tensor.dtype.itemsize])


def _differ(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Where the bits differ and not both are NaN."""
    if first.is_complex():
        return _differ(torch.view_as_real(first), torch.view_as_real(second)).any(dim=-1)
    other = _bits(first) != _bits(second)
    # float8 has no kernel for isnan.
    wider = WIDER.get(first.dtype, first.dtype)
    return other & ~(torch.isnan(first.to(wider)) & torch.isnan(second.to(wider)))


@dataclass
class RepeatComparison(Comparison):
    """One framework's two runs; both sides are that framework's. Tolerances do not matter."""

    sides: tuple[str, str] = ("first run", "second run")

    def pair(self, what: str, actual: Any, expected: Any, tolerance: Tolerance | None = None) -> bool:
        """As :meth:`.Comparison.pair`, bit by bit."""
        if not self.same_form(what, actual, expected):
            return False
        if not isinstance(actual, torch.Tensor):
            return self._same_plain(what, actual, expected)
        result = compare_bits(actual, expected)
        self.findings.elements += result.elements
        self._measure(result, actual, expected)
        if result.mismatched:
            exact = not (actual.is_floating_point() or actual.is_complex())
            self.differs(what, self._describe(result, EXACT if exact else BITWISE))
        return not result.mismatched

    def _same_plain(self, what: str, actual: Any, expected: Any) -> bool:
        self.findings.elements += 1
        same = type(actual) is type(expected) and (_number_key(actual) == _number_key(expected))
        if not same:
            left, right = self.sides
            self.differs(what, f"{left} gave {type(actual).__name__} {actual!r}, {right} {expected!r}"[:300])
        return same

    def judge(self, first: SideResult, second: SideResult, *, values: bool) -> list[str]:
        """The differences between two results of one call: outputs, changed arguments, gradients.

        Without ``values`` only structure, dtypes and shapes are looked at.
        """
        self.actual, self.expected = first.outputs, second.outputs
        look = self.pair if values else self.same_form
        if self.same_structure():
            others = self.expected_leaves()
            for (path, value), other in zip(leaves(first.outputs), others):
                look(f"output{path or ' 0'}", value, other)
        self._named("changed argument", dict(_changed(first)), dict(_changed(second)), look)
        self._named("gradient of", first.gradients, second.gradients, look)
        return self.findings.differences

    def _named(self, kind: str, first: Mapping[str, Any], second: Mapping[str, Any], look: Any) -> None:
        for name in dict.fromkeys((*first, *second)):
            if name in first and name in second:
                look(f"{kind} {name}", first[name], second[name])
            else:
                there, missing = self.sides if name in first else self.sides[::-1]
                self.differs(f"{kind} {name}", f"{there} gave one, {missing} none")


def _changed(side: SideResult) -> list[tuple[str, Any]]:
    """Changed arguments by readable name: ``['xs'][2]``, where :func:`leaves` found it, as ``xs[2]``."""
    return [(path.replace("['", "", 1).replace("']", "", 1), value) for path, value in leaves(side.changed)]


def _number_key(value: Any) -> Any:
    """What two plain values must have in common: NaN is like NaN, and -0.0 not like 0.0."""
    if isinstance(value, complex):
        return _number_key(value.real), _number_key(value.imag)
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1.0, value))
    return value
