"""Attention written out: softmax of scaled products, masked, times values."""

from __future__ import annotations

import math
from typing import Any

import torch

from .registry import NoEquivalent, reference
from .spatial import wide

_FLASH = "paddle.nn.functional.flash_attention."


def _refuse_dropout(rate: float, training: bool) -> None:
    if rate and training:
        raise NoEquivalent("dropout is random")


def _repeated(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Key or value heads (axis 1), each shared by several query heads."""
    if x.shape[1] in (heads, 0):
        return x
    if heads % x.shape[1]:
        raise ValueError(f"{heads} query heads cannot share {x.shape[1]} key heads")
    return x.repeat_interleave(heads // x.shape[1], 1)


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    mask: torch.Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Result and weights for tensors of (batch, heads, length, width).

    A bool mask names who takes part, any other is added. ``causal`` lets row i see the columns up to i.
    """
    q, k, v = (wide(t) for t in (query, key, value))
    k, v = _repeated(k, q.shape[1]), _repeated(v, q.shape[1])
    width = q.shape[-1]
    scores = q * (scale or (width**-0.5 if width else 1.0)) @ k.transpose(-1, -2)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + wide(mask)
    if causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, -math.inf)
    weights = torch.softmax(scores, -1)
    return (weights @ v).to(query.dtype), weights.to(query.dtype)


def _heads_first(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [t.transpose(1, 2) for t in tensors]


@reference(
    "paddle.nn.functional.scaled_dot_product_attention",
    _FLASH + "scaled_dot_product_attention",
)
def scaled_dot_product_attention(
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    training=True,
    backend=None,
    scale=None,
    enable_gqa=True,
    name=None,
):
    """(batch, length, heads, width), or without batch. A mask beside ``is_causal`` is ignored, says Paddle's
    documentation."""
    _refuse_dropout(dropout_p, training)
    batched = query.ndim == 4
    q, k, v = (t if batched else t.unsqueeze(0) for t in (query, key, value))
    if k.shape[2] != v.shape[2] or (not enable_gqa and q.shape[2] != k.shape[2]):
        raise ValueError(f"heads do not fit: {q.shape[2]}, {k.shape[2]}, {v.shape[2]}")
    mask = None if is_causal else attn_mask
    out = attend(*_heads_first(q, k, v), mask=mask, causal=is_causal, scale=scale)[0].transpose(1, 2)
    return out if batched else out.squeeze(0)


@reference(_FLASH + "flash_attention")
def flash_attention(
    query,
    key,
    value,
    dropout=0.0,
    causal=False,
    return_softmax=False,
    *,
    fixed_seed_offset=None,
    rng_name="",
    training=True,
    name=None,
    softmax_scale=None,
):
    """The result and, if asked for, the weights."""
    _refuse_dropout(dropout, training)
    out, weights = attend(*_heads_first(query, key, value), causal=causal, scale=softmax_scale)
    return out.transpose(1, 2), weights if return_softmax else None


@reference("paddle.nn.functional.flash_attn_qkvpacked", _FLASH + "flash_attn_qkvpacked")
def flash_attn_qkvpacked(
    qkv,
    dropout=0.0,
    causal=False,
    return_softmax=False,
    *,
    fixed_seed_offset=None,
    rng_name="",
    training=True,
    name=None,
):
    """(batch, length, queries per key + 2, key heads, width): queries, then one key and one value."""
    if qkv.ndim != 5 or qkv.shape[2] < 3:
        raise ValueError(f"qkv must have five axes, and three entries or more in the third: {list(qkv.shape)}")
    query = qkv[:, :, :-2].flatten(2, 3)
    # Query head (g, h) belongs to key head h, so key heads repeat as a whole.
    key, value = (qkv[:, :, i].repeat(1, 1, qkv.shape[2] - 2, 1) for i in (-2, -1))
    return flash_attention(query, key, value, dropout, causal, return_softmax, training=training)


def _ragged(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    query_edges: torch.Tensor,
    key_edges: torch.Tensor,
    causal: bool,
    scale: float | None,
) -> torch.Tensor:
    """Each sequence by itself; tensors are (tokens, heads, width). A causal mask ends at the lower right."""
    parts = []
    edges = zip(query_edges.tolist(), query_edges.tolist()[1:], key_edges.tolist(), key_edges.tolist()[1:])
    for q0, q1, k0, k1 in edges:
        q, k, v = (t.transpose(0, 1).unsqueeze(0) for t in (query[q0:q1], key[k0:k1], value[k0:k1]))
        mask = torch.ones(q1 - q0, k1 - k0, dtype=torch.bool).tril(k1 - k0 - (q1 - q0)) if causal else None
        parts.append(attend(q, k, v, mask=mask, scale=scale)[0].squeeze(0).transpose(0, 1))
    return torch.cat(parts) if parts else torch.zeros_like(query)


@reference(_FLASH + "flash_attn_unpadded", constant=("cu_seqlens_q", "cu_seqlens_k"))
def flash_attn_unpadded(
    query,
    key,
    value,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    scale,
    dropout=0.0,
    causal=False,
    return_softmax=False,
    fixed_seed_offset=None,
    rng_name="",
    training=True,
    name=None,
):
    _refuse_dropout(dropout, training)
    if return_softmax:
        raise NoEquivalent("the padded softmax is for debugging and has no definition")
    return _ragged(query, key, value, cu_seqlens_q, cu_seqlens_k, causal, scale), None


@reference("paddle.nn.functional.flash_attn_varlen_qkvpacked", _FLASH + "flash_attn_varlen_qkvpacked")
def flash_attn_varlen_qkvpacked(
    qkv,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    scale,
    dropout=0.0,
    causal=False,
    return_softmax=False,
    fixed_seed_offset=None,
    rng_name="",
    varlen_padded=True,
    training=True,
    name=None,
):
    _refuse_dropout(dropout, training)
    if return_softmax or varlen_padded:
        raise NoEquivalent("what stands in the padding has no definition")
    key, value = (qkv[:, i].repeat(1, qkv.shape[1] - 2, 1) for i in (-2, -1))
    return _ragged(qkv[:, :-2].flatten(1, 2), key, value, cu_seqlens_q, cu_seqlens_k, causal, scale), None


@reference("paddle.nn.functional.flash_attention_v3_varlen")
def flash_attention_v3_varlen(
    query,
    key,
    value,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    seqused_q=None,
    seqused_k=None,
    softmax_scale=None,
    causal=False,
    qv=None,
    q_descale=None,
    k_descale=None,
    v_descale=None,
    window_size=(-1, -1),
    softcap=0.0,
    num_splits=1,
    pack_gqa=None,
    sm_margin=0,
):
    extras = (seqused_q, seqused_k, qv, q_descale, k_descale, v_descale)
    if any(e is not None for e in extras) or tuple(window_size) != (-1, -1) or softcap:
        raise NoEquivalent("only whole sequences without windows, caps or scales")
    raise NoEquivalent("the log-sum-exp beside the result has a layout of its own")


def _column_mask(rows: torch.Tensor, length: int, causal: bool) -> torch.Tensor:
    """Who takes part, (batch, heads, rows, columns), from FlashMask's bounds of each column."""
    row = torch.arange(length).reshape(1, 1, -1, 1)
    columns = rows.shape[2]
    bounds = [bound.unsqueeze(2) for bound in rows.long().unbind(-1)]
    column = torch.arange(columns).reshape(1, 1, 1, -1)
    if causal:
        if len(bounds) not in (1, 2):
            raise ValueError("causal bounds come as one or two numbers")
        hidden = row >= bounds[0]
        if len(bounds) == 2:
            hidden = hidden & (row < bounds[1])
        return ~hidden & (column <= row + columns - length)
    if len(bounds) == 2:
        return ~((row >= bounds[0]) | (row < bounds[1]))
    if len(bounds) != 4:
        raise ValueError("bounds come as two or four numbers")
    lower, upper = (row >= bounds[0]) & (row < bounds[1]), (row >= bounds[2]) & (row < bounds[3])
    return ~(lower | upper)


def _window_mask(window: Any, length: int, columns: int, causal: bool) -> torch.Tensor:
    left, right = (window, window) if isinstance(window, int) else window
    distance = torch.arange(length).reshape(-1, 1) - torch.arange(columns)
    return (distance <= left) & (distance >= (0 if causal else -right))


@reference(
    "paddle.nn.functional.flashmask_attention", _FLASH + "flashmask_attention", constant=("startend_row_indices",)
)
def flashmask_attention(
    query,
    key,
    value,
    startend_row_indices=None,
    *,
    dropout=0.0,
    causal=False,
    window_size=None,
    return_softmax_lse=False,
    return_seed_offset=False,
    fixed_seed_offset=None,
    rng_name="",
    training=True,
    name=None,
    softmax_scale=None,
    block_mask=None,
):
    """Wang et al., FlashMask: Efficient and Rich Mask Extension of FlashAttention, 2024."""
    _refuse_dropout(dropout, training)
    if return_softmax_lse or return_seed_offset or block_mask is not None:
        raise NoEquivalent("only the result without blocks can be compared")
    length, columns = query.shape[1], key.shape[1]
    mask = None
    if window_size is not None:
        if startend_row_indices is not None:
            raise ValueError("window_size and startend_row_indices exclude each other")
        mask = _window_mask(window_size, length, columns, causal)
    elif startend_row_indices is not None:
        if startend_row_indices.shape[0] != key.shape[0] or startend_row_indices.shape[2] != columns:
            raise ValueError(f"bounds {list(startend_row_indices.shape)} do not fit key {list(key.shape)}")
        mask = _repeated(_column_mask(startend_row_indices, length, causal), query.shape[2])
    elif causal:
        mask = torch.ones(length, columns, dtype=torch.bool).tril(columns - length)
    out = attend(*_heads_first(query, key, value), mask=mask, scale=softmax_scale)[0]
    return out.transpose(1, 2)


@reference(
    "paddle.nn.functional.sparse_attention",
    constant=("sparse_csr_offset", "sparse_csr_columns", "key_padding_mask", "attn_mask"),
)
def sparse_attention(
    query, key, value, sparse_csr_offset, sparse_csr_columns, key_padding_mask=None, attn_mask=None, name=None
):
    """Row i sees the columns that the CSR pattern lists for it and no mask has at zero."""
    batch, heads, length, _ = query.shape
    seen = torch.zeros(batch, heads, length, length, dtype=torch.bool)
    for b in range(batch):
        for h in range(heads):
            offsets = sparse_csr_offset[b, h].long()
            rows = torch.repeat_interleave(torch.arange(length), offsets.diff())
            seen[b, h, rows, sparse_csr_columns[b, h, : len(rows)].long()] = True
    if key_padding_mask is not None:
        seen = seen & (key_padding_mask != 0)[:, None, None, :]
    if attn_mask is not None:
        seen = seen & (attn_mask != 0)
    return attend(query, key, value, mask=seen)[0]


@reference(
    "paddle.incubate.nn.memory_efficient_attention.memory_efficient_attention",
    constant=("attn_bias",),
)
def memory_efficient_attention(query, key, value, attn_bias=None, p=0.0, scale=None, training=True):
    """(batch, length, heads, width); the bias is added to the scores."""
    _refuse_dropout(p, training)
    return attend(*_heads_first(query, key, value), mask=attn_bias, scale=scale)[0].transpose(1, 2)
