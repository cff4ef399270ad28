"""The registry of comparators: how the results of an API are judged.

Without an entry, outputs and gradients are compared element by element. An entry is a function that
looks at a :class:`~.comparison.Comparison` and records what differs:

    @comparator("paddle.linalg.svd")
    def svd(c: Comparison) -> None: ...
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from ..names import candidates
from .comparison import Comparison

Judge = Callable[[Comparison], None]


@dataclass(frozen=True)
class Comparator:
    """One judge and what it needs."""

    judge: Judge
    #: A short name of what it checks; shown in notes and documentation.
    meaning: str
    #: False where the result is judged by what the API promises, without a Torch computation.
    needs_reference: bool = True
    #: False where the values are whatever was in memory, so that two runs have the form in common and no more.
    repeatable: bool = True


def elementwise(comparison: Comparison) -> None:
    """Every output and every gradient, element by element."""
    comparison.outputs_elementwise()
    comparison.gradients_elementwise()


ELEMENTWISE = Comparator(elementwise, "element by element")

_comparators: dict[str, Comparator] = {}


def comparator(
    *apis: str, meaning: str, needs_reference: bool = True, repeatable: bool = True
) -> Callable[[Judge], Judge]:
    """Register the decorated function as the comparator of ``apis``.

    Raises:
        ValueError: an API has one already.
    """

    def register(judge: Judge) -> Judge:
        for api in apis:
            if api in _comparators:
                raise ValueError(f"{api} has two comparators")
            _comparators[api] = Comparator(judge, meaning, needs_reference, repeatable)
        return judge

    return register


@cache
def load_rules() -> None:
    """Import every module of this package, so that its comparators are registered."""
    package = importlib.import_module(__package__)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{__package__}.{module.name}")


def find_comparator(api: str) -> Comparator:
    """The comparator of ``api``, shared among methods, functions and in-place variants."""
    load_rules()
    for name in candidates(api):
        if name in _comparators:
            return _comparators[name]
    return ELEMENTWISE


def all_comparators() -> dict[str, Comparator]:
    """Every registered entry; for the documentation and its tests."""
    load_rules()
    return dict(_comparators)
