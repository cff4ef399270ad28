"""Writing to places that indices name twice: either value may stay; sums are rounded after each term."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..reference.subscripts import places_named
from .comparison import Comparison
from .long_sums import FACTOR, rms
from .registry import comparator
from .repeats import most_named
from .tolerance import Tolerance


def _places(c: Comparison) -> np.ndarray[Any, Any] | None:
    """The flat index of the element that each value is written to; None where values are added up, or too many."""
    if c.api.rpartition(".")[2].startswith("put_along_axis"):
        return _places_along_axis(c) if c.argument("reduce", "assign") == "assign" else None
    if c.argument("accumulate", False):
        return None
    x, item = c.argument("x"), c.argument("item", c.argument("indices"))
    item = tuple(item) if isinstance(item, list) and "indices" in c.arguments else item
    return places_named(x.shape, item) if x.size <= 1 << 26 else None


def _places_along_axis(c: Comparison) -> np.ndarray[Any, Any] | None:
    arr, indices, axis = c.argument("arr"), c.argument("indices"), c.argument("axis", 0)
    if not indices.ndim:
        return None
    if c.argument("broadcast", True):
        shape = [max(a, i) for a, i in zip(arr.shape, indices.shape)]
        shape[axis] = indices.shape[axis]
        indices = np.broadcast_to(indices, shape)
    whole = np.arange(arr.size).reshape(arr.shape)
    inside = tuple(slice(None if k == axis % arr.ndim else size) for k, size in enumerate(indices.shape))
    return np.take_along_axis(whole[inside], indices % max(arr.shape[axis], 1), axis=axis)


def _sum_tolerance(c: Comparison, dtype: torch.dtype, size: float) -> Tolerance:
    """For results that are added to in place: each term is rounded in the dtype itself, half precision too."""
    tolerance = c.tolerance(dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        return tolerance
    terms = 1 + max(most_named(c.argument(name)) for name in ("index", "indices"))
    loss = FACTOR * torch.finfo(dtype).eps * terms * size
    return tolerance.at_least(loss, tolerance.rtol, f"up to {terms:.3g} terms were added in {dtype}")


def _outputs(c: Comparison) -> None:
    """Outputs; sums as exact as adding up in their dtype can be."""
    if not c.same_structure():
        return
    plain = c.argument("reduce") in (None, "assign") and c.argument("overwrite") is not False
    added = c.argument("accumulate", False) or not plain
    for index, (actual, expected) in enumerate(zip(c.actual_leaves(), c.expected_leaves())):
        tolerance = None
        if isinstance(expected, torch.Tensor) and (added or c.api.rpartition(".")[2].rstrip("_") in _ADDING):
            tolerance = _sum_tolerance(c, expected.dtype, rms(expected))
        c.pair(f"output {index}", actual, expected, tolerance)
        c.count(outputs=1)


_ADDING = ("index_add", "scatter_nd_add", "scatter_nd", "scatter_add", "scatter_reduce")


@comparator(
    "paddle.index_add",
    "paddle.scatter",
    "paddle.scatter_nd_add",
    "paddle.scatter_nd",
    "paddle.scatter_add",
    "paddle.scatter_reduce",
    meaning="element by element; sums as exact as adding up in their dtype can be",
)
def judge_added(c: Comparison) -> None:
    """Outputs are sums of a few terms; gradients are copies."""
    _outputs(c)
    c.gradients_elementwise()


@comparator(
    "paddle.Tensor.__setitem__",
    "paddle.index_put",
    "paddle.put_along_axis",
    meaning="element by element; of values that are written over one another any may have the gradient",
)
def judge_write(c: Comparison) -> None:
    """The written values agree where a place is named twice (see the input rules), their gradient is open."""
    _outputs(c)
    places = _places(c) if c.actual_gradients else None
    if places is not None and np.unique(places).size < places.size:
        _overwritten_gradients(c, torch.from_numpy(places.reshape(-1)))
    c.gradients_elementwise()


def _overwritten_gradients(c: Comparison, places: torch.Tensor) -> None:
    """The gradient of values, some of which are written over: what stays has that of its place, the others nothing.

    Which one stays is open, and so is whether all have the gradient of the place; but one has it.
    """
    for name in {"value", "values"} & set(c.actual_gradients):
        what, actual, expected = f"gradient of {name}", c.actual_gradients[name], c.expected_gradients[name]
        c.actual_gradients = {key: g for key, g in c.actual_gradients.items() if key != name}
        if expected.numel() != places.numel():
            c.note(f"one place is written twice by a value that is repeated: the {what} was not compared")
            continue
        c.note(f"one place is written twice: the {what} is that of the place, or zero for values that did not stay")
        c.count(gradients=1)
        here, flat = expected.new_zeros(int(places.max()) + 1), expected.reshape(-1)
        here[places[flat != 0]] = flat[flat != 0]
        of_place = here[places].reshape(expected.shape)
        kept = actual != 0
        if not c.pair(what, actual, torch.where(kept, of_place, torch.zeros_like(expected))):
            continue
        had = torch.zeros_like(here, dtype=torch.bool)
        had[places[(kept | (of_place == 0)).reshape(-1)]] = True
        lost = int((~had[places]).sum())
        if lost:
            c.differs(what, f"{lost} of {places.numel()} values have none, nor has another one of their place")
