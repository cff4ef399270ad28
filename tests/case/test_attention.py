"""Attention against loops, its masks, and inputs that hide no row as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import softmax

from pytest_paddleapi.case.inputs.makers import ordinary
from pytest_paddleapi.case.inputs.registry import CallValues, find_inputs
from pytest_paddleapi.case.reference.registry import NoEquivalent, Reference, find_reference
from pytest_paddleapi.config import parse_call
from pytest_paddleapi.process.messages import CaseResult

from .support import check_row, numbers

TABLE = "attention"
_F = "paddle.nn.functional."
Run = Callable[..., CaseResult]


def rule(name: str) -> Any:
    found = find_reference(name if name.startswith("paddle.") else _F + name)
    assert isinstance(found, Reference)
    return found.rule


def by_loops(q: Any, k: Any, v: Any, seen: Any = None, scale: float | None = None) -> Any:
    """(batch, length, heads, width), one head and row at a time; ``seen`` is (row, column) -> bool."""
    out = np.zeros((*q.shape[:3], v.shape[-1]))
    shared = q.shape[2] // k.shape[2]
    for n, row, head in np.ndindex(q.shape[:3]):
        scores = k[n, :, head // shared].numpy() @ q[n, row, head].numpy() * (scale or q.shape[-1] ** -0.5)
        if seen is not None:
            scores = np.where([seen(row, column) for column in range(k.shape[1])], scores, -np.inf)
        out[n, row, head] = softmax(scores) @ v[n, :, head // shared].numpy()
    return out


def values(config: str, seed: int = 1) -> dict[str, Any]:
    call = parse_call(config)
    return CallValues(call.api, dict(call.kwargs), find_inputs(call.api), ordinary, (seed,)).all_values()


def test_config_passes(run_case: Run, table_row: tuple[str, int, int]) -> None:
    check_row(run_case, table_row)


def test_heads_share_keys_and_scale_can_be_given() -> None:
    q, k, v = numbers(2, 3, 4, 5), numbers(2, 6, 2, 5, seed=1), numbers(2, 6, 2, 5, seed=2)
    sdpa = rule("scaled_dot_product_attention")
    np.testing.assert_allclose(sdpa(q, k, v), by_loops(q, k, v))
    np.testing.assert_allclose(sdpa(q, k, v, scale=0.1), by_loops(q, k, v, scale=0.1))
    with pytest.raises(ValueError, match="heads"):
        sdpa(q, k, v, enable_gqa=False)


def test_a_causal_call_ignores_its_mask() -> None:
    q, k, v = numbers(1, 3, 1, 2), numbers(1, 5, 1, 2, seed=1), numbers(1, 5, 1, 2, seed=2)
    expected = by_loops(q, k, v, lambda row, column: column <= row)
    sdpa = rule("scaled_dot_product_attention")
    np.testing.assert_allclose(sdpa(q, k, v, is_causal=True), expected)
    np.testing.assert_allclose(sdpa(q, k, v, torch.zeros(3, 5, dtype=torch.bool), is_causal=True), expected)
    np.testing.assert_allclose(sdpa(q[0], k[0], v[0], is_causal=True), expected[0])


def test_bool_masks_name_who_takes_part_and_others_are_added() -> None:
    q, k, v = numbers(1, 2, 1, 3), numbers(1, 3, 1, 3, seed=1), numbers(1, 3, 1, 3, seed=2)
    mask = torch.tensor([[True, False, True], [True, True, False]])
    expected = by_loops(q, k, v, lambda row, column: bool(mask[row, column]))
    np.testing.assert_allclose(rule("scaled_dot_product_attention")(q, k, v, mask), expected)
    added = torch.where(mask, 0.0, -1e9).double()
    np.testing.assert_allclose(rule("scaled_dot_product_attention")(q, k, v, added), expected)


def test_dropout_has_no_reference_but_in_evaluation() -> None:
    q = numbers(1, 2, 1, 3)
    with pytest.raises(NoEquivalent):
        rule("scaled_dot_product_attention")(q, q, q, dropout_p=0.5)
    assert rule("scaled_dot_product_attention")(q, q, q, dropout_p=0.5, training=False).shape == q.shape


def test_packed_queries_go_with_the_key_head_of_their_place() -> None:
    qkv = numbers(1, 3, 4, 2, 5)
    out, weights = rule("flash_attn_qkvpacked")(qkv)
    assert weights is None
    for group, head in np.ndindex(2, 2):
        q, k, v = (qkv[:, :, i, head : head + 1] for i in (group, 2, 3))
        np.testing.assert_allclose(out[:, :, 2 * group + head], by_loops(q, k, v)[:, :, 0])


def test_ragged_sequences_do_not_see_each_other() -> None:
    q, k, v = numbers(5, 1, 2), numbers(7, 1, 2, seed=1), numbers(7, 1, 2, seed=2)
    edges = torch.tensor([0, 2, 5]), torch.tensor([0, 3, 7])
    out, _ = rule("flash_attention.flash_attn_unpadded")(q, k, v, *edges, 3, 4, 0.5, causal=True)
    first = by_loops(q[None, :2], k[None, :3], v[None, :3], lambda row, column: column <= row + 1, 0.5)
    second = by_loops(q[None, 2:], k[None, 3:], v[None, 3:], lambda row, column: column <= row + 1, 0.5)
    np.testing.assert_allclose(out, np.concatenate([first[0], second[0]]))


@pytest.mark.parametrize(
    ("bounds", "causal", "hidden"),
    [
        ([[3], [2], [4], [4]], True, {(3, 0), (2, 1), (3, 1)}),
        ([[1, 3], [2, 3], [4, 4], [4, 4]], True, {(1, 0), (2, 0), (2, 1)}),
        ([[4, 0], [3, 1], [4, 0], [4, 2]], False, {(3, 1), (0, 1), (0, 3), (1, 3)}),
        ([[1, 2, 0, 0], [4, 4, 0, 1], [4, 4, 0, 0], [4, 4, 1, 2]], False, {(1, 0), (0, 1), (1, 3)}),
    ],
)
def test_flashmask_hides_rows_of_columns(bounds: list[list[int]], causal: bool, hidden: set[tuple[int, int]]) -> None:
    q, k, v = (numbers(1, 4, 2, 3, seed=s) for s in range(3))
    rows = torch.tensor(bounds, dtype=torch.int32).reshape(1, 1, 4, -1)
    expected = by_loops(q, k, v, lambda row, column: (row, column) not in hidden and not (causal and column > row))
    np.testing.assert_allclose(rule("flashmask_attention")(q, k, v, rows, causal=causal), expected)


def test_flashmask_windows() -> None:
    q, k, v = (numbers(1, 5, 1, 3, seed=s) for s in range(3))
    both = by_loops(q, k, v, lambda row, column: row - 2 <= column <= row + 1)
    np.testing.assert_allclose(rule("flashmask_attention")(q, k, v, window_size=(2, 1)), both)
    back = by_loops(q, k, v, lambda row, column: row - 1 <= column <= row)
    np.testing.assert_allclose(rule("flashmask_attention")(q, k, v, window_size=1, causal=True), back)


def test_sparse_attention_sees_the_listed_columns() -> None:
    q, k, v = (numbers(1, 1, 4, 2, seed=s) for s in range(3))
    offset, columns = torch.tensor([[[0, 2, 4, 6, 8]]]), torch.tensor([[[0, 1, 0, 1, 2, 3, 2, 3]]])
    masks = torch.tensor([[1.0, 1, 1, 0]]), torch.tensor([[1.0, 0, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]])
    out = rule("sparse_attention")(q, k, v, offset, columns, *masks)
    seen = {(0, 0), (1, 0), (1, 1), (2, 2), (3, 2)}
    turned = [t.transpose(1, 2) for t in (q, k, v)]
    np.testing.assert_allclose(out.transpose(1, 2), by_loops(*turned, lambda row, column: (row, column) in seen))


@pytest.mark.parametrize("dtype", ["bool", "float32"])
def test_masks_hide_some_and_never_a_whole_row(dtype: str) -> None:
    shape = 'Tensor([2, 4, 2, 8],"float32")'
    mask = values(
        f"{_F}scaled_dot_product_attention(query={shape}, key={shape}, value={shape}, "
        f'attn_mask=Tensor([2, 1, 4, 4],"{dtype}"))'
    )["attn_mask"]
    hidden = ~mask if dtype == "bool" else mask < 0
    assert hidden.any()
    assert not hidden.all(-1).any()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("parts", "causal"), [(1, True), (2, True), (2, False), (4, False)])
def test_bounds_leave_the_diagonal_alone(parts: int, causal: bool, seed: int) -> None:
    shape = 'Tensor([2, 16, 2, 8],"float32")'
    found = values(
        f"{_F}flashmask_attention(query={shape}, key={shape}, value={shape}, "
        f'startend_row_indices=Tensor([2, 1, 16, {parts}],"int32"), causal={causal})',
        seed,
    )
    q = torch.ones(2, 16, 2, 1, dtype=torch.float64)
    one_hot = torch.eye(16, dtype=torch.float64).reshape(1, 16, 1, 16).expand(2, 16, 2, 16)
    weights = rule("flashmask_attention")(q, q, one_hot, torch.from_numpy(found["startend_row_indices"]), causal=causal)
    diagonal = weights[:, torch.arange(16), :, torch.arange(16)]
    assert (diagonal > 0).all()
    assert (weights == 0).any()


def test_a_csr_pattern_lists_columns_in_order() -> None:
    shape = 'Tensor([1, 2, 4, 2],"float64")'
    found = values(
        f"{_F}sparse_attention(query={shape}, key={shape}, value={shape}, "
        'sparse_csr_offset=Tensor([1, 2, 5],"int32"), sparse_csr_columns=Tensor([1, 2, 10],"int32"))'
    )
    for offset, columns in zip(found["sparse_csr_offset"][0], found["sparse_csr_columns"][0]):
        assert offset[0] == 0
        assert offset[-1] == 10
        for start, end in zip(offset, offset[1:]):
            row = columns[start:end].tolist()
            assert row == sorted(set(row))
            assert row
