"""What a comparator works with: both results, and a place for what it finds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ...process.messages import Measured, ToleranceOptions
from ..tensors import leaves
from .elementwise import PairResult, compare_elements, tightest_decade
from .tolerance import Tolerance, coarser_of, mixed_tolerance, tolerance_for

#: Called with Paddle's tensor, the expected one, and how far they may be apart.
Observer = Callable[[torch.Tensor, torch.Tensor, Tolerance], None]


@dataclass
class Findings:
    """Differences, and counts of what was compared."""

    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tolerances: list[str] = field(default_factory=list)
    outputs: int = 0
    gradients: int = 0
    elements: int = 0
    max_abs: float | None = None
    max_rel: float | None = None
    decade: int | None = None

    def measured(self) -> Measured:
        """The numbers as they travel in a result."""
        notes = list(self.notes)
        if self.decade is not None:
            notes.append(f"tightest tolerance: 1e{self.decade}")
        return Measured(
            compared_outputs=self.outputs,
            compared_gradients=self.gradients,
            compared_elements=self.elements,
            max_abs_diff=self.max_abs,
            max_rel_diff=self.max_rel,
            tolerance="; ".join(dict.fromkeys(self.tolerances)) or None,
            notes=tuple(dict.fromkeys(notes)),
        )


@dataclass
class Comparison:
    """One call's results on both sides. Tensors are Torch tensors on the host on either side.

    ``arguments`` are the inputs by Paddle's names with numpy arrays for tensors. ``expected`` is None
    for comparators that need no reference. Gradients are by the readable name of the input (``x``,
    ``xs[2]``); ``cotangents`` are the output gradients that both sides were given, by output index
    in :meth:`outputs` order (None for an output that is not differentiable).
    """

    api: str
    arguments: Mapping[str, Any]
    actual: Any
    expected: Any
    tolerances: ToleranceOptions
    actual_gradients: Mapping[str, torch.Tensor] = field(default_factory=dict)
    expected_gradients: Mapping[str, torch.Tensor] = field(default_factory=dict)
    cotangents: tuple[torch.Tensor | None, ...] = ()
    #: Arguments that the call changed, after it, by name; compared element by element after the
    #: comparator unless it set ``changed_judged``.
    actual_changed: Mapping[str, torch.Tensor] = field(default_factory=dict)
    expected_changed: Mapping[str, torch.Tensor] = field(default_factory=dict)
    changed_judged: bool = False
    record_tolerance: bool = False
    #: Told of every pair of tensors that is compared by value.
    observe: Observer | None = None
    #: Names of the two sides in texts.
    sides: tuple[str, str] = ("Paddle", "Torch")
    #: What mixed precision lowered a part of either side to; results are as exact as this dtype at most.
    lowered: torch.dtype | None = None
    #: Only one of the sides computed in it, so that rounding of their inputs stands between them.
    lowered_once: bool = False
    findings: Findings = field(default_factory=Findings)

    def argument(self, name: str, default: Any = None) -> Any:
        """An argument by name; ``default`` where it was not given."""
        return self.arguments.get(name, default)

    def actual_leaves(self) -> list[Any]:
        """Paddle's results, flattened."""
        return [value for _, value in leaves(self.actual)]

    def expected_leaves(self) -> list[Any]:
        """The reference's results, flattened."""
        return [value for _, value in leaves(self.expected)]

    def tolerance(self, dtype: torch.dtype) -> Tolerance:
        """The tolerance that the options ask for."""
        return tolerance_for(self.tolerances, self.api, coarser_of(dtype, self.lowered))

    # What comparators call ------------------------------------------------------------------

    def differs(self, what: str, text: str) -> None:
        """Record a difference: ``what`` is ``output 0``, ``gradient of x`` ..."""
        self.findings.differences.append(f"{what}: {text}")

    def note(self, text: str) -> None:
        """Record how the comparison was made, where it is not the ordinary way."""
        self.findings.notes.append(text)

    def count(self, *, outputs: int = 0, gradients: int = 0, elements: int = 0) -> None:
        """Record what was checked by other means than :meth:`pair`."""
        self.findings.outputs += outputs
        self.findings.gradients += gradients
        self.findings.elements += elements

    def same_structure(self) -> bool:
        """Check that both sides have the same nesting; record a difference and return False if not."""
        actual, expected = dict(leaves(self.actual)), dict(leaves(self.expected))
        if list(actual) == list(expected):
            return True
        left, right = self.sides
        self.differs(
            "structure",
            f"{left} returned {_shape_of(self.actual)}, {right} {_shape_of(self.expected)}",
        )
        return False

    def same_form(self, what: str, actual: Any, expected: Any) -> bool:
        """Check kind, dtype and shape of one pair; record differences."""
        left, right = self.sides
        if not (isinstance(actual, torch.Tensor) and isinstance(expected, torch.Tensor)):
            if isinstance(actual, torch.Tensor) or isinstance(expected, torch.Tensor):
                self.differs(what, f"{left} gave {_kind(actual)}, {right} {_kind(expected)}")
                return False
            return True
        problems = []
        if tuple(actual.shape) != tuple(expected.shape):
            problems.append(f"shape {list(actual.shape)} in {left}, {list(expected.shape)} in {right}")
        if actual.dtype != expected.dtype:
            problems.append(f"dtype {_name(actual.dtype)} in {left}, {_name(expected.dtype)} in {right}")
        if problems:
            self.differs(what, "; ".join(problems))
        return not problems

    def pair(self, what: str, actual: Any, expected: Any, tolerance: Tolerance | None = None) -> bool:
        """Compare one pair fully, form and values; True where it holds."""
        if not self.same_form(what, actual, expected):
            return False
        if not isinstance(actual, torch.Tensor):
            return self._plain(what, actual, expected)
        tolerance = tolerance or self.tolerance(actual.dtype)
        if self.lowered_once and self.lowered is not None:
            tolerance = mixed_tolerance(tolerance, expected, self.lowered)
        if self.observe is not None:
            self.observe(actual, expected, tolerance)
        actual, expected = actual.detach(), expected.detach()
        result = compare_elements(actual, expected, tolerance)
        self.findings.elements += result.elements
        self._measure(result, actual, expected)
        if tolerance.source not in self.findings.tolerances and (actual.is_floating_point() or actual.is_complex()):
            self.findings.tolerances.append(str(tolerance))
        if result.mismatched:
            self.differs(what, self._describe(result, tolerance))
            return False
        return True

    def outputs_elementwise(self) -> bool:
        """Compare every output with its counterpart."""
        if not self.same_structure():
            return False
        fine = True
        expected = dict(leaves(self.expected))
        for path, actual in leaves(self.actual):
            fine &= self.pair(f"output{path or ' 0'}", actual, expected[path])
            self.findings.outputs += 1
        return fine

    def gradients_elementwise(self, tolerance: Tolerance | None = None) -> bool:
        """Compare every gradient that both sides have."""
        fine = True
        for name, actual, expected in self.gradient_pairs():
            fine &= self.pair(f"gradient of {name}", actual, expected, tolerance)
            self.findings.gradients += 1
        return fine

    def gradient_pairs(self) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
        """The gradients by input name, Paddle's first."""
        for name, actual in self.actual_gradients.items():
            if name in self.expected_gradients:
                yield name, actual, self.expected_gradients[name]

    # ----------------------------------------------------------------------------------------

    def _plain(self, what: str, actual: Any, expected: Any) -> bool:
        self.findings.elements += 1
        left, right = self.sides
        numbers = all(isinstance(v, (int, float, complex)) for v in (actual, expected))
        same_kind = type(actual) is type(expected) or (
            numbers and isinstance(actual, bool) == isinstance(expected, bool)
        )
        equal = actual == expected
        if numbers and same_kind and not equal:
            tolerance = self.tolerance(torch.complex64 if isinstance(actual, complex) else torch.float32)
            equal = _close(actual, expected, tolerance)
        if same_kind and bool(equal):
            return True
        self.differs(what, f"{left} gave {_kind(actual)}, {right} {_kind(expected)}")
        return False

    def _measure(self, result: PairResult, actual: torch.Tensor, expected: torch.Tensor) -> None:
        found = self.findings
        found.max_abs = max(found.max_abs or 0.0, result.max_abs)
        found.max_rel = max(found.max_rel or 0.0, result.max_rel)
        if self.record_tolerance and (actual.is_floating_point() or actual.is_complex()):
            decade = tightest_decade(actual, expected)
            found.decade = max(found.decade if found.decade is not None else -20, 99 if decade is None else decade)

    def _describe(self, result: PairResult, tolerance: Tolerance) -> str:
        share = 100 * result.mismatched / result.elements
        lines = [f"{result.mismatched} of {result.elements} elements differ ({share:.3g} %)"]
        for kind, largest, worst in (
            ("absolute", result.max_abs, result.worst_abs),
            ("relative", result.max_rel, result.worst_rel),
        ):
            if worst is not None:
                index, actual, expected = worst
                left, right = self.sides
                where = "" if index == () else f" at {list(index)}"
                lines.append(f"  worst {kind} difference {largest:.6g}{where}: {left} {actual!r}, {right} {expected!r}")
        lines.append(f"  tolerance: {tolerance}")
        return "\n".join(lines)


def _close(actual: Any, expected: Any, tolerance: Tolerance) -> bool:
    if any(isinstance(v, float) and math.isnan(v) for v in (actual, expected)):
        return all(isinstance(v, float) and math.isnan(v) for v in (actual, expected))
    if any(isinstance(v, float) and math.isinf(v) for v in (actual, expected)):
        return bool(actual == expected)
    if all(isinstance(v, int) for v in (actual, expected)):
        return bool(actual == expected)
    return bool(abs(actual - expected) <= tolerance.atol + tolerance.rtol * abs(expected))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {list(value.shape)} and dtype {_name(value.dtype)}"
    return f"{type(value).__name__} {value!r}"[:200]


def _shape_of(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        inside = ", ".join(_shape_of(item) for item in value[:8])
        more = f", ... {len(value)} in all" if len(value) > 8 else ""
        return f"{type(value).__name__}({inside}{more})"
    if isinstance(value, torch.Tensor):
        return f"{_name(value.dtype)}{list(value.shape)}"
    return type(value).__name__
