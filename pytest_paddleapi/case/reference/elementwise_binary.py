"""Arithmetic, comparisons, logic and bits of two tensors, element by element, with their in-place forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .promotion import Scalars, filled, is_float, is_integer, no_complex, promoted, same_dtype
from .registry import NoEquivalent, reference

Operation = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


# The operations, on tensors of one dtype --------------------------------------------------------


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y


def subtract(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x - y


def multiply(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x * y


def divide(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """True division: integers give float32."""
    if x.dtype == torch.bool:
        raise NoEquivalent("Paddle documents no dtype for the quotient of bools")
    return torch.true_divide(x, y)


def floor_divide(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The quotient rounded down."""
    no_complex(x, y)
    return torch.div(x, y, rounding_mode="floor")


def trunc_divide(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The quotient rounded towards zero."""
    no_complex(x, y)
    return torch.div(x, y, rounding_mode="trunc")


def remainder(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """x - floor(x / y) * y, with the sign of the divisor."""
    if x.is_complex():
        raise NoEquivalent("the remainder of complex numbers is not defined")
    return torch.remainder(x, y)


def power(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """x to the power of y; of integers in their dtype, towards zero (2 ** -1 is 0)."""
    if is_integer(x.dtype) and bool((y < 0).any()):
        return torch.trunc(torch.pow(x.double(), y.double())).to(x.dtype)
    return torch.pow(x, y)


def atan2(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The angle of (y, x); float64 for integers (documentation of paddle.atan2)."""
    return torch.atan2(x, y) if x.is_floating_point() else torch.atan2(x.double(), y.double())


def copysign(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The magnitude of x with the sign of y, in the dtype of x."""
    if x.is_floating_point():
        return torch.copysign(x, y)
    x, y = torch.broadcast_tensors(x, y)
    if x.dtype in (torch.bool, torch.uint8):
        return x.clone()
    return torch.where((y < 0) != (x < 0), -x, x)


def hypot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """sqrt(x*x + y*y); float32 for integers."""
    if x.is_complex():
        raise NoEquivalent("Paddle documents real numbers only")
    return torch.hypot(x, y) if x.is_floating_point() else torch.hypot(x.float(), y.float())


def logaddexp(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """log(exp(x) + exp(y)); float32 for integers."""
    return torch.logaddexp(x, y) if x.is_floating_point() else torch.logaddexp(x.float(), y.float())


def heaviside(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """0 below zero, 1 above, and y at zero. Written out, because torch.heaviside has no gradient."""
    return torch.where(x == 0, y, (x > 0).to(x.dtype))


# Registering them -------------------------------------------------------------------------------


def _register(
    api: str, operation: Operation, *, prepare: Any = promoted, inplace: bool = True, constant: tuple[str, ...] = ()
) -> None:
    def rule(x, y, name=None, *, out=None):
        return operation(*prepare(x, y))

    rule.__name__ = rule.__qualname__ = api
    reference(api, constant=("out", *constant))(rule)
    if inplace:
        in_place(api, rule, constant=constant)


def in_place(
    api: str, rule: Callable[..., torch.Tensor], *, no_gradient: str = "", constant: tuple[str, ...] = ()
) -> None:
    """Register ``api_`` for a rule whose result replaces ``x``: it must have its shape."""
    # Paddle gives the tensor the dtype of the result, see the documentation of each in-place API.

    def changed(x, y, *args, **kwargs):
        result = rule(x, y, *args, **kwargs)
        if result.shape != x.shape:
            raise ValueError(f"the result has shape {list(result.shape)}, the tensor to change {list(x.shape)}")
        return result

    changed.__name__ = changed.__qualname__ = f"{api}_"
    changed.__wrapped__ = rule  # type: ignore[attr-defined]
    reference(f"{api}_", returns_changed=True, no_gradient=no_gradient, constant=constant)(changed)


def unmixed(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both as they are; Paddle does not mix dtypes here.

    Raises:
        TypeError: the dtypes differ.
    """
    same_dtype(x, y)
    return x, y


def as_tensors(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As :func:`promoted`, where a 0-D tensor has no rule of its own."""
    return promoted(x, y, Scalars.AS_TENSORS)


def integers(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors of integers."""
    if not (is_integer(x.dtype) and is_integer(y.dtype)):
        raise NoEquivalent("Paddle documents integers only")
    return as_tensors(x, y)


def or_scalar(x: Any, y: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """As :func:`promoted`; a Python number takes the dtype of ``x``, which keeps it."""
    return promoted(x, y if isinstance(y, torch.Tensor) else filled(y, x.dtype))


_register("paddle.multiply", multiply)
_register("paddle.mul", multiply)
_register("paddle.maximum", torch.maximum, prepare=as_tensors, inplace=False)
_register("paddle.minimum", torch.minimum, prepare=as_tensors, inplace=False)
_register("paddle.fmax", torch.fmax, prepare=as_tensors, inplace=False)
_register("paddle.fmin", torch.fmin, prepare=as_tensors, inplace=False)
_register("paddle.atan2", atan2, prepare=as_tensors, inplace=False)
_register("paddle.hypot", hypot)
_register("paddle.copysign", copysign, prepare=or_scalar)
_register("paddle.heaviside", heaviside, prepare=unmixed, inplace=False)
_register("paddle.nextafter", torch.nextafter, prepare=as_tensors, inplace=False)
_register("paddle.logaddexp", logaddexp, prepare=as_tensors, inplace=False)
_register("paddle.gcd", torch.gcd, prepare=integers)
_register("paddle.lcm", torch.lcm, prepare=integers)
# Neither framework has the derivative by the order x.
_register("paddle.gammainc", torch.special.gammainc, prepare=unmixed, constant=("x",))
_register("paddle.gammaincc", torch.special.gammaincc, prepare=unmixed, constant=("x",))
_register("paddle.remainder", remainder, prepare=or_scalar)
_register("paddle.mod", remainder, prepare=or_scalar)
_register("paddle.floor_mod", remainder, prepare=or_scalar)
_register("paddle.equal", torch.eq, prepare=or_scalar)
_register("paddle.eq", torch.eq, prepare=or_scalar)


def ordered(operation: Operation) -> Operation:
    """Comparison by size, which complex numbers do not have."""

    def compare(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if x.is_complex():
            raise NoEquivalent("complex numbers have no order")
        return operation(x, y)

    return compare


for _names, _compare, _prepare in (
    (("not_equal", "ne"), torch.ne, promoted),
    (("less_than", "less", "lt"), ordered(torch.lt), promoted),
    (("less_equal", "le"), ordered(torch.le), promoted),
    (("greater_than", "greater", "gt"), ordered(torch.gt), promoted),
    (("greater_equal", "ge"), ordered(torch.ge), promoted),
    (("logical_and",), torch.logical_and, as_tensors),
    (("logical_or",), torch.logical_or, as_tensors),
    (("logical_xor",), torch.logical_xor, as_tensors),
):
    for _name in _names:
        _register(f"paddle.{_name}", _compare, prepare=_prepare)


@reference("paddle.floor_divide", constant=("out",))
def floor_divide_rule(x, y, name=None, *, out=None):
    """Rounded down. A Python number is a 0-D tensor of its own dtype (int64 or float32)."""
    if not isinstance(y, torch.Tensor):
        y = torch.tensor(y)
    return floor_divide(*promoted(x, y, Scalars.MIX))


in_place("paddle.floor_divide", floor_divide_rule, no_gradient="Paddle defines none for floor division")


@reference("paddle.add", constant=("out",))
def add_rule(x, y, name=None, *, alpha=1, out=None):
    return add(*promoted(x, y * alpha if alpha != 1 else y))


@reference("paddle.subtract", "paddle.sub", constant=("out",))
def subtract_rule(x, y, name=None, *, alpha=1, out=None):
    return subtract(*promoted(x, y * alpha if alpha != 1 else y))


@reference("paddle.divide", "paddle.div", constant=("out",))
def divide_rule(x, y, name=None, *, rounding_mode=None, out=None):
    """True division, or the quotient rounded down (``floor``) or towards zero (``trunc``)."""
    how = {None: divide, "floor": floor_divide, "trunc": trunc_divide}
    if rounding_mode not in how:
        raise ValueError(f"rounding_mode is None, 'floor' or 'trunc', not {rounding_mode!r}")
    return how[rounding_mode](*promoted(x, y))


@reference("paddle.true_divide")
def true_divide_rule(input, other, *, out=None):
    return divide(*promoted(input, other))


in_place("paddle.add", add_rule)
in_place("paddle.subtract", subtract_rule)
in_place("paddle.sub", subtract_rule)
in_place("paddle.divide", divide_rule)
in_place("paddle.div", divide_rule)


@reference("paddle.pow", constant=("out",))
def pow_rule(x, y, name=None, *, out=None):
    """x to the power of y; beside a Python number the result has the dtype of x."""
    if isinstance(y, torch.Tensor):
        return power(*promoted(x, y))
    if isinstance(y, (int, float)):
        return scalar_power(x, y)
    raise TypeError(f"the exponent is a number or a tensor, not {type(y).__name__}")


def scalar_power(x: torch.Tensor, y: float) -> torch.Tensor:
    """x to the power of a number; integers keep their dtype, towards zero."""
    if x.is_floating_point() or x.is_complex():
        return torch.pow(x, y)
    if y >= 0 and float(y).is_integer():
        return torch.pow(x, int(y))
    return torch.trunc(torch.pow(x.double(), y)).to(x.dtype)


@reference("paddle.pow_", returns_changed=True)
def pow_in_place(x, y, name=None):
    """In place the exponent is a number."""
    if isinstance(y, torch.Tensor):
        raise TypeError("pow_ takes a number as its exponent")
    return pow_rule(x, y)


@reference("paddle.ldexp")
def ldexp(x, y, name=None):
    """x * 2**y in float32, or in float64 if either is."""
    dtype = torch.float64 if torch.float64 in (x.dtype, y.dtype) else torch.float32
    return x.to(dtype) * torch.pow(torch.tensor(2.0, dtype=dtype), y.to(dtype))


in_place("paddle.ldexp", ldexp)


@reference("paddle.lerp")
def lerp(x, y, weight, name=None):
    """x + weight * (y - x)."""
    if isinstance(weight, torch.Tensor):
        same_dtype(x, y, weight)
    else:
        same_dtype(x, y)
    return x + weight * (y - x)


in_place("paddle.lerp", lerp)


# Bits -------------------------------------------------------------------------------------------


def _bitwise(api: str, operation: Operation) -> None:
    def rule(x, y, out=None, name=None):
        return operation(*unmixed(x, y))

    rule.__name__ = rule.__qualname__ = api
    reference(api)(rule)
    in_place(api, rule)


_bitwise("paddle.bitwise_and", torch.bitwise_and)
_bitwise("paddle.bitwise_or", torch.bitwise_or)
_bitwise("paddle.bitwise_xor", torch.bitwise_xor)


def width(dtype: torch.dtype) -> int:
    """Bits of an integer."""
    return torch.iinfo(dtype).bits


def shift_left(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """x * 2**y modulo 2**bits; zero where y is negative or no less than the number of bits."""
    inside = (y >= 0) & (y < width(x.dtype))
    return torch.where(inside, torch.bitwise_left_shift(x, torch.where(inside, y, torch.zeros_like(y))), 0)


def shift_right(x: torch.Tensor, y: torch.Tensor, *, arithmetic: bool = True) -> torch.Tensor:
    """x without its lowest y bits; filled with the sign, or with zeros where not ``arithmetic``.

    All bits are gone where y is negative or no less than the number of bits.
    """
    bits = width(x.dtype)
    inside = (y >= 0) & (y < bits)
    amount = torch.where(inside, y, torch.zeros_like(y))
    shifted = torch.bitwise_right_shift(x, amount)
    if arithmetic or x.dtype == torch.uint8:
        return torch.where(inside, shifted, torch.where(x < 0, -1, 0).to(x.dtype))
    # Of a negative number keep the lowest bits - y bits, so that zeros come in from above.
    mask = torch.where(amount == 0, -1, (1 << (bits - 1 - (amount - 1).clamp(min=0).long())) - 1).to(x.dtype)
    return torch.where(inside, shifted & mask, 0)


@reference("paddle.bitwise_left_shift")
def left_shift_rule(x, y, is_arithmetic=True, out=None, name=None):
    """Both kinds move bits alike; an arithmetic shift may not keep the sign either (it wraps round)."""
    return shift_left(*unmixed(x, y))


@reference("paddle.bitwise_right_shift")
def right_shift_rule(x, y, is_arithmetic=True, out=None, name=None):
    x, y = unmixed(x, y)
    return shift_right(x, y, arithmetic=is_arithmetic)


in_place("paddle.bitwise_left_shift", left_shift_rule)
in_place("paddle.bitwise_right_shift", right_shift_rule)


# Sums of pairs -----------------------------------------------------------------------------------


@reference("paddle.complex", constant=("out",))
def complex(real, imag, name=None, *, out=None):
    same_dtype(real, imag)
    return torch.complex(*torch.broadcast_tensors(real, imag))


@reference("paddle.polar", constant=("out",))
def polar(abs, angle, name=None, *, out=None):
    """abs * (cos(angle) + i sin(angle))."""
    if not (is_float(abs.dtype) and is_float(angle.dtype)):
        raise NoEquivalent("Paddle documents floats only")
    real, imag = abs * torch.cos(angle), abs * torch.sin(angle)
    return torch.complex(real, imag.to(real.dtype))


@reference("paddle.isclose")
def isclose(x, y, rtol=1e-05, atol=1e-08, equal_nan=False, name=None):
    """|x - y| <= atol + rtol * |y|, or equal; infinities only to themselves, NaN where ``equal_nan`` says so."""
    if x.shape != y.shape:
        if 0 in (x.numel(), y.numel()):
            raise NoEquivalent("Paddle documents tensors of one shape")
        raise ValueError("isclose and allclose compare tensors of one shape")
    if x.dtype != y.dtype and (x.is_complex() or y.is_complex()):
        raise NoEquivalent("Paddle documents tensors of one dtype")
    same_dtype(x, y)
    wide = x.dtype if x.is_complex() else torch.float64
    a, b = x.to(wide), y.to(wide)
    near = ((a - b).abs() <= _number(atol) + _number(rtol) * b.abs()) & torch.isfinite(a) & torch.isfinite(b)
    near |= x == y
    return near | (torch.isnan(a) & torch.isnan(b)) if equal_nan else near


@reference("paddle.allclose")
def allclose(x, y, rtol=1e-05, atol=1e-08, equal_nan=False, name=None):
    return isclose(x, y, rtol, atol, equal_nan).all()


@reference("paddle.equal_all")
def equal_all(x, y, name=None):
    """Same shape and same values."""
    if x.shape != y.shape:
        return torch.tensor(False)
    same_dtype(x, y)
    return torch.tensor(bool((x == y).all()))


def _number(value: Any) -> float:
    return float(value.reshape(-1)[0]) if isinstance(value, torch.Tensor) else float(value)
