"""Quantised weights: exact scales, and the same codes in whatever order."""

from __future__ import annotations

import torch

from .comparison import Comparison
from .incubate import compared_or_nothing
from .registry import comparator


@comparator(
    "paddle.nn.quant.weight_quantize",
    meaning="scales, and the codes without their order where that belongs to the GPU",
)
def weight_quantize(c: Comparison) -> None:
    """Codes for weight-only products are shifted to unsigned numbers and permuted for one kind of GPU.

    Their order is no promise of the documentation, so they are compared as sorted numbers.
    """
    if not c.same_structure():
        return
    (codes, scales), (wanted, wanted_scales) = c.actual_leaves(), c.expected_leaves()
    c.pair("output 1", scales, wanted_scales)
    c.count(outputs=2)
    if not c.same_form("output 0", codes, wanted):
        return
    algo = c.argument("algo", "weight_only_int8")
    if algo == "llm.int8":
        c.pair("output 0", codes, wanted)
    elif algo == "weight_only_int4":
        c.pair("output 0, sorted codes", _sorted(_halves(codes)), _sorted((_halves(wanted) + 8) % 16))
    else:
        unsigned = wanted.to(torch.int32) + 128
        c.pair("output 0, sorted codes", _sorted(codes.view(torch.uint8).to(torch.int32)), _sorted(unsigned))
    if algo != "llm.int8":
        c.note("the order of the codes was not compared")


def _halves(codes: torch.Tensor) -> torch.Tensor:
    """The two numbers of four bits in each byte."""
    unsigned = codes.view(torch.uint8).to(torch.int32)
    return torch.cat([(unsigned & 15).reshape(-1), (unsigned >> 4).reshape(-1)])


def _sorted(values: torch.Tensor) -> torch.Tensor:
    return values.reshape(-1).sort().values


comparator(
    "paddle.nn.quant.weight_only_linear",
    "paddle.nn.quant.llm_int8_linear",
    "paddle.nn.quant.weight_dequantize",
    meaning="sums of products, where the definition is known",
    needs_reference=False,
)(compared_or_nothing)
