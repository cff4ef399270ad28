"""Dropout: each element is kept or dropped, never anything else, and the mask is as random as promised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..reference.dropout import alpha_affine, channel_axes, drop_axes
from ..tensors import to_torch
from .comparison import Comparison
from .registry import comparator, elementwise
from .statistics_checks import hit_problems
from .tolerance import Tolerance

_MEANING = "each element kept or dropped, the rate and pattern of the mask, gradients by that mask"


def _rate(c: Comparison) -> float:
    p = c.argument("p", 0.5)
    return float(p.reshape(-1)[0]) if hasattr(p, "reshape") else float(p)


def _is_certain(c: Comparison) -> bool:
    """Nothing is random: the result is compared element by element."""
    return not c.argument("training", True) or _rate(c) in (0.0, 1.0)


def recovered_mask(
    c: Comparison, kept: torch.Tensor, dropped: torch.Tensor | None, axes: Sequence[int], rate: float
) -> torch.Tensor | None:
    """Which elements of the first output were kept, and the checks of that mask; None if that is unclear.

    ``kept`` and ``dropped`` are what each element should be in either case, in the dtype of :func:`_wide`;
    ``dropped`` None means exactly 0. Records what differs. Where both cases give (nearly) one value the
    element says nothing and counts as kept.
    """
    output = c.actual_leaves()[0]
    tolerance = c.tolerance(output.dtype)
    value = output.to(kept.dtype)
    is_kept = _near(value, kept, tolerance)
    is_dropped = value == 0 if dropped is None else _near(value, dropped, tolerance)
    c.count(outputs=1, elements=output.numel())
    c.findings.tolerances.append(str(tolerance))
    unclear = is_kept & is_dropped
    neither = ~(is_kept | is_dropped)
    if bool(neither.any()):
        first = tuple(int(i) for i in neither.nonzero()[0])
        otherwise = 0.0 if dropped is None else dropped[first].item()
        c.differs(
            "output 0",
            f"{int(neither.sum())} of {output.numel()} elements are neither kept nor dropped, such as at "
            f"{list(first)}: {c.sides[0]} {output[first].item()!r}, kept would be {kept[first].item():.6g}, "
            f"dropped {otherwise:.6g}\n  tolerance: {tolerance}",
        )
        return None
    mask = is_kept
    shared = [axis for axis in range(output.ndim) if axis not in axes]
    if shared and output.numel():
        any_kept = (mask & ~unclear).amax(shared, keepdim=True)
        any_dropped = (~mask).amax(shared, keepdim=True)
        if bool((any_kept & any_dropped).any()):
            c.differs("output 0", f"the mask is not shared along axes {shared}, which it should be")
            return None
        mask = any_kept | ~any_dropped
        unclear = ~(any_kept | any_dropped)
    clear = mask if not bool(unclear.any()) else mask[~unclear]
    for problem in hit_problems(clear, 1.0 - rate, "kept elements"):
        c.differs("output 0", problem)
    return mask.expand(output.shape)


def _near(value: torch.Tensor, wanted: torch.Tensor, tolerance: Tolerance) -> torch.Tensor:
    return (value - wanted).abs_() <= wanted.abs().mul_(tolerance.rtol).add_(tolerance.atol)


def _wide(dtype: torch.dtype) -> torch.dtype:
    """float64 for itself, float32 for the others: large masks are common, and memory is what they cost."""
    return torch.float64 if dtype is torch.float64 else torch.float32


def masked_gradients(c: Comparison, mask: torch.Tensor | None, scales: dict[str, float | None]) -> None:
    """Compare gradients with ``scale`` times the output's gradient where kept and 0 elsewhere.

    A scale of None means an argument that is added to the result: its gradient is the output's everywhere.
    """
    fed = c.cotangents[0] if c.cotangents else None
    if mask is None or fed is None:
        return
    for name, gradient in c.actual_gradients.items():
        scale = scales.get(name, 0.0)
        wide = fed.to(_wide(fed.dtype))
        expected = wide if scale is None else torch.where(mask, wide * scale, 0.0)
        c.pair(f"gradient of {name}", gradient, expected.reshape(gradient.shape).to(gradient.dtype))
        c.count(gradients=1)


def _x(c: Comparison, name: str = "x") -> torch.Tensor:
    """An argument's values, wide enough to compute what is expected."""
    values = to_torch(c.argument(name))
    return values.to(_wide(values.dtype))


def _scale(c: Comparison, rate: float) -> float:
    return 1.0 / (1.0 - rate) if c.argument("mode", "upscale_in_train") == "upscale_in_train" else 1.0


def _plain(c: Comparison, axes: Sequence[int], argument: str = "x") -> None:
    if not c.same_structure() or not c.same_form("output 0", c.actual_leaves()[0], c.expected_leaves()[0]):
        return
    rate = _rate(c)
    kept = _x(c, argument) * _scale(c, rate)
    mask = recovered_mask(c, kept, None, axes, rate)
    masked_gradients(c, mask, {argument: _scale(c, rate)})


@comparator("paddle.nn.functional.dropout", meaning=_MEANING)
def dropout(c: Comparison) -> None:
    """Dropout in all its modes."""
    c.changed_judged = True
    for value in c.actual_changed.values():
        c.pair("changed argument x", value, c.actual_leaves()[0])
    if _is_certain(c):
        return elementwise(c)
    return _plain(c, drop_axes(c.argument("axis"), _x(c).ndim))


@comparator("paddle.nn.functional.dropout1d", meaning=_MEANING)
def dropout1d(c: Comparison) -> None:
    """Whole channels of (N, C, L) or (C, L)."""
    if _is_certain(c):
        return elementwise(c)
    return _plain(c, channel_axes(_x(c, "input").ndim, "NCL"), "input")


@comparator("paddle.nn.functional.dropout2d", "paddle.nn.functional.dropout3d", meaning=_MEANING)
def dropout_channels(c: Comparison) -> None:
    """Whole channels of images and volumes."""
    if _is_certain(c):
        return elementwise(c)
    rank = _x(c).ndim
    return _plain(c, channel_axes(rank, c.argument("data_format", "NCHW" if rank == 4 else "NCDHW")))


@comparator("paddle.nn.functional.alpha_dropout", "paddle.nn.functional.feature_alpha_dropout", meaning=_MEANING)
def alpha_dropout(c: Comparison) -> None:
    """Dropped elements get the negative saturation value of SELU, and an affine map restores the moments."""
    if _is_certain(c):
        return elementwise(c)
    if not c.same_structure() or not c.same_form("output 0", c.actual_leaves()[0], c.expected_leaves()[0]):
        return None
    x, rate = _x(c), _rate(c)
    a, b, saturated = alpha_affine(rate)
    kept, dropped = a * x + b, torch.full_like(x, a * saturated + b)
    axes = [0, 1] if "feature" in c.api else list(range(x.ndim))
    masked_gradients(c, recovered_mask(c, kept, dropped, axes, rate), {"x": a})
    return None


@comparator("paddle.incubate.nn.functional.fused_dropout_add", meaning=_MEANING)
def fused_dropout_add(c: Comparison) -> None:
    """Dropout of ``x``, then ``y`` added."""
    if _is_certain(c):
        return elementwise(c)
    if not c.same_structure() or not c.same_form("output 0", c.actual_leaves()[0], c.expected_leaves()[0]):
        return None
    x, y, rate = _x(c), _x(c, "y"), _rate(c)
    kept = x * _scale(c, rate) + y
    mask = recovered_mask(c, kept, y.expand(kept.shape), list(range(kept.ndim)), rate)
    scales: dict[str, Any] = {"x": _scale(c, rate), "y": None}
    masked_gradients(c, mask, scales)
    return None
