"""Activations, by the formulas of paddle.nn.functional's documentation."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ..dtypes import torch_dtype
from .registry import NoEquivalent, reference

#: Paddle's documented constants (those of the paper, arXiv 1706.02515).
SELU_SCALE = 1.0507009873554805
SELU_ALPHA = 1.6732632423543772


@reference("paddle.nn.functional.celu")
def celu(x, alpha=1.0, name=None):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    if alpha == 0:
        raise ZeroDivisionError("alpha should not be 0")
    return torch.clamp(x, min=0) + torch.clamp(alpha * torch.expm1(x / alpha), max=0)


@reference("paddle.nn.functional.elu")
def elu(x, alpha=1.0, name=None):
    """x above zero, alpha * (exp(x) - 1) elsewhere."""
    return torch.where(x > 0, x, alpha * torch.expm1(x.clamp(max=0)))


@reference("paddle.nn.functional.gelu")
def gelu(x, approximate=False, name=None):
    """By the error function, or (True or "tanh") by its approximation with tanh."""
    if approximate not in (True, False, "tanh", "none"):
        raise ValueError(f"approximate is a bool, 'tanh' or 'none', not {approximate!r}")
    return F.gelu(x, approximate="tanh" if approximate in (True, "tanh") else "none")


@reference("paddle.nn.functional.hardshrink")
def hardshrink(x, threshold=0.5, name=None):
    """x where |x| > threshold, else 0."""
    return torch.where((x > threshold) | (x < -threshold), x, torch.zeros_like(x))


@reference("paddle.nn.functional.hardtanh")
def hardtanh(x, min=-1.0, max=1.0, name=None):
    """max above max, min below min, else x."""
    return torch.where(x > max, torch.full_like(x, max), torch.where(x < min, torch.full_like(x, min), x))


@reference("paddle.nn.functional.hardsigmoid")
def hardsigmoid(x, slope=0.1666667, offset=0.5, name=None):
    """slope * x + offset, within [0, 1]."""
    return torch.clamp(slope * x + offset, 0, 1)


@reference("paddle.nn.functional.hardswish")
def hardswish(x, name=None):
    """x * min(max(x + 3, 0), 6) / 6."""
    if x.is_complex():
        raise NoEquivalent("complex numbers have no order")
    return F.hardswish(x)


@reference("paddle.nn.functional.leaky_relu")
def leaky_relu(x, negative_slope=0.01, name=None):
    return torch.where(x >= 0, x, negative_slope * x)


@reference("paddle.nn.functional.log_sigmoid", "paddle.nn.functional.logsigmoid")
def log_sigmoid(x, name=None):
    """log(1 / (1 + exp(-x)))."""
    if x.is_complex():
        return -torch.log1p(torch.exp(-x))
    return F.logsigmoid(x)


@reference("paddle.nn.functional.log_softmax")
def log_softmax(x, axis=-1, dtype=None, name=None):
    return torch.log_softmax(x, dim=axis, dtype=torch_dtype(dtype))


@reference("paddle.nn.functional.softmax", constant=("out",))
def softmax(x, axis=-1, dtype=None, name=None, *, out=None):
    return torch.softmax(x, dim=axis, dtype=torch_dtype(dtype))


@reference("paddle.softmax")
def compatible_softmax(input, dim=None, dtype=None, *, out=None):
    """Torch's signature; without ``dim`` the first axis of 0-, 1- and 3-D tensors, else the second."""
    if dim is None:
        dim = 0 if input.dim() in (0, 1, 3) else 1
    return torch.softmax(input, dim=dim, dtype=torch_dtype(dtype))


@reference("paddle.nn.functional.glu")
def glu(x, axis=-1, name=None):
    """The first half along ``axis`` times the sigmoid of the second."""
    return F.glu(x, dim=axis)


@reference("paddle.nn.functional.maxout")
def maxout(x, groups, axis=1, name=None):
    """The maximum over each ``groups`` consecutive channels; NCHW, or NHWC with the channels last."""
    if x.dim() != 4 or axis not in (1, 3, -1):
        raise ValueError("maxout takes a 4-D tensor, its channels are axis 1 or 3")
    axis %= 4
    if groups < 2 or x.shape[axis] % groups:
        raise ValueError(f"{x.shape[axis]} channels cannot be divided into groups of {groups}")
    split = x.reshape(*x.shape[:axis], x.shape[axis] // groups, groups, *x.shape[axis + 1 :])
    return split.amax(dim=axis + 1)


@reference("paddle.nn.functional.mish")
def mish(x, name=None):
    """x * tanh(softplus(x))."""
    return F.mish(x)


@reference("paddle.nn.functional.prelu")
def prelu(x, weight, data_format="NCHW", name=None):
    """x above zero, else weight * x; one weight, or one for each channel."""
    if weight.dim() > 1:
        raise ValueError("the weight should be 0-D or 1-D")
    if weight.numel() > 1:
        if data_format not in ("NC", "NCL", "NCHW", "NCDHW", "NLC", "NHWC", "NDHWC"):
            raise ValueError(f"data_format {data_format!r}")
        axis = 1 if data_format[1] == "C" else x.dim() - 1
        if x.dim() < 2 or weight.numel() != x.shape[axis]:
            raise ValueError("there should be one weight for each channel")
        weight = weight.reshape([-1 if i == axis else 1 for i in range(x.dim())])
    else:
        weight = weight.reshape(())
    return torch.where(x > 0, x, weight * x)


@reference("paddle.nn.functional.relu")
def relu(x, name=None):
    return torch.relu(x)


@reference("paddle.nn.functional.relu6")
def relu6(x, name=None):
    return F.relu6(x)


@reference("paddle.nn.functional.selu")
def selu(x, scale=SELU_SCALE, alpha=SELU_ALPHA, name=None):
    """scale * (max(0, x) + min(0, alpha * (exp(x) - 1)))."""
    if scale <= 1 or alpha < 0:
        raise ValueError("scale should be above 1 and alpha not below 0")
    return scale * torch.where(x > 0, x, alpha * torch.expm1(x.clamp(max=0)))


@reference("paddle.nn.functional.silu", mutates=("x",), mutates_if="inplace")
def silu(x, inplace=False, name=None):
    """x * sigmoid(x)."""
    if not x.is_complex():
        return F.silu(x, inplace=inplace)
    result = x * torch.sigmoid(x)
    return x.copy_(result) if inplace else result


@reference("paddle.nn.functional.swish")
def swish(x, name=None):
    """x * sigmoid(x)."""
    return F.silu(x)


@reference("paddle.nn.functional.softplus")
def softplus(x, beta=1, threshold=20, name=None):
    """log(1 + exp(beta * x)) / beta; x where beta * x > threshold."""
    scaled = x * beta
    if x.is_complex():
        return torch.log1p(torch.exp(scaled)) / beta
    # The untaken branch must not overflow, or its gradient would be NaN.
    return torch.where(scaled > threshold, x, torch.log1p(torch.exp(scaled.clamp(max=threshold))) / beta)


@reference("paddle.nn.functional.softshrink")
def softshrink(x, threshold=0.5, name=None):
    """x - threshold above it, x + threshold below -threshold, else 0."""
    if threshold < 0:
        raise ValueError("the threshold should not be negative")
    zero = torch.zeros_like(x)
    return torch.where(x > threshold, x - threshold, torch.where(x < -threshold, x + threshold, zero))


@reference("paddle.nn.functional.softsign")
def softsign(x, name=None):
    """x / (1 + |x|)."""
    return x / (1 + x.abs())


@reference("paddle.nn.functional.tanhshrink")
def tanhshrink(x, name=None):
    """x - tanh(x)."""
    return x - torch.tanh(x)


@reference("paddle.nn.functional.thresholded_relu")
def thresholded_relu(x, threshold=1.0, value=0.0, name=None):
    """x above the threshold, else ``value``."""
    return torch.where(x > threshold, x, torch.full_like(x, value))
