"""``paddle.compat.nn.functional``: functions with Torch's own signatures and meanings."""

from __future__ import annotations

import torch

from ..dtypes import torch_dtype
from .attention import attend
from .padding import pad_axes
from .registry import NoEquivalent, reference, renames, without_reference
from .spatial import ints

renames("""
paddle.compat.nn.functional.linear = torch.nn.functional.linear(input, weight, bias)
paddle.compat.nn.functional.unfold = torch.nn.functional.unfold(input, kernel_size, dilation, padding, stride)
""")


@reference("paddle.compat.nn.functional.softmax", constant=("out",))
def softmax(input, dim=None, dtype=None, *, out=None):
    """Without ``dim`` the axis is 0 for 0, 1 or 3 axes, else 1, as Torch once chose it."""
    if dim is None:
        dim = 0 if input.ndim in (0, 1, 3) else 1
    return torch.softmax(input, dim, dtype=torch_dtype(dtype))


@reference("paddle.compat.nn.functional.pad", constant=("pad",))
def pad(input, pad, mode="constant", value=0.0):
    """Amounts before and after, from the last axis forward."""
    amounts = ints(pad)
    if not amounts:
        return input.clone()
    if len(amounts) % 2 or len(amounts) > 2 * input.ndim:
        raise ValueError(f"pad {amounts} does not fit {input.ndim} axes")
    axes = range(input.ndim - 1, -1, -1)
    return pad_axes(input, list(zip(axes, amounts[0::2], amounts[1::2])), mode, value)


@reference("paddle.compat.nn.functional.scaled_dot_product_attention")
def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    """(batch, heads, length, width), or without batch."""
    if is_causal and attn_mask is not None:
        raise RuntimeError("a mask and is_causal exclude each other")
    if dropout_p:
        raise NoEquivalent("dropout is random")
    if not enable_gqa and query.shape[-3] != key.shape[-3]:
        raise ValueError(f"heads do not fit: {query.shape[-3]}, {key.shape[-3]}")
    batched = query.ndim == 4
    q, k, v = (t if batched else t.unsqueeze(0) for t in (query, key, value))
    out = attend(q, k, v, mask=attn_mask, causal=is_causal, scale=scale)[0]
    return out if batched else out.squeeze(0)


without_reference(
    "paddle.nn.functional.moe_permute",
    "paddle.nn.functional.moe_unpermute",
    why="the order in which a fused kernel lays out the tokens of an expert is its own",
)
without_reference(
    "paddle.nn.functional.flash_attention.calc_reduced_attention_scores",
    "paddle.nn.functional.flash_attention.flash_attn_varlen_func",
    why="works on by-products of the flash attention kernel, whose layout is its own",
)
