"""Activations: whole cases against Paddle, and the formulas against hand-computed numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pytest_paddleapi.case.inputs.makers import ordinary
from pytest_paddleapi.case.inputs.registry import CallValues, find_inputs
from pytest_paddleapi.case.reference.registry import Reference, find_reference
from pytest_paddleapi.config import TensorSpec
from pytest_paddleapi.process.messages import CaseResult, Verdict

Run = Callable[..., CaseResult]
F = "paddle.nn.functional."
X = 'Tensor([3, 4],"float32")'
D = 'Tensor([3, 4],"float64")'
C = 'Tensor([3, 4],"complex64")'
CHANNELS = 'Tensor([2, 6, 3, 3],"float32")'
PASSING = [
    *((f"{name}({X})", 1) for name in ("relu", "relu6", "elu", "celu", "selu", "gelu", "silu", "swish", "mish", "glu")),
    *((f"{name}({D})", 1) for name in ("hardtanh", "hardswish", "hardsigmoid", "hardshrink", "softshrink", "softplus")),
    *(
        (f"{name}(x={X})", 1)
        for name in ("softsign", "tanhshrink", "log_sigmoid", "softmax", "log_softmax", "leaky_relu")
    ),
    *((f"{name}({C})", 1) for name in ("silu", "softplus", "tanh", "sigmoid")),
    *((f'{name}(Tensor([0, 3],"float32"))', 1) for name in ("relu", "gelu", "softmax", "hardswish")),
    *((f'{name}(Tensor([],"float32"))', 1) for name in ("elu", "softplus", "tanh")),
    (f"gelu({X}, approximate=True)", 1),
    (f"elu({X}, 0.3)", 1),
    (f"celu({D}, alpha=-0.4)", 1),
    (f"hardshrink({X}, -1)", 1),
    (f"hardtanh({X}, 0, 6)", 1),
    (f"hardsigmoid({X}, 0.2, 0.4)", 1),
    (f"softplus({D}, beta=-3, threshold=20)", 1),
    (f"softplus({D}, 2, 1.5)", 1),
    (f"thresholded_relu({X}, 0.3, -2.0)", 1),
    (f"selu({D}, 1.5, 2.0)", 1),
    (f"softmax({X}, 0, 'float64')", 1),
    (f"log_softmax({X}, axis=0, dtype=Dtype(float64))", 1),
    (f"glu({CHANNELS}, axis=1)", 1),
    (f"maxout({CHANNELS}, 3)", 1),
    (f"maxout({CHANNELS}, groups=3, axis=3)", 1),
    (f'prelu({CHANNELS}, Tensor([6],"float32"))', 2),
    (f'prelu({CHANNELS}, Tensor([3],"float32"), "NHWC")', 2),
    (f'prelu({CHANNELS}, Tensor([1],"float32"))', 2),
]


@pytest.mark.parametrize(("call", "gradients"), PASSING, ids=[call for call, _ in PASSING])
def test_paddle_agrees_with_the_reference(run_case: Run, call: str, gradients: int) -> None:
    result = run_case(F + call)
    assert result.verdict is Verdict.PASS, result.text
    assert result.measured.compared_outputs == 1
    assert result.measured.compared_gradients == gradients


@pytest.mark.parametrize(
    "call", [f"silu({X}, inplace=True)", f"relu_({X})", f"softmax_({X})", f"leaky_relu_({X}, 0.2)"]
)
def test_activation_in_place_also_compares_the_argument(run_case: Run, call: str) -> None:
    result = run_case(F + call)
    assert (result.verdict, result.measured.compared_outputs) == (Verdict.PASS, 2), result.text


def test_softmax_with_torch_names_has_torch_default_axis(run_case: Run) -> None:
    assert run_case('paddle.softmax(Tensor([3, 4, 5],"float32"))').verdict is Verdict.PASS
    assert run_case('paddle.softmax(Tensor([3, 4],"float32"), dim=0, dtype="float64")').verdict is Verdict.PASS


@pytest.mark.parametrize(
    "call", [f"selu({X}, 0.5)", f"softshrink({X}, -1)", f"celu({X}, 0)", f"maxout({X}, 2)", f"glu({C})"]
)
def test_what_the_documentation_forbids_is_refused_by_both(run_case: Run, call: str) -> None:
    assert run_case(F + call).verdict is Verdict.BOTH_ERROR


def rule(name: str) -> Callable[..., Any]:
    found = find_reference(F + name)
    assert isinstance(found, Reference)
    return found.rule


VALUES = [
    ("hardtanh", [-3.0, 0.2, 3.0], (-1.0, 0.5), [-1.0, 0.2, 0.5]),
    ("hardsigmoid", [-3.5, 0.0, 1.0, 9.0], (0.2, 0.4), [0.0, 0.4, 0.6, 1.0]),
    ("hardswish", [-4.0, 1.0, 5.0], (), [0.0, 4.0 / 6.0, 5.0]),
    ("hardshrink", [-0.6, 0.3, 0.6], (), [-0.6, 0.0, 0.6]),
    ("hardshrink", [-0.6, 0.3], (-1.0,), [-0.6, 0.3]),
    ("softshrink", [-0.9, 0.3, 0.8], (0.5,), [-0.4, 0.0, 0.3]),
    ("thresholded_relu", [0.5, 2.0], (1.0, -7.0), [-7.0, 2.0]),
    ("leaky_relu", [-2.0, 2.0], (0.1,), [-0.2, 2.0]),
    ("elu", [-1.0, 2.0], (0.5,), [0.5 * (math.exp(-1) - 1), 2.0]),
    ("celu", [-1.0, 2.0], (0.5,), [0.5 * (math.exp(-2) - 1), 2.0]),
    ("selu", [-1.0, 2.0], (1.5, 2.0), [3.0 * (math.exp(-1) - 1), 3.0]),
    ("softplus", [-1.0, 2.0], (2, 3), [math.log1p(math.exp(-2)) / 2, 2.0]),
    ("softplus", [1.0], (-3, 20), [math.log1p(math.exp(-3)) / -3]),
    ("softsign", [-3.0, 1.0], (), [-0.75, 0.5]),
    ("tanhshrink", [1.0], (), [1 - math.tanh(1)]),
    ("mish", [1.0], (), [math.tanh(math.log1p(math.e))]),
    ("silu", [1.0], (), [1 / (1 + math.exp(-1))]),
    ("gelu", [1.0], (), [0.5 * (1 + math.erf(1 / math.sqrt(2)))]),
    ("gelu", [1.0], (True,), [0.5 * (1 + math.tanh(math.sqrt(2 / math.pi) * 1.044715))]),
    ("log_sigmoid", [-2.0], (), [-math.log1p(math.exp(2))]),
    ("glu", [2.0, 0.0], (), [1.0]),
]


@pytest.mark.parametrize(("name", "numbers", "more", "expected"), VALUES)
def test_formula_gives_known_values(
    name: str, numbers: list[float], more: tuple[Any, ...], expected: list[float]
) -> None:
    found = rule(name)(torch.tensor(numbers, dtype=torch.float64), *more)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-15)


def test_maxout_takes_the_largest_of_neighbouring_channels() -> None:
    x = torch.tensor([1.0, 4.0, 3.0, 2.0]).reshape(1, 4, 1, 1)
    assert rule("maxout")(x, 2).flatten().tolist() == [4.0, 3.0]


def test_softplus_has_a_finite_gradient_beyond_its_threshold() -> None:
    x = torch.tensor([500.0], requires_grad=True)
    rule("softplus")(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0]


@pytest.mark.parametrize(
    ("name", "kinks"), [("relu", [0]), ("relu6", [0, 6]), ("hardswish", [-3, 3]), ("hardshrink", [-0.5, 0.5])]
)
def test_values_lie_on_all_sides_of_the_kinks_and_on_none(name: str, kinks: list[float]) -> None:
    arguments = {"x": TensorSpec((3000,), "float16")}
    x = CallValues(F + name, arguments, find_inputs(F + name), ordinary, (5,)).value("x").astype(float)
    edges = [-np.inf, *kinks, np.inf]
    assert all(((x > low) & (x < high)).any() for low, high in itertools.pairwise(edges))
    assert min(np.abs(x - kink).min() for kink in kinks) > 0.01
