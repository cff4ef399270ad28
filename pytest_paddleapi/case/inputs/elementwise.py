"""Values inside the domains of elementwise functions, and pairs of values worth comparing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...config import COMPLEX, FLOATING, INTEGRAL, DtypeRef, TensorSpec, TypeRef
from ..dtypes import dtype_name
from .makers import integers, nonzero, one_of, ordinary, uniform
from .registry import Draw, Maker, inputs

_UNSIGNED = frozenset({"uint8", "bool"})


def by_kind(floats: Maker, whole: Maker) -> Maker:
    """One maker for floats and complex numbers, another for integers and bools."""

    def make(draw: Draw) -> Any:
        return (floats if draw.dtype in FLOATING or draw.dtype in COMPLEX else whole)(draw)

    return make


# Functions of one tensor --------------------------------------------------------------------------

for _name, _maker in {
    "log log2 log10 sqrt rsqrt": uniform(0.1, 4.0),
    "log1p": by_kind(uniform(-0.9, 3.0), integers(0, 9)),
    "acos asin": by_kind(uniform(-0.95, 0.95), integers(-1, 2)),
    "atanh erfinv": by_kind(uniform(-0.9, 0.9), integers(0, 1)),
    "acosh": by_kind(uniform(1.1, 4.0), integers(1, 9)),
    "tan": by_kind(uniform(-1.2, 1.2), integers(-1, 2)),
    "logit": by_kind(uniform(0.04, 0.96), integers(0, 1)),
    "round trunc ceil floor frac": uniform(-9.0, 9.0),
    "polygamma": uniform(0.5, 5.0),
    "reciprocal": nonzero,
}.items():
    inputs(*(f"paddle.{name}" for name in _name.split()), x=_maker, input=_maker)


def beside_the_poles(draw: Draw) -> Any:
    """From 0.2 to 5, with some between -0.8 and -0.2: the gamma function has poles at 0, -1, ..."""
    if draw.dtype not in FLOATING:
        return draw.rng.integers(1, 9, draw.shape)
    values = draw.rng.uniform(0.2, 5.0, draw.shape)
    return np.where(draw.rng.random(draw.shape) < 0.2, draw.rng.uniform(-0.8, -0.2, draw.shape), values)


inputs("paddle.lgamma", "paddle.gammaln", "paddle.digamma", x=beside_the_poles)


def above_half_order(draw: Draw) -> Any:
    """The multivariate gamma function of order p is defined above (p - 1) / 2."""
    least = (int(draw.arg("p", 1)) - 1) / 2 + 0.3
    return draw.rng.uniform(least, least + 4.0, draw.shape)


inputs("paddle.multigammaln", x=above_half_order)
inputs("paddle.gammainc", "paddle.gammaincc", x=uniform(0.5, 4.0), y=uniform(0.1, 5.0))


def with_special(draw: Draw) -> Any:
    """Ordinary values and, where the dtype has them, NaN, both infinities and both zeros."""
    values = np.asarray(ordinary(draw))
    special: list[complex] = [math.nan, math.inf, -math.inf, 0.0, -0.0]
    if draw.dtype in COMPLEX:
        special = [complex(math.nan, 1), complex(1, math.inf), complex(-math.inf, 0), complex(1, 0), 0.0]
    elif draw.dtype not in FLOATING:
        return values
    picked = np.asarray(special)[draw.rng.integers(0, len(special), draw.shape)]
    return np.where(draw.rng.random(draw.shape) < 0.4, picked, values)


inputs(
    *(f"paddle.{name}" for name in ("isnan", "isinf", "isfinite", "isposinf", "isneginf", "isreal", "signbit")),
    "paddle.nan_to_num",
    x=with_special,
)
inputs("paddle.sign", x=by_kind(lambda draw: _some_zero(draw), ordinary))


def _some_zero(draw: Draw) -> Any:
    values = ordinary(draw)
    return values if draw.dtype in COMPLEX else np.where(draw.rng.random(draw.shape) < 0.2, 0.0, values)


def beside_bounds(draw: Draw) -> Any:
    """Below, between and above the bounds, but on none of them: a kink has no gradient."""
    low, high = (_number(draw, name) for name in ("min", "max"))
    known = [v for v in (low, high) if v is not None and math.isfinite(v)]
    if draw.dtype not in FLOATING:
        limits = np.iinfo(draw.dtype) if draw.dtype in INTEGRAL else None
        if limits is None or not known:
            return ordinary(draw)
        first, last = max(int(min(known)) - 4, limits.min), min(int(max(known)) + 5, limits.max)
        return draw.rng.integers(first, max(last, first + 1), draw.shape)
    if not known:
        return ordinary(draw)
    width = max(max(known) - min(known), 2.0 if max(map(abs, known)) < 100 else 0.1 * max(map(abs, known)))
    if max(map(abs, known)) > 1e4:
        return ordinary(draw)
    values = draw.rng.uniform(min(known) - 0.5 * width, max(known) + 0.5 * width, draw.shape)
    return apart(values, known, 0.01 * width)


def apart(values: Any, kinks: list[float], distance: float) -> Any:
    """The values, moved away from each kink where they are nearer than ``distance``."""
    for kink in kinks:
        offset = values - kink
        values = np.where(np.abs(offset) < distance, kink + np.copysign(2 * distance, offset), values)
    return values


def _number(draw: Draw, name: str) -> float | None:
    value = draw.arg(name)
    if isinstance(value, TensorSpec):
        made = np.asarray(draw.values(name)).astype(np.float64).reshape(-1)
        return float(made[0]) if made.size else None
    return float(value) if isinstance(value, (int, float)) else None


def lower_bound(draw: Draw) -> Any:
    return by_kind(uniform(-1.0, -0.2), integers(0, 3))(draw)


def upper_bound(draw: Draw) -> Any:
    return by_kind(uniform(0.2, 1.0), integers(3, 7))(draw)


inputs("paddle.clip", "paddle.clamp", x=beside_bounds, min=lower_bound, max=upper_bound)


# Arithmetic ---------------------------------------------------------------------------------------


def interleaved(odd: bool) -> Maker:
    """Floats from a grid that half precision holds; two of them, ``odd`` and not, are never equal."""

    def make(draw: Draw) -> Any:
        if draw.dtype not in FLOATING:
            return ordinary(draw)
        step = 1 / 64
        return (2 * draw.rng.integers(-60, 60, draw.shape) + int(odd)) * step

    return make


def some_missing(maker: Maker) -> Maker:
    """With a NaN in one place of twenty."""

    def make(draw: Draw) -> Any:
        values = maker(draw)
        return np.where(draw.rng.random(draw.shape) < 0.05, math.nan, values) if draw.dtype in FLOATING else values

    return make


inputs("paddle.maximum", "paddle.minimum", x=interleaved(False), y=interleaved(True))
inputs("paddle.fmax", "paddle.fmin", x=some_missing(interleaved(False)), y=interleaved(True))


def divisor(draw: Draw) -> Any:
    """No zero, and no False."""
    return np.ones(draw.shape, bool) if draw.dtype == "bool" else nonzero(draw)


inputs(
    *(f"paddle.{name}" for name in ("divide", "div", "floor_divide", "remainder", "mod", "floor_mod")),
    *(f"paddle.Tensor.__{name}__" for name in ("truediv", "div", "floordiv", "mod")),
    y=divisor,
)
inputs("paddle.true_divide", other=divisor)
inputs(*(f"paddle.Tensor.__r{name}__" for name in ("truediv", "div", "floordiv", "mod")), x=divisor)
inputs("paddle.heaviside", x=by_kind(lambda draw: _some_zero(draw), ordinary))
inputs("paddle.gcd", "paddle.lcm", x=integers(-30, 31), y=integers(-12, 13))
inputs("paddle.ldexp", y=by_kind(integers(-3, 4), integers(-3, 4)))
inputs("paddle.lerp", weight=uniform(0.0, 1.0))
inputs("paddle.complex", real=ordinary, imag=ordinary)
inputs("paddle.polar", abs=uniform(0.1, 2.0), angle=uniform(-3.0, 3.0))


def base(draw: Draw) -> Any:
    """Any sign under a whole exponent; positive under others; not zero under a negative one."""
    exponent = draw.arg("y")
    if draw.dtype in COMPLEX:
        return ordinary(draw)
    if isinstance(exponent, (int, float)) and float(exponent).is_integer():
        if draw.dtype not in FLOATING:
            largest = 5 if abs(exponent) < 8 else 2
            values = draw.rng.integers(-largest if draw.dtype not in _UNSIGNED else 0, largest, draw.shape)
            return np.where(values == 0, 1, values) if exponent < 0 else values
        # Far powers of numbers near one stay in range.
        return ordinary(draw) if abs(exponent) <= 8 else uniform(0.7, 1.3)(draw)
    return by_kind(uniform(0.2, 2.0), integers(1, 5))(draw)


def exponent(draw: Draw) -> Any:
    """Small, and not negative for integers."""
    return by_kind(ordinary, integers(0, 6))(draw)


def reflected_exponent(draw: Draw) -> Any:
    """For ``y ** x``: so small that integers do not overflow."""
    number = draw.arg("y")
    if draw.dtype in FLOATING or draw.dtype in COMPLEX or not isinstance(number, (int, float)):
        return by_kind(ordinary, integers(0, 6))(draw)
    room = 30.0 / max(math.log2(abs(number)), 1.0) if number else 30.0
    return draw.rng.integers(0, max(int(min(room, 8)), 1) + 1, draw.shape)


inputs("paddle.pow", "paddle.Tensor.__pow__", x=base, y=exponent)
inputs("paddle.Tensor.__rpow__", x=reflected_exponent, y=uniform(0.2, 3.0))


# Comparisons and logic ----------------------------------------------------------------------------


def around_other(draw: Draw) -> Any:
    """A few values, so that many pairs are equal; around the other operand where that is a number."""
    rng = draw.rng
    other = draw.arg("y")
    steps = rng.integers(-1, 2, draw.shape)
    if draw.dtype == "bool":
        return ordinary(draw)
    if isinstance(other, bool) or not isinstance(other, (int, float)) or not math.isfinite(other):
        return steps + (1 if draw.dtype in _UNSIGNED else 0)
    if draw.dtype in FLOATING or draw.dtype in COMPLEX:
        largest = 6e4 if draw.dtype == "float16" else 1e30
        return np.clip(other + steps * max(1.0, abs(other) / 64), -largest, largest)
    limits = np.iinfo(draw.dtype)
    return np.clip(steps + math.floor(other), limits.min, limits.max)


_COMPARED = ("equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal", "less", "greater")
inputs(
    *(f"paddle.{name}" for name in (*_COMPARED, "eq", "ne", "lt", "le", "gt", "ge")),
    *(f"paddle.Tensor.__{name}__" for name in ("eq", "ne", "lt", "le", "gt", "ge")),
    x=around_other,
    y=around_other,
)

#: Half of them false.
truths = by_kind(one_of([0.0, 0.0, 1.5, -2.0]), one_of([0, 0, 1, 3]))
inputs("paddle.logical_and", "paddle.logical_or", "paddle.logical_xor", "paddle.logical_not", x=truths, y=truths)
inputs("paddle.Tensor.__bool__", "paddle.Tensor.__nonzero__", x=truths)


def any_bits(draw: Draw) -> Any:
    """From the whole range of the integer."""
    if draw.dtype not in INTEGRAL:
        return ordinary(draw)
    limits = np.iinfo(draw.dtype)
    return draw.rng.integers(limits.min, limits.max, draw.shape, dtype=draw.dtype, endpoint=True)


def shift_amounts(draw: Draw) -> Any:
    """From zero to one less than the number of bits: more is not defined in C++, nor in Paddle's documentation."""
    if draw.dtype not in INTEGRAL:
        return ordinary(draw)
    return draw.rng.integers(0, np.iinfo(draw.dtype).bits, draw.shape)


inputs(
    *(f"paddle.bitwise_{name}" for name in ("and", "or", "xor", "not", "invert")),
    *(f"paddle.Tensor.__{name}__" for name in ("and", "or", "xor", "rand", "ror", "rxor", "invert")),
    x=any_bits,
    y=any_bits,
)
inputs(
    *("paddle.bitwise_left_shift", "paddle.bitwise_right_shift", "paddle.Tensor.__lshift__"),
    "paddle.Tensor.__rshift__",
    x=any_bits,
    y=shift_amounts,
)
inputs("paddle.Tensor.__rlshift__", "paddle.Tensor.__rrshift__", x=shift_amounts, y=any_bits)


def near_other(draw: Draw) -> Any:
    """Half of the elements within the tolerance of the other tensor's, the rest far away."""
    first = _other_values(draw)
    if first is None:
        return around_other(draw)
    rtol, atol = _number(draw, "rtol"), _number(draw, "atol")
    step = 0.3 * ((1e-5 if rtol is None else rtol) * np.abs(first) + (1e-8 if atol is None else atol))
    far = 3.0 * (1e-5 if rtol is None else rtol) * np.abs(first) + 3.0 * (1e-8 if atol is None else atol) + 1.0
    return first + np.where(draw.rng.random(draw.shape) < 0.5, step, far)


def all_near_or_not(draw: Draw) -> Any:
    """All elements within the tolerance, or, as often, one of them not."""
    first = _other_values(draw)
    if first is None:
        return around_other(draw)
    rtol, atol = _number(draw, "rtol"), _number(draw, "atol")
    bound = (1e-5 if rtol is None else rtol) * np.abs(first) + (1e-8 if atol is None else atol)
    return _one_changed(draw, first, first + 0.3 * bound, 3.0 * bound + 1.0)


def equal_or_not(draw: Draw) -> Any:
    """All elements equal, or, as often, one of them not."""
    first = _other_values(draw)
    if first is None:
        return around_other(draw)
    return _one_changed(draw, first, first, np.ones(draw.shape)) if draw.dtype != "bool" else first


def _other_values(draw: Draw) -> Any:
    spec = draw.arg("x")
    if not isinstance(spec, TensorSpec) or spec.shape != draw.shape:
        return None
    values = np.asarray(draw.values("x"))
    return values if draw.dtype in COMPLEX else values.astype(np.float64) if draw.dtype != "bool" else values


def _one_changed(draw: Draw, first: Any, same: Any, change: Any) -> Any:
    size = int(np.prod(draw.shape, dtype=np.int64))
    if not size or draw.rng.random() < 0.5:
        return same
    place = np.zeros(size, bool)
    place[draw.rng.integers(0, size)] = True
    return np.where(place.reshape(draw.shape), first + change, same)


inputs("paddle.isclose", y=near_other)
inputs("paddle.allclose", y=all_near_or_not, rtol=uniform(1e-6, 1e-3), atol=uniform(1e-8, 1e-5))
inputs("paddle.equal_all", y=equal_or_not)


# Conversions --------------------------------------------------------------------------------------


def convertible(target: str | None = None) -> Maker:
    """Values that the target dtype can hold, towards zero: a cast of others is not defined in C++."""

    def make(draw: Draw) -> Any:
        wanted = target or _target(draw)
        if wanted == "bool":
            return truths(draw)
        if wanted == "uint8":
            return ordinary(draw) if draw.dtype == "bool" else by_kind(uniform(0.0, 9.0), integers(0, 17))(draw)
        if wanted in INTEGRAL and draw.dtype in FLOATING:
            return uniform(-9.0, 9.0)(draw)
        return ordinary(draw)

    return make


def _target(draw: Draw) -> str:
    value = draw.arg("dtype")
    return dtype_name(value) if isinstance(value, (str, DtypeRef, TypeRef)) else "float32"


inputs("paddle.cast", x=convertible())
inputs("paddle.Tensor.astype", self=convertible())
for _name in ("bool", "byte", "uint8", "char", "int8", "short", "int16", "int", "int32", "long", "int64"):
    inputs(
        f"paddle.Tensor.{_name}",
        self=convertible(
            {"byte": "uint8", "char": "int8", "short": "int16", "long": "int64", "int": "int32"}.get(_name, _name)
        ),
    )
