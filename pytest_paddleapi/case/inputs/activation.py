"""Values on all sides of the kinks of activations, and on none of them."""

from __future__ import annotations

from typing import Any

from ...config import FLOATING
from .elementwise import apart
from .makers import distinct, ordinary, uniform
from .registry import Draw, Maker, inputs

_F = "paddle.nn.functional."


def around(*kinks: float | str, reach: float = 1.5) -> Maker:
    """Values from ``reach`` below the lowest kink to ``reach`` above the highest.

    A kink is a number, or the name of the argument that holds it (its mirror image with a minus sign).
    """

    def make(draw: Draw) -> Any:
        if draw.dtype not in FLOATING:
            return ordinary(draw)
        known = [k for k in (_kink(draw, one) for one in kinks) if abs(k) < 1000]
        low, high = min(known, default=0.0) - reach, max(known, default=0.0) + reach
        return apart(draw.rng.uniform(low, high, draw.shape), known, 0.01 * (high - low))

    return make


_DEFAULTS = {"min": -1.0, "max": 1.0, "threshold": 0.5, "beta": 1.0}


def _kink(draw: Draw, kink: float | str) -> float:
    if not isinstance(kink, str):
        return kink
    name = kink.removeprefix("-")
    value = draw.arg(name, 1.0 if name == "threshold" and "thresholded" in draw.call.api else _DEFAULTS[name])
    number = float(value) if isinstance(value, (int, float)) else _DEFAULTS[name]
    return -number if kink.startswith("-") else number


def hardsigmoid_sides(draw: Draw) -> Any:
    """Its kinks are where slope * x + offset is 0 and 1."""
    slope, offset = draw.arg("slope", 0.1666667), draw.arg("offset", 0.5)
    if not slope:
        return ordinary(draw)
    return around(-offset / slope, (1 - offset) / slope)(draw)


def softplus_sides(draw: Draw) -> Any:
    """Some beyond the threshold, where that is near enough."""
    beta, threshold = draw.arg("beta", 1), draw.arg("threshold", 20)
    kink = threshold / beta if beta else 0.0
    return around(kink, -2.0)(draw) if abs(kink) < 30 and draw.rng.random() < 0.5 else uniform(-3.0, 3.0)(draw)


inputs(*(_F + name for name in ("relu", "elu", "celu", "selu", "leaky_relu", "prelu")), x=around(0.0, reach=3.0))
inputs(_F + "relu6", x=around(0.0, 6.0))
inputs(_F + "hardswish", x=around(-3.0, 3.0))
inputs(_F + "hardtanh", x=around("min", "max"))
inputs(_F + "hardshrink", _F + "softshrink", x=around("-threshold", "threshold"))
inputs(_F + "thresholded_relu", x=around("threshold"))
inputs(_F + "hardsigmoid", x=hardsigmoid_sides)
inputs(_F + "softplus", x=softplus_sides)
inputs(*(_F + name for name in ("gelu", "silu", "swish", "mish", "log_sigmoid", "logsigmoid")), x=uniform(-4.0, 4.0))
inputs(_F + "maxout", x=distinct)
