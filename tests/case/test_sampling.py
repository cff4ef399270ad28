"""Nucleus sampling, which Paddle has on GPUs only: the check itself, on results right and wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from pytest_paddleapi.case.compare.comparison import Comparison
from pytest_paddleapi.case.compare.registry import find_comparator
from pytest_paddleapi.case.prepared import prepare
from pytest_paddleapi.config import parse_call
from pytest_paddleapi.process.messages import CaseOptions, CaseResult, ToleranceOptions, Verdict

API = "paddle.Tensor.top_p_sampling"
X = np.array([[0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4]], np.float32)


def differences(ids: list[int], scores: list[float] | None = None, **arguments: object) -> list[str]:
    """What is found wrong with these indices for ``ps`` of 0.6 in both rows."""
    index = torch.tensor(ids).reshape(-1, 1)
    values = torch.from_numpy(X).gather(1, index.clamp(0, 3)) if scores is None else torch.tensor(scores).reshape(-1, 1)
    comparison = Comparison(
        api=API,
        arguments={"x": X, "ps": np.array([0.6, 0.6], np.float32), **arguments},
        actual=(values, index),
        expected=None,
        tolerances=ToleranceOptions(),
    )
    find_comparator(API).judge(comparison)
    return comparison.findings.differences


@pytest.mark.parametrize("ids", [[0, 3], [1, 2], [1, 3]])
def test_what_lies_in_the_nucleus_is_right(ids: list[int]) -> None:
    assert differences(ids) == []


def test_what_lies_behind_it_is_wrong() -> None:
    (found,) = differences([2, 3])
    assert "row 0: index 2 lies behind a mass of 0.8" in found
    assert differences([2, 3], mode="non-truncated") == []


def test_an_index_that_is_none_and_a_foreign_value_are_wrong() -> None:
    assert "index 4 of 4 entries" in differences([4, 0])[0]
    assert "differ" in differences([0, 3], [0.5, 0.3])[0]


def test_inputs_are_distributions_and_masses() -> None:
    call = parse_call(f'{API}(Tensor([3, 50],"float32"), Tensor([3],"float32"))')
    values = prepare(call, CaseOptions()).values
    assert np.allclose(values["x"].sum(-1), 1)
    assert values["x"].max() > 5 * np.median(values["x"])
    assert ((values["ps"] >= 0.3) & (values["ps"] < 0.9)).all()


def test_a_build_without_the_kernel_does_not_support_it(run_case: Callable[..., CaseResult]) -> None:
    result = run_case(f'{API}(Tensor([3, 50],"float32"), Tensor([3],"float32"))')
    assert result.verdict is Verdict.NOT_SUPPORTED, result.text
