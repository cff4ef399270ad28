"""Fused layers of ``paddle.incubate``: norms, linear layers, activations, rotary embedding, masked softmax.

Each is what Paddle's documentation says it fuses, computed in float32 where the values are of half
precision, as the kernels do. Many have kernels on GPUs only.
"""

from __future__ import annotations

from typing import Any

import torch

from ..dtypes import LOW_PRECISION, torch_dtype
from .registry import reference

_COMPUTE = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}


def wide(value: torch.Tensor) -> torch.Tensor:
    """Half precision as float32."""
    return value.float() if value.dtype in LOW_PRECISION else value


def quantised(value: torch.Tensor, scale: float, round_type: int, largest: float, smallest: float) -> torch.Tensor:
    """int8: ``largest * scale * value``, rounded (0: halves to even, 1: away from zero) and cut to the bounds."""
    scaled = value * (largest * scale)
    rounded = scaled.round() if round_type == 0 else scaled.sign() * (scaled.abs() + 0.5).floor()
    return rounded.clamp(smallest, largest).to(torch.int8)


def _sum_of(x: torch.Tensor, bias: Any, residual: Any, alpha: float) -> torch.Tensor:
    total = wide(x)
    if residual is not None:
        total = total + alpha * wide(residual)
    return total if bias is None else total + wide(bias)


def _normalised(
    x: torch.Tensor, axis: int, epsilon: float, weight: Any, bias: Any, *, centered: bool
) -> torch.Tensor:  # fmt: skip
    axis = axis + x.ndim if axis < 0 else axis
    if not 0 <= axis < max(x.ndim, 1):
        raise ValueError(f"begin_norm_axis {axis} of {x.ndim} dimensions")
    axes = list(range(axis, x.ndim))
    centre = x - x.mean(axes, keepdim=True) if centered else x
    out = centre * (centre.square().mean(axes, keepdim=True) + epsilon).rsqrt()
    for value, combine in ((weight, torch.mul), (bias, torch.add)):
        if value is not None and value.numel():
            out = combine(out, wide(value).reshape(x.shape[axis:]))
    return out


def _fused_norm(
    x: torch.Tensor, weight: Any, bias: Any, epsilon: float, axis: int, added: Any, residual: Any, alpha: float,
    quant: tuple[float, int, float, float], *, centered: bool,
) -> list[torch.Tensor]:  # fmt: skip
    total = _sum_of(x, added, residual, alpha)
    plain = centered and weight is None and bias is None
    out = total if plain else _normalised(total, axis, epsilon, weight, bias, centered=centered)
    out = quantised(out, *quant) if quant[0] > 0 else out.to(x.dtype)
    return [out] if residual is None else [out, total.to(x.dtype)]


@reference("paddle.incubate.nn.functional.fused_layer_norm")
def fused_layer_norm(
    x, norm_weight, norm_bias, epsilon, residual_alpha=1.0, begin_norm_axis=1, bias=None, residual=None,
    quant_scale=-1, quant_round_type=0, quant_max_bound=0, quant_min_bound=0,
):  # fmt: skip
    """LayerNorm(x + bias + alpha * residual) and that sum; the sum alone where there is no weight and bias."""
    quant = (quant_scale, quant_round_type, quant_max_bound, quant_min_bound)
    return _fused_norm(
        x, norm_weight, norm_bias, epsilon, begin_norm_axis, bias, residual, residual_alpha, quant, centered=True
    )


@reference("paddle.incubate.nn.functional.fused_rms_norm")
def fused_rms_norm(
    x, norm_weight, norm_bias, epsilon, begin_norm_axis=1, bias=None, residual=None,
    quant_scale=-1, quant_round_type=0, quant_max_bound=0, quant_min_bound=0,
):  # fmt: skip
    """RMSNorm(x + bias + residual) and that sum."""
    quant = (quant_scale, quant_round_type, quant_max_bound, quant_min_bound)
    return _fused_norm(x, norm_weight, norm_bias, epsilon, begin_norm_axis, bias, residual, 1.0, quant, centered=False)


@reference("paddle.incubate.nn.functional.fused_rms_norm_ext", "paddle.incubate.nn.functional.fast_rms_norm")
def fast_rms_norm(x, scale, epsilon=1e-5, name=None):
    value = wide(x)
    inverse = (value.square().mean(-1) + epsilon).rsqrt()
    return (value * inverse[..., None] * wide(scale)).to(x.dtype), inverse.reshape(-1)


@reference("paddle.incubate.nn.functional.fast_ln")
def fast_ln(x, scale, bias, epsilon=1e-5):
    value = wide(x)
    mean = value.mean(-1)
    inverse = (value.var(-1, correction=0) + epsilon).rsqrt()
    out = (value - mean[..., None]) * inverse[..., None] * wide(scale) + wide(bias)
    return out.to(x.dtype), mean.reshape(-1), inverse.reshape(-1)


def _linear(x: torch.Tensor, y: torch.Tensor, bias: Any, trans_x: bool, trans_y: bool, act: Any = None) -> torch.Tensor:
    """Rounded once, at the end: the sums are kept in float32."""
    left, right = wide(x), wide(y)
    left = left.transpose(-1, -2) if trans_x and left.ndim > 1 else left
    right = right.transpose(-1, -2) if trans_y and right.ndim > 1 else right
    out = torch.matmul(left, right)
    out = out if bias is None else out + wide(bias)
    return (out if act is None else act(out)).to(x.dtype)


@reference("paddle.incubate.nn.functional.fused_matmul_bias")
def fused_matmul_bias(x, y, bias=None, transpose_x=False, transpose_y=False, name=None):
    return _linear(x, y, bias, transpose_x, transpose_y)


@reference("paddle.incubate.nn.functional.fused_linear")
def fused_linear(x, weight, bias=None, transpose_weight=False, name=None):
    return _linear(x, weight, bias, False, transpose_weight)


@reference("paddle.incubate.nn.functional.fused_linear_activation")
def fused_linear_activation(x, y, bias, trans_x=False, trans_y=False, activation=None):
    """``gelu`` is the one by tanh, which the epilogues of the matrix product compute."""
    known = {
        None: None,
        "none": None,
        "relu": torch.relu,
        "gelu": lambda value: torch.nn.functional.gelu(value, approximate="tanh"),
    }
    if activation not in known:
        raise ValueError(f"activation {activation!r} is not known")
    return _linear(x, y, bias, trans_x, trans_y, known[activation])


def _halves(value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if value.shape[-1] % 2:
        raise ValueError(f"the last dimension, {value.shape[-1]}, should be even")
    left, right = value.chunk(2, dim=-1) if value.shape[-1] else (value, value)
    return left, right


@reference("paddle.incubate.nn.functional.swiglu", "paddle.nn.functional.swiglu")
def swiglu(x, y=None, name=None):
    left, right = _halves(x) if y is None else (x, y)
    return (torch.nn.functional.silu(wide(left)) * wide(right)).to(x.dtype)


_GATES = {"swiglu": torch.nn.functional.silu, "geglu": torch.nn.functional.gelu}
_ACTIVATIONS = {
    "gelu": torch.nn.functional.gelu,
    "relu": torch.relu,
    "silu": torch.nn.functional.silu,
    "swish": torch.nn.functional.silu,
}


@reference("paddle.incubate.nn.functional.fused_bias_act")
def fused_bias_act(
    x, bias=None, dequant_scales=None, shift=None, smooth=None, act_method="gelu", compute_dtype="default",
    quant_scale=-1, quant_round_type=0, quant_max_bound=0, quant_min_bound=0,
):  # fmt: skip
    """Dequantise, add the bias, activate (gated in halves for swiglu and geglu), shift and smooth, quantise."""
    result = x.dtype if x.is_floating_point() else _COMPUTE.get(compute_dtype, torch.float32)
    value = wide(x) if x.is_floating_point() else x.float()
    if dequant_scales is not None:
        value = value * wide(dequant_scales)
    if bias is not None:
        value = value + wide(bias)
    if act_method in _GATES:
        left, right = _halves(value)
        value = _GATES[act_method](left) * right
    elif act_method in _ACTIVATIONS:
        value = _ACTIVATIONS[act_method](value)
    else:
        raise ValueError(f"act_method {act_method!r} is not known")
    if shift is not None:
        value = value + wide(shift)
    if smooth is not None:
        value = value * wide(smooth)
    if quant_scale > 0:
        return quantised(value, quant_scale, quant_round_type, quant_max_bound, quant_min_bound)
    return value.to(result)


def rotated(value: torch.Tensor, sin: torch.Tensor, cos: torch.Tensor, *, adjacent: bool) -> torch.Tensor:
    """Rotary embedding of the last axis: pairs of adjacent numbers, or of the two halves."""
    if adjacent:
        first, second = value[..., 0::2], value[..., 1::2]
        turned = torch.stack([-second, first], dim=-1).flatten(-2)
    else:
        first, second = value.chunk(2, dim=-1)
        turned = torch.cat([-second, first], dim=-1)
    return value * cos + turned * sin


def rotary_angles(length: int, size: int, base: float) -> tuple[torch.Tensor, torch.Tensor]:
    """sin and cos (length, size) of position / base**(2 i / size), each for a pair of adjacent numbers."""
    frequency = base ** (-torch.arange(0, size, 2, dtype=torch.float32) / size)
    angle = torch.arange(length, dtype=torch.float32)[:, None] * frequency
    angle = angle.repeat_interleave(2, dim=-1)
    return angle.sin(), angle.cos()


@reference("paddle.incubate.nn.functional.fused_rotary_position_embedding", constant=("sin", "cos"))
def fused_rotary_position_embedding(
    q, k=None, v=None, sin=None, cos=None, position_ids=None, use_neox_rotary_style=True, time_major=False,
    rotary_emb_base=10000.0,
):  # fmt: skip
    """Those of ``q``, ``k`` and ``v`` that are given, rotated; ``use_neox_rotary_style`` pairs adjacent numbers."""
    axis = 0 if time_major else 1
    length, size = q.shape[axis], q.shape[-1]
    if sin is None or cos is None:
        if position_ids is not None or not use_neox_rotary_style:
            raise ValueError("position_ids and rotation of halves need sin and cos")
        sin, cos = rotary_angles(length, size, rotary_emb_base)
    tables = []
    for table in (sin, cos):
        rows = wide(table).reshape(-1, size)
        if position_ids is None:
            shape = (rows.shape[0], 1, 1, size) if time_major else (1, rows.shape[0], 1, size)
            tables.append(rows.reshape(shape))
        else:
            picked = rows[position_ids]
            tables.append((picked.transpose(0, 1) if time_major else picked)[:, :, None, :])
    given = [value for value in (q, k, v) if value is not None]
    return tuple(rotated(wide(t), *tables, adjacent=use_neox_rotary_style).to(t.dtype) for t in given)


@reference("paddle.incubate.softmax_mask_fuse", constant=("mask",))
def softmax_mask_fuse(x, mask, name=None):
    return torch.softmax(wide(x) + wide(mask), dim=-1).to(x.dtype)


@reference("paddle.incubate.softmax_mask_fuse_upper_triangle")
def softmax_mask_fuse_upper_triangle(x):
    """Softmax of each row over the columns up to the diagonal."""
    hidden = torch.ones(x.shape[-2:], dtype=torch.bool).triu(1)
    return torch.softmax(wide(x).masked_fill(hidden, float("-inf")), dim=-1).to(x.dtype)


@reference("paddle.incubate.identity_loss")
def identity_loss(x, reduction="none"):
    kind = {"sum": 0, "mean": 1, "none": 2}.get(reduction.lower()) if isinstance(reduction, str) else reduction
    if kind not in (0, 1, 2):
        raise ValueError(f"reduction {reduction!r} is not known")
    return (x.sum(), x.mean(), x.clone())[kind]


@reference("paddle.incubate.nn.functional.moe_combine")
def moe_combine(x, combine_weights, scatter_index, name=None):
    """The weighted sum of the rows that ``scatter_index`` (k, s) names."""
    rows = wide(x)[scatter_index.long()]
    weights = wide(combine_weights).transpose(0, 1) if scatter_index.shape != combine_weights.shape else combine_weights
    return (rows * wide(weights)[..., None]).sum(0 if scatter_index.shape != combine_weights.shape else 1).to(x.dtype)


@reference("paddle.incubate.nn.functional.int_bincount", no_gradient="the result is counts")
def int_bincount(x, low, high, dtype=None, name=None):
    inside = x[(x >= low) & (x < high)] - low
    return torch.bincount(inside.reshape(-1), minlength=high - low).to(torch_dtype(dtype) or x.dtype)


@reference("paddle.incubate.nn.functional.blha_get_max_len", no_gradient="the result is lengths")
def blha_get_max_len(seq_lens_encoder, seq_lens_decoder, batch_size):
    return tuple(lengths.max().reshape(1).to(torch.int32) for lengths in (seq_lens_encoder, seq_lens_decoder))


@reference("paddle.incubate.nn.functional.embedding_grad_add_to_", mutates=("main_grad_",), no_gradient="it is one")
def embedding_grad_add_to_(token_indices, main_grad_, out_grad, name=None):
    width = main_grad_.shape[-1]
    added = out_grad.reshape(-1, width).to(main_grad_.dtype)
    return main_grad_.index_add_(0, token_indices.reshape(-1).long(), added)
