"""Results that ties leave open: which of several equal elements was meant. And long lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..tensors import to_torch
from .comparison import Comparison
from .registry import comparator


def _input(c: Comparison) -> torch.Tensor:
    value = c.argument("x")
    return to_torch(value if value is not None else c.argument("input"))


def _comparable(tensor: torch.Tensor) -> torch.Tensor:
    """Half precision in float32, which is exact and has all kernels."""
    return tensor.float() if tensor.is_floating_point() and tensor.dtype.itemsize < 4 else tensor


def _axis(c: Comparison, x: torch.Tensor, default: int | None = -1) -> int | None:
    axis = c.argument("axis", c.argument("dim", default))
    axis = default if axis is None else axis
    if isinstance(axis, np.ndarray):
        axis = int(axis.reshape(-1)[0])
    return None if axis is None else axis % max(x.dim(), 1)


def _at(x: torch.Tensor, indices: torch.Tensor, axis: int, what: str, c: Comparison) -> torch.Tensor | None:
    """The elements that the indices name, or None after recording that one is out of range."""
    size = x.shape[axis] if x.dim() else 1
    if indices.numel() and not bool(((indices >= 0) & (indices < size)).all()):
        c.differs(what, f"an index is not in [0, {size}): {int(indices.min())} to {int(indices.max())}")
        return None
    if x.dim() == 0:
        return x.reshape(indices.shape)
    return torch.gather(x, axis, indices.long())


def _tied_gradients(c: Comparison, x: torch.Tensor, axis: int) -> None:
    """Compare gradients of ``x``, in any order among elements that are equal along the axis."""
    for name, actual, expected in c.gradient_pairs():
        c.count(gradients=1)
        ordered = []
        # Sorting is slow, and without ties or with the same choice among them there is nothing to put in order.
        open_order = x.dim() and not torch.equal(actual, expected)
        if open_order and name in ("x", "input") and actual.shape == expected.shape == x.shape:
            for gradient in (actual, expected):
                by_gradient = torch.argsort(_comparable(gradient), dim=axis, stable=True)
                by_value = torch.argsort(torch.gather(_comparable(x), axis, by_gradient), dim=axis, stable=True)
                ordered.append(torch.gather(gradient, axis, torch.gather(by_gradient, axis, by_value)))
        left, right = ordered or (actual, expected)
        c.pair(f"gradient of {name}", left, right)


@comparator("paddle.sort", "paddle.msort", meaning="values in order; gradients may be swapped among equal elements")
def judge_sort(c: Comparison) -> None:
    """Sorted values are the same whatever the order of ties."""
    c.outputs_elementwise()
    x = _input(c)
    if c.actual_gradients:
        axis = 0 if c.api.endswith("msort") else _axis(c, x)
        _tied_gradients(c, x, 0 if axis is None else axis)


@comparator("paddle.argsort", meaning="indices are a permutation that sorts; equal elements in any order unless stable")
def judge_argsort(c: Comparison) -> None:
    """A stable order is unique, any other is judged by the values it gives."""
    if c.argument("stable", False):
        c.outputs_elementwise()
        return
    x = _comparable(_input(c))
    axis = _axis(c, x) or 0
    if not c.same_structure() or not c.same_form("output 0", c.actual, c.expected):
        return
    c.count(outputs=1, elements=c.actual.numel())
    found = _at(x, c.actual, axis, "output 0", c)
    if found is None:
        return
    sorted_values = _at(x, c.expected, axis, "output 0", c)
    c.pair("the elements in the order of output 0", found, sorted_values)
    _distinct(c, c.actual, axis)


def _distinct(c: Comparison, indices: torch.Tensor, axis: int) -> None:
    if indices.dim() and indices.numel():
        ordered = torch.sort(indices, dim=axis).values
        if bool((torch.diff(ordered, dim=axis) == 0).any()):
            c.differs("indices", "one element is named twice")


def _values_and_indices(c: Comparison, check: Callable[[torch.Tensor, torch.Tensor, int], None]) -> None:
    """Values as the reference has them, indices that name elements with these values."""
    if not c.same_structure() or len(c.actual_leaves()) != 2:
        return
    (values, indices), (expected, expected_indices) = c.actual_leaves(), c.expected_leaves()
    x = _comparable(_input(c))
    axis = _axis(c, x) or 0
    values_agree = c.same_form("output 0", values, expected)
    if values_agree & c.same_form("output 1", indices, expected_indices):
        check(values, expected, axis)
        named = _at(x, _kept(c, indices, x, axis), axis, "output 1", c)
        if named is not None:
            c.pair("the elements that output 1 names", named, _comparable(_kept(c, values, x, axis)))
    c.count(outputs=2)
    if c.actual_gradients:
        _tied_gradients(c, x, axis)


def _kept(c: Comparison, found: torch.Tensor, x: torch.Tensor, axis: int) -> torch.Tensor:
    """A reduced result with its axis put back."""
    return found.unsqueeze(axis) if found.dim() < x.dim() else found


@comparator("paddle.topk", meaning="the k values; indices name elements with these values, each once")
def judge_topk(c: Comparison) -> None:
    """Unsorted results are put in order first."""

    def check(values: torch.Tensor, expected: torch.Tensor, axis: int) -> None:
        if not c.argument("sorted", True) and values.dim():
            values, expected = (torch.sort(_comparable(v), dim=axis).values for v in (values, expected))
        c.pair("output 0", values, expected)
        _distinct(c, c.actual_leaves()[1], axis)

    _values_and_indices(c, check)


@comparator("paddle.compat.sort", meaning="values in order; indices name elements with these values, each once")
def judge_sort_with_indices(c: Comparison) -> None:
    """As ``topk`` of all elements."""
    judge_topk(c)


@comparator("paddle.kthvalue", meaning="the k-th value; the index names an element with this value")
def judge_kthvalue(c: Comparison) -> None:
    """The value is unique, the element is not."""

    def check(values: torch.Tensor, expected: torch.Tensor, axis: int) -> None:
        c.pair("output 0", values, expected)

    _values_and_indices(c, check)


@comparator("paddle.mode", meaning="a value as frequent as the reference's; the index names an element with it")
def judge_mode(c: Comparison) -> None:
    """Several values may be the most frequent ones."""
    x = _comparable(_input(c))

    def check(values: torch.Tensor, expected: torch.Tensor, axis: int) -> None:
        counts = [_frequency(x, _comparable(_kept(c, v, x, axis)), axis) for v in (values, expected)]
        c.pair("how often output 0 occurs", *counts)
        same = torch.equal(_comparable(values), _comparable(expected))
        if not same:
            c.note("another of the most frequent values than the reference's: gradients not compared")
            c.actual_gradients = {}

    _values_and_indices(c, check)


def _frequency(x: torch.Tensor, values: torch.Tensor, axis: int) -> torch.Tensor:
    return (x == values).sum(dim=axis) if x.dim() else (x == values).long()


@comparator("paddle.argmax", "paddle.argmin", meaning="the index names an element with the extreme value")
def judge_extreme(c: Comparison) -> None:
    """Any of several largest elements may be named."""
    if not c.same_structure() or not c.same_form("output 0", c.actual, c.expected):
        return
    c.count(outputs=1, elements=c.actual.numel())
    x = _comparable(_input(c))
    axis = _axis(c, x, None)
    if axis is None:
        x, axis = x.reshape(-1), 0
    found: list[Any] = [
        _at(x, _kept(c, side.reshape(1) if c.argument("axis") is None else side, x, axis), axis, "output 0", c)
        for side in (c.actual, c.expected)
    ]
    if found[0] is not None:
        c.pair("the elements that output 0 names", *found)


@comparator("paddle.tolist", meaning="lists of the same numbers")
def judge_list(c: Comparison) -> None:
    """Lists are compared as a whole first: number by number takes minutes where they are long."""
    actual, expected = c.actual_leaves(), c.expected_leaves()
    if c.actual == c.expected and list(map(type, actual)) == list(map(type, expected)):
        c.count(outputs=1, elements=len(actual))
        return
    c.outputs_elementwise()
