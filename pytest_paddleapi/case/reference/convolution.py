"""Convolution and transposed convolution in one, two and three dimensions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from .registry import reference
from .spatial import channel_last, from_first, pad_spatial, padding_pairs, spread, to_first, wide, zeros_from

_CONV: dict[int, Any] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED: dict[int, Any] = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
_FORMATS = {1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def _checked(
    n: int, x: torch.Tensor, weight: torch.Tensor, groups: int, data_format: str
) -> tuple[torch.Tensor, torch.Tensor, bool]:
    """``x`` with channels first, ``weight`` in its dtype, and whether the channels came last."""
    last = channel_last(data_format, allowed=_FORMATS[n])
    if x.ndim != n + 2 or weight.ndim != n + 2:
        raise ValueError(f"x and weight need {n + 2} axes, they have {x.ndim} and {weight.ndim}")
    x = to_first(x, last)
    if groups < 1 or x.shape[1] % groups:
        raise ValueError(f"{x.shape[1]} channels cannot be split into {groups} groups")
    return x, weight, last


def _with_bias(out: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    if bias is None:
        return out
    return out + bias.to(out.dtype).reshape([1, -1] + [1] * (out.ndim - 2))


def _positions(room: int, stride: int) -> int:
    """How many windows fit when ``room`` positions are left beside the first one.

    Raises:
        ValueError: the kernel is larger than the input by a stride or more; what little it may be larger
            gives no window, as Paddle says.
    """
    if room >= 0:
        return room // stride + 1
    if -(-room // stride) + 1 < 0:
        raise ValueError("the kernel is larger than the padded input")
    return 0


def _conv(
    n: int,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    data_format: str,
) -> torch.Tensor:
    """Paddle's ``SAME`` ignores the dilation: ``UpdatePaddingAndDilation`` sets it to one, as does the
    NumPy reference in Paddle's own tests (``conv2d_forward_naive``)."""
    x, weight, last = _checked(n, x, weight, groups, data_format)
    strides, dilations = spread(stride, n, "stride"), spread(dilation, n, "dilation")
    kernel = list(weight.shape[2:])
    pairs, same = padding_pairs(padding, x.shape[2:], kernel, strides, last)
    if any(p < 0 for pair in pairs for p in pair):
        raise ValueError(f"padding must not be negative: {padding}")
    if same:
        dilations = [1] * n
    if x.shape[1] != weight.shape[1] * groups or weight.shape[0] % groups or weight.shape[0] == 0:
        raise ValueError(f"weight {list(weight.shape)} does not fit {x.shape[1]} channels in {groups} groups")
    room = [size + sum(pair) - d * (k - 1) - 1 for size, pair, d, k in zip(x.shape[2:], pairs, dilations, kernel)]
    sizes = [_positions(r, s) for r, s in zip(room, strides)]
    if 0 in (*x.shape, *weight.shape, *sizes):
        out = zeros_from([x.shape[0], weight.shape[0], *sizes], x, weight)
        return from_first(_with_bias(out, bias), last)
    symmetric = all(a == b for a, b in pairs)
    inner = [a for a, _ in pairs] if symmetric else [0] * n
    padded = x if symmetric else pad_spatial(x, pairs)
    out = _CONV[n](wide(padded), wide(weight), None, strides, inner, dilations, groups).to(x.dtype)
    return from_first(_with_bias(out, bias), last)


@reference("paddle.nn.functional.conv1d")
def conv1d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, data_format="NCL", name=None):
    return _conv(1, x, weight, bias, stride, padding, dilation, groups, data_format)


@reference("paddle.nn.functional.conv2d")
def conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, data_format="NCHW", name=None):
    return _conv(2, x, weight, bias, stride, padding, dilation, groups, data_format)


@reference("paddle.nn.functional.conv3d")
def conv3d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, data_format="NCDHW", name=None):
    return _conv(3, x, weight, bias, stride, padding, dilation, groups, data_format)


def _transposed(
    n: int,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
    output_size: Any,
    data_format: str,
) -> torch.Tensor:
    """The adjoint of the convolution: the full result, of which the padding is cut off at both ends.

    ``output_padding`` and ``output_size`` cut less off the end; what lies beyond the full result is zero.
    """
    x, weight, last = _checked(n, x, weight, groups, data_format)
    strides, dilations = spread(stride, n, "stride"), spread(dilation, n, "dilation")
    kernel = list(weight.shape[2:])
    pairs, same = padding_pairs(padding, x.shape[2:], kernel, strides, last)
    if any(p < 0 for pair in pairs for p in pair):
        raise ValueError(f"padding must not be negative: {padding}")
    if same:
        dilations = [1] * n
    if x.shape[1] != weight.shape[0]:
        raise ValueError(f"weight {list(weight.shape)} does not fit {x.shape[1]} channels")
    full = [(size - 1) * s + d * (k - 1) + 1 for size, s, d, k in zip(x.shape[2:], strides, dilations, kernel)]
    plain = [f - sum(pair) for f, pair in zip(full, pairs)]
    extra = spread(output_padding, n, "output_padding")
    if output_size is not None:
        if any(extra):
            raise ValueError("output_padding and output_size exclude each other")
        extra = [wanted - p for wanted, p in zip(spread(output_size, n, "output_size"), plain)]
        if any(e < 0 or e >= s for e, s in zip(extra, strides)):
            raise ValueError(f"output_size {output_size} is not within one stride of {plain}")
    elif any(e < 0 or (e and e >= s) for e, s in zip(extra, strides)):
        raise ValueError(f"output_padding {output_padding} must be smaller than the stride {stride}")
    sizes = [p + e for p, e in zip(plain, extra)]
    if any(size < 0 for size in sizes):
        raise ValueError(f"the output would have sizes {sizes}")
    if 0 in (*x.shape, *weight.shape, *sizes):
        out = zeros_from([x.shape[0], weight.shape[1] * groups, *sizes], x, weight)
        return from_first(_with_bias(out, bias), last)
    out = _TRANSPOSED[n](wide(x), wide(weight), None, strides, 0, 0, groups, dilations).to(x.dtype)
    out = pad_spatial(out, [(-a, size - (f - a)) for (a, _), size, f in zip(pairs, sizes, full)])
    return from_first(_with_bias(out, bias), last)


@reference("paddle.nn.functional.conv1d_transpose")
def conv1d_transpose(
    x,
    weight,
    bias=None,
    stride=1,
    padding=0,
    output_padding=0,
    groups=1,
    dilation=1,
    output_size=None,
    data_format="NCL",
    name=None,
):
    return _transposed(1, x, weight, bias, stride, padding, output_padding, groups, dilation, output_size, data_format)


@reference("paddle.nn.functional.conv2d_transpose")
def conv2d_transpose(
    x,
    weight,
    bias=None,
    stride=1,
    padding=0,
    output_padding=0,
    dilation=1,
    groups=1,
    output_size=None,
    data_format="NCHW",
    name=None,
):
    return _transposed(2, x, weight, bias, stride, padding, output_padding, groups, dilation, output_size, data_format)


@reference("paddle.nn.functional.conv3d_transpose")
def conv3d_transpose(
    x,
    weight,
    bias=None,
    stride=1,
    padding=0,
    output_padding=0,
    groups=1,
    dilation=1,
    output_size=None,
    data_format="NCDHW",
    name=None,
):
    return _transposed(3, x, weight, bias, stride, padding, output_padding, groups, dilation, output_size, data_format)
