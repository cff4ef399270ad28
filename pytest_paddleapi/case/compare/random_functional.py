"""Functions with noise inside: rrelu, gumbel_softmax, class_center_sample."""

from __future__ import annotations

import numpy as np
import torch

from ..tensors import to_torch
from . import laws
from .comparison import Comparison
from .laws import law_problems
from .random_creation import random_form
from .registry import comparator, elementwise
from .statistics_checks import uniform_problems

#: Slopes are looked at as random numbers only if their range is so many times the resolution of the dtype.
_RESOLVED = 64.0


@comparator("paddle.nn.functional.rrelu", meaning="positive values as they are, uniform slopes for the others")
def rrelu(c: Comparison) -> None:
    """Slopes within [lower, upper] and uniform there; the gradient has the same slope."""
    if not c.argument("training", True):
        return elementwise(c)
    if not random_form(c):
        return None
    output, x = c.actual_leaves()[0], to_torch(c.argument("x"))
    lower, upper = float(c.argument("lower", 1.0 / 8.0)), float(c.argument("upper", 1.0 / 3.0))
    negative = x < 0
    slopes = torch.where(negative, output.double() / x.double(), 1.0)
    c.pair("output 0, values from 0 on", output[~negative], x[~negative])
    low = slopes[negative]
    eps = float(torch.finfo(output.dtype).eps)
    outside = (low < lower * (1 - 2 * eps)) | (low > upper * (1 + 2 * eps)) | low.isnan()
    if bool(outside.any()):
        c.differs(
            "output 0",
            f"{int(outside.sum())} of {low.numel()} slopes outside [{lower}, {upper}]: {low[outside][0]:.6g}",
        )
        return None
    if upper - lower > _RESOLVED * eps * upper:
        for problem in law_problems(laws.uniform(lower, upper), low.clamp(lower, upper).to(output.dtype), "slopes"):
            c.differs("output 0", problem)
    fed = c.cotangents[0] if c.cotangents else None
    if fed is not None and "x" in c.actual_gradients:
        gradient = c.actual_gradients["x"]
        tolerance = c.tolerance(gradient.dtype).at_least(2 * eps, 2 * eps, "the slope is recovered from the output")
        c.pair("gradient of x", gradient, (fed.double() * slopes).to(gradient.dtype), tolerance)
        c.count(gradients=1)
    return None


@comparator(
    "paddle.nn.functional.gumbel_softmax", meaning="the largest by its probability, the others by logistic differences"
)
def gumbel_softmax(c: Comparison) -> None:
    """Sums of one, the law of the largest entry and of the differences of logarithms.

    With Gumbel noise the largest entry is i with probability softmax(x)_i, at any temperature t, and
    t (log y_i - log y_j) - (x_i - x_j) is logistic (Maddison et al. 2017, "The concrete distribution").
    """
    if not random_form(c):
        return
    output = c.actual_leaves()[0]
    x = to_torch(c.argument("x")).double()
    axis, t = int(c.argument("axis", -1)), float(c.argument("temperature", 1.0))
    if x.ndim == 0 or output.numel() == 0:
        return
    y, x = output.double().movedim(axis, -1), x.movedim(axis, -1)
    one = torch.ones((), dtype=output.dtype)
    total = y.sum(-1).to(output.dtype)
    if not c.pair("output 0, sums along the axis", total, one.expand(total.shape)):
        return
    hard = bool(c.argument("hard", False))
    if hard and not bool(((y == 0) | (y == 1)).all()):
        c.differs("output 0", "hard samples should hold nothing but 0 and 1")
        return
    rows = x.softmax(-1).reshape(-1, x.shape[-1]).numpy()
    largest = y.reshape(-1, y.shape[-1]).argmax(-1, keepdim=True)
    for problem in law_problems(laws.categorical(rows), largest, "place of the largest entry"):
        c.differs("output 0", problem)
    if not hard and bool((y > 0).all()):
        pairs = y.shape[-1] // 2
        log_y = y.log()
        left, right = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
        noise = t * (log_y[..., left] - log_y[..., right]) - (x[..., left] - x[..., right])
        for problem in uniform_problems(noise.sigmoid().numpy(), "noise (logistic differences)"):
            c.differs("output 0", problem)
    _gumbel_gradient(c, y, axis, t, hard)


def _gumbel_gradient(c: Comparison, y: torch.Tensor, axis: int, t: float, hard: bool) -> None:
    """The gradient of softmax(v / t) at ``y``; of a hard sample only that it sums to zero can be said."""
    fed, gradient = c.cotangents[0] if c.cotangents else None, c.actual_gradients.get("x")
    if fed is None or gradient is None:
        return
    tolerance = c.tolerance(gradient.dtype)
    if hard:
        total = gradient.double().sum(axis).to(gradient.dtype)
        c.pair("gradient of x, sums along the axis", total, torch.zeros_like(total), tolerance)
        c.note("gradient of a hard sample: only that it sums to zero along the axis")
    else:
        back = fed.double().movedim(axis, -1)
        expected = y * (back - (back * y).sum(-1, keepdim=True)) / t
        c.pair("gradient of x", gradient, expected.movedim(-1, axis).to(gradient.dtype), tolerance)
    c.count(gradients=1)


@comparator(
    "paddle.nn.functional.class_center_sample",
    meaning="all classes that occur, random others, labels that point at them",
)
def class_center_sample(c: Comparison) -> None:
    """The number of centers, that all positive ones are there, the remapped labels, and the choice of the others."""
    if not random_form(c):
        return
    remapped, centers = c.actual_leaves()
    label = to_torch(c.argument("label"))
    count = int(c.argument("num_classes"))
    chosen = centers.tolist()
    if len(set(chosen)) != len(chosen) or min(chosen) < 0 or max(chosen) >= count:
        c.differs("output 1", f"centers should be different numbers below {count}, they are {chosen[:20]}")
        return
    if int(remapped.min()) < 0 or int(remapped.max()) >= len(chosen):
        c.differs("output 0", f"labels from {int(remapped.min())} to {int(remapped.max())} for {len(chosen)} centers")
        return
    c.pair("output 1 at output 0", centers[remapped.long()], label)
    present = set(label.tolist())
    others = np.array([k for k in range(count) if k not in present])
    picked = np.isin(others, np.array(chosen))
    # Going through the others in order, each is picked with probability (still to pick) / (still to come).
    taken = np.concatenate([[0], np.cumsum(picked)[:-1]]) if len(others) else np.zeros(0)
    chance = (picked.sum() - taken) / np.maximum(len(others) - np.arange(len(others)), 1)
    open_ = (chance > 0) & (chance < 1)
    noise = np.random.Generator(np.random.PCG64(20240229)).random(len(others))
    u = np.where(picked, noise * chance, chance + noise * (1 - chance))[open_]
    for problem in uniform_problems(u, "choice of the other centers"):
        c.differs("output 1", problem)
