"""The registry of adapters.

A config writes every tensor as a dense one of ordinary values. Some Paddle APIs take others (sparse
tensors, a result together with the graph that made it) or return what is no tensor. An adapter makes the
arguments from the written ones, and dense tensors from the results:

    adapter("paddle.sparse.sin", arguments=sparse(x=coo()), results=dense)

It works on Paddle's side only, with differentiable operations, so that gradients arrive at the written
tensors. A reference rule sees the written tensors, dense, and returns dense ones.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..names import candidates

#: From the arguments by name (Paddle tensors where the config has tensors) to those that the API is called with.
Arguments = Callable[[Mapping[str, Any]], Mapping[str, Any]]
#: From what the API returns to tensors that can be compared.
Results = Callable[[Any], Any]


def _unchanged(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Adapter:
    """How one API is called. ``about`` says what is made of the written tensors; for the documentation."""

    arguments: Arguments = _unchanged
    results: Results = _unchanged
    about: str = ""


PLAIN = Adapter()

_adapters: dict[str, Adapter] = {}


def adapter(*apis: str, arguments: Arguments = _unchanged, results: Results = _unchanged, about: str = "") -> None:
    """Register an adapter for ``apis``.

    Raises:
        ValueError: an API has one already.
    """
    for api in apis:
        if api in _adapters:
            raise ValueError(f"{api} has two adapters")
        _adapters[api] = Adapter(arguments, results, about)


@cache
def load_rules() -> None:
    """Import every module of this package, so that its adapters are registered."""
    package = importlib.import_module(__package__)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{__package__}.{module.name}")


def find_adapter(api: str) -> Adapter:
    """The adapter of ``api``, shared among methods, functions and in-place variants."""
    load_rules()
    for name in candidates(api):
        if name in _adapters:
            return _adapters[name]
    return PLAIN


def all_adapters() -> dict[str, Adapter]:
    """Every registered entry; for the documentation and its tests."""
    load_rules()
    return dict(_adapters)
