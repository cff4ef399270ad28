"""Operators of Tensor: whole cases against Paddle, and their rules for Python numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from pytest_paddleapi.case.reference.registry import Reference, find_reference
from pytest_paddleapi.process.messages import CaseResult, Verdict

Run = Callable[..., CaseResult]

F4, I8, U1, B, C8, F8 = (f'Tensor([3, 4],"{d}")' for d in ("float32", "int64", "uint8", "bool", "complex64", "float64"))
ROW = 'Tensor([4],"float32")'
PASSING = [
    *((f"__{name}__({F4}, {ROW})", 2) for name in ("add", "sub", "mul", "truediv", "div", "rsub", "rtruediv")),
    *(
        (f"__{name}__({F4}, 2)", 1)
        for name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "pow", "mod", "rpow")
    ),
    *(
        (f"__{name}__({I8}, 3)", 0)
        for name in ("add", "floordiv", "mod", "rfloordiv", "rmod", "pow", "rpow", "truediv")
    ),
    *((f"__{name}__({I8}, 2.5)", 0) for name in ("add", "rsub", "floordiv", "mod", "pow", "lt", "eq")),
    *((f"__{name}__({F4}, 0.7)", 0) for name in ("lt", "le", "gt", "ge", "eq", "ne", "floordiv")),
    *((f"__{name}__({I8}, {I8})", 0) for name in ("and", "or", "xor", "lshift", "rshift", "floordiv", "mod", "ge")),
    *((f"__{name}__({I8}, 5)", 0) for name in ("rand", "ror", "rxor", "lshift", "rshift", "rlshift", "rrshift")),
    (f"__add__({B}, 2)", 0),
    (f"__mul__({B}, 2.5)", 0),
    (f"__truediv__({U1}, -1)", 0),
    (f"__sub__({C8}, 1+2j)", 1),
    (f"__add__({F4}, 1+2j)", 1),
    (f'__add__({I8}, Tensor([],"float32"))', 1),
    ('__floordiv__(Tensor([3],"int32"), Tensor([],"int64"))', 0),
    (f"__eq__({F8}, 1e-05)", 0),
    (f"__eq__({F4}, None)", 0),
    (f"__ne__({F4}, None)", 0),
    (f"__abs__({C8})", 1),
    (f"__neg__({F4})", 1),
    (f"__pos__({I8})", 0),
    (f"__invert__({B})", 0),
    (f"__len__({F4})", 0),
    ('__nonzero__(Tensor([1],"bool"))', 0),
    ('__int__(Tensor([],"float32"))', 0),
    ('__float__(Tensor([],"int64"))', 0),
    ('__index__(Tensor([],"int64"))', 0),
    ('__rshift__(Tensor([9],"int32"), Tensor([9],"int32"), False)', 0),
    ('__rlshift__(Tensor([9],"int16"), -212)', 0),
    ('__mul__(Tensor([0, 4],"float32"), 3)', 1),
]


@pytest.mark.parametrize(("call", "gradients"), PASSING, ids=[call for call, _ in PASSING])
def test_paddle_agrees_with_the_reference(run_case: Run, call: str, gradients: int) -> None:
    result = run_case(f"paddle.Tensor.{call}")
    assert result.verdict is Verdict.PASS, result.text
    assert (result.measured.compared_outputs, result.measured.compared_gradients) == (1, gradients)


@pytest.mark.parametrize(
    "call", [f"__add__({I8}, {F4})", f"__and__({I8}, 5)", f"__lshift__({I8}, 2.5)", f"__rand__({B}, 1.5)"]
)
def test_what_paddle_refuses_is_refused_by_both(run_case: Run, call: str) -> None:
    assert run_case(f"paddle.Tensor.{call}").verdict is Verdict.BOTH_ERROR


def rule(name: str) -> Callable[..., Any]:
    found = find_reference(f"paddle.Tensor.{name}")
    assert isinstance(found, Reference)
    return found.rule


SCALARS = [
    ("__add__", torch.int32, 2, torch.int32),
    ("__add__", torch.int32, 2.5, torch.float32),
    ("__add__", torch.bool, 2, torch.int64),
    ("__add__", torch.bool, True, torch.bool),
    ("__add__", torch.float16, 2.5, torch.float16),
    ("__add__", torch.float16, 1 + 2j, torch.complex64),
    ("__mul__", torch.float64, 1 + 2j, torch.complex128),
    ("__truediv__", torch.int64, 2, torch.float32),
    ("__rtruediv__", torch.uint8, 2, torch.float32),
    ("__floordiv__", torch.int64, 2, torch.int64),
    ("__pow__", torch.int64, 2.0, torch.float32),
    ("__lshift__", torch.int16, 3, torch.int16),
    ("__lt__", torch.int64, 2.5, torch.bool),
]


@pytest.mark.parametrize(("name", "dtype", "number", "expected"), SCALARS)
def test_dtype_beside_a_number(name: str, dtype: torch.dtype, number: Any, expected: torch.dtype) -> None:
    assert rule(name)(torch.ones(2, dtype=dtype), number).dtype is expected


VALUES = [
    ("__rsub__", [1, 5], 3, [2, -2]),
    ("__rtruediv__", [2, 4], 1, [0.5, 0.25]),
    ("__floordiv__", [-7, 7], 2, [-4, 3]),
    ("__mod__", [-7, 7], 3, [2, 1]),
    ("__rmod__", [3, -3], 7, [1, -2]),
    ("__rfloordiv__", [2, -2], 7, [3, -4]),
    ("__rpow__", [0, 3], 2, [1, 8]),
    ("__rlshift__", [1, 3], 5, [10, 40]),
    ("__rrshift__", [1, 3], -24, [-12, -3]),
    ("__lt__", [2, 3], 2.5, [True, False]),
]


@pytest.mark.parametrize(("name", "numbers", "other", "expected"), VALUES)
def test_operator_gives_known_values(name: str, numbers: list[int], other: Any, expected: list[Any]) -> None:
    assert rule(name)(torch.tensor(numbers), other).tolist() == expected


def test_number_takes_the_width_of_the_tensor() -> None:
    # 300 is 44 in eight bits.
    assert rule("__rrshift__")(torch.tensor([1, 2], dtype=torch.int8), 300).tolist() == [22, 11]


def test_small_float_is_not_rounded_to_float32_beside_a_float64_tensor() -> None:
    assert rule("__eq__")(torch.tensor([1e-5], dtype=torch.float64), 1e-5).tolist() == [True]
