"""Writing to places that indices name twice: either value may stay; sums are rounded after each term."""

from __future__ import annotations

import numpy as np
import torch

from ..reference.subscripts import places_named
from .comparison import Comparison
from .long_sums import FACTOR, rms
from .registry import comparator
from .repeats import most_named
from .tolerance import Tolerance


def _named_twice(c: Comparison) -> bool:
    """Whether the call writes to one place more than once."""
    if c.api.rpartition(".")[2].startswith("put_along_axis"):
        return c.argument("reduce", "assign") == "assign" and _twice_along_axis(c)
    if c.argument("accumulate", False):
        return False
    x, item = c.argument("x"), c.argument("item", c.argument("indices"))
    item = tuple(item) if isinstance(item, list) and "indices" in c.arguments else item
    if x.size > 1 << 26:
        return False
    places = places_named(x.shape, item)
    return int(np.unique(places).size) < places.size


def _twice_along_axis(c: Comparison) -> bool:
    indices, axis = c.argument("indices"), c.argument("axis", 0)
    if not indices.ndim:
        return False
    wrapped = np.sort(indices % max(c.argument("arr").shape[axis], 1), axis=axis)
    return bool((np.diff(wrapped, axis=axis) == 0).any())


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
    meaning="element by element; no gradient of values that are written over one another",
)
def judge_write(c: Comparison) -> None:
    """The written values agree where a place is named twice (see the input rules), their gradient is open."""
    _outputs(c)
    if c.actual_gradients and _named_twice(c):
        c.note("one place is written twice: the gradient of the values was not compared")
        c.actual_gradients = {name: g for name, g in c.actual_gradients.items() if name not in ("value", "values")}
    c.gradients_elementwise()
