"""A smooth function with given shapes, for APIs that take a result together with its arguments.

A config only says what shapes ``ys`` and ``xs`` have. So ``ys`` is made from ``xs`` by

    t[j] = sum over the xs of mean over i of sin((c[j] + i) * x[i])
    y[j] = t[j] + t[j] ** 2

where ``c`` are the values that were drawn for ``ys``. Every first and second derivative, mixed ones too,
is different from zero. It is written with what Paddle's and Torch's tensors have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

#: ``arange(count, like)``: the numbers 1 to count, in the dtype of ``like``.
Arange = Callable[[int, Any], Any]


def linked(constants: Any, xs: Sequence[Any], batched: bool, arange: Arange) -> Any:
    """One of ``ys``; with ``batched`` the first axis of everything is a batch axis."""
    batch = [constants.shape[0]] if batched else []
    c = constants.reshape([*batch, -1, 1])
    total: Any = None
    for x in xs:
        flat = x.reshape([*batch, 1, -1])
        term = ((c + arange(flat.shape[-1], flat)) * flat).sin().mean(-1)
        total = term if total is None else total + term
    return (total + total * total).reshape(list(constants.shape))
