"""The registry of reference rules.

A rule is a function with the Paddle API's own signature, written in Torch: it gets a ``torch.Tensor``
where the config has a tensor, and the plain Python value elsewhere (dtypes as ``torch.dtype``), and
returns what Paddle returns, with Torch tensors. Binding is Python's own.

    @reference("paddle.gather")
    def gather(x, index, axis=None, name=None): ...

An API that is only a rename is a line of a table (see :func:`renames`).
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from ..names import candidates, is_inplace

Rule = Callable[..., Any]
RuleT = TypeVar("RuleT", bound=Rule)


@dataclass(frozen=True)
class Reference:
    """One rule and what the runner must know about it."""

    api: str
    rule: Rule
    signature: inspect.Signature
    #: Names of the arguments that the call changes; compared after it like outputs.
    mutates: tuple[str, ...] = ()
    #: Name of the argument that must be true for the call to change what ``mutates`` says ("" for always).
    mutates_if: str = ""
    #: Names of tensor arguments that take no gradient by definition (running statistics, ...).
    constant: tuple[str, ...] = ()
    #: Why no gradient is compared although the result may have one ("" where gradients are compared).
    no_gradient: str = ""
    #: Flattened outputs that are not unique, with the kind of their freedom (see :mod:`..gauges`).
    gauges: Mapping[int, str] = field(default_factory=dict)
    #: For in-place APIs: the rule returns what the first argument becomes, instead of changing it.
    returns_changed: bool = False
    #: "rename" or "rule"; for the documentation.
    kind: str = "rule"


class NoEquivalent(Exception):
    """Raised by a rule: these arguments have no meaning in Torch; becomes ``config_convert``."""


@dataclass(frozen=True)
class NoReference:
    """An API that has no meaning in Torch; ``why`` is shown to the user (``config_convert``)."""

    api: str
    why: str


_rules: dict[str, Reference] = {}
_without: dict[str, NoReference] = {}


def reference(
    *apis: str,
    mutates: tuple[str, ...] = (),
    mutates_if: str = "",
    constant: tuple[str, ...] = (),
    no_gradient: str = "",
    gauges: Mapping[int, str] | None = None,
    returns_changed: bool = False,
) -> Callable[[RuleT], RuleT]:
    """Register the decorated function as the rule of ``apis``.

    Raises:
        ValueError: an API has a rule already.
    """

    def register(rule: RuleT) -> RuleT:
        for api in apis:
            _add(
                Reference(
                    api,
                    rule,
                    inspect.signature(rule),
                    mutates,
                    mutates_if,
                    constant,
                    no_gradient,
                    gauges or {},
                    returns_changed,
                )
            )
        return rule

    return register


def renames(table: str) -> None:
    """Register APIs that Torch has under another name; one line each.

        paddle.atan2 = torch.atan2(x:input, y:other)

    Each argument is ``paddle_name:torch_name`` in Paddle's order, or one name where both agree;
    ``=VALUE`` after it gives Paddle's default where that is not "absent". ``name`` is always accepted.
    """
    for line in table.strip().splitlines():
        line = line.strip()
        if line and not line.startswith("#"):
            _add(_rename(line))


def without_reference(*apis: str, why: str) -> None:
    """Say that Torch has nothing to compare these APIs with, and why."""
    for api in apis:
        _without[api] = NoReference(api, why)


def _add(entry: Reference) -> None:
    if entry.api in _rules:
        raise ValueError(f"{entry.api} has two reference rules: {_rules[entry.api].rule!r} and {entry.rule!r}")
    _rules[entry.api] = entry


_ABSENT: Any = object()


def _rename(line: str) -> Reference:
    api, _, target = (part.strip() for part in line.partition("="))
    path, _, inside = target.partition("(")
    function = _resolve(path)
    parameters, torch_names = [], {}
    for part in filter(None, (p.strip() for p in inside.rstrip(")").split(","))):
        names, _, default = part.partition("=")
        paddle_name, _, torch_name = names.partition(":")
        torch_names[paddle_name] = torch_name or paddle_name
        value = _literal(default) if default else _ABSENT
        parameters.append(inspect.Parameter(paddle_name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=value))
    # Everything has a default, so that an incomplete call is refused by Torch as it is by Paddle.
    parameters.append(inspect.Parameter("name", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None))
    signature = inspect.Signature(parameters)

    def rule(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = {k: v for k, v in bound.arguments.items() if k != "name" and v is not _ABSENT}
        return function(**{torch_names[k]: v for k, v in given.items()})

    rule.__name__ = rule.__qualname__ = api
    return Reference(api, rule, signature, kind="rename")


def _literal(text: str) -> Any:
    return ast.literal_eval(text.strip())


def _resolve(path: str) -> Rule:
    parts = path.split(".")
    found: Any = importlib.import_module(parts[0])
    for part in parts[1:]:
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


@cache
def load_rules() -> None:
    """Import every module of this package, so that its rules are registered."""
    package = importlib.import_module(__package__)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{__package__}.{module.name}")


def find_reference(api: str) -> Reference | NoReference | None:
    """The rule for ``api``, or why there can be none, or None where nobody wrote one.

    Methods share the rule of their function, and in-place variants the rule of the plain API (the
    changed argument then gets the result).
    """
    load_rules()
    for name in candidates(api):
        if name in _rules:
            return _rules[name]
        if name in _without:
            return _without[name]
    return None


def is_derived_inplace(api: str, found: Reference) -> bool:
    """True when ``api`` is an in-place call whose rule makes a new tensor, as the plain API's rule does."""
    return is_inplace(api) and (found.returns_changed or not is_inplace(found.api))


def all_references() -> dict[str, Reference | NoReference]:
    """Every registered name; for the documentation and its tests."""
    load_rules()
    return {**_without, **_rules}
