"""Fused transformer layers of ``paddle.incubate``, from the pseudo code in Paddle's documentation."""

from __future__ import annotations

import math
from typing import Any

import torch

from .dropout import checked_rate
from .fused import wide
from .registry import NoEquivalent, reference


def layer_norm(x: torch.Tensor, scale: Any, bias: Any, epsilon: float) -> torch.Tensor:
    """Over the last axis, with an optional scale and bias."""
    width = (x.shape[-1],)
    parts = [None if v is None else wide(v) for v in (scale, bias)]
    return torch.nn.functional.layer_norm(x, width, parts[0], parts[1], epsilon)


def dropped(x: torch.Tensor, rate: float, training: bool, mode: str) -> torch.Tensor:
    """Dropout of each element."""
    if mode not in ("upscale_in_train", "downscale_in_infer"):
        raise ValueError(f"mode {mode!r} is not known")
    rate, upscale = checked_rate(rate), mode == "upscale_in_train"
    if not training:
        return x if upscale else x * (1 - rate)
    if rate in (0.0, 1.0):
        return x * (1 - rate)
    kept = torch.rand(x.shape) >= rate
    return x * kept / (1 - rate) if upscale else x * kept


@reference("paddle.incubate.nn.functional.fused_bias_dropout_residual_layer_norm")
def fused_bias_dropout_residual_layer_norm(
    x, residual, bias=None, ln_scale=None, ln_bias=None, dropout_rate=0.5, ln_epsilon=1e-5, training=True,
    mode="upscale_in_train", name=None,
):  # fmt: skip
    """layer_norm(residual + dropout(bias + x))"""
    value = wide(x) if bias is None else wide(x) + wide(bias)
    total = wide(residual) + dropped(value, dropout_rate, training, mode)
    return layer_norm(total, ln_scale, ln_bias, ln_epsilon).to(x.dtype)


@reference("paddle.incubate.nn.functional.fused_feedforward")
def fused_feedforward(
    x, linear1_weight, linear2_weight, linear1_bias=None, linear2_bias=None, ln1_scale=None, ln1_bias=None,
    ln2_scale=None, ln2_bias=None, dropout1_rate=0.5, dropout2_rate=0.5, activation="relu", ln1_epsilon=1e-5,
    ln2_epsilon=1e-5, pre_layer_norm=False, training=True, mode="upscale_in_train", ring_id=-1, add_residual=True,
    name=None,
):  # fmt: skip
    """residual + dropout2(linear2(dropout1(activation(linear1(...))))), with a norm before or after."""
    if activation not in ("relu", "gelu"):
        raise ValueError(f"activation {activation!r} is not known")
    value = wide(x)
    hidden = layer_norm(value, ln1_scale, ln1_bias, ln1_epsilon) if pre_layer_norm else value
    hidden = hidden @ wide(linear1_weight) + (0 if linear1_bias is None else wide(linear1_bias))
    hidden = torch.relu(hidden) if activation == "relu" else torch.nn.functional.gelu(hidden)
    hidden = dropped(hidden, dropout1_rate, training, mode)
    hidden = hidden @ wide(linear2_weight) + (0 if linear2_bias is None else wide(linear2_bias))
    out = dropped(hidden, dropout2_rate, training, mode)
    out = value + out if add_residual else out
    return (out if pre_layer_norm else layer_norm(out, ln2_scale, ln2_bias, ln2_epsilon)).to(x.dtype)


def additive(mask: torch.Tensor) -> torch.Tensor:
    """An attention mask as something to add: bool and int masks hide where they are 0."""
    if mask.is_floating_point():
        return wide(mask)
    return torch.where(mask.bool(), 0.0, float("-inf"))


@reference("paddle.incubate.nn.functional.fused_multi_head_attention")
def fused_multi_head_attention(
    x, qkv_weight, linear_weight, pre_layer_norm=False, pre_ln_scale=None, pre_ln_bias=None, ln_scale=None,
    ln_bias=None, pre_ln_epsilon=1e-05, qkv_bias=None, linear_bias=None, cache_kv=None, attn_mask=None,
    dropout_rate=0.5, attn_dropout_rate=0.5, ln_epsilon=1e-05, training=True, mode="upscale_in_train", ring_id=-1,
    add_residual=True, num_heads=-1, transpose_qkv_wb=False, name=None,
):  # fmt: skip
    """Self-attention with its projections, a residual, and a norm before or after."""
    batch, length, width = x.shape
    value = wide(x)
    hidden = layer_norm(value, pre_ln_scale, pre_ln_bias, pre_ln_epsilon) if pre_layer_norm else value
    if transpose_qkv_wb:
        if num_heads <= 0 or width % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {width}")
        heads, size = num_heads, width // num_heads
        packed = hidden @ wide(qkv_weight)
    else:
        _, heads, size, _ = qkv_weight.shape
        packed = hidden @ wide(qkv_weight).reshape(-1, width).t()
    packed = packed if qkv_bias is None else packed + wide(qkv_bias).reshape(-1)
    q, k, v = packed.reshape(batch, length, 3, heads, size).permute(2, 0, 3, 1, 4)
    if cache_kv is not None:
        k, v = (torch.cat([wide(old), new], dim=2) for old, new in zip(cache_kv, (k, v)))
    scores = (q * size**-0.5) @ k.transpose(-1, -2)
    scores = scores if attn_mask is None else scores + additive(attn_mask)
    weights = dropped(scores.softmax(-1), attn_dropout_rate, training, mode)
    merged = (weights @ v).transpose(1, 2).reshape(batch, length, heads * size)
    out = merged @ wide(linear_weight) + (0 if linear_bias is None else wide(linear_bias))
    out = dropped(out, dropout_rate, training, mode)
    out = value + out if add_residual else out
    out = (out if pre_layer_norm else layer_norm(out, ln_scale, ln_bias, ln_epsilon)).to(x.dtype)
    return out if cache_kv is None else (out, torch.stack([k, v]).to(x.dtype))


@reference("paddle.incubate.nn.functional.variable_length_memory_efficient_attention", constant=("mask",))
def variable_length_memory_efficient_attention(
    query, key, value, seq_lens, kv_seq_lens, mask=None, scale=None, causal=False, pre_cache_length=0
):  # fmt: skip
    """Attention of each sequence over its own length; heads of ``key`` and ``value`` may be shared by several."""
    batch, heads, length, size = query.shape
    shared = heads // max(key.shape[1], 1)
    if key.shape[1] * shared != heads:
        raise ValueError(f"{heads} heads of the query for {key.shape[1]} of the key")
    k, v = (wide(t).repeat_interleave(shared, dim=1) for t in (key, value))
    scores = wide(query) @ k.transpose(-1, -2) * (scale or 1.0 / math.sqrt(size))
    total = k.shape[2]
    if mask is not None:
        if mask.shape[0] != batch:
            raise ValueError(f"the mask is for a batch of {mask.shape[0]}, the query's is {batch}")
        scores = scores + additive(mask)[:, :, :length, :total]
    columns = torch.arange(total)
    if causal:
        hidden = columns > torch.arange(length)[:, None] + (total - length)
        scores = scores.masked_fill(hidden, float("-inf"))
    beyond = columns >= kv_seq_lens.reshape(batch, 1, 1, 1) + pre_cache_length
    weights = scores.masked_fill(beyond, float("-inf")).softmax(-1)
    return (weights @ v).to(query.dtype)


@reference("paddle.incubate.nn.functional.masked_multihead_attention", mutates=("cache_kv",))
def masked_multihead_attention(
    x, cache_kv=None, bias=None, src_mask=None, cum_offsets=None, sequence_lengths=None, rotary_tensor=None,
    beam_cache_offset=None, qkv_out_scale=None, out_shift=None, out_smooth=None, seq_len=1, rotary_emb_dims=0,
    use_neox_rotary_style=False, compute_dtype="default", out_scale=-1, quant_round_type=1, quant_max_bound=127.0,
    quant_min_bound=-127.0,
):  # fmt: skip
    """One step of decoding: the new key and value go into the cache, the query attends to all up to them."""
    if beam_cache_offset is not None or cum_offsets is not None:
        raise NoEquivalent("beams share caches by rules that the documentation does not give")
    if qkv_out_scale is not None or out_scale > 0 or not x.is_floating_point():
        raise NoEquivalent("the quantised form is defined by its kernel")
    if rotary_tensor is not None and rotary_emb_dims:
        raise NoEquivalent("the layout of the rotary tensor is defined by the kernel")
    _, batch, heads, longest, size = cache_kv.shape
    packed = wide(x).reshape(batch, 3, heads, size)
    packed = packed if bias is None else packed + wide(bias).reshape(3, heads, size)
    outputs = []
    with torch.no_grad():
        filled = cache_kv.clone()
    for item in range(batch):
        q, k, v = packed[item]
        step = int(sequence_lengths.reshape(-1)[item]) if sequence_lengths is not None else src_mask.shape[-1] - 1
        if step >= longest:
            raise ValueError(f"step {step} does not fit a cache of {longest}")
        filled[0, item, :, step], filled[1, item, :, step] = k.to(x.dtype), v.to(x.dtype)
        keys, values = (wide(filled[side, item, :, : step + 1]) for side in (0, 1))
        scores = (keys @ (q * size**-0.5)[..., None]).squeeze(-1)
        if src_mask is not None:
            scores = scores + additive(src_mask)[item, :, 0, : step + 1]
        outputs.append((scores.softmax(-1)[:, None, :] @ values).reshape(-1))
    cache_kv.copy_(filled)
    return torch.stack(outputs).reshape(batch, heads * size).to(x.dtype), cache_kv
