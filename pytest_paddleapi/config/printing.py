"""The one spelling of a :class:`Call`: what node ids, caches and baselines are made of."""

from __future__ import annotations

import math
from typing import Any

from .model import Call, DtypeRef, TensorSpec, TypeRef


def print_call(call: Call) -> str:
    """The canonical text; :func:`~.parse.parse_call` of it gives the same call again.

    Arguments keep the order that they were written in.
    """
    return f"{call.api}({print_arguments(call)})"


def print_arguments(call: Call) -> str:
    """The canonical text between the call's parentheses."""
    parts = [print_value(value) for value in call.args]
    parts += [f"{name}={print_value(value)}" for name, value in call.kwargs]
    return ", ".join(parts)


def print_value(value: Any) -> str:
    """The canonical text of one value.

    Raises:
        TypeError: the value is none of the config language.
    """
    if value is None or isinstance(value, (bool, int)):
        return repr(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, TensorSpec):
        return f'Tensor([{", ".join(map(str, value.shape))}],"{value.dtype}")'
    if isinstance(value, list):
        return f"list[{','.join(map(print_value, value))}]"
    if isinstance(value, tuple):
        return f"tuple({','.join(map(print_value, value))})"
    if isinstance(value, dict):
        return "{" + ",".join(f"{print_value(k)}:{print_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, slice):
        return f"slice({print_value(value.start)},{print_value(value.stop)},{print_value(value.step)})"
    if isinstance(value, complex):
        return f"complex({_number(value.real)},{_number(value.imag)})"
    if value is Ellipsis:
        return "Ellipsis"
    if isinstance(value, DtypeRef):
        return f"{value.kind}({value.name})"
    if isinstance(value, TypeRef):
        return f"type({value.name})"
    raise TypeError(f"{value!r} is no value of the config language")


def _number(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return repr(value)


def _quoted(text: str) -> str:
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    out = []
    for char in text:
        if char in '"\\':
            out.append("\\" + char)
        elif char.isprintable():
            out.append(char)
        elif ord(char) < 0x100:
            out.append(f"\\x{ord(char):02x}")
        elif ord(char) < 0x10000:
            out.append(f"\\u{ord(char):04x}")
        else:
            out.append(f"\\U{ord(char):08x}")
    return '"' + "".join(out) + '"'
