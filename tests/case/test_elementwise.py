"""Elementwise functions: whole cases, and the definitions against NumPy, SciPy and numbers by hand."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
import torch

from pytest_paddleapi.case.compare.comparison import Comparison
from pytest_paddleapi.case.compare.registry import find_comparator
from pytest_paddleapi.case.inputs.makers import ordinary
from pytest_paddleapi.case.inputs.registry import CallValues, find_inputs
from pytest_paddleapi.case.reference.registry import Reference, find_reference
from pytest_paddleapi.config import TensorSpec
from pytest_paddleapi.process.messages import CaseResult, ToleranceOptions, Verdict

Run = Callable[..., CaseResult]
_DTYPES = {
    "f2": "float16",
    "f4": "float32",
    "f8": "float64",
    "i1": "int8",
    "i2": "int16",
    "i4": "int32",
    "i8": "int64",
    "u1": "uint8",
    "b": "bool",
    "c8": "complex64",
    "c16": "complex128",
}


def config(short: str) -> str:
    """``abs(f4[2,3])`` for ``paddle.abs(Tensor([2,3],"float32"))``."""
    dtypes = "|".join(_DTYPES)
    return "paddle." + re.sub(
        rf"\b({dtypes})(\[[\d,]*\])", lambda m: f'Tensor({m[2]},"{_DTYPES[m[1]]}")', short.replace("paddle.", "")
    )


def rule(api: str) -> Callable[..., Any]:
    found = find_reference(api)
    assert isinstance(found, Reference)
    return found.rule


def tensor(*values: Any, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


PASSING = [
    # call, compared outputs (a changed argument is one more), compared gradients
    *(
        (f"{name}({dtype}[3,4])", 1, 1)
        for name in ("abs", "exp", "log", "tanh", "acos", "sqrt")
        for dtype in ("f4", "c8")
    ),
    *(
        (f"{name}(f8[5])", 1, 1)
        for name in ("erfinv", "digamma", "lgamma", "i0", "i1e", "sinc", "rsqrt", "logit", "frac")
    ),
    *(
        (f"{name}(i8[5])", 1, 0)
        for name in ("sin", "log1p", "sqrt", "abs", "sign", "ceil", "round", "isnan", "rad2deg")
    ),
    *((f"{name}(f4[0,3])", 1, 1) for name in ("abs", "exp", "square", "trunc")),
    *((f"{name}(f4[])", 1, 1) for name in ("cos", "neg", "reciprocal")),
    *((f"{name}(f4[3,4], f4[4])", 1, 2) for name in ("add", "multiply", "maximum", "fmin", "atan2", "pow", "hypot")),
    *(
        (f"{name}(i8[3,1], i8[1,4])", 1, 0)
        for name in ("add", "floor_divide", "mod", "gcd", "lcm", "equal", "bitwise_xor")
    ),
    ("conj(x=c16[2,3])", 1, 1),
    ("angle(c8[2,3])", 1, 1),
    ("frexp(f4[4])", 2, 1),
    ("round(f8[6], decimals=2)", 1, 1),
    ("logit(f4[9], eps=0.2)", 1, 1),
    ("stanh(f4[4], 0.5, 2.0)", 1, 1),
    ("polygamma(f8[4], 2)", 1, 1),
    ("multigammaln(f8[4], 3)", 1, 1),
    ("nan_to_num(f4[40], 1.0, 2.0, -3.0)", 1, 1),
    ("scale(f4[4], 2.0, 1.0, False)", 1, 1),
    ("scale(f4[4], f4[1], 0.5, act='relu')", 1, 1),
    ("clip(f4[40], -0.5, 0.5)", 1, 1),
    ("clip(i8[40], 0.5)", 1, 0),
    ("clip(f4[40], min=f4[1])", 1, 1),
    ("clamp(input=f4[40], max=1)", 1, 1),
    ("add(f4[3], f8[3])", 1, 2),
    ("add(c8[3], i8[3])", 1, 1),
    ("add(i8[3], f4[])", 1, 1),
    ("subtract(f4[3], f4[3], alpha=2)", 1, 2),
    ("divide(f4[3], f4[3], rounding_mode='trunc')", 1, 0),
    ("divide(i4[3], i4[3])", 1, 0),
    ("floor_divide(f4[9], 2)", 1, 0),
    ("pow(i8[9], 3)", 1, 0),
    ("pow(f4[9], -1.5)", 1, 1),
    ("lerp(f4[3,4], f4[4], f4[1])", 1, 2),
    ("lerp(x=f8[3], y=f8[3], weight=0.25)", 1, 2),
    ("heaviside(f4[20], f4[20])", 1, 2),
    ("copysign(i4[6], i4[6])", 1, 0),
    ("copysign(f4[6], -2.0)", 1, 1),
    ("ldexp(f4[6], i4[6])", 1, 1),
    ("nextafter(f4[6], f4[6])", 1, 0),
    ("logaddexp(i8[6], i8[6])", 1, 0),
    ("gammaincc(f4[6], f4[6])", 1, 1),
    ("less_than(i8[3,4], i8[4])", 1, 0),
    ("logical_and(c8[9], b[9])", 1, 0),
    ("bitwise_right_shift(i1[9], i1[9], False)", 1, 0),
    ("bitwise_left_shift(i4[9], i4[9])", 1, 0),
    ("bitwise_and(i8[3], i8[3], out=i8[3])", 1, 0),
    ("isclose(f4[20], f4[20], 0.1, 0.2)", 1, 0),
    ("allclose(f4[20], f4[20])", 1, 0),
    ("equal_all(i8[20], i8[20])", 1, 0),
    ("equal_all(i8[20], i8[2])", 1, 0),
    ("complex(f4[3], f4[2,3])", 1, 2),
    ("polar(f8[3], f8[3])", 1, 2),
    # in place: the argument takes the result, with its dtype
    ("tanh_(f4[3])", 2, 1),
    ("Tensor.add_(f4[2,3], f4[3])", 2, 2),
    ("Tensor.add_(x=f4[3], y=f8[3])", 2, 2),
    ("divide_(i8[3], i8[3])", 2, 0),
    ("less_than_(f4[3], f4[3])", 2, 0),
    ("log_(i8[3])", 2, 0),
    ("Tensor.clip_(f4[30], 0.0, 1.0)", 2, 1),
    # conversions
    ("cast(f4[9], 'bool')", 1, 0),
    ("cast(c8[3], dtype='float64')", 1, 1),
    ("Tensor.astype(f4[9], type(int))", 1, 0),
    ("Tensor.astype(i8[9], Dtype(float16))", 1, 0),
    ("Tensor.half(f4[3])", 1, 1),
    ("Tensor.type_as(f4[3], i8[1])", 1, 0),
]


@pytest.mark.parametrize(("short", "outputs", "gradients"), PASSING, ids=[short for short, *_ in PASSING])
def test_paddle_agrees_with_the_reference(run_case: Run, short: str, outputs: int, gradients: int) -> None:
    result = run_case(config(short))
    assert result.verdict is Verdict.PASS, result.text
    assert (result.measured.compared_outputs, result.measured.compared_gradients) == (outputs, gradients)


REFUSED = [
    "add(i8[3], f4[3])",  # an integer tensor with a float tensor
    "equal(i8[3], i4[3])",
    "maximum(i8[3], f4[])",  # extremes have no rule of their own for 0-D tensors
    "add(f4[3], 2)",
    "heaviside(f4[3], f8[3])",
    "Tensor.add_(f4[3], f4[2,3])",  # the result does not fit
    "pow_(f4[3], f4[3])",
    "isclose(f4[2,3], f4[3])",
]


@pytest.mark.parametrize("short", REFUSED)
def test_what_paddle_documents_as_invalid_is_refused_by_both(run_case: Run, short: str) -> None:
    assert run_case(config(short)).verdict is Verdict.BOTH_ERROR


# (api, arguments, expected)
_A = np.array([0.3, 1.7, 2.5, 4.0])
VALUES: list[tuple[str, tuple[Any, ...], Any]] = [
    ("gammaincc", (torch.tensor(_A), torch.tensor(_A[::-1].copy())), scipy.special.gammaincc(_A, _A[::-1])),
    ("gammainc", (torch.tensor(_A), torch.tensor(_A[::-1].copy())), scipy.special.gammainc(_A, _A[::-1])),
    ("polygamma", (torch.tensor(_A), 2), scipy.special.polygamma(2, _A)),
    ("multigammaln", (torch.tensor(_A + 1), 3), [scipy.special.multigammaln(a, 3) for a in _A + 1]),
    ("i0e", (torch.tensor(_A),), scipy.special.i0e(_A)),
    ("sinc", (torch.tensor(_A),), np.sinc(_A)),
    ("erfinv", (tensor(-0.5, 0.9),), scipy.special.erfinv([-0.5, 0.9])),
    ("logaddexp", (torch.tensor(_A), torch.tensor(-_A)), np.logaddexp(_A, -_A)),
    ("stanh", (tensor(1.0),), [1.7159 * math.tanh(0.67)]),
    ("rad2deg", (tensor(math.pi, 1.0),), [180.0, 57.29577951308232]),
    ("frac", (tensor(2.75, -2.75),), [0.75, -0.75]),
    ("round", (tensor(-2.5, -0.5, 0.5, 1.5, 2.5),), [-2, 0, 0, 2, 2]),
    ("round", (tensor(1.25, 126.0), -1), [0, 130]),
    ("logit", (tensor(0.05, 0.5, 0.95), 0.2), np.log([0.2 / 0.8, 1, 0.8 / 0.2])),
    ("heaviside", (tensor(-1.0, 0.0, 2.0), tensor(0.5, 0.5, 0.5)), [0, 0.5, 1]),
    ("floor_divide", (tensor(-7, 7, dtype=torch.int64), tensor(2, -2, dtype=torch.int64)), [-4, -4]),
    ("divide", (tensor(-7.0, 7.0), tensor(2.0, -2.0)), [-3.5, -3.5]),
    ("remainder", (tensor(-7, 7, dtype=torch.int64), tensor(3, -3, dtype=torch.int64)), [2, -2]),
    ("remainder", (tensor(-7.5, 7.5), tensor(2.0, -2.0)), [0.5, -0.5]),
    ("pow", (tensor(2, 3, dtype=torch.int64), 0.5), [1, 1]),
    ("pow", (tensor(2, -3, dtype=torch.int64), -1), [0, 0]),
    ("copysign", (tensor(3, -3, dtype=torch.int64), tensor(-1, 1, dtype=torch.int64)), [-3, 3]),
    ("ldexp", (tensor(3.0, 5.0), tensor(2, -1, dtype=torch.int32)), [12, 2.5]),
    ("bitwise_left_shift", (tensor(100, -5, dtype=torch.int8), tensor(1, 6, dtype=torch.int8)), [-56, -64]),
    ("bitwise_right_shift", (tensor(100, -5, dtype=torch.int64), tensor(70, -3, dtype=torch.int64)), [0, -1]),
    (
        "bitwise_right_shift",
        (tensor(100, -5, dtype=torch.int64), tensor(1, 1, dtype=torch.int64), False),
        [50, 2**63 - 3],
    ),
    ("bitwise_right_shift", (tensor(-5, -5, dtype=torch.int8), tensor(0, 7, dtype=torch.int8), False), [-5, 1]),
    ("scale", (tensor(3.0), 2.0, 1.5, False), [9.0]),
    ("scale", (tensor(3, dtype=torch.int64), 2.5, 1.0), [8]),
    ("clip", (tensor(1, 5, dtype=torch.int64), 1.5), [1.5, 5.0]),
    ("isclose", (tensor(1.0, 1.0, math.inf, math.nan), tensor(1.05, 1.2, math.inf, math.nan), 0.0, 0.1), [1, 0, 1, 0]),
    ("isclose", (tensor(math.nan), tensor(math.nan), 0.1, 0.1, True), [1]),
    ("nan_to_num", (tensor(math.nan, math.inf), 1.0, 2.0), [1, 2]),
]


@pytest.mark.parametrize(("api", "arguments", "expected"), VALUES)
def test_rule_gives_known_values(api: str, arguments: tuple[Any, ...], expected: Any) -> None:
    found = rule(f"paddle.{api}")(*arguments)
    np.testing.assert_allclose(found.numpy(), np.asarray(expected), rtol=1e-12, atol=1e-15)


DTYPES = [
    ("add", ("f4[3]", "f8[3]"), torch.float64),
    ("add", ("f2[3]", "f4[]"), torch.float16),
    ("add", ("i8[3]", "f4[]"), torch.float32),
    ("add", ("c8[3]", "f8[]"), torch.complex128),
    ("maximum", ("f2[3]", "f4[]"), torch.float32),
    ("floor_divide", ("i4[3]", "i8[]"), torch.int64),
    ("divide", ("i8[3]", "i8[3]"), torch.float32),
    ("atan2", ("i4[3]", "i4[3]"), torch.float64),
    ("hypot", ("i8[3]", "i8[3]"), torch.float32),
    ("copysign", ("i8[3]", "i8[3]"), torch.int64),
    ("ldexp", ("i8[3]", "i8[3]"), torch.float32),
    ("less_than", ("f4[3]", "f4[3]"), torch.bool),
]


@pytest.mark.parametrize(("api", "operands", "expected"), DTYPES)
def test_dtype_of_the_result_is_the_documented_one(api: str, operands: tuple[str, ...], expected: torch.dtype) -> None:
    made = []
    for text in operands:
        short, _, shape = text.partition("[")
        sizes = [int(n) for n in shape.rstrip("]").split(",") if n]
        made.append(torch.ones(sizes, dtype=getattr(torch, _DTYPES[short])))
    assert rule(f"paddle.{api}")(*made).dtype is expected


def values(api: str, **arguments: Any) -> dict[str, Any]:
    return CallValues(api, arguments, find_inputs(api), ordinary, (1, 2)).all_values()


def test_comparisons_get_equal_unequal_and_ordered_pairs() -> None:
    made = values("paddle.less_equal", x=TensorSpec((60,), "float32"), y=TensorSpec((60,), "float32"))
    assert {-1, 0, 1} <= set(np.sign(made["x"] - made["y"]))


def test_comparison_with_a_number_has_elements_on_all_sides_of_it() -> None:
    made = values("paddle.Tensor.__ge__", x=TensorSpec((60,), "int64"), y=-100)["x"]
    assert {-1, 0, 1} <= set(np.sign(made + 100))


def test_extremes_never_tie() -> None:
    made = values("paddle.maximum", x=TensorSpec((40, 1), "float16"), y=TensorSpec((40,), "float16"))
    assert not (made["x"] == made["y"]).any()


def test_clipped_values_lie_on_all_sides_of_the_bounds_and_on_none() -> None:
    made = values("paddle.clip", x=TensorSpec((400,), "float16"), min=0.0, max=1.0)["x"].astype(float)
    assert all(side.any() for side in (made < 0, (made > 0) & (made < 1), made > 1))
    assert min(np.abs(made).min(), np.abs(made - 1).min()) > 1e-3


def test_shift_amounts_stay_below_the_width() -> None:
    made = values("paddle.bitwise_left_shift", x=TensorSpec((99,), "int8"), y=TensorSpec((99,), "int8"))
    assert (made["y"].min(), made["y"].max()) == (0, 7)
    assert np.ptp(made["x"].astype(int)) > 200


def test_close_tensors_are_close_in_some_cases_and_not_in_others() -> None:
    found = set()
    for seed in range(12):
        spec = TensorSpec((30,), "float32")
        made = CallValues("paddle.allclose", {"x": spec, "y": spec}, find_inputs("paddle.allclose"), ordinary, (seed,))
        found.add(bool(np.allclose(made.value("x"), made.value("y"))))
    assert found == {True, False}


def compared(api: str, actual: Any, expected: Any, **more: Any) -> Comparison:
    comparison = Comparison(api, more.pop("arguments", {}), actual, expected, ToleranceOptions(), **more)
    find_comparator(api).judge(comparison)
    return comparison


def test_wrong_gradient_of_a_broadcast_operand_is_found() -> None:
    cotangent = torch.randn(4000, 5, generator=torch.Generator().manual_seed(1))
    right = cotangent.sum(0)
    for factor, differs in ((1.0, False), (1 + 2e-6, False), (1.01, True)):
        found = compared(
            "paddle.add",
            cotangent,
            cotangent,
            cotangents=(cotangent,),
            actual_gradients={"y": right * factor},
            expected_gradients={"y": right},
        )
        assert bool(found.findings.differences) is differs


def test_gradient_that_is_no_sum_keeps_the_ordinary_tolerance() -> None:
    ones = torch.ones(5)
    found = compared(
        "paddle.multiply",
        ones,
        ones,
        cotangents=(ones,),
        actual_gradients={"x": ones * 1.0002},
        expected_gradients={"x": ones},
    )
    assert found.findings.differences
