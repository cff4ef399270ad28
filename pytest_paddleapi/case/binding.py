"""Arguments by name, and back to the positions that they were written in."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..config import Call

#: Paddle takes Torch's names for some arguments, on the APIs whose signature has the Paddle name.
_ALIASES = {
    "input": ("x", "input", "arr", "values"),
    "self": ("x",),
    "dim": ("axis",),
    "dimension": ("axis",),
    "other": ("y",),
    "keepdims": ("keepdim",),
    "size": ("shape", "shape_or_dtype"),
    "sizes": ("shape",),
    "dtype": ("shape_or_dtype",),
    "dims": ("repeat_times",),
    "tensors": ("x",),
    "src": ("value",),
    "source": ("value",),
    "start_dim": ("start_axis",),
    "end_dim": ("stop_axis",),
    "indices_or_sections": ("num_or_indices",),
    "indices": ("num_or_indices",),
    "sections": ("num_or_indices",),
    "boundaries": ("sorted_sequence",),
    "elements": ("x",),
    "test_elements": ("test_x",),
    "eps": ("epsilon",),
    "target": ("label",),
    "return_indices": ("return_mask",),
    "exponent": ("y",),
    "lambd": ("threshold",),
    "end": ("stop",),
    "steps": ("num",),
    "n": ("num_rows",),
    "m": ("num_columns",),
    "obj": ("x",),
    "x1": ("x",),
    "x2": ("y",),
    "output_size": ("output_sizes",),
    "kernel_size": ("kernel_sizes",),
    "stride": ("strides",),
    "padding": ("paddings",),
    "dilation": ("dilations",),
}


@dataclass(frozen=True)
class Binding:
    """The arguments of one call by Paddle's names, in the order written."""

    arguments: dict[str, Any]
    #: Names of the positional arguments; ``("xs", 2)`` is the third of ``*xs``.
    positions: tuple[Any, ...]
    keywords: tuple[str, ...]

    def split(self, values: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """``values`` (by name) as positional and named arguments."""
        args = [values[p] if isinstance(p, str) else values[p[0]][p[1]] for p in self.positions]
        return args, {name: values[name] for name in self.keywords}


def bind(call: Call, signature: inspect.Signature | None) -> Binding:
    """Name the arguments after ``signature``.

    Where it is unknown or does not fit (both frameworks will then refuse the call), positional
    arguments are called ``arg0``, ``arg1`` ...
    """
    kwargs = dict(call.kwargs)
    if signature is None:
        return _unnamed(call, kwargs)
    kwargs = {_paddle_name(name, signature, kwargs): value for name, value in kwargs.items()}
    try:
        bound = signature.bind(*call.args, **kwargs)
    except TypeError:
        return _unnamed(call, kwargs)
    arguments = dict(bound.arguments)
    positions: list[Any] = []
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL and name in arguments:
            positions += [(name, index) for index in range(len(arguments[name]))]
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            arguments.update(arguments.pop(name, {}))
        elif len(positions) < len(call.args):
            positions.append(name)
    return Binding(arguments, tuple(positions), tuple(kwargs))


def _unnamed(call: Call, kwargs: dict[str, Any]) -> Binding:
    names = tuple(f"arg{index}" for index in range(len(call.args)))
    return Binding({**dict(zip(names, call.args)), **kwargs}, names, tuple(kwargs))


def _paddle_name(name: str, signature: inspect.Signature, given: Mapping[str, Any]) -> str:
    if name in signature.parameters:
        return name
    for candidate in _ALIASES.get(name, ()):
        if candidate in signature.parameters and candidate not in given:
            return candidate
    return name
