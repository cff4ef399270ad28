"""Matrices of first and second derivatives."""

from __future__ import annotations

from typing import Any

import torch

from ..linked import linked
from .registry import NoEquivalent, reference, without_reference

_WHY = "the result is itself a derivative"


def _arange(count: int, like: torch.Tensor) -> torch.Tensor:
    return torch.arange(1, count + 1, dtype=like.dtype, device=like.device)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


@reference("paddle.grad", "paddle.autograd.grad", no_gradient=_WHY)
def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool = False,
    no_grad_vars: Any = None,
) -> list[torch.Tensor]:
    """Gradients of the sum of the outputs, each weighted by its output gradient (one where there is none)."""
    if no_grad_vars is not None:
        raise NoEquivalent("the variables of the function that is made for the case have no names in the config")
    with torch.enable_grad():
        leaves = [x.detach().requires_grad_(True) for x in _listed(inputs)]
        made = [linked(y, leaves, False, _arange) for y in _listed(outputs)]
        weights = [None] * len(made) if grad_outputs is None else _listed(grad_outputs)
        fed = [torch.ones_like(y) if weight is None else weight.detach() for y, weight in zip(made, weights)]
        return list(torch.autograd.grad(made, leaves, fed))


def _prepared(ys: Any, xs: Any, batch_axis: int | None) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The variables as leaves, and ``ys`` as the function of them that Paddle's side is given too."""
    if batch_axis not in (None, 0):
        raise ValueError(f"batch_axis is None or 0, not {batch_axis!r}")
    xs, ys = _listed(xs), _listed(ys)
    ranks = (1, 2) if batch_axis == 0 else (0, 1)
    if any(t.dim() not in ranks for t in [*xs, *ys]):
        raise ValueError(f"tensors of {ranks[0]} or {ranks[1]} axes are asked for")
    leaves = [x.detach().requires_grad_(True) for x in xs]
    return [linked(y, leaves, batch_axis == 0, _arange) for y in ys], leaves


def _derivative(y: torch.Tensor, x: torch.Tensor, batched: bool) -> torch.Tensor:
    """``dy/dx`` of shape ``y.shape + x.shape``; with a batch axis the first axis is theirs in common."""
    inner = y.shape[1:] if batched else y.shape
    flat = y.reshape(len(y), -1) if batched else y.reshape(1, -1)
    rows = [torch.autograd.grad(flat[:, j].sum(), x, create_graph=True)[0] for j in range(flat.shape[1])]
    return torch.stack(rows, 1 if batched else 0).reshape(
        [*(x.shape[:1] if batched else ()), *inner, *x.shape[batched:]]
    )


@reference("paddle.autograd.jacobian", no_gradient=_WHY)
def jacobian(ys: Any, xs: Any, batch_axis: int | None = None) -> Any:
    """``[M, N]`` or ``[B, M, N]``; with a batch axis, ``ys`` of one axis has M = 1."""
    with torch.enable_grad():
        made, leaves = _prepared(ys, xs, batch_axis)
        if batch_axis == 0:
            made = [y.unsqueeze(1) if y.dim() == 1 else y for y in made]
        rows = [[_derivative(y, x, batch_axis == 0).detach() for x in leaves] for y in made]
    found = [tuple(row) if isinstance(xs, (list, tuple)) else row[0] for row in rows]
    return tuple(found) if isinstance(ys, (list, tuple)) else found[0]


@reference("paddle.autograd.hessian", no_gradient=_WHY)
def hessian(ys: Any, xs: Any, batch_axis: int | None = None) -> Any:
    """Of one number (per batch); Paddle also takes it as a tensor of one element."""
    batched = batch_axis == 0
    with torch.enable_grad():
        made, leaves = _prepared(ys, xs, batch_axis)
        if len(made) != 1 or made[0].numel() != (len(made[0]) if batched else 1):
            raise ValueError("ys is one number, or one for each element of the batch")
        y = made[0].reshape(-1) if batched else made[0].reshape(())
        firsts = [_derivative(y, x, batched) for x in leaves]
        rows = [tuple(_derivative(first, x, batched).detach() for x in leaves) for first in firsts]
    return tuple(rows) if isinstance(xs, (list, tuple)) else rows[0][0]


without_reference(
    "paddle.autograd.backward",
    "paddle.autograd.PyLayer",
    "paddle.autograd.PyLayerContext",
    "paddle.autograd.Function",
    "paddle.autograd.saved_tensors_hooks",
    why="it drives or extends the gradient machinery, it computes nothing from a config's arguments",
)
