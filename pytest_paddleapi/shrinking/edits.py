"""Edits that may make a call simpler, the boldest first. Whether one helps only a run can tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ..config.model import Call, TensorSpec
from ..config.symbols import map_call, resized, symbols

__all__ = ["KINDS", "weight"]

Edits = Callable[[Call], Iterator[Call]]


def weight(call: Call) -> tuple[int, int, int, int, int]:
    """How large a call is; a simpler one has less: elements, values, dimensions, sum of the numbers, sum of sizes."""
    values: list[Any] = []
    map_call(call, lambda value: values.append(value) or value)  # type: ignore[func-returns-value]
    specs = [value for value in values if isinstance(value, TensorSpec)]
    numbers = sum(_cost(value) for value in values if isinstance(value, (int, float)) and not isinstance(value, bool))
    return (
        sum(spec.numel for spec in specs),
        len(values),
        sum(len(spec.shape) for spec in specs),
        numbers,
        sum(dim for spec in specs for dim in spec.shape),
    )


def _cost(value: float) -> int:
    """0 is the simplest number, then whole ones by their size; a fraction costs more, and so does a sign."""
    if value != value or abs(value) > 2**40:
        return 2**40
    return 2 * int(abs(value)) + (value < 0) + (4 if value != int(value) else 0)


# Dimensions -----------------------------------------------------------------------------------


def all_dims_at_once(call: Call) -> Iterator[Call]:
    """No symbol larger than a bound, equal ones staying equal and different ones different where there is room."""
    found = sorted(symbols(call))
    for bound in (2, 3, 4, 8, 16, 64, 256):
        if not found or found[-1] <= bound:
            return
        for distinct in (False, True):
            sizes = {dim: min(dim, bound + (place if distinct else 0)) for place, dim in enumerate(found)}
            yield resized(call, sizes)
            yield resized(call, sizes, arguments=False)


def each_symbol(call: Call) -> Iterator[Call]:
    """One symbol smaller, wherever it stands."""
    for dim in sorted(symbols(call), reverse=True):
        for smaller in _smaller(dim):
            yield resized(call, {dim: smaller})
            yield resized(call, {dim: smaller}, arguments=False)


def each_axis(call: Call) -> Iterator[Call]:
    """One axis of one tensor smaller, and the same axis of all tensors that have that size there."""
    specs = list(call.tensors())
    for number, spec in enumerate(specs):
        for axis, dim in enumerate(spec.shape):
            for smaller in _smaller(dim):
                for alone in (False, True):
                    yield _with_axis(call, number, axis - len(spec.shape), dim, smaller, alone)


def axis_pairs(call: Call) -> Iterator[Call]:
    """Two axes of one size in different tensors smaller together: what a product sums over, a batch."""
    specs = list(call.tensors())
    places = [(number, axis) for number, spec in enumerate(specs) for axis in range(len(spec.shape))]
    for index, (number, axis) in enumerate(places):
        dim = specs[number].shape[axis]
        for other, other_axis in places[index + 1 :]:
            if other == number or specs[other].shape[other_axis] != dim:
                continue
            for smaller in _smaller(dim):
                shrunk = _replaced(call, number, _resized_axis(specs[number], axis, smaller))
                yield _replaced(shrunk, other, _resized_axis(specs[other], other_axis, smaller))


def _resized_axis(spec: TensorSpec, axis: int, size: int) -> TensorSpec:
    return TensorSpec((*spec.shape[:axis], size, *spec.shape[axis + 1 :]), spec.dtype)


def _with_axis(call: Call, number: int, axis: int, dim: int, smaller: int, alone: bool) -> Call:
    count = -1

    def change(value: Any) -> Any:
        nonlocal count
        if not isinstance(value, TensorSpec):
            return value
        count += 1
        fits = -axis <= len(value.shape) and value.shape[axis] == dim
        if count != number and (alone or not fits):
            return value
        shape = list(value.shape)
        shape[axis] = smaller
        return TensorSpec(tuple(shape), value.dtype)

    return map_call(call, change)


def _smaller(dim: int) -> Iterator[int]:
    """Sizes to try in place of ``dim``; never 0, which is another kind of case."""
    yield from dict.fromkeys(size for size in (1, 2, 3, 4, dim // 8, dim // 4, dim // 2, dim - 1) if 0 < size < dim)


def fewer_axes(call: Call) -> Iterator[Call]:
    """Without the first axis of every tensor of the highest rank, of one tensor, or without an axis of size 1."""
    specs = list(call.tensors())
    ranks = {len(spec.shape) for spec in specs}
    if ranks and max(ranks) > 0:
        top = max(ranks)
        yield map_call(call, lambda value: _cut(value, 0) if _rank(value) == top else value)
        yield map_call(call, lambda value: _cut(value, 0) if _rank(value) > 1 else value)
    for number, spec in enumerate(specs):
        for axis in range(len(spec.shape)):
            yield _replaced(call, number, _cut(spec, axis))


def _rank(value: Any) -> int:
    return len(value.shape) if isinstance(value, TensorSpec) else -1


def _cut(value: Any, axis: int) -> TensorSpec:
    return TensorSpec((*value.shape[:axis], *value.shape[axis + 1 :]), value.dtype)


def _replaced(call: Call, number: int, by: TensorSpec) -> Call:
    """The call with another tensor in place of the one of this number."""
    count = -1

    def change(value: Any) -> Any:
        nonlocal count
        if not isinstance(value, TensorSpec):
            return value
        count += 1
        return by if count == number else value

    return map_call(call, change)


# Arguments ------------------------------------------------------------------------------------


def fewer_arguments(call: Call) -> Iterator[Call]:
    """Without all named arguments, the last positional one, or one of the named; with None in place of one."""
    plain = tuple((name, value) for name, value in call.kwargs if _has_tensor(value))
    if len(plain) < len(call.kwargs):
        yield replace(call, kwargs=plain)
    for place in range(len(call.kwargs)):
        yield replace(call, kwargs=(*call.kwargs[:place], *call.kwargs[place + 1 :]))
    for count in range(1, len(call.args)):
        yield replace(call, args=call.args[:count])
    for place, value in enumerate(call.args):
        if place and value is not None:
            yield replace(call, args=(*call.args[:place], None, *call.args[place + 1 :]))


def _has_tensor(value: Any) -> bool:
    return any(True for _ in Call("", (value,)).tensors())


def shorter_lists(call: Call) -> Iterator[Call]:
    """Half of a list of tensors, or one tensor less; then the same for other lists."""
    for tensors in (True, False):
        for place, value in enumerate(call.args):
            for shorter in _shorter(value, tensors):
                yield replace(call, args=(*call.args[:place], shorter, *call.args[place + 1 :]))
        for place, (name, value) in enumerate(call.kwargs):
            for shorter in _shorter(value, tensors):
                yield replace(call, kwargs=(*call.kwargs[:place], (name, shorter), *call.kwargs[place + 1 :]))


def _shorter(value: Any, tensors: bool) -> Iterator[Any]:
    if not isinstance(value, (list, tuple)) or len(value) < 2:
        return
    if tensors is all(isinstance(item, TensorSpec) for item in value):
        half = len(value) // 2
        yield value[:1]
        yield value[:half]
        yield value[half:]
        for place in range(len(value)):
            yield type(value)([*value[:place], *value[place + 1 :]])


def simpler_numbers(call: Call) -> Iterator[Call]:
    """One number nearer to 0 or 1."""
    numbers: list[Any] = []
    map_call(call, lambda value: numbers.append(value) or value)  # type: ignore[func-returns-value]
    for place, value in enumerate(numbers):
        for simpler in _simpler(value):
            yield _with_value(call, place, simpler)


def _simpler(value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        choices: tuple[Any, ...] = (0, 1, 2, abs(value), value // 2, value - 1 if value > 0 else value + 1)
    elif isinstance(value, float) and value == value and abs(value) < 2**40:
        choices = (0.0, 1.0, 0.5, float(int(value)))
    else:
        return
    yield from (choice for choice in dict.fromkeys(choices) if _cost(choice) < _cost(value))


def _with_value(call: Call, place: int, by: Any) -> Call:
    count = -1

    def change(value: Any) -> Any:
        nonlocal count
        count += 1
        return by if count == place else value

    return map_call(call, change)


#: Every kind of edit, by what it is called in the report; in this order they are tried.
KINDS: dict[str, Edits] = {
    "all dimensions": all_dims_at_once,
    "shorter lists": shorter_lists,
    "fewer arguments": fewer_arguments,
    "one symbol": each_symbol,
    "fewer axes": fewer_axes,
    "one axis": each_axis,
    "two axes": axis_pairs,
    "simpler numbers": simpler_numbers,
}
