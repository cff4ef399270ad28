"""Layers: element by element, with room for the rounding of long sums and of positions in an image."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .comparison import Comparison
from .long_sums import long_sum_tolerance, rms
from .registry import comparator

_F = "paddle.nn.functional."
_SUMS = "element by element, with room for the rounding of long sums"


def shared_parameters(c: Comparison) -> None:
    """The gradient of a parameter that many results share is the sum of their gradients."""
    c.outputs_elementwise()
    fed = next((g for g in c.cotangents if g is not None), None)
    for name, actual, expected in c.gradient_pairs():
        terms = fed.numel() / max(expected.numel(), 1) if fed is not None else 1.0
        c.pair(f"gradient of {name}", actual, expected, long_sum_tolerance(c, expected.dtype, terms, rms(fed)))
        c.count(gradients=1)


comparator(
    *(_F + name for name in ("batch_norm", "instance_norm", "layer_norm", "rms_norm", "group_norm")),
    meaning=_SUMS,
)(shared_parameters)


@comparator(_F + "linear", _F + "bilinear", meaning=_SUMS)
def linear(c: Comparison) -> None:
    """Inputs are summed for results, outputs for the gradient of x, rows for that of the parameters."""
    if not c.same_structure():
        return
    (actual,), (expected,) = c.actual_leaves(), c.expected_leaves()
    weight = c.argument("weight")
    points = [c.argument(name) for name in ("x", "x1", "x2") if isinstance(c.argument(name), np.ndarray)]
    fed = next((g for g in c.cotangents if g is not None), None)
    outputs = expected.shape[-1] if isinstance(expected, torch.Tensor) and expected.ndim else 1
    rows = expected.numel() / max(outputs, 1) if isinstance(expected, torch.Tensor) else 1.0
    size = rms(weight) * float(np.prod([rms(p) for p in points]))
    inputs = weight.size / max(outputs, 1) if isinstance(weight, np.ndarray) else 1.0
    c.pair("output 0", actual, expected, long_sum_tolerance(c, expected.dtype, inputs, size))
    c.count(outputs=1)
    for name, got, wanted in c.gradient_pairs():
        if name.startswith("x"):
            other = np.asarray(weight).size / max(wanted.shape[-1], 1) if wanted.ndim else 1.0
            tolerance = long_sum_tolerance(c, wanted.dtype, other, rms(fed) * rms(weight))
        else:
            tolerance = long_sum_tolerance(c, wanted.dtype, rows, rms(fed))
        c.pair(f"gradient of {name}", got, wanted, tolerance)
        c.count(gradients=1)


#: Both frameworks compute places in an image in float32, whatever its dtype.
_EPS = float(np.finfo(np.float32).eps)
_WHY = "places in the image are computed in float32"


def _spatial_extent(*shapes: Any) -> int:
    return max((int(size) for shape in shapes for size in shape), default=1)


@comparator(
    _F + "interpolate",
    _F + "upsample",
    meaning="element by element, with room for the rounding of places in the image",
)
def resampling(c: Comparison) -> None:
    """A place is off by eps times its size, and a result by that times the slope there (at most 4 for cubic
    weights of ordinary values)."""
    if not c.same_structure():
        return
    (actual,), (expected,) = c.actual_leaves(), c.expected_leaves()
    x = c.argument("x")
    shapes = [v.shape[1:] for v in (x, expected) if isinstance(v, (np.ndarray, torch.Tensor))]
    loss = 2 * _EPS * _spatial_extent(*shapes)
    exact = str(c.argument("mode", "nearest")).lower() in ("nearest", "area")
    for what, got, wanted, data in (
        ("output 0", actual, expected, x),
        *((f"gradient of {name}", g, e, None) for name, g, e in c.gradient_pairs()),
    ):
        tolerance = c.tolerance(wanted.dtype)
        if not exact:
            tolerance = tolerance.at_least(4 * loss * rms(data if data is not None else wanted), tolerance.rtol, _WHY)
        if data is None and wanted.dtype in (torch.float16, torch.bfloat16) and isinstance(expected, torch.Tensor):
            terms = max(expected.numel() / max(wanted.numel(), 1), 1.0)
            tolerance = tolerance.at_least(
                torch.finfo(wanted.dtype).eps * terms, tolerance.rtol, "gradients added up in half precision"
            )
        c.pair(what, got, wanted, tolerance)
    c.count(outputs=1, gradients=sum(1 for _ in c.gradient_pairs()))


@comparator(
    _F + "grid_sample",
    meaning="element by element, with room for the rounding of places in the image",
)
def sampling(c: Comparison) -> None:
    """As for resampling; the gradient of the grid is a slope, whose weights are off by the same."""
    c_x = c.argument("x")
    size = _spatial_extent(c_x.shape[2:]) if isinstance(c_x, np.ndarray) else 1
    if not c.same_structure():
        return
    (actual,), (expected,) = c.actual_leaves(), c.expected_leaves()
    tolerance = c.tolerance(expected.dtype)
    loss = 4 * max(_EPS, torch.finfo(expected.dtype).eps) if expected.dtype == torch.float32 else 0.0
    c.pair("output 0", actual, expected, tolerance.at_least(loss * size * rms(c_x), tolerance.rtol, _WHY))
    c.count(outputs=1)
    for name, got, wanted in c.gradient_pairs():
        tolerance = c.tolerance(wanted.dtype)
        wide = tolerance.at_least(loss * size * max(rms(wanted), 1.0), tolerance.rtol, _WHY)
        c.pair(f"gradient of {name}", got, wanted, wide)
        c.count(gradients=1)
