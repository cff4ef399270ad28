"""Operators of Tensor: with a tensor as in the function of that name, with a Python number by its own rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import elementwise_binary as binary
from .promotion import Scalars, filled, is_integer, promoted, same_dtype, with_scalar
from .registry import reference

Operation = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _operands(x: Any, y: Any, scalars: Scalars = Scalars.GIVE_WAY) -> tuple[torch.Tensor, torch.Tensor]:
    if isinstance(y, torch.Tensor):
        return promoted(x, y, scalars)
    if isinstance(y, (bool, int, float, complex)):
        return with_scalar(x, y)
    raise TypeError(f"no tensor operator takes {type(y).__name__}")


def _register(name: str, operation: Operation, *, reflected: bool = False, scalars: Scalars = Scalars.GIVE_WAY) -> None:
    def rule(x, y):
        left, right = _operands(x, y, scalars)
        return operation(right, left) if reflected else operation(left, right)

    rule.__name__ = rule.__qualname__ = name
    reference(f"paddle.Tensor.{name}")(rule)


def _both_ways(name: str, operation: Operation, scalars: Scalars = Scalars.GIVE_WAY) -> None:
    _register(f"__{name}__", operation, scalars=scalars)
    _register(f"__r{name}__", operation, reflected=True, scalars=scalars)


_both_ways("add", binary.add)
_both_ways("sub", binary.subtract)
_both_ways("mul", binary.multiply)


def _divide(x: torch.Tensor, y: Any, *, reflected: bool) -> torch.Tensor:
    """Beside a number, integers become float32 before they are divided: so -1 under a uint8 is no 255."""
    if isinstance(y, (bool, int)) and is_integer(x.dtype):
        x = x.float()
    left, right = _operands(x, y)
    return binary.divide(right, left) if reflected else binary.divide(left, right)


@reference("paddle.Tensor.__truediv__", "paddle.Tensor.__div__")
def truediv(x, y):
    return _divide(x, y, reflected=False)


@reference("paddle.Tensor.__rtruediv__", "paddle.Tensor.__rdiv__")
def rtruediv(x, y):
    return _divide(x, y, reflected=True)


_both_ways("floordiv", binary.floor_divide, Scalars.MIX)
_both_ways("mod", binary.remainder)
_both_ways("pow", binary.power)

_register("__lt__", binary.ordered(torch.lt))
_register("__le__", binary.ordered(torch.le))
_register("__gt__", binary.ordered(torch.gt))
_register("__ge__", binary.ordered(torch.ge))


@reference("paddle.Tensor.__eq__")
def eq(x, y):
    return False if y is None else torch.eq(*_operands(x, y))


@reference("paddle.Tensor.__ne__")
def ne(x, y):
    return True if y is None else torch.ne(*_operands(x, y))


def _bits(symbol: str, operation: Operation) -> None:
    def rule(x, y, out=None, name=None):
        """Two tensors of one dtype: this operator takes no number on its right."""
        same_dtype(x, y)
        return operation(x, y)

    def reflected_rule(x, y, out=None, name=None):
        """A number on the left; it takes the tensor's dtype."""
        if not isinstance(y, (bool, int)):
            raise TypeError("the left operand is an int or a bool")
        return operation(filled(y, x.dtype), x)

    reference(f"paddle.Tensor.__{symbol}__")(rule)
    reference(f"paddle.Tensor.__r{symbol}__")(reflected_rule)


_bits("and", torch.bitwise_and)
_bits("or", torch.bitwise_or)
_bits("xor", torch.bitwise_xor)


def _shift(symbol: str, operation: Callable[..., torch.Tensor]) -> None:
    """``x << y`` and the like; a number takes the tensor's dtype (and wraps round)."""

    def operands(x: torch.Tensor, y: Any) -> tuple[torch.Tensor, torch.Tensor]:
        if isinstance(y, (float, complex)):
            raise TypeError(f"no shift takes {type(y).__name__}")
        other = y if isinstance(y, torch.Tensor) else filled(y, x.dtype)
        same_dtype(x, other)
        return x, other

    def rule(x, y, is_arithmetic=True):
        return operation(*operands(x, y), is_arithmetic)

    def reflected_rule(x, y, is_arithmetic=True):
        right, left = operands(x, y)
        return operation(left, right, is_arithmetic)

    reference(f"paddle.Tensor.__{symbol}__")(rule)
    reference(f"paddle.Tensor.__r{symbol}__")(reflected_rule)


_shift("lshift", binary.left_shift_rule)
_shift("rshift", binary.right_shift_rule)


# Python's own conversions ------------------------------------------------------------------------


def _one(convert: Callable[[Any], Any], x: torch.Tensor) -> Any:
    if x.numel() != 1:
        raise TypeError("only a tensor of one element can become a Python number")
    return convert(x.detach().reshape(()).item())


def _conversion(name: str, convert: Callable[[Any], Any]) -> None:
    def rule(x):
        return _one(convert, x)

    reference(f"paddle.Tensor.{name}")(rule)


for _name, _convert in (
    ("__bool__", bool),
    ("__nonzero__", bool),
    ("__int__", int),
    ("__long__", int),
    ("__index__", int),
    ("__float__", float),
    ("__complex__", complex),
):
    _conversion(_name, _convert)
