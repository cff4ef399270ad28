"""Pooling: sums of half precision gradients; fractional pooling with random windows."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch

from ..reference.adaptive_pooling import fractional_max, fractional_windows
from ..tensors import to_torch
from .comparison import Comparison
from .registry import comparator, elementwise

_PLAIN = tuple(f"paddle.nn.functional.{kind}_pool{n}d" for kind in ("max", "avg", "lp") for n in (1, 2, 3))
Windows = list[list[tuple[int, int]]]


@comparator(*_PLAIN, meaning="element by element, with room for half precision sums over windows that overlap")
def pooling(c: Comparison) -> None:
    """An element's gradient is the sum over the windows that it is in, and kernels add up in its dtype."""
    c.outputs_elementwise()
    for name, actual, expected in c.gradient_pairs():
        tolerance = c.tolerance(expected.dtype)
        if expected.dtype in (torch.float16, torch.bfloat16):
            n = int(c.api[-2])
            kernel = _spread(c.argument("kernel_size"), n)
            stride = _spread(c.argument("stride"), n) or kernel
            overlap = math.prod(-(-k // s) for k, s in zip(kernel, stride))
            loss = torch.finfo(expected.dtype).eps * overlap
            tolerance = tolerance.at_least(loss, tolerance.rtol, f"{overlap} gradients added up in half precision")
        c.pair(f"gradient of {name}", actual, expected, tolerance)
        c.count(gradients=1)


@comparator(
    "paddle.nn.functional.fractional_max_pool2d",
    "paddle.nn.functional.fractional_max_pool3d",
    meaning="element by element; without random_u, the result for some u in (0, 1)",
    needs_reference=False,
)
def fractional_pooling(c: Comparison) -> None:
    """The windows depend on u in finitely many ways, so each of them is tried."""
    if c.expected is not None:
        elementwise(c)
        return
    if c.argument("random_u") is not None or c.argument("x").size == 0:
        c.note("nothing compared: the maximum over no element does not exist")
        return
    x = to_torch(c.argument("x"))
    outputs = c.actual_leaves()
    for windows in _possible(x, c):
        if not _explains(x[:1, :1], [o[:1, :1] for o in outputs], windows):
            continue
        wanted, gradient = _with_gradient(x, windows, c)
        if len(outputs) == len(wanted) and all(_same(a, b) for a, b in zip(outputs, wanted)):
            c.note("random_u was not given: the result is the one for some u in (0, 1)")
            c.expected = wanted if len(wanted) > 1 else wanted[0]
            c.expected_gradients = {} if gradient is None else {"x": gradient}
            elementwise(c)
            return
    c.differs("output 0", "no u in (0, 1) gives windows with these maxima")


def _possible(x: torch.Tensor, c: Comparison) -> list[Windows]:
    """Every set of windows that some u gives; between two neighbouring break points nothing changes."""
    n = x.ndim - 2
    kernels = _spread(c.argument("kernel_size"), n) or [0] * n
    shape = c.actual_leaves()[0].shape[2:]
    axes = list(zip(x.shape[2:], shape, kernels))
    points = {0.0, 1.0}
    for size, out, kernel in axes:
        steps = 4 * (size + out)
        previous: Any = None
        for step in range(1, steps):
            u = step / steps
            found = fractional_windows(size, out, kernel, u)
            if previous is not None and found != previous[1]:
                points.add(_change(size, out, kernel, previous[0], u))
            previous = (u, found)
    edges = sorted(points)
    result: list[Windows] = []
    for low, high in itertools.pairwise(edges):
        windows = [fractional_windows(size, out, kernel, (low + high) / 2) for size, out, kernel in axes]
        if windows not in result:
            result.append(windows)
    return result


def _change(size: int, out: int, kernel: int, low: float, high: float) -> float:
    """Where between ``low`` and ``high`` the windows first change."""
    first = fractional_windows(size, out, kernel, low)
    for _ in range(24):
        middle = (low + high) / 2
        if fractional_windows(size, out, kernel, middle) == first:
            low = middle
        else:
            high = middle
    return high


def _spread(value: Any, n: int) -> list[int]:
    if value is None:
        return []
    return [int(v) for v in value] if isinstance(value, (list, tuple)) else [int(value)] * n


def _explains(x: torch.Tensor, outputs: list[Any], windows: Windows) -> bool:
    return all(_same(a, b) for a, b in zip(outputs, fractional_max(x, windows)))


def _same(actual: Any, expected: torch.Tensor) -> bool:
    return isinstance(actual, torch.Tensor) and actual.shape == expected.shape and torch.equal(actual, expected)


def _with_gradient(x: torch.Tensor, windows: Windows, c: Comparison) -> tuple[list[torch.Tensor], torch.Tensor | None]:
    x = x.detach().clone().requires_grad_(True)
    out, where = fractional_max(x, windows)
    fed = c.cotangents[0] if c.cotangents else None
    gradient = None if fed is None else torch.autograd.grad(out, x, fed)[0]
    return ([out.detach(), where] if len(c.actual_leaves()) == 2 else [out.detach()]), gradient
