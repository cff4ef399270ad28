"""Wrong results on purpose: is what is wrong with Paddle's results also seen?

:func:`examine` runs a case once, then compares the reference with results that were each made wrong in one
place. Normal runs do not come here: the comparison is the one of ``--accuracy``, called again.

A mutant that no comparison may object to is *equivalent*: another sample of a random API, say. The table
:data:`EQUIVALENT` has the reasons; it speaks of mutants that were not caught only.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from ..config import parse_call
from ..process.messages import CaseOptions, Verdict
from .compare.tolerance import Tolerance, tolerance_for
from .modes.accuracy import BothSides, compare, run_both
from .modes.base import Judgement
from .prepared import PreparedCase, prepare
from .results import SideResult, first_line
from .tensors import leaves

#: An element is moved by so many times the tolerance that it gets.
FACTOR = 10.0
#: Of a result of more tensors (or numbers) so many are made wrong, spread evenly.
MOST_PLACES = 4
#: Two results that are further apart than this, relative to either, are different whatever the tolerance: that
#: of float8 allows zero in place of any number.
_CLEARLY = 0.2


class Kind(str, enum.Enum):
    """What is made wrong."""

    ELEMENT = "one element off"
    TRANSPOSED = "transposed"
    DTYPE = "wrong dtype"
    ZERO_GRADIENT = "zero gradient"
    SWAPPED = "swapped outputs"


OUTPUT, CHANGED, GRADIENT = "output", "changed argument", "gradient of"


@dataclass(frozen=True)
class Place:
    """One tensor or number of a result; ``path`` is as :func:`~.tensors.leaves` has it, or the gradient's name."""

    part: str
    path: str

    def __str__(self) -> str:
        return f"{self.part} {self.path or '0'}"


@dataclass(frozen=True)
class Mutant:
    """Paddle's result with one thing wrong."""

    kind: Kind
    place: Place
    #: What was done, for the report.
    text: str
    result: SideResult


@dataclass(frozen=True)
class Outcome:
    """Whether a mutant was caught; ``equivalent`` is the reason why it need not be."""

    kind: Kind
    place: str
    text: str
    caught: bool
    equivalent: str = ""
    #: The comparator raised instead of judging: seen, but not said well.
    raised: str = ""


@dataclass(frozen=True)
class Examined:
    """A case: its verdict without mutation, and the mutants' outcomes if that is ``pass``."""

    verdict: Verdict
    text: str = ""
    outcomes: tuple[Outcome, ...] = ()


# The reasons why a mutant may be right ------------------------------------------------------------


@dataclass(frozen=True)
class Equivalence:
    """Mutants of these kinds, in results that are judged by these meanings, may be right."""

    meanings: tuple[str, ...]
    kinds: tuple[Kind, ...]
    parts: tuple[str, ...]
    reason: str


EQUIVALENT = (
    Equivalence(
        ("shape and dtype: the values are not initialised",),
        (Kind.ELEMENT, Kind.TRANSPOSED),
        (OUTPUT, CHANGED),
        "the values are not initialised, any others are as good",
    ),
    Equivalence(
        (
            "shape, dtype, support and distribution of the random values",
            "0 or 1, each with its own probability",
            "indices, drawn with their weights one after the other",
            "positive values as they are, uniform slopes for the others",
            "the largest by its probability, the others by logistic differences",
            "each element kept or dropped, the rate and pattern of the mask, gradients by that mask",
            "all classes that occur, random others, labels that point at them",
            "sums of products; with dropout inside the form and the norm of rows",
        ),
        (Kind.ELEMENT, Kind.TRANSPOSED),
        (OUTPUT,),
        "another sample that is as likely",
    ),
    Equivalence(
        (
            "as many neighbours as asked for, each edge at most once; all of them where they are not sampled",
            "edges of the graph only",
        ),
        (Kind.ELEMENT,),
        (OUTPUT,),
        "another neighbour, or another edge, that may be sampled too",
    ),
    Equivalence(
        ("scales, and the codes without their order where that belongs to the GPU",),
        (Kind.TRANSPOSED,),
        (OUTPUT,),
        "the order of the codes belongs to the GPU and is not promised",
    ),
)


def equivalence(meaning: str, kind: Kind, part: str) -> str:
    """The reason why such a mutant may be right, or ""."""
    for entry in EQUIVALENT:
        if meaning in entry.meanings and kind in entry.kinds and part in entry.parts:
            return entry.reason
    return ""


# Tolerances ---------------------------------------------------------------------------------------


@dataclass
class Bounds:
    """How far each element of Paddle's results may be off: what the comparator said, or else the dtype's tolerance.

    It listens to the comparison of the true results. A tensor that a comparator looks at through a view, such as
    a reshaped one, is told by its memory.
    """

    default: Callable[[torch.dtype], Tolerance]
    _heard: dict[tuple[int, int, torch.dtype], torch.Tensor] = field(default_factory=dict)

    def hear(self, actual: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance) -> None:
        """An :data:`~.compare.comparison.Observer`."""
        if not actual.numel() or not actual.is_contiguous():
            return
        bound = tolerance.atol + tolerance.rtol * _wide(expected).abs().reshape(-1)
        key = _memory(actual)
        known = self._heard.get(key)
        self._heard[key] = bound if known is None else torch.minimum(known, bound)

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """For each element of the flattened tensor."""
        if tensor.is_contiguous() and _memory(tensor) in self._heard:
            return self._heard[_memory(tensor)]
        # Judged by what is made of it: no element is then more exact than the whole.
        tolerance, size = self.default(tensor.dtype), _wide(tensor).abs().reshape(-1)
        finite = size[torch.isfinite(size)]
        whole = float(finite.square().mean().sqrt()) if finite.numel() else 0.0
        return tolerance.atol + tolerance.rtol * size.clamp_min(whole)


def _memory(tensor: torch.Tensor) -> tuple[int, int, torch.dtype]:
    return tensor.data_ptr(), tensor.numel(), tensor.dtype


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to(torch.complex128 if tensor.is_complex() else torch.float64)


def differ(left: torch.Tensor, right: torch.Tensor, tolerance: Tolerance) -> bool:
    """Whether nobody can take one for the other: another shape, another dtype, or clearly other values."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return True
    a, b = _wide(left), _wide(right)
    size = torch.maximum(a.abs(), b.abs())
    far = (a - b).abs() > tolerance.atol + min(tolerance.rtol, _CLEARLY) * size
    return bool((far | (a.isnan() != b.isnan())).any())


# The mutations ------------------------------------------------------------------------------------

_OTHER_DTYPE = {
    torch.bool: torch.uint8,
    torch.uint8: torch.int32,
    torch.int8: torch.int16,
    torch.int16: torch.int32,
    torch.int32: torch.int64,
    torch.int64: torch.int32,
    torch.float8_e4m3fn: torch.float16,
    torch.float8_e5m2: torch.float16,
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float64,
    torch.float64: torch.float32,
    torch.complex64: torch.complex128,
    torch.complex128: torch.complex64,
}


def mutants(result: SideResult, bounds: Bounds, rng: np.random.Generator) -> Iterator[Mutant]:
    """Every applicable mutation of a result; the elements that are moved are drawn from ``rng``."""
    places = [*_spread(_places(result, OUTPUT)), *_spread(_places(result, CHANGED)), *_places(result, GRADIENT)]
    for place, value in places:

        def made(kind: Kind, text: str, wrong: Any, place: Place = place) -> Mutant:
            return Mutant(kind, place, text, with_value(result, place, wrong))

        if not isinstance(value, torch.Tensor):
            wrong = other_number(value, bounds.default(torch.float32))
            if wrong is not None:
                yield made(Kind.ELEMENT, f"{value!r} became {wrong!r}", wrong)
            continue
        moved = one_element_off(value, bounds.of(value), rng)
        if moved is not None:
            yield made(Kind.ELEMENT, *moved)
        if value.dtype in _OTHER_DTYPE:
            other = _OTHER_DTYPE[value.dtype]
            yield made(Kind.DTYPE, f"{value.dtype} became {other}", value.to(other))
        if place.part != GRADIENT and value.dim() > 1:
            turned = value.transpose(-1, -2).contiguous()
            if differ(turned, value, bounds.default(value.dtype)):
                yield made(Kind.TRANSPOSED, f"{list(value.shape)} became {list(turned.shape)}", turned)
        nothing = torch.zeros_like(value)
        if place.part == GRADIENT and differ(nothing, value, bounds.default(value.dtype)):
            yield made(Kind.ZERO_GRADIENT, f"{list(value.shape)} became zero", nothing)
    yield from _swapped(result, bounds)


def _places(result: SideResult, part: str) -> list[tuple[Place, Any]]:
    if part == GRADIENT:
        return [(Place(part, name), value) for name, value in result.gradients.items()]
    whole = result.outputs if part == OUTPUT else result.changed
    return [(Place(part, path), value) for path, value in leaves(whole)]


def _spread(places: list[tuple[Place, Any]]) -> list[tuple[Place, Any]]:
    if len(places) <= MOST_PLACES:
        return places
    return [places[i * (len(places) - 1) // (MOST_PLACES - 1)] for i in range(MOST_PLACES)]


def _swapped(result: SideResult, bounds: Bounds) -> Iterator[Mutant]:
    outputs = [(p, v) for p, v in _places(result, OUTPUT) if isinstance(v, torch.Tensor)]
    pairs = list(itertools.pairwise(outputs))[:MOST_PLACES]
    for (first, a), (second, b) in pairs:
        if differ(a, b, bounds.default(a.dtype)):
            wrong = with_value(with_value(result, first, b), second, a)
            yield Mutant(Kind.SWAPPED, first, f"{first} and {second} changed places", wrong)


def with_value(result: SideResult, place: Place, value: Any) -> SideResult:
    """The same result but for one place."""
    if place.part == GRADIENT:
        return replace(result, gradients={**result.gradients, place.path: value})
    if place.part == OUTPUT:
        return replace(result, outputs=_replaced(result.outputs, "", place.path, value))
    return replace(result, changed=_replaced(result.changed, "", place.path, value))


def _replaced(whole: Any, here: str, path: str, value: Any) -> Any:
    if here == path and not isinstance(whole, (list, tuple, dict)):
        return value
    if isinstance(whole, (list, tuple)):
        return type(whole)([_replaced(item, f"{here}[{i}]", path, value) for i, item in enumerate(whole)])
    if isinstance(whole, dict):
        return {key: _replaced(item, f"{here}[{key!r}]", path, value) for key, item in whole.items()}
    return whole


def other_number(value: Any, tolerance: Tolerance) -> Any:
    """A wrong number, or None where ``value`` is none or not finite."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, (float, complex)) and np.isfinite(value):
        return value + FACTOR * (tolerance.atol + tolerance.rtol * abs(value))
    return None


def one_element_off(
    value: torch.Tensor, bound: torch.Tensor, rng: np.random.Generator
) -> tuple[str, torch.Tensor] | None:
    """The tensor with one of its finite elements off by :data:`FACTOR` times its bound (whole numbers: by one, bools:
    the other), after a text that says which; None where there is no such element."""
    flat = value.detach().reshape(-1)
    fit = torch.isfinite(flat.float() if flat.dtype.itemsize == 1 else flat) & torch.isfinite(bound)
    candidates = fit.nonzero().reshape(-1)
    if not candidates.numel():
        return None
    chosen = int(candidates[int(rng.integers(candidates.numel()))])
    old = flat[chosen].item()
    wrong = flat.clone()
    if value.dtype is torch.bool:
        new: Any = not old
    elif value.is_floating_point() or value.is_complex():
        step = FACTOR * float(bound[chosen])
        real = old.real if isinstance(old, complex) else old
        # Towards zero and beyond, so that it does not leave the range of the dtype.
        new = old - step if real > 0 else old + step
    else:
        new = old - 1 if old == torch.iinfo(value.dtype).max else old + 1
    wrong[chosen] = new
    if torch.equal(wrong.view(torch.uint8), flat.clone().view(torch.uint8)):
        return None
    index = [int(i) for i in np.unravel_index(chosen, value.shape)] if value.dim() else []
    return f"{old!r} at {index} became {wrong[chosen].item()!r}", wrong.reshape(value.shape)


# The examination ----------------------------------------------------------------------------------


def examine(config: str, options: CaseOptions) -> Examined:
    """Run a config, and if it passes, look which of its mutants do not.

    Raises:
        ConfigSyntaxError, InputError: as for any case.
    """
    case = prepare(parse_call(config), options)
    sides = run_both(case, lambda stage: None)
    if isinstance(sides, Judgement):
        return Examined(sides.verdict, first_line(sides.text))
    bounds = Bounds(lambda dtype: tolerance_for(options.tolerance, case.api, dtype))
    judgement = compare(case, sides, bounds.hear)
    if judgement.verdict is not Verdict.PASS:
        return Examined(judgement.verdict, first_line(judgement.text))
    tried = mutants(sides.actual, bounds, case.rng(1 << 16))
    return Examined(Verdict.PASS, outcomes=tuple(_outcome(case, sides, mutant) for mutant in tried))


def _outcome(case: PreparedCase, sides: BothSides, mutant: Mutant) -> Outcome:
    place = str(mutant.place)
    try:
        judgement = compare(case, replace(sides, actual=mutant.result))
    except Exception as exc:  # becomes a failure of the case, too
        return Outcome(mutant.kind, place, mutant.text, True, raised=f"{type(exc).__name__}: {exc}"[:200])
    if judgement.verdict is Verdict.PADDLE_ACCURACY:
        return Outcome(mutant.kind, place, mutant.text, True)
    reason = equivalence(case.comparator.meaning, mutant.kind, mutant.place.part)
    return Outcome(mutant.kind, place, mutant.text, False, reason)
