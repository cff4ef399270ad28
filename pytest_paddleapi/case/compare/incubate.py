"""Fused layers: sums of products, results that random numbers are part of, and kernels without a definition."""

from __future__ import annotations

from typing import Any

import torch

from ..tensors import to_torch
from .comparison import Comparison
from .registry import comparator
from .sums import compare_sums

_HOME = "paddle.incubate.nn.functional."


def compared_or_nothing(c: Comparison) -> None:
    """The comparison with the reference, where there is one for these arguments; else nothing is counted."""
    if c.expected is None:
        c.note("these arguments have no definition outside of Paddle's kernel: nothing was compared")
    else:
        compare_sums(c)


comparator(
    _HOME + "fused_matmul_bias",
    _HOME + "fused_linear",
    _HOME + "fused_linear_activation",
    _HOME + "fused_layer_norm",
    _HOME + "fused_rms_norm",
    _HOME + "fast_ln",
    _HOME + "variable_length_memory_efficient_attention",
    meaning="sums of products, to the size of the whole",
)(compare_sums)

comparator(
    *(
        _HOME + name
        for name in (
            "masked_multihead_attention",
            "block_multihead_attention",
            "fused_multi_transformer",
            "build_src_rank_and_local_expert_id",
            "cal_aux_loss",
            "cross_entropy_with_softmax_bwd_w_downcast",
            "expand_modality_expert_id",
            "fp8_gemm_blockwise",
            "fp8_quant_blockwise",
            "fused_act_dequant",
            "fused_stack_transpose_quant",
            "fused_swiglu_weighted_bwd",
            "fused_transpose_split_quant",
            "fused_transpose_wlch_split_quant",
            "fused_weighted_swiglu_act_quant",
            "moe_gate_dispatch",
            "moe_gate_dispatch_and_quant",
            "moe_gate_dispatch_partial_nosoftmaxtopk",
            "moe_gate_dispatch_permute",
        )
    ),
    "paddle.nn.functional.moe_permute",
    "paddle.nn.functional.moe_unpermute",
    meaning="sums of products, where the definition is known",
    needs_reference=False,
)(compared_or_nothing)

#: For each fused layer its dropout rates, its last norm (scale, bias), and whether the norm comes last.
_RANDOM: dict[str, tuple[tuple[str, ...], tuple[str, str]]] = {
    "fused_bias_dropout_residual_layer_norm": (("dropout_rate",), ("ln_scale", "ln_bias")),
    "fused_feedforward": (("dropout1_rate", "dropout2_rate"), ("ln2_scale", "ln2_bias")),
    "fused_multi_head_attention": (("dropout_rate", "attn_dropout_rate"), ("ln_scale", "ln_bias")),
}


@comparator(
    *(_HOME + name for name in _RANDOM), meaning="sums of products; with dropout inside the form and the norm of rows"
)
def fused_transformer(c: Comparison) -> None:
    """Elementwise without dropout. With it only what holds for any mask: finite, and normed rows."""
    rates, norm = _RANDOM[c.api.rpartition(".")[2]]
    if not c.argument("training", True) or all(c.argument(rate, 0.5) in (0, 1) for rate in rates):
        return compare_sums(c)
    if not c.same_structure():
        return None
    output = c.actual_leaves()[0]
    if not c.same_form("output 0", output, c.expected_leaves()[0]):
        return None
    c.count(outputs=1, elements=output.numel())
    c.note("dropout inside: only the form, finite values and the norm of rows were checked")
    if not bool(output.isfinite().all()):
        c.differs("output 0", f"{int((~output.isfinite()).sum())} of {output.numel()} values are not finite")
    elif not c.argument("pre_layer_norm", False) and output.numel():
        _normed_rows(c, output, norm)
    return None


def _normed_rows(c: Comparison, output: torch.Tensor, norm: tuple[str, str]) -> None:
    """Without scale and bias each row has mean 0 and mean square 1 (a little less for epsilon)."""
    scale, bias = (_values(c.argument(name)) for name in norm)
    rows = output.double()
    rows = rows if bias is None else rows - bias
    rows = rows if scale is None else rows / scale
    moments = torch.stack([rows.mean(-1), rows.square().mean(-1)])
    wanted = torch.stack([torch.zeros_like(moments[0]), torch.ones_like(moments[0])])
    tolerance = c.tolerance(torch.float64).at_least(0.05, 0.0, "moments of rows that were rounded")
    c.pair("output 0, mean and mean square of rows", moments, wanted, tolerance)


def _values(array: Any) -> torch.Tensor | None:
    return None if array is None else to_torch(array).double()
