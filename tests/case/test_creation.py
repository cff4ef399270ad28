"""New tensors and questions about their form: whole cases against Paddle, and the definitions against known values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pytest_paddleapi.case.compare.comparison import Comparison
from pytest_paddleapi.case.compare.registry import find_comparator
from pytest_paddleapi.process.messages import CaseResult, ToleranceOptions, Verdict

from .support import rule

Run = Callable[..., CaseResult]
X = 'Tensor([2, 3],"float32")'
I8 = 'Tensor([2, 3],"int64")'
ONE = 'Tensor([1],"int64")'
PASSING = [
    # call, compared outputs, compared gradients
    *((f"{name}([2,3])", 1, 0) for name in ("zeros", "ones", "empty")),
    *((f"{name}(2, 3, dtype='int64')", 1, 0) for name in ("zeros", "ones", "empty")),
    *((f'{name}(Tensor([2],"int64"), "float64")', 1, 0) for name in ("zeros", "ones", "empty")),
    *((f"{name}(shape=[2,{ONE}], dtype=Dtype(bool))", 1, 0) for name in ("zeros", "ones", "empty")),
    *((f"{name}({X}, dtype='int32')", 1, 0) for name in ("zeros_like", "ones_like", "empty_like")),
    *((f"Tensor.{name}({I8}, [2,2])", 1, 0) for name in ("new_zeros", "new_ones", "new_empty")),
    ("zeros((2,0))", 1, 0),
    ("full([2], 3)", 1, 0),
    ("full([2], True)", 1, 0),
    ("full([2], 1+2j)", 1, 0),
    ("full([2], '2.5', 'float64')", 1, 0),
    ("full([2], -inf)", 1, 0),
    (f"full([2], {ONE}, dtype='int32')", 1, 0),
    (f"full_like({I8}, 2.7)", 1, 0),
    ('full_like(Tensor([2],"bool"), -65504.0, dtype="float16")', 1, 0),
    (f"Tensor.new_full({X}, [2], 3)", 1, 0),
    ("arange(5)", 1, 0),
    ("arange(0.5, 7, 1.5)", 1, 0),
    ("arange(10, 0, -3, 'int32')", 1, 0),
    ("arange(0.5, 3.7, 1, dtype='int64')", 1, 0),
    (f"arange({ONE}, {ONE}, {ONE})", 1, 0),
    ("range(0, 3)", 1, 0),
    ("linspace(0, 10, 5)", 1, 0),
    ("linspace(10, -3, 4, dtype='int32')", 1, 0),
    ('linspace(Tensor([1],"float32"), 20, Tensor([],"int32"))', 1, 0),
    ("logspace(0, 10, 5, 2, dtype='int64')", 1, 0),
    ("eye(2, 3, 'int32')", 1, 0),
    (f"tril({X}, 1)", 1, 1),
    ('triu(Tensor([2, 3, 4],"bool"), diagonal=-1)', 1, 0),
    (f"triu_({X})", 2, 1),
    ("tril_indices(4, 3, -1)", 1, 0),
    ("triu_indices(3, dtype='int32')", 1, 0),
    ('diag(Tensor([3],"float32"), 1, 7)', 1, 1),
    (f"diag({X}, -1)", 1, 1),
    (f"diagflat({X}, offset=2)", 1, 1),
    ('vander(Tensor([4],"float64"), 3, increasing=True)', 1, 1),
    ('meshgrid([Tensor([2],"float32"),Tensor([],"float32")])', 2, 2),
    ('meshgrid(Tensor([2],"int64"), Tensor([3],"int64"), indexing="xy")', 2, 0),
    ("assign([1.5,2.0])", 1, 0),
    (f"assign({X})", 1, 1),
    (f"assign({X}, {X})", 2, 1),
    ("to_tensor([[1.0,2.0]], dtype='float64')", 1, 0),
    (f"clone({X})", 1, 1),
    *(
        (f"{name}({X})", 1, 0)
        for name in ("numel", "shape", "rank", "is_empty", "is_complex", "is_integer", "is_tensor")
    ),
    ('is_empty(Tensor([0],"float32"))', 1, 0),
]


@pytest.mark.parametrize(("call", "outputs", "gradients"), PASSING, ids=[call for call, *_ in PASSING])
def test_paddle_agrees_with_the_reference(run_case: Run, call: str, outputs: int, gradients: int) -> None:
    result = run_case(f"paddle.{call}")
    assert result.verdict is Verdict.PASS, result.text
    assert (result.measured.compared_outputs, result.measured.compared_gradients) == (outputs, gradients)


VALUES: list[tuple[str, tuple[Any, ...], Any, torch.dtype]] = [
    ("full", ([2], 3), [3.0, 3.0], torch.float32),
    ("full", ([1], True), [True], torch.bool),
    ("full", ([1], 1 + 2j), [1 + 2j], torch.complex128),
    ("full", ([1], 2.7, "int32"), [2], torch.int32),
    ("arange", (3,), [0, 1, 2], torch.int64),
    ("arange", (0, 1, 0.25), [0, 0.25, 0.5, 0.75], torch.float32),
    ("arange", (0.5, 3.7, 1, "int64"), [0, 1, 2], torch.int64),
    ("arange", (5, 0, 2), [], torch.int64),
    ("range", (0, 3), [0, 1, 2, 3], torch.float32),
    ("linspace", (10, -3, 4, "int32"), [10, 5, 1, -3], torch.int32),
    ("linspace", (0.5, 5.5, 3, "int32"), [0, 2, 5], torch.int32),
    ("logspace", (0, 10, 5, 2, "int32"), [1, 5, 32, 181, 1024], torch.int32),
    ("assign", ([1.5, 2],), [1.5, 2], torch.float64),
    ("assign", (2,), [2], torch.int64),
    ("to_tensor", ([1.5, 2],), [1.5, 2], torch.float32),
    ("rank", (torch.zeros(2, 3),), 2, torch.int32),
    ("shape", (torch.zeros(2, 3),), [2, 3], torch.int64),
    ("numel", (torch.zeros(2, 3),), 6, torch.int64),
]


@pytest.mark.parametrize(("name", "arguments", "expected", "dtype"), VALUES)
def test_rule_gives_known_values(name: str, arguments: tuple[Any, ...], expected: Any, dtype: torch.dtype) -> None:
    found = rule(name)(*arguments)
    assert (found.tolist(), found.dtype) == (expected, dtype)


def test_vandermonde_matrix_is_that_of_numpy() -> None:
    x = np.array([1.0, 2.0, -3.0])
    assert rule("vander")(torch.tensor(x), 4).tolist() == np.vander(x, 4).tolist()


def test_diagonal_matrix_has_the_padding_beside_the_diagonal() -> None:
    assert rule("diag")(torch.tensor([1, 2]), -1, 7).tolist() == [[7, 7, 7], [1, 7, 7], [7, 2, 7]]


def test_assigned_tensor_takes_the_values() -> None:
    output = torch.zeros(2)
    assert rule("assign")(torch.tensor([1.0, 2.0]), output) is output
    assert output.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("actual", "fine"),
    [(torch.full((2, 3), 9.0), True), (torch.zeros(2, 3, dtype=torch.float64), False), (torch.zeros(3, 2), False)],
)
def test_uninitialised_tensor_is_judged_by_its_form_alone(actual: torch.Tensor, fine: bool) -> None:
    comparison = Comparison("paddle.empty", {}, actual, torch.zeros(2, 3), ToleranceOptions())
    find_comparator("paddle.empty").judge(comparison)
    assert (not comparison.findings.differences) is fine
