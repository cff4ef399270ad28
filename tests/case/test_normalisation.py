"""Normalisation: statistics by hand, running values, data formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pytest_paddleapi.case.compare.comparison import Comparison
from pytest_paddleapi.case.compare.registry import find_comparator
from pytest_paddleapi.process.messages import CaseResult, ToleranceOptions

from .support import check_row, numbers
from .support import functional_rule as rule

TABLE = "normalisation"
_F = "paddle.nn.functional."
Run = Callable[..., CaseResult]


def standard(x: Any, axes: tuple[int, ...], epsilon: float = 1e-5) -> Any:
    x = np.asarray(x)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def test_config_passes(run_case: Run, table_row: tuple[str, int, int]) -> None:
    check_row(run_case, table_row)


def test_batch_norm_in_training_moves_the_running_values() -> None:
    x, mean, variance = numbers(4, 3, 5), torch.tensor([0.5, 0.0, -1.0]).double(), torch.ones(3).double()
    out = rule("batch_norm")(x, mean, variance, training=True, momentum=0.8, data_format="NCL")
    np.testing.assert_allclose(out, standard(x, (0, 2)))
    np.testing.assert_allclose(mean, 0.8 * np.array([0.5, 0, -1]) + 0.2 * x.numpy().mean((0, 2)))
    # The variance of the batch has the divisor N, in the running value too.
    np.testing.assert_allclose(variance, 0.8 + 0.2 * x.numpy().var((0, 2)))


@pytest.mark.parametrize("options", [{}, {"training": True, "use_global_stats": True}])
def test_batch_norm_with_global_statistics_leaves_them_alone(options: dict[str, bool]) -> None:
    x, mean, variance = numbers(4, 5, 2), torch.tensor([1.0, 2.0]).double(), torch.tensor([4.0, 9.0]).double()
    weight, bias = torch.tensor([2.0, 3.0]).double(), torch.tensor([0.0, 1.0]).double()
    out = rule("batch_norm")(x, mean, variance, weight, bias, epsilon=0.0, data_format="NLC", **options)
    np.testing.assert_allclose(out, (x.numpy() - [1, 2]) / [2, 3] * [2, 3] + [0, 1])
    assert mean.tolist() == [1, 2]
    assert variance.tolist() == [4, 9]


def test_instance_norm_ignores_running_values() -> None:
    x = numbers(2, 3, 4, 5)
    out = rule("instance_norm")(x, torch.full((3,), 9.0), torch.full((3,), 9.0), use_input_stats=False)
    np.testing.assert_allclose(out, standard(x, (2, 3)))


def test_layer_norm_has_flat_parameters() -> None:
    x, weight, bias = numbers(2, 3, 4), numbers(12, seed=1), numbers(12, seed=2)
    expected = standard(x, (1, 2)) * weight.numpy().reshape(3, 4) + bias.numpy().reshape(3, 4)
    np.testing.assert_allclose(rule("layer_norm")(x, [3, 4], weight, bias), expected)
    with pytest.raises(ValueError, match="one axis"):
        rule("layer_norm")(x, [3, 4], weight.reshape(3, 4))


def test_group_norm_in_both_orders_of_arguments() -> None:
    x, weight, bias = numbers(2, 4, 3), numbers(4, seed=1), numbers(4, seed=2)
    expected = standard(x.numpy().reshape(2, 2, 6), (2,), 1e-3).reshape(2, 4, 3)
    expected = expected * weight.numpy()[:, None] + bias.numpy()[:, None]
    group_norm = rule("group_norm")
    np.testing.assert_allclose(group_norm(x, 2, 1e-3, weight, bias, "NCL"), expected)
    np.testing.assert_allclose(group_norm(x, 2, weight, bias, 1e-3), expected)
    last = group_norm(x.transpose(1, 2), 2, 1e-3, weight, bias, "NLC").transpose(1, 2)
    np.testing.assert_allclose(last, expected)


def test_rms_norm_gives_the_inverse_too() -> None:
    x, weight = numbers(3, 4), numbers(4, seed=1)
    out, inverse = rule("rms_norm")(x, [4], weight, 1e-6)
    size = np.sqrt((x.numpy() ** 2).mean(1) + 1e-6)
    np.testing.assert_allclose(out, x.numpy() / size[:, None] * weight.numpy())
    np.testing.assert_allclose(inverse, 1 / size, rtol=1e-6)


def test_local_response_norm_looks_back_further_than_ahead() -> None:
    x = numbers(1, 5, 1)
    flat = x.numpy()[0, :, 0]
    padded = np.pad(flat**2, (2, 1))
    means = np.array([padded[i : i + 4].mean() for i in range(5)])
    expected = flat / (2.0 + 0.5 * means) ** 0.75
    np.testing.assert_allclose(rule("local_response_norm")(x, 4, 0.5, 0.75, 2.0, "NCL")[0, :, 0], expected)


@pytest.mark.parametrize("p", [1, 2, 3, float("inf")])
def test_normalize_divides_by_the_norm(p: float) -> None:
    x = numbers(3, 4)
    expected = x.numpy() / np.linalg.norm(x.numpy(), p, axis=1, keepdims=True)
    np.testing.assert_allclose(rule("normalize")(x, p), expected)
    assert rule("normalize")(torch.zeros(2, 3), epsilon=0.5).abs().sum() == 0


def test_a_wrong_gradient_of_a_shared_parameter_is_found() -> None:
    fed, gradient = torch.ones(64, 3, 100), torch.full((3,), 6400.0)
    for error, passes in ((2e-3, True), (1.0, False)):
        c = Comparison(
            api=_F + "batch_norm",
            arguments={},
            actual=fed,
            expected=fed,
            tolerances=ToleranceOptions(),
            actual_gradients={"bias": gradient - error},
            expected_gradients={"bias": gradient},
            cotangents=(fed,),
        )
        find_comparator(c.api).judge(c)
        assert bool(c.findings.differences) is not passes
