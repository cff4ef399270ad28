"""Dropout and the activations with random slopes or noise.

Without randomness (``training=False``, ``p`` 0 or 1) these give the exact result. With it they give one
possible result; Paddle's own is judged by ``compare/dropout.py`` and ``compare/random_functional.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .registry import reference

#: Constants of SELU (Klambauer et al. 2017), on which alpha dropout builds.
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def drop_axes(axis: Any, rank: int) -> list[int]:
    """Axes along which the mask varies, for ``axis`` as Paddle takes it; it is shared along the others.

    Raises:
        ValueError: an axis is negative, too large, or none is given (Paddle refuses these too).
    """
    if axis is None:
        return list(range(rank))
    axes = [axis] if isinstance(axis, int) else [int(a) for a in axis]
    if not axes or min(axes) < 0 or max(axes) >= rank or len(axes) > rank:
        raise ValueError(f"axis {axis!r} does not fit {rank} dimensions")
    return axes


def checked_rate(p: Any) -> float:
    """The probability as a number.

    Raises:
        ValueError: it is not in [0, 1].
    """
    rate = float(p.detach() if isinstance(p, torch.Tensor) else p)
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"p should be in [0, 1], it is {rate}")
    return rate


def kept(x: torch.Tensor, rate: float, axes: Sequence[int]) -> torch.Tensor:
    """A mask (1 kept, 0 dropped) that varies along ``axes`` only, in the dtype of ``x``."""
    shape = [n if i in axes else 1 for i, n in enumerate(x.shape)]
    return (torch.rand(shape) >= rate).to(x.dtype)


@reference("paddle.nn.functional.dropout", mutates=("x",), mutates_if="inplace")
def dropout(x, p=0.5, axis=None, training=True, inplace=False, mode="upscale_in_train", name=None):
    if mode not in ("upscale_in_train", "downscale_in_infer"):
        raise ValueError(f"mode {mode!r} is not known")
    result = _dropout(x, checked_rate(p), axis, training, mode == "upscale_in_train")
    return x.copy_(result) if inplace else result


def _dropout(x: torch.Tensor, rate: float, axis: Any, training: bool, upscale: bool) -> torch.Tensor:
    if rate == 0:
        return x.clone()
    if not training:
        return x.clone() if upscale else x * (1.0 - rate)
    if rate == 1:
        return x * 0.0
    mask = kept(x, rate, drop_axes(axis, x.ndim))
    return x * (mask / (1.0 - rate) if upscale else mask)


@reference("paddle.nn.functional.dropout1d")
def dropout1d(input, p=0.5, training=True, inplace=False):
    if input.ndim not in (2, 3):
        raise ValueError(f"dropout1d takes 2 or 3 dimensions, not {input.ndim}")
    return dropout(input, p, channel_axes(input.ndim, "NCL"), training)


@reference("paddle.nn.functional.dropout2d")
def dropout2d(x, p=0.5, training=True, data_format="NCHW", name=None):
    if x.ndim != 4 or data_format not in ("NCHW", "NHWC"):
        raise ValueError(f"dropout2d takes 4 dimensions as NCHW or NHWC, not {x.ndim} as {data_format}")
    return dropout(x, p, channel_axes(4, data_format), training)


@reference("paddle.nn.functional.dropout3d")
def dropout3d(x, p=0.5, training=True, data_format="NCDHW", name=None):
    if x.ndim != 5 or data_format not in ("NCDHW", "NDHWC"):
        raise ValueError(f"dropout3d takes 5 dimensions as NCDHW or NDHWC, not {x.ndim} as {data_format}")
    return dropout(x, p, channel_axes(5, data_format), training)


def channel_axes(rank: int, data_format: str) -> list[int]:
    """Batch and channel axis. Of dropout1d the channel axis alone: Paddle drops a channel in the whole batch."""
    if data_format == "NCL":
        return [1] if rank == 3 else [0]
    return [0, 1] if data_format[1] == "C" else [0, rank - 1]


def alpha_affine(rate: float) -> tuple[float, float, float]:
    """(a, b, dropped): alpha dropout gives a * x + b where kept and a * dropped + b elsewhere.

    From the paper on self-normalising networks (arXiv 1706.02515, section "alpha dropout"): the dropped
    value is -scale * alpha, and a and b restore mean 0 and variance 1.
    """
    dropped = -SELU_ALPHA * SELU_SCALE
    a = ((1.0 - rate) * (1.0 + rate * dropped**2)) ** -0.5
    return a, -a * dropped * rate, dropped


def _alpha_dropout(x: torch.Tensor, p: float, training: bool, axes: list[int]) -> torch.Tensor:
    rate = checked_rate(p)
    if not training:
        return x.clone()
    if rate == 1:
        return x * 0.0
    a, b, dropped = alpha_affine(rate)
    mask = kept(x, rate, axes)
    return (x * mask + dropped * (1.0 - mask)) * a + b


@reference("paddle.nn.functional.alpha_dropout")
def alpha_dropout(x, p=0.5, training=True, name=None):
    return _alpha_dropout(x, p, training, list(range(x.ndim)))


@reference("paddle.nn.functional.feature_alpha_dropout")
def feature_alpha_dropout(x, p=0.5, training=True, name=None):
    if training and 0 < p < 1 and x.ndim < 2:
        raise ValueError("feature_alpha_dropout takes 2 dimensions at least")
    return _alpha_dropout(x, p, training, [0, 1])


@reference("paddle.incubate.nn.functional.fused_dropout_add")
def fused_dropout_add(x, y, p=0.5, training=True, mode="upscale_in_train", name=None):
    return dropout(x, p, None, training, False, mode) + y


@reference("paddle.nn.functional.rrelu")
def rrelu(x, lower=1.0 / 8.0, upper=1.0 / 3.0, training=True, name=None):
    if not 0 <= lower <= upper <= 1:
        raise ValueError(f"slopes from {lower} to {upper}: they should be in [0, 1] and in order")
    if not training:
        return torch.where(x >= 0, x, x * ((lower + upper) / 2))
    slopes = torch.empty_like(x).uniform_(lower, max(upper, lower))
    return torch.where(x >= 0, x, x * slopes)


@reference("paddle.nn.functional.gumbel_softmax")
def gumbel_softmax(x, temperature=1.0, hard=False, axis=-1, name=None):
    return torch.nn.functional.gumbel_softmax(x, tau=temperature, hard=hard, dim=axis)


@reference("paddle.nn.functional.class_center_sample")
def class_center_sample(label, num_classes, num_samples, group=None):
    """Partial FC (arXiv 2010.05222): the classes that occur, and random others up to ``num_samples``."""
    if num_samples > num_classes or label.numel() == 0:
        raise ValueError(f"{num_samples} samples of {num_classes} classes for {label.numel()} labels")
    present = torch.unique(label)
    others = torch.tensor(sorted(set(range(num_classes)) - set(present.tolist())), dtype=label.dtype)
    missing = max(num_samples - len(present), 0)
    centers = torch.cat([present, others[torch.randperm(len(others))[:missing]]]).sort().values
    return torch.searchsorted(centers, label).to(label.dtype), centers
