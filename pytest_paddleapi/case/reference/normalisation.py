"""Normalisation over batches, layers, groups, channels and axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from .registry import reference
from .spatial import channel_last, from_first, ints, to_first, wide

_BATCH_FORMATS = ("NC", "NCL", "NCHW", "NCDHW", "NLC", "NHWC", "NDHWC")
_FORMATS = ("NCL", "NCHW", "NCDHW", "NLC", "NHWC", "NDHWC")


def _scaled(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None) -> torch.Tensor:
    """``x * weight + bias`` along axis 1."""
    shape = [1, -1] + [1] * (x.ndim - 2)
    if weight is not None:
        x = x * wide(weight).reshape(shape)
    return x if bias is None else x + wide(bias).reshape(shape)


@reference(
    "paddle.nn.functional.batch_norm",
    mutates=("running_mean", "running_var"),
    constant=("running_mean", "running_var"),
)
def batch_norm(
    x,
    running_mean,
    running_var,
    weight=None,
    bias=None,
    training=False,
    momentum=0.9,
    epsilon=1e-5,
    data_format="NCHW",
    use_global_stats=None,
    name=None,
):
    """Paddle's momentum is the share of the old value, and its running variance is that of the batch with
    divisor N (documentation of nn.BatchNorm1D). The running values change when the batch's are used."""
    last = channel_last(data_format, allowed=_BATCH_FORMATS)
    if x.ndim < 2:
        raise ValueError("x needs at least two axes")
    channels = x.shape[-1 if last else 1]
    if any(p is not None and tuple(p.shape) != (channels,) for p in (running_mean, running_var, weight, bias)):
        raise ValueError(f"every parameter must have one number for each of {channels} channels")
    dtype, x = x.dtype, wide(to_first(x, last))
    axes = [axis for axis in range(x.ndim) if axis != 1]
    if use_global_stats or (use_global_stats is None and not training):
        mean, variance = wide(running_mean), wide(running_var)
    else:
        mean, variance = x.mean(axes), x.var(axes, correction=0)
        if x.numel():
            with torch.no_grad():
                running_mean.copy_(momentum * running_mean + (1 - momentum) * mean)
                running_var.copy_(momentum * running_var + (1 - momentum) * variance)
    shape = [1, -1] + [1] * (x.ndim - 2)
    normal = (x - mean.reshape(shape)) * torch.rsqrt(variance.reshape(shape) + epsilon)
    return from_first(_scaled(normal, weight, bias).to(dtype), last)


@reference("paddle.nn.functional.instance_norm", constant=("running_mean", "running_var"))
def instance_norm(
    x,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    use_input_stats=True,
    momentum=0.9,
    eps=1e-5,
    data_format="NCHW",
    name=None,
):
    """The running values and ``use_input_stats`` are without effect, says Paddle's documentation."""
    if not 2 <= x.ndim <= 5:
        raise ValueError(f"x needs 2 to 5 axes, it has {x.ndim}")
    data = wide(x)
    axes = list(range(2, x.ndim))
    if axes and data.numel():
        mean = data.mean(axes, keepdim=True)
        variance = data.var(axes, correction=0, keepdim=True)
        data = (data - mean) * torch.rsqrt(variance + eps)
    elif not axes:
        data = data - data
    return _scaled(data, weight, bias).to(x.dtype)


def _shape_tail(x: torch.Tensor, normalized_shape: Any) -> list[int]:
    shape = ints(normalized_shape)
    if list(x.shape[x.ndim - len(shape) :]) != shape or len(shape) > x.ndim:
        raise ValueError(f"normalized_shape {shape} is not the end of {list(x.shape)}")
    return shape


@reference("paddle.nn.functional.layer_norm")
def layer_norm(x, normalized_shape, weight=None, bias=None, epsilon=1e-5, name=None):
    """The parameters are flat: one number for each element of ``normalized_shape``."""
    shape = _shape_tail(x, normalized_shape)
    if any(p is not None and p.ndim != 1 for p in (weight, bias)):
        raise ValueError("weight and bias must have one axis")
    weights = [None if p is None else wide(p).reshape(shape) for p in (weight, bias)]
    return F.layer_norm(wide(x), shape, *weights, epsilon).to(x.dtype)


@reference("paddle.nn.functional.rms_norm")
def rms_norm(input, normalized_shape, weight=None, eps=1e-5, name=None):
    """The result, and the inverse root mean square of each row in float32."""
    shape = _shape_tail(input, normalized_shape)
    x = wide(input)
    axes = list(range(x.ndim - len(shape), x.ndim))
    inverse = torch.rsqrt(x.square().mean(axes, keepdim=True) + eps)
    out = x * inverse
    if weight is not None:
        out = out * wide(weight).reshape(shape)
    rows = list(x.shape[: x.ndim - len(shape)])
    return out.to(input.dtype), inverse.reshape(rows).float().detach()


@reference("paddle.nn.functional.group_norm")
def group_norm(x, num_groups, epsilon=1e-5, weight=None, bias=None, data_format="NCHW", name=None):
    """Also in Torch's positions: ``(input, num_groups, weight, bias, eps)``."""
    if epsilon is None or isinstance(epsilon, torch.Tensor):
        third = bias if isinstance(bias, float) else 1e-5
        epsilon, weight, bias = third, epsilon, weight
    last = channel_last(data_format, allowed=_FORMATS)
    dtype, x = x.dtype, wide(to_first(x, last))
    if num_groups < 1 or x.shape[1] % num_groups:
        raise ValueError(f"{x.shape[1]} channels cannot be split into {num_groups} groups")
    rest = math.prod(x.shape[2:])
    grouped = x.reshape(x.shape[0], num_groups, x.shape[1] // num_groups * rest)
    if grouped.numel():
        mean, variance = grouped.mean(2, keepdim=True), grouped.var(2, correction=0, keepdim=True)
        grouped = (grouped - mean) * torch.rsqrt(variance + epsilon)
    return from_first(_scaled(grouped.reshape(x.shape), weight, bias).to(dtype), last)


@reference("paddle.nn.functional.local_response_norm")
def local_response_norm(x, size, alpha=1e-4, beta=0.75, k=1.0, data_format="NCHW", name=None):
    last = channel_last(data_format, allowed=_FORMATS)
    if x.ndim < 3:
        raise ValueError(f"x needs at least three axes, it has {x.ndim}")
    if 0 in x.shape[1:]:
        raise ValueError(f"only the batch may be empty, x has shape {list(x.shape)}")
    dtype, x = x.dtype, wide(to_first(x, last))
    padded = F.pad(x.square().movedim(1, -1), (size // 2, (size - 1) // 2))
    mean = padded.unfold(-1, size, 1).mean(-1).movedim(-1, 1)
    return from_first((x / (k + alpha * mean) ** beta).to(dtype), last)


@reference("paddle.nn.functional.normalize", constant=("out",))
def normalize(x, p=2, axis=1, epsilon=1e-12, out=None, name=None):
    if x.ndim == 1 and axis not in (0, -1):
        raise ValueError("axis must be 0 or -1 for one axis")
    data = wide(x)
    size = norm_along(data, float(p), axis, keepdim=True)
    return (data / size.clamp(min=epsilon)).to(x.dtype)


def norm_along(x: torch.Tensor, p: float, axis: int | Sequence[int], *, keepdim: bool) -> torch.Tensor:
    """The p-norm along an axis; of nothing it is zero."""
    if x.numel() == 0:
        return x.abs().sum(axis, keepdim=keepdim)
    return torch.linalg.vector_norm(x, p, axis, keepdim)
