"""Sparse tensors: made on Paddle's side, compared as dense ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pytest_paddleapi.case.adapters.registry import PLAIN, find_adapter
from pytest_paddleapi.case.prepared import prepare
from pytest_paddleapi.case.reference.registry import Reference, find_reference
from pytest_paddleapi.config import parse_call
from pytest_paddleapi.process.messages import CaseOptions, CaseResult, Verdict

from .support import check_row

TABLE = "sparse"
Run = Callable[..., CaseResult]


def rule(api: str) -> Any:
    found = find_reference(api)
    assert isinstance(found, Reference)
    return found.rule


def made(config: str) -> Any:
    return prepare(parse_call(config), CaseOptions()).values


def test_config_passes(run_case: Run, table_row: tuple[str, int, int]) -> None:
    check_row(run_case, table_row)


# Inputs and adapters -------------------------------------------------------------------------------


def test_about_half_of_a_sparse_argument_is_stored() -> None:
    share = np.mean(made('paddle.sparse.sin(Tensor([40, 50],"float32"))')["x"] != 0)
    assert 0.4 < share < 0.7


def test_channels_are_stored_together() -> None:
    x = made('paddle.sparse.nn.functional.max_pool3d(Tensor([1, 6, 6, 6, 3],"float32"), 2)')["x"]
    counts = np.count_nonzero(x, axis=-1)
    assert set(np.unique(counts)) == {0, 3}


def test_something_is_always_stored() -> None:
    assert all(made(f'paddle.sparse.tan(Tensor([1, {n}],"float32"))')["x"].any() for n in range(1, 20))


def test_an_adapter_makes_coo_and_gives_back_dense() -> None:
    import paddle

    found = find_adapter("paddle.sparse.sin")
    x = paddle.to_tensor([[0.0, 2.0], [3.0, 0.0]])
    arguments = found.arguments({"x": x})
    assert arguments["x"].is_sparse_coo()
    assert arguments["x"].nnz() == 2
    assert found.results(arguments["x"]).numpy().tolist() == x.numpy().tolist()


def test_coalesce_gets_repeated_indices() -> None:
    import paddle

    x = paddle.to_tensor([[0, 5], [3, 0]], dtype="int32")
    repeated = find_adapter("paddle.sparse.coalesce").arguments({"x": x})["x"]
    assert (repeated.nnz(), repeated.is_coalesced()) == (4, False)
    assert paddle.sparse.coalesce(repeated).to_dense().numpy().tolist() == [[0, 5], [3, 0]]


def test_methods_share_the_adapter_only_where_it_is_theirs() -> None:
    assert find_adapter("paddle.Tensor.coalesce") is not PLAIN
    assert find_adapter("paddle.Tensor.sin") is PLAIN
    assert find_adapter("paddle.matmul") is PLAIN


def test_gradients_arrive_at_stored_elements_only(run_case: Run) -> None:
    result = run_case('paddle.sparse.expm1(Tensor([6, 7],"float64"))')
    assert result.verdict is Verdict.PASS
    assert result.measured.compared_gradients == 1
    x = torch.tensor([0.0, 0.5], requires_grad=True)
    (gradient,) = torch.autograd.grad(rule("paddle.sparse.expm1")(x).sum(), x)
    np.testing.assert_allclose(gradient, [0, np.exp(0.5)], rtol=1e-6)


# Values --------------------------------------------------------------------------------------------


def test_softmax_is_over_stored_elements() -> None:
    x = torch.tensor([[0.0, 1.0, 2.0], [0.0, 0.0, 0.0], [3.0, 0.0, 0.0]])
    e = np.exp([1.0, 2.0])
    expected = [[0, *(e / e.sum())], [0, 0, 0], [1, 0, 0]]
    np.testing.assert_allclose(rule("paddle.sparse.nn.functional.softmax")(x), expected, rtol=1e-6)


def test_a_bias_is_added_to_stored_rows() -> None:
    x = torch.tensor([[1.0, 2.0], [0.0, 0.0]])
    assert rule("paddle.sparse.add")(x, torch.tensor([10.0, 20.0])).tolist() == [[11, 22], [0, 0]]


def test_sums_have_an_axis_at_least() -> None:
    x = torch.tensor([[1, 2], [0, 3]], dtype=torch.int32)
    total = rule("paddle.sparse.sum")(x)
    assert (total.tolist(), total.dtype) == ([6], torch.int64)
    assert rule("paddle.sparse.sum")(x, 0, keepdim=True).tolist() == [[1, 5]]


def test_reshape_keeps_axes_marked_zero() -> None:
    assert rule("paddle.sparse.reshape")(torch.ones(6, 2, 3), [-1, 0, 3]).shape == (6, 2, 3)


def test_coalesce_sorts_indices() -> None:
    indices, values = rule("paddle.sparse.coalesce")(torch.tensor([[0, 5], [3, 0]]))
    assert (indices.tolist(), values.tolist()) == ([[0, 1], [1, 0]], [5, 3])


def test_rows_of_csr_are_counted() -> None:
    x = torch.tensor([[1, 0, 2], [0, 0, 0], [0, 3, 0]])
    assert rule("paddle.Tensor.crows")(x).tolist() == [0, 2, 2, 3]
    assert rule("paddle.Tensor.cols")(x).tolist() == [0, 2, 1]
    found = rule("paddle.sparse.sparse_csr_tensor")([0, 2, 2, 3], [0, 2, 1], [1.0, 2.0, 3.0], [3, 3])
    assert found.tolist() == x.tolist()


def test_repeated_places_are_added() -> None:
    found = rule("paddle.sparse.sparse_coo_tensor")([[0, 0], [1, 1]], [1.0, 2.0], [1, 2])
    assert found.tolist() == [[0, 3]]


def windows(extent: int, kernel: int) -> range:
    return range(extent - kernel + 1)


def test_pooling_is_over_stored_sites() -> None:
    x = np.random.default_rng(0).standard_normal((1, 4, 4, 4, 2)) - 3
    x[:, :2, :, :2] = 0
    found = rule("paddle.sparse.nn.functional.max_pool3d")(torch.from_numpy(x), 2, 1).numpy()
    for d in windows(4, 2):
        for h in windows(4, 2):
            for w in windows(4, 2):
                sites = x[0, d : d + 2, h : h + 2, w : w + 2].reshape(-1, 2)
                sites = sites[(sites != 0).any(1)]
                np.testing.assert_allclose(found[0, d, h, w], sites.max(0) if len(sites) else 0)


@pytest.mark.parametrize("submanifold", [False, True])
def test_convolution_stores_what_a_stored_site_reaches(submanifold: bool) -> None:
    rng = np.random.default_rng(0)
    x, weight, bias = rng.standard_normal((1, 5, 5, 2)), rng.standard_normal((3, 3, 2, 4)), rng.standard_normal(4)
    x[0, :3] = 0
    x[0, 4, 1] = 0
    name = "subm_conv2d" if submanifold else "conv2d"
    tensors = (torch.from_numpy(array) for array in (x, weight, bias))
    found = rule(f"paddle.sparse.nn.functional.{name}")(*tensors, padding=1).numpy()
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    for i in range(5):
        for j in range(5):
            window = padded[0, i : i + 3, j : j + 3]
            reached = x[0, i, j].any() if submanifold else window.any()
            expected = np.einsum("ijc,ijcm->m", window, weight) + bias if reached else np.zeros(4)
            np.testing.assert_allclose(found[0, i, j], expected, atol=1e-12)


def test_attention_sees_what_the_masks_leave() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (torch.from_numpy(rng.standard_normal((1, 1, 3, 2))) for _ in range(3))
    mask = torch.tensor([[[1.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]], dtype=torch.float64)
    found = rule("paddle.sparse.nn.functional.attention")(q, k, v, mask)
    scores = (q @ k.mT / np.sqrt(2))[0, 0].numpy()
    weights = np.where(mask[0] != 0, np.exp(scores), 0)
    np.testing.assert_allclose(found[0, 0], weights / weights.sum(1, keepdims=True) @ v[0, 0].numpy())
