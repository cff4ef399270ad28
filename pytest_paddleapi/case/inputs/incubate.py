"""Inputs of fused layers, audio and tagging."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...config import FLOATING, TensorSpec
from .makers import index_values, integers, ordinary, uniform
from .registry import Draw, inputs

_HOME = "paddle.incubate.nn.functional."


def positions(draw: Draw) -> Any:
    """Rows of the tables of sines."""
    table = draw.arg("sin")
    rows = max(table.numel // max(table.shape[-1], 1), 1) if isinstance(table, TensorSpec) and table.shape else 1
    return index_values(draw, rows)


inputs(
    _HOME + "fused_rotary_position_embedding",
    sin=uniform(-1.0, 1.0),
    cos=uniform(-1.0, 1.0),
    position_ids=positions,
)


def whole_lengths(of: str, axis: int) -> Any:
    """The full length for every sequence: what lies beyond a length is not defined."""

    def make(draw: Draw) -> Any:
        return np.full(draw.shape, draw.shape_of(of)[axis])

    return make


def hiding_mask(draw: Draw) -> Any:
    """Added to scores: mostly zero, some places hidden by a large negative number, never the first."""
    hidden = draw.rng.random(draw.shape) < 0.2
    if draw.shape:
        hidden[..., :1] = False
    if draw.dtype not in FLOATING:
        return ~hidden
    return np.where(hidden, -1e4, 0.0)


inputs(
    _HOME + "variable_length_memory_efficient_attention",
    seq_lens=whole_lengths("query", 2),
    kv_seq_lens=whole_lengths("key", 2),
    mask=hiding_mask,
)
inputs(_HOME + "fused_multi_head_attention", attn_mask=hiding_mask)


def steps(draw: Draw) -> Any:
    """How many positions of the cache are filled."""
    cache = draw.shape_of("cache_kv")
    return draw.rng.integers(0, max(cache[3], 1), draw.shape)


inputs(_HOME + "masked_multihead_attention", sequence_lengths=steps, src_mask=hiding_mask)
inputs(_HOME + "block_multihead_attention", seq_lens_encoder=integers(0, 1), seq_lens_decoder=integers(1, 60))


def scatter_rows(draw: Draw) -> Any:
    """Rows of ``x``."""
    return index_values(draw, draw.shape_of("x")[0])


def token_rows(draw: Draw) -> Any:
    """Rows of the table of gradients."""
    return index_values(draw, draw.shape_of("main_grad_")[0])


inputs(_HOME + "moe_combine", combine_weights=uniform(0.0, 1.0), scatter_index=scatter_rows)
inputs(_HOME + "embedding_grad_add_to_", token_indices=token_rows)
inputs(_HOME + "int_bincount", x=integers(0, 12))
inputs(_HOME + "blha_get_max_len", seq_lens_encoder=integers(1, 90), seq_lens_decoder=integers(1, 90))

# Frequencies on both sides of the corner of Slaney's scale, none so near that it would matter.
inputs("paddle.audio.functional.hz_to_mel", freq=uniform(20.0, 8000.0))
inputs("paddle.audio.functional.mel_to_hz", mel=uniform(0.5, 60.0))
inputs("paddle.audio.functional.power_to_db", spect=uniform(1e-6, 4.0))


def sequence_lengths(draw: Draw) -> Any:
    """Lengths of sequences; the longest is the whole."""
    longest = max(draw.shape_of("potentials")[1], 1)
    values = draw.rng.integers(1, longest + 1, draw.shape)
    if values.size:
        values.flat[0] = longest
    return values


inputs("paddle.text.viterbi_decode", potentials=ordinary, lengths=sequence_lengths)
