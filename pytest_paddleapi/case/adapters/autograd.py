"""``ys`` that depend on ``xs``, and lazy matrices of derivatives evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import paddle

from ..linked import linked
from .registry import adapter


def _arange(count: int, like: paddle.Tensor) -> paddle.Tensor:
    return paddle.arange(1, count + 1, dtype="int64").astype(like.dtype)


def _leaf(tensor: paddle.Tensor) -> paddle.Tensor:
    leaf = tensor.detach()
    leaf.stop_gradient = False
    return leaf


def _depending(arguments: Mapping[str, Any], results: str, variables: str) -> Mapping[str, Any]:
    """The arguments with ``results`` made from ``variables``."""
    if results not in arguments or variables not in arguments:
        return arguments
    ys, xs = arguments[results], arguments[variables]
    several = isinstance(xs, (list, tuple))
    leaves = [_leaf(x) for x in xs] if several else [_leaf(xs)]
    batched = arguments.get("batch_axis") is not None

    def one(y: paddle.Tensor) -> paddle.Tensor:
        return linked(y, leaves, batched, _arange)

    made = type(ys)(one(y) for y in ys) if isinstance(ys, (list, tuple)) else one(ys)
    return {**arguments, results: made, variables: type(xs)(leaves) if several else leaves[0]}


def _evaluated(result: Any) -> Any:
    """The whole matrix in place of each lazy one, in Paddle's own nesting."""
    return tuple(_evaluated(part) for part in result) if isinstance(result, tuple) else result[:].detach()


adapter(
    "paddle.autograd.jacobian",
    "paddle.autograd.hessian",
    arguments=lambda arguments: _depending(arguments, "ys", "xs"),
    results=_evaluated,
    about="ys is made from xs by a smooth function of the given shapes",
)
adapter(
    "paddle.grad",
    "paddle.autograd.grad",
    arguments=lambda arguments: _depending(arguments, "outputs", "inputs"),
    results=lambda found: [None if part is None else part.detach() for part in found],
    about="outputs are made from inputs by a smooth function of the given shapes",
)
