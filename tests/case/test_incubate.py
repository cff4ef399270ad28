"""Fused layers and graph operators: whole cases on the CPU, and the definitions against other computations."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pytest_paddleapi.case.compare.comparison import Comparison
from pytest_paddleapi.case.compare.registry import find_comparator
from pytest_paddleapi.case.reference import fused, fused_attention, incubate_graph, viterbi
from pytest_paddleapi.process.messages import CaseResult, ToleranceOptions, Verdict

Run = Callable[..., CaseResult]
DTYPES = {"f2": "float16", "f4": "float32", "f8": "float64", "i1": "int8", "i4": "int32", "i8": "int64"}


def _written_out(text: str) -> str:
    """A config from one with ``f4[2,3]`` for ``Tensor([2,3],"float32")``, without ``paddle.`` before its name."""
    return "paddle." + re.sub(r"\b([fi][1248])(\[[\d,]*\])", lambda m: f'Tensor({m[2]},"{DTYPES[m[1]]}")', text)


PASSING = [
    # config, compared outputs, compared gradients
    ("incubate.nn.functional.swiglu(f4[3,8])", 1, 1),
    ("incubate.nn.functional.swiglu(f8[3,8], f8[3,8])", 1, 2),
    ("incubate.nn.functional.swiglu(f4[2,0])", 1, 1),
    ("incubate.nn.functional.fused_matmul_bias(f4[3,8], f4[8,5])", 1, 2),
    ("incubate.nn.functional.fused_matmul_bias(f4[2,8,3], f4[5,8], None, True, True)", 1, 2),
    ("incubate.nn.functional.fused_linear(f4[3,8], f4[5,8], transpose_weight=True)", 1, 2),
    ("incubate.softmax_mask_fuse(f4[2,3,4,8], f4[2,1,4,8])", 1, 1),
    ('incubate.identity_loss(f4[2,3], "mean")', 1, 1),
    ("incubate.identity_loss(f8[2,3])", 1, 1),
    ("incubate.segment_sum(f8[30,15], i8[30])", 1, 1),
    ("incubate.segment_mean(f4[30], i4[30])", 1, 1),
    ("incubate.segment_max(f4[30,4,5], i4[30])", 1, 1),
    ("incubate.segment_min(i4[30,4], i4[30])", 1, 0),
    ('incubate.graph_send_recv(f4[10,20], i8[15], i8[15], "sum")', 1, 1),
    ("incubate.graph_reindex(i4[5], i4[17], i4[5])", 3, 0),
    ("incubate.graph_sample_neighbors(i8[800], i8[101], i8[40], sample_size=3)", 2, 0),
    ("text.viterbi_decode(f4[3,7,5], f4[5,5], i8[3])", 2, 0),
    ("text.viterbi_decode(f8[3,7,5], f8[5,5], i8[3], False)", 2, 0),
]


@pytest.mark.parametrize(("config", "outputs", "gradients"), PASSING)
def test_paddle_agrees_with_the_definition(run_case: Run, config: str, outputs: int, gradients: int) -> None:
    result = run_case(_written_out(config))
    assert result.verdict is Verdict.PASS, result.text
    assert (result.measured.compared_outputs, result.measured.compared_gradients) == (outputs, gradients)


GPU_ONLY = [
    "fused_bias_act(f4[3,8], f4[8])",
    "fused_rotary_position_embedding(f4[1,4,2,8], f4[1,4,2,8], None, f4[1,4,1,8], f4[1,4,1,8], i8[1,4])",
    "fused_linear(f4[3,8], f4[8,5], f4[5])",
    "fused_bias_dropout_residual_layer_norm(f4[2,3,8], f4[2,3,8], f4[8], f4[8], f4[8], 0.0)",
    "fused_feedforward(f4[2,3,8], f4[8,16], f4[16,8], f4[16], f4[8])",
    "fused_multi_head_attention(f4[2,3,8], f4[3,2,4,8], f4[8,8])",
    "variable_length_memory_efficient_attention(f4[2,4,6,8], f4[2,2,6,8], f4[2,2,6,8], i4[2,1], i4[2,1])",
    "masked_multihead_attention(f4[2,192], f4[2,2,1,50,64], src_mask=f4[2,1,1,50], sequence_lengths=i4[2,1])",
    "moe_combine(f4[6,8], f4[3,2], i4[2,3])",
    'int_bincount(i4[20], 0, 12, "int64")',
    "fast_rms_norm(f4[2,8], f4[8])",
    "fused_rms_norm_ext(f4[2,8], f4[8])",
    "fast_ln(f4[2,8], f4[8], f4[8])",
    "blha_get_max_len(i4[3], i4[3], i4[3])",
    "moe_gate_dispatch(f4[4,8], f4[4,4], None, 2, 2, True)",
]


@pytest.mark.parametrize("arguments", GPU_ONLY)
def test_a_missing_kernel_is_no_failure(run_case: Run, arguments: str) -> None:
    result = run_case(_written_out("incubate.nn.functional." + arguments))
    assert result.verdict in (Verdict.NOT_SUPPORTED, Verdict.PASS), result.text


# Fused layers, whose kernels a CPU has not, against other computations -------------------------------


def _rand(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def test_layer_norm_of_a_sum() -> None:
    x, residual, bias, weight, shift = _rand(4, 6), _rand(4, 6) + 1, _rand(6), _rand(6), _rand(6)
    out, total = fused.fused_layer_norm(x, weight, shift, 1e-5, 0.5, 1, bias, residual)
    torch.testing.assert_close(total, x + bias + 0.5 * residual)
    torch.testing.assert_close(out, torch.nn.functional.layer_norm(total, (6,), weight, shift, 1e-5))
    (plain,) = fused.fused_layer_norm(x, None, None, 1e-5, bias=bias)
    torch.testing.assert_close(plain, x + bias)


def test_rms_norm_over_two_axes_and_quantised() -> None:
    x, weight = _rand(3, 2, 4), _rand(8)
    (out,) = fused.fused_rms_norm(x, weight, None, 1e-6, 1)
    flat = x.reshape(3, 8)
    expected = flat / (flat.square().mean(1, keepdim=True) + 1e-6).sqrt() * weight
    torch.testing.assert_close(out.reshape(3, 8), expected)
    (codes,) = fused.fused_rms_norm(x, weight, None, 1e-6, 1, None, None, 0.15, 1, 127, -127)
    assert codes.dtype is torch.int8
    assert (codes.reshape(3, 8) - expected * 127 * 0.15).abs().max() <= 0.5


def test_rounding_of_halves() -> None:
    values = torch.tensor([0.5, 1.5, -0.5, -2.5, 300.0])
    assert fused.quantised(values, 1 / 127, 0, 127, -127).tolist() == [0, 2, 0, -2, 127]
    assert fused.quantised(values, 1 / 127, 1, 127, -127).tolist() == [1, 2, -1, -3, 127]


def test_activations_with_bias_gate_and_smoothing() -> None:
    x, bias = _rand(3, 8), _rand(8)
    torch.testing.assert_close(fused.fused_bias_act(x, bias), torch.nn.functional.gelu(x + bias))
    gated = fused.fused_bias_act(x, bias, act_method="swiglu", shift=bias[:4], smooth=bias[4:])
    left, right = (x + bias).chunk(2, -1)
    torch.testing.assert_close(gated, (torch.nn.functional.silu(left) * right + bias[:4]) * bias[4:])
    whole = fused.fused_bias_act(torch.tensor([[3, -4]], dtype=torch.int32), None, torch.tensor([2.0, 0.5]), None, None,
                                 "relu", "fp16")  # fmt: skip
    assert whole.dtype is torch.float16
    assert whole.tolist() == [[6.0, 0.0]]


def test_rotation_of_adjacent_numbers_and_of_halves() -> None:
    q = torch.tensor([1.0, 0.0, 0.0, 1.0]).reshape(1, 1, 1, 4).repeat(1, 2, 1, 1)
    (out,) = fused.fused_rotary_position_embedding(q)
    # At position 1 the first pair turns by 1, the second by 1 / 10000 ** (2 / 4) = 0.01.
    expected = [math.cos(1), math.sin(1), -math.sin(0.01), math.cos(0.01)]
    assert out[0, 0, 0].tolist() == [1.0, 0.0, 0.0, 1.0]
    torch.testing.assert_close(out[0, 1, 0], torch.tensor(expected))
    sin, cos = torch.ones(1, 2, 1, 4), torch.zeros(1, 2, 1, 4)
    turned, key = fused.fused_rotary_position_embedding(q, q, None, sin, cos, use_neox_rotary_style=False)
    assert turned[0, 0, 0].tolist() == [0.0, -1.0, 1.0, 0.0]
    assert torch.equal(turned, key)
    picked = fused.fused_rotary_position_embedding(
        q,
        None,
        None,
        torch.tensor([[0.0] * 4, [1.0] * 4]),
        torch.tensor([[1.0] * 4, [0.0] * 4]),
        torch.tensor([[1, 0]]),
    )[0]
    assert picked[0, :, 0].tolist() == [[0.0, 1.0, -1.0, 0.0], [1.0, 0.0, 0.0, 1.0]]


def test_causal_softmax() -> None:
    out = fused.softmax_mask_fuse_upper_triangle(torch.zeros(1, 1, 3, 3))
    torch.testing.assert_close(out[0, 0], torch.tensor([[1, 0, 0], [0.5, 0.5, 0], [1 / 3] * 3]))


def test_combination_of_experts() -> None:
    x, weights = torch.tensor([[1.0], [2.0], [3.0], [4.0]]), torch.tensor([[0.5, 0.5], [1.0, 0.0], [0.0, 2.0]])
    index = torch.tensor([[0, 1, 2], [3, 3, 1]], dtype=torch.int32)
    assert fused.moe_combine(x, weights, index).tolist() == [[2.5], [2.0], [4.0]]


def test_counts_within_a_range() -> None:
    assert fused.int_bincount(torch.tensor([1, 2, 2, 9, 0]), 1, 4, "int64").tolist() == [1, 2, 0]


def test_attention_agrees_with_torchs() -> None:
    query, key, value = _rand(2, 4, 5, 8), _rand(2, 2, 5, 8), _rand(2, 2, 5, 8)
    lengths = torch.full((2, 1), 5)
    out = fused_attention.variable_length_memory_efficient_attention(query, key, value, lengths, lengths, causal=True)
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
    torch.testing.assert_close(out, expected)
    short = fused_attention.variable_length_memory_efficient_attention(query, key, value, lengths, lengths - 2)
    cut = torch.nn.functional.scaled_dot_product_attention(query, key[:, :, :3], value[:, :, :3], enable_gqa=True)
    torch.testing.assert_close(short, cut)


def test_self_attention_agrees_with_torchs_module() -> None:
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    x = _rand(2, 5, 8)
    out = fused_attention.fused_multi_head_attention(
        x, module.in_proj_weight.reshape(3, 2, 4, 8), module.out_proj.weight.t(), True,
        qkv_bias=module.in_proj_bias.reshape(3, 2, 4), linear_bias=module.out_proj.bias, dropout_rate=0.0,
        attn_dropout_rate=0.0,
    )  # fmt: skip
    normed = torch.nn.functional.layer_norm(x, (8,))
    torch.testing.assert_close(out, x + module(normed, normed, normed)[0])
    flat = fused_attention.fused_multi_head_attention(
        x, module.in_proj_weight.t(), module.out_proj.weight.t(), True, qkv_bias=module.in_proj_bias,
        linear_bias=module.out_proj.bias, dropout_rate=0.0, attn_dropout_rate=0.0, num_heads=2, transpose_qkv_wb=True,
    )  # fmt: skip
    torch.testing.assert_close(flat, out)


def test_a_step_of_decoding_attends_to_the_cache() -> None:
    packed, cache = _rand(2, 3 * 2 * 4), _rand(2, 2, 2, 6, 4)
    before = cache.clone()
    out, after = fused_attention.masked_multihead_attention(packed, cache, sequence_lengths=torch.tensor([[3], [0]]))
    q, k, v = packed.reshape(2, 3, 2, 4)[0]
    keys, values = (torch.cat([before[i, 0, :, :3], new[:, None]], 1) for i, new in ((0, k), (1, v)))
    expected = torch.nn.functional.scaled_dot_product_attention(q[:, None], keys, values)
    torch.testing.assert_close(out[0], expected.reshape(-1))
    torch.testing.assert_close(out[1], packed.reshape(2, 3, 8)[1, 2])  # the only value there is
    assert after is cache
    assert torch.equal(after[0, 0, :, 3], k)
    assert torch.equal(after[:, :, :, 4:], before[:, :, :, 4:])


def test_feed_forward_layer() -> None:
    x, first, second, bias = _rand(2, 3, 4), _rand(4, 6), _rand(6, 4), _rand(6)
    out = fused_attention.fused_feedforward(
        x, first, second, bias, activation="gelu", training=False, pre_layer_norm=False
    )
    hidden = torch.nn.functional.gelu(x @ first + bias) @ second
    torch.testing.assert_close(out, torch.nn.functional.layer_norm(x + hidden, (4,)))


def test_dropout_inside_leaves_normed_rows() -> None:
    api = "paddle.incubate.nn.functional.fused_bias_dropout_residual_layer_norm"
    x = np.random.default_rng(0).standard_normal((5, 64))
    arguments: dict[str, Any] = {"x": x, "residual": x, "dropout_rate": 0.3}
    right = fused_attention.fused_bias_dropout_residual_layer_norm(
        torch.from_numpy(x), torch.from_numpy(x), dropout_rate=0.3
    )

    def differences(actual: torch.Tensor) -> list[str]:
        comparison = Comparison(api, arguments, actual, right, ToleranceOptions())
        find_comparator(api).judge(comparison)
        return comparison.findings.differences

    assert differences(right.flip(0)) == []
    assert differences(right * 1.5)
    assert differences(torch.full_like(right, math.nan))


# Graphs ---------------------------------------------------------------------------------------------


def test_segments() -> None:
    data, ids = torch.tensor([[1.0, 2, 3], [3, 2, 1], [4, 5, 6]]), torch.tensor([0, 0, 2])
    assert incubate_graph.segment_sum(data, ids).tolist() == [[4, 4, 4], [0, 0, 0], [4, 5, 6]]
    assert incubate_graph.segment_mean(data, ids).tolist() == [[2, 2, 2], [0, 0, 0], [4, 5, 6]]
    assert incubate_graph.segment_max(data, ids).tolist() == [[3, 2, 3], [0, 0, 0], [4, 5, 6]]
    assert incubate_graph.segment_min(data, ids).tolist() == [[1, 2, 1], [0, 0, 0], [4, 5, 6]]


def test_messages_and_reindexing() -> None:
    # The numbers of Paddle's documentation.
    x = torch.tensor([[0.0, 2, 3], [1, 4, 5], [2, 6, 7]])
    source, target = torch.tensor([0, 1, 2, 0]), torch.tensor([1, 2, 1, 0])
    assert incubate_graph.graph_send_recv(x, source, target).tolist() == [[0, 2, 3], [2, 8, 10], [1, 4, 5]]
    nodes, neighbors = torch.tensor([0, 1, 2]), torch.tensor([8, 9, 0, 4, 7, 6, 7])
    found = incubate_graph.graph_reindex(nodes, neighbors, torch.tensor([2, 3, 2]))
    assert [t.tolist() for t in found] == [[3, 4, 0, 5, 6, 7, 6], [0, 0, 1, 1, 1, 2, 2], [0, 1, 2, 8, 9, 4, 7, 6]]


def test_an_edge_that_the_graph_has_not_is_caught() -> None:
    api = "paddle.incubate.graph_khop_sampler"
    row, colptr = np.array([1, 2, 0]), np.array([0, 2, 3, 3])
    arguments = {"row": row, "colptr": colptr, "input_nodes": np.array([0]), "sample_sizes": [2]}

    def differences(source: list[int], dtype: torch.dtype = torch.int64) -> list[str]:
        outputs = (torch.tensor(source, dtype=dtype), torch.tensor([0, 0]), torch.tensor([0, 1, 2]), torch.tensor([0]))
        comparison = Comparison(api, arguments, outputs, None, ToleranceOptions())
        find_comparator(api).judge(comparison)
        return comparison.findings.differences

    assert differences([1, 2]) == []
    assert "no edge from 0 to 0" in differences([1, 0])[0]
    assert "output 0: dtype" in differences([1, 2], torch.int32)[0]


def test_the_best_path_is_the_best_of_all() -> None:
    potentials, steps = _rand(1, 4, 3), _rand(3, 3)
    scores, paths = viterbi.viterbi_decode(potentials, steps, torch.tensor([4]), False)
    every = torch.cartesian_prod(*[torch.arange(3)] * 4)
    totals = sum(potentials[0, i][every[:, i]] for i in range(4)) + sum(
        steps[every[:, i], every[:, i + 1]] for i in range(3)
    )
    assert scores.item() == pytest.approx(float(totals.max()))
    assert paths[0].tolist() == every[totals.argmax()].tolist()
