"""Gradients, Jacobians and Hessians, of functions that are made for the case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from pytest_paddleapi.case.reference.registry import Reference, find_reference
from pytest_paddleapi.process.messages import CaseResult, Verdict

TABLE = "autograd"
Run = Callable[..., CaseResult]


def rule(api: str) -> Any:
    found = find_reference(api)
    assert isinstance(found, Reference)
    return found.rule


def test_config_passes(run_case: Run, table_row: tuple[str, int, int]) -> None:
    config, outputs, gradients = table_row
    result = run_case(config)
    assert result.verdict is Verdict.PASS, result.text
    assert (result.measured.compared_outputs, result.measured.compared_gradients or 0) == (outputs, gradients)
    assert result.measured.compared_elements


def test_jacobian_and_hessian_are_those_of_the_linked_function() -> None:
    c, x = torch.tensor([0.3, -0.7], dtype=torch.float64), torch.tensor([0.2, 1.1, -0.4], dtype=torch.float64)

    def function(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        t = np.sin((c.numpy()[:, None] + [1, 2, 3]) * values).mean(-1)
        return np.asarray(t + t**2)

    def slopes(f: Any, at: np.ndarray[Any, Any], step: float = 1e-5) -> np.ndarray[Any, Any]:
        return np.stack([(f(at + h) - f(at - h)) / (2 * step) for h in np.eye(3) * step], -1)

    np.testing.assert_allclose(rule("paddle.autograd.jacobian")(c, x), slopes(function, x.numpy()), rtol=1e-6)
    second = slopes(lambda at: slopes(lambda v: function(v)[0], at, 1e-4), x.numpy(), 1e-4)
    np.testing.assert_allclose(rule("paddle.autograd.hessian")(c[:1], x), second, rtol=1e-5, atol=1e-7)


def test_grad_is_the_jacobian_times_the_output_gradient() -> None:
    c, x, fed = (torch.linspace(-1, 1, n, dtype=torch.float64) for n in (3, 4, 3))
    (found,) = rule("paddle.grad")(c, x, fed)
    torch.testing.assert_close(found, fed @ rule("paddle.autograd.jacobian")(c, x))
    (of_ones,) = rule("paddle.grad")(c, x)
    torch.testing.assert_close(of_ones, rule("paddle.autograd.jacobian")(c, x).sum(0))
