"""Dimensions of a call that belong together, and calls with others in their place.

Dimensions of equal size are taken for one symbol: the rows of one matrix and the columns of another, a batch that
every tensor has, an entry of a target shape. A size of 1 is none, because it broadcasts. Where a symbol gets another
size, so does everything that follows from it in the arguments: entries of shapes, products of dimensions in a
``reshape``, sections of a ``split``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .model import Call, TensorSpec
from .shapes import product
from .sizes import plain_name

__all__ = ["map_call", "map_values", "resized", "symbols"]

#: Calls whose list of integers has as many elements as the first tensor.
_RESHAPING = frozenset({"reshape", "view", "unflatten", "reshape_as"})
#: Calls whose list of integers adds up to a dimension of the first tensor.
_SPLITTING = frozenset({"split", "tensor_split", "split_with_num"})
#: Names of arguments that hold sizes also where they are plain integers.
_SIZE_NAMES = frozenset(
    {
        "maxlen",
        "normalized_shape",
        "num_classes",
        "num_columns",
        "num_rows",
        "output_size",
        "s",
        "shape",
        "size",
        "sizes",
    }
)
#: A plain integer of this size or more that equals a dimension is one.
_LEAST_PLAIN = 8


def map_values(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same structure with ``change`` applied to everything in it that is no container."""
    if isinstance(value, list):
        return [map_values(item, change) for item in value]
    if isinstance(value, tuple):
        return tuple(map_values(item, change) for item in value)
    if isinstance(value, dict):
        return {key: map_values(item, change) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(map_values(part, change) for part in (value.start, value.stop, value.step)))
    return change(value)


def map_call(call: Call, change: Callable[[Any], Any]) -> Call:
    """The call with ``change`` applied to every value in its arguments that is no container."""
    return replace(
        call,
        args=tuple(map_values(value, change) for value in call.args),
        kwargs=tuple((name, map_values(value, change)) for name, value in call.kwargs),
    )


def symbols(call: Call) -> list[int]:
    """The sizes that stand for symbols, in the order written; 1 only where there is no other."""
    dims = [dim for spec in call.tensors() for dim in spec.shape]
    found = list(dict.fromkeys(dim for dim in dims if dim > 1))
    return found or list(dict.fromkeys(dim for dim in dims if dim == 1))


def resized(call: Call, sizes: Mapping[int, int], *, arguments: bool = True) -> Call:
    """The call with every symbol of ``sizes`` at its new size; with ``arguments`` also in what follows from it."""
    specs = list(call.tensors())
    first = specs[0].shape if specs else ()

    new_first = [sizes.get(dim, dim) for dim in first]

    def tensor(value: Any) -> Any:
        if not isinstance(value, TensorSpec):
            return value
        if len(value.shape) == 1 and value.shape[0] not in first:
            # Such as the weight of a normalisation over several axes.
            return TensorSpec((_entry(value.shape[0], first, new_first, sizes),), value.dtype)
        return TensorSpec(tuple(sizes.get(dim, dim) for dim in value.shape), value.dtype)

    if not arguments:
        return map_call(call, tensor)
    name = plain_name(call.api)

    def argument(value: Any, keyword: str) -> Any:
        if _is_integers(value):
            return type(value)(_integers(list(value), first, sizes, name))
        if isinstance(value, (list, tuple)):
            return type(value)(argument(item, keyword) for item in value)
        if _is_size(value, keyword):
            return sizes.get(value, value)
        return map_values(value, tensor)

    args = tuple(argument(value, "") for value in call.args)
    if name in _RESHAPING and len(args) > 2 and _is_integers(args[1:]):
        # The target as separate arguments.
        args = (*args[:1], *_integers(list(call.args[1:]), first, sizes, name))
    return replace(call, args=args, kwargs=tuple((key, argument(value, key)) for key, value in call.kwargs))


def _is_integers(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and bool(value)
        and all(isinstance(item, int) and not isinstance(item, bool) for item in value)
    )


def _is_size(value: Any, keyword: str) -> bool:
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return keyword in _SIZE_NAMES or value >= _LEAST_PLAIN


def _integers(given: list[int], first: Sequence[int], sizes: Mapping[int, int], name: str) -> list[int]:
    if name in _RESHAPING:
        return _target(given, first, sizes)
    if name in _SPLITTING and sum(given) in first and sum(given) in sizes:
        return _sections(given, sizes[sum(given)])
    return [sizes.get(item, item) if item > 1 else item for item in given]


def _target(given: list[int], first: Sequence[int], sizes: Mapping[int, int]) -> list[int]:
    """The target of a ``reshape``: entries that are a dimension, or the product of several that lie side by side."""
    new_first = [sizes.get(dim, dim) for dim in first]
    found = [_entry(item, first, new_first, sizes) for item in given]
    wanted = product(new_first)
    if -1 in found:
        # What is left over for -1 must be a whole number, and known.
        rest = product(item for item in found if item >= 0)
        return found if rest and wanted % rest == 0 else _absorbed(found, wanted)
    return found if product(found) == wanted else _absorbed(found, wanted)


def _entry(item: int, first: Sequence[int], new_first: Sequence[int], sizes: Mapping[int, int]) -> int:
    """The new value of a number that is a dimension of the first tensor, a product of its dimensions, or neither."""
    if item <= 1:
        return item
    if item in first:
        return sizes.get(item, item)
    for start in range(len(first)):
        for end in range(start + 2, len(first) + 1):
            if product(first[start:end]) == item:
                return product(new_first[start:end])
    return sizes.get(item, item)


def _absorbed(found: list[int], wanted: int) -> list[int]:
    """The entries with one of them set so that they hold ``wanted`` elements, where one can be."""
    for place in reversed(range(len(found))):
        rest = product(abs(item) for index, item in enumerate(found) if index != place)
        if rest and wanted % rest == 0:
            return [*(abs(item) for item in found[:place]), wanted // rest, *(abs(item) for item in found[place + 1 :])]
    return [*found[:-1], 0] if wanted == 0 and found else found


def _sections(given: list[int], total: int) -> list[int]:
    """Sections in the same proportions, that add up to ``total``."""
    before = sum(given)
    shares = [item * total // before for item in given]
    return [*shares[:-1], total - sum(shares[:-1])]
