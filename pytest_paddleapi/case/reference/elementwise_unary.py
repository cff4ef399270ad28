"""Functions of one tensor, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .promotion import is_integer
from .registry import NoEquivalent, reference


def unary(api: str, function: Callable[[torch.Tensor], Any]) -> None:
    """Register a function that has no argument but the tensor (``out`` gets a copy of what is returned)."""

    def rule(x, name=None, *, out=None):
        return function(x)

    rule.__name__ = rule.__qualname__ = api
    reference(api, constant=("out",))(rule)


def sign(x: torch.Tensor) -> torch.Tensor:
    """The sign, or for complex numbers the direction."""
    return torch.sgn(x)


def round_half_even(x: torch.Tensor, decimals: int = 0) -> torch.Tensor:
    """To ``decimals`` places, halves to even; complex numbers part by part, integers in float64."""
    if is_integer(x.dtype):
        return x.clone() if decimals >= 0 else torch.round(x.double(), decimals=decimals).to(x.dtype)
    if x.is_complex():
        return torch.view_as_complex(torch.round(torch.view_as_real(x), decimals=decimals))
    return torch.round(x, decimals=decimals)


def frac(x: torch.Tensor) -> torch.Tensor:
    """What is right of the point, with the sign of ``x``; zeros for integers."""
    return x - torch.trunc(x)


def integer_as_float32(function: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
    """For Torch functions that take no integers, where Paddle computes in float32."""

    def rule(x: torch.Tensor) -> Any:
        return function(x if x.is_floating_point() or x.is_complex() else x.float())

    return rule


def infinite(sign_: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Equal to plus (1) or minus (-1) infinity; integers never are."""

    def rule(x: torch.Tensor) -> torch.Tensor:
        return x == sign_ * math.inf if x.is_floating_point() else torch.zeros(x.shape, dtype=torch.bool)

    return rule


def scaled(factor: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """The product with a constant; int32 and int64 become float32."""

    def rule(x: torch.Tensor) -> torch.Tensor:
        if x.dtype == torch.bool or (is_integer(x.dtype) and x.dtype not in (torch.int32, torch.int64)):
            raise NoEquivalent("Paddle documents floats, int32 and int64 only")
        return (x.float() if x.dtype in (torch.int32, torch.int64) else x) * factor

    return rule


def positive(x: torch.Tensor) -> torch.Tensor:
    """The tensor itself; not for bools."""
    if x.dtype == torch.bool:
        raise TypeError("the + operator is not defined for bools")
    return x


def negated(x: torch.Tensor) -> torch.Tensor:
    """Minus ``x``."""
    if x.dtype == torch.bool:
        raise NoEquivalent("Paddle documents no negative of a bool")
    return -x


def sinc(x: torch.Tensor) -> torch.Tensor:
    """sin(pi x) / (pi x), and 1 at zero; not for integers."""
    if not (x.is_floating_point() or x.is_complex()):
        raise TypeError("sinc takes floats")
    return torch.sinc(x)


_UNARY: dict[str, Callable[[torch.Tensor], Any]] = {
    **{
        f"paddle.{name}": getattr(torch, name)
        for name in (
            *("abs", "acos", "acosh", "angle", "asin", "asinh", "atan", "atanh", "ceil", "conj", "cos", "cosh"),
            *("digamma", "erf", "erfinv", "exp", "expm1", "floor", "imag", "isfinite", "isinf", "isnan", "isreal"),
            *("lgamma", "log", "log10", "log1p", "log2", "real", "reciprocal", "rsqrt", "sigmoid", "sgn"),
            *("signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh", "bitwise_not", "logical_not"),
        )
    },
    **{f"paddle.{name}": integer_as_float32(getattr(torch.special, name)) for name in ("i0", "i0e", "i1", "i1e")},
    "paddle.gammaln": torch.lgamma,
    "paddle.neg": negated,
    "paddle.negative": torch.neg,
    "paddle.bitwise_invert": torch.bitwise_not,
    "paddle.positive": positive,
    "paddle.sign": sign,
    "paddle.frac": frac,
    "paddle.isposinf": infinite(1),
    "paddle.isneginf": infinite(-1),
    "paddle.rad2deg": scaled(180 / math.pi),
    "paddle.deg2rad": scaled(math.pi / 180),
    "paddle.sinc": sinc,
    "paddle.nn.functional.sigmoid": torch.sigmoid,
    "paddle.nn.functional.tanh": torch.tanh,
    "paddle.Tensor.__abs__": torch.abs,
    "paddle.Tensor.__neg__": negated,
    "paddle.Tensor.__pos__": positive,
    "paddle.Tensor.__invert__": torch.bitwise_not,
}

for _api, _function in _UNARY.items():
    unary(_api, _function)


@reference("paddle.trunc")
def trunc(input, name=None):
    return torch.trunc(input)


@reference("paddle.round", constant=("out",))
def round(x, decimals=0, name=None, *, out=None):
    return round_half_even(x, decimals)


@reference("paddle.logit")
def logit(x, eps=None, name=None):
    """log(x / (1 - x)), with x clamped to [eps, 1 - eps] where eps is given and not zero."""
    x = integer_as_float32(lambda t: t)(x)
    return torch.logit(x, eps) if eps else torch.logit(x)


@reference("paddle.stanh")
def stanh(x, scale_a=0.67, scale_b=1.7159, name=None):
    return scale_b * torch.tanh(integer_as_float32(lambda t: t)(x) * scale_a)


@reference("paddle.frexp")
def frexp(x, name=None):
    """Mantissa in [0.5, 1) and exponent, both in the dtype of ``x``."""
    mantissa, exponent = torch.frexp(x)
    return mantissa, exponent.to(x.dtype)


@reference("paddle.polygamma")
def polygamma(x, n, name=None):
    return torch.special.polygamma(n, x)


@reference("paddle.multigammaln")
def multigammaln(x, p, name=None):
    return torch.special.multigammaln(x, p)


@reference("paddle.nan_to_num")
def nan_to_num(x, nan=0.0, posinf=None, neginf=None, name=None):
    if x.dtype not in (torch.float32, torch.float64):
        raise TypeError("Paddle documents float32 and float64 for nan_to_num")
    return torch.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


@reference("paddle.scale", constant=("scale",))
def scale(x, scale=1.0, bias=0.0, bias_after_scale=True, act=None, name=None):
    """scale * x + bias, or scale * (x + bias), in the dtype of ``x``; then the activation that ``act`` names."""
    wide = x if x.is_floating_point() or x.is_complex() else x.double()
    if isinstance(scale, torch.Tensor):
        scale = scale.reshape(-1)[0].item()
    out = (wide * scale + bias if bias_after_scale else (wide + bias) * scale).to(x.dtype)
    if act is None:
        return out
    if is_integer(x.dtype):
        raise TypeError("activations take floats")
    function = getattr(torch, act, None) or getattr(torch.nn.functional, act)
    return function(out)


@reference("paddle.clip", "paddle.clamp", constant=("min", "max", "out"))
def clip(x, min=None, max=None, name=None, *, out=None):
    """Within [min, max]; integers with a float bound become float32."""
    low, high = (v.reshape(-1)[0].item() if isinstance(v, torch.Tensor) else v for v in (min, max))
    if x.dtype in (torch.int32, torch.int64) and (isinstance(low, float) or isinstance(high, float)):
        x = x.float()
    if low is None and high is None:
        return x.clone()
    return torch.clamp(x, low, high)
