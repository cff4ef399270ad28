"""Weight quantisation of ``paddle.nn.quant``.

Codes are given in plain order, (outputs, inputs); Paddle stores those for weight-only products in the order
that one kind of GPU reads fastest, which ``compare/quantization.py`` undoes as far as it must.
"""

from __future__ import annotations

from typing import Any

import torch

from ..dtypes import torch_dtype
from .fused import wide
from .registry import NoEquivalent, reference

#: The largest code of each algorithm.
LARGEST_CODE = {"weight_only_int8": 127.0, "weight_only_int4": 7.0, "llm.int8": 127.0}


def _checked(algo: str, group_size: int) -> float:
    if algo not in LARGEST_CODE:
        raise NoEquivalent(f"the format {algo!r} is defined by its kernel")
    if group_size not in (-1, 64, 128):
        raise ValueError(f"group_size {group_size}: it should be -1, 64 or 128")
    return LARGEST_CODE[algo]


def scales(x: torch.Tensor, largest: float, group_size: int) -> torch.Tensor:
    """Largest magnitude of each output (of each group of inputs) over the largest code: (groups, outputs)."""
    rows, columns = x.shape
    step = rows if group_size == -1 else group_size
    groups = max(-(-rows // step), 1) if step else 1
    parts = wide(x).abs().split(step) if rows else [wide(x).new_zeros((1, columns))]
    return torch.stack([part.amax(0) for part in parts]).reshape(groups, columns) / largest


@reference("paddle.nn.quant.weight_quantize", no_gradient="the result is codes")
def weight_quantize(x, algo="weight_only_int8", arch=None, group_size=-1):
    """(codes, scales) with x = code * scale; scales of llm.int8 are float32, others have the dtype of ``x``."""
    largest = _checked(algo, group_size)
    if arch is None and x.numel() and not torch.cuda.is_available():
        raise ValueError("arch is not given, and there is no GPU to take it from")
    found = scales(x, largest, group_size)
    stored = found if algo == "llm.int8" else found.to(x.dtype)
    rows = x.shape[0]
    each = stored.float().repeat_interleave(rows if group_size == -1 else group_size, dim=0)[:rows]
    ratio = (wide(x) / each).nan_to_num()
    # Halves away from zero, as C's round does.
    codes = (ratio.sign() * (ratio.abs() + 0.5).floor()).clamp(-largest, largest).to(torch.int8).t().contiguous()
    if algo == "weight_only_int4":
        # Two codes in a byte, the even row in the lower half.
        codes = packed(codes)
    return codes, stored.reshape(-1) if group_size == -1 else stored


def packed(codes: torch.Tensor) -> torch.Tensor:
    """Codes of four bits, two rows in one: the even row in the lower half of each byte."""
    low, high = codes[0::2].to(torch.int32) & 15, codes[1::2].to(torch.int32) & 15
    return (low | (high << 4)).to(torch.uint8).view(torch.int8)


@reference("paddle.nn.quant.weight_dequantize", no_gradient="the input is codes")
def weight_dequantize(x, scale, algo="weight_only_int8", out_dtype="float16", group_size=-1):
    if algo != "llm.int8":
        raise NoEquivalent("codes for weight-only products are in an order that depends on the GPU")
    return (x.float().t() * wide(scale)).to(torch_dtype(out_dtype))


@reference("paddle.nn.quant.weight_only_linear", constant=("weight", "weight_scale"))
def weight_only_linear(
    x, weight, bias=None, weight_scale=None, weight_dtype="int8", arch=None, group_size=-1
) -> Any:  # fmt: skip
    raise NoEquivalent("codes for weight-only products are in an order that depends on the GPU")


@reference("paddle.nn.quant.llm_int8_linear", constant=("weight", "weight_scale"))
def llm_int8_linear(x, weight, bias=None, weight_scale=None, threshold=6.0) -> Any:
    raise NoEquivalent("inputs below the threshold are quantised by rules that the documentation does not give")
