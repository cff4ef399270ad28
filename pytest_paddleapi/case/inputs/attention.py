"""Inputs of attention: masks that hide no row as a whole, bounds, edges, sparse patterns."""

from __future__ import annotations

from typing import Any

import numpy as np

from .makers import ordinary
from .registry import Draw, inputs

_F = "paddle.nn.functional."
_FLASH = _F + "flash_attention."


def attention_mask(draw: Draw) -> Any:
    """Three of four places take part, the first column always; float masks have -10 for the others."""
    taking_part = draw.rng.random(draw.shape) < 0.75
    if draw.shape and draw.shape[-1]:
        taking_part[..., 0] = True
    if draw.dtype == "bool":
        return taking_part
    return np.where(taking_part, 0.0, -10.0)


for _name in (_F + "scaled_dot_product_attention", _FLASH + "scaled_dot_product_attention"):
    inputs(_name, attn_mask=attention_mask)


def column_bounds(draw: Draw) -> Any:
    """Rows where masking starts and ends below and above the diagonal, which itself is never masked."""
    shape = draw.shape
    if len(shape) != 4 or 0 in shape:
        return np.zeros(shape, np.int64)
    rows = draw.shape_of("query")[1]
    column = np.broadcast_to(np.arange(shape[2]).reshape(1, 1, -1), shape[:3])
    start = np.minimum(column + 1 + draw.rng.integers(0, max(rows // 2, 1), shape[:3]), rows)
    end = np.minimum(start + draw.rng.integers(0, max(rows // 2, 1), shape[:3]), rows)
    above_end = np.maximum(column - draw.rng.integers(0, max(rows // 2, 1), shape[:3]), 0)
    above_start = np.maximum(above_end - draw.rng.integers(0, max(rows // 2, 1), shape[:3]), 0)
    if shape[3] == 1:
        parts = [start]
    elif shape[3] == 2:
        parts = [start, end] if draw.arg("causal", False) else [start, above_end]
    else:
        parts = [start, end, above_start, above_end][: shape[3]]
    values = np.stack(parts, -1)
    return values if values.shape == shape else np.resize(values, shape)


for _name in (_F + "flashmask_attention", _FLASH + "flashmask_attention"):
    inputs(_name, startend_row_indices=column_bounds)


def sequence_edges(of: str) -> Any:
    """Where each sequence starts, then the number of tokens of argument ``of``; no sequence is empty if possible."""

    def make(draw: Draw) -> Any:
        count = int(np.prod(draw.shape, dtype=np.int64)) - 1
        tokens = draw.shape_of(of)[0] if draw.shape_of(of) else 0
        if count < 1:
            return np.zeros(draw.shape, np.int64)
        inner = draw.rng.permutation(max(tokens - 1, 0))[: count - 1] + 1
        return np.concatenate([[0], np.sort(np.resize(inner, count - 1)), [tokens]]).reshape(draw.shape)

    return make


inputs(_FLASH + "flash_attn_unpadded", cu_seqlens_q=sequence_edges("query"), cu_seqlens_k=sequence_edges("key"))
for _name in (_F + "flash_attn_varlen_qkvpacked", _FLASH + "flash_attn_varlen_qkvpacked"):
    inputs(_name, cu_seqlens_q=sequence_edges("qkv"), cu_seqlens_k=sequence_edges("qkv"))
inputs(_F + "flash_attention_v3_varlen", cu_seqlens_q=sequence_edges("query"), cu_seqlens_k=sequence_edges("key"))


def _row_counts(draw: Draw) -> Any:
    """Columns in each row of the pattern, at least one where there are enough, for each batch and head."""
    offset = draw.shape_of("sparse_csr_offset")
    rows, total = offset[-1] - 1, draw.shape_of("sparse_csr_columns")[-1]
    counts = np.full((*offset[:-1], rows), total // max(rows, 1))
    counts[..., : total - counts[0, 0].sum() if rows else 0] += 1
    return np.minimum(counts, rows)


def csr_offset(draw: Draw) -> Any:
    if len(draw.shape) != 3 or draw.shape[-1] < 2:
        return np.zeros(draw.shape, np.int64)
    counts = _row_counts(draw)
    return np.concatenate([np.zeros((*counts.shape[:-1], 1), np.int64), counts.cumsum(-1)], -1)


def csr_columns(draw: Draw) -> Any:
    values = np.zeros(draw.shape, np.int64)
    if len(draw.shape) != 3 or draw.shape_of("sparse_csr_offset")[-1] < 2:
        return values
    counts = _row_counts(draw)
    for index in np.ndindex(counts.shape[:-1]):
        rows = [np.sort(draw.rng.permutation(counts.shape[-1])[:count]) for count in counts[index]]
        listed = np.concatenate(rows)[: draw.shape[-1]]
        values[index][: len(listed)] = listed
    return values


def mostly_one(draw: Draw) -> Any:
    return (draw.rng.random(draw.shape) < 0.9).astype(np.float64)


inputs(
    _F + "sparse_attention",
    sparse_csr_offset=csr_offset,
    sparse_csr_columns=csr_columns,
    key_padding_mask=mostly_one,
    attn_mask=mostly_one,
)
inputs("paddle.incubate.nn.memory_efficient_attention.memory_efficient_attention", attn_bias=ordinary)
inputs("paddle.compat.nn.functional.scaled_dot_product_attention", attn_mask=attention_mask)
