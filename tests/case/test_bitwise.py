"""Two runs of one framework, bit by bit."""

from __future__ import annotations

import struct
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pytest_paddleapi.case.compare.bitwise import RepeatComparison, compare_bits  # noqa: E402
from pytest_paddleapi.case.results import SideResult  # noqa: E402
from pytest_paddleapi.process.messages import ToleranceOptions  # noqa: E402

NAN = float("nan")
DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
]  # fmt: skip


def differences(first: SideResult, second: SideResult, *, values: bool = True) -> list[str]:
    return RepeatComparison("paddle.x", {}, None, None, ToleranceOptions()).judge(first, second, values=values)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_same_bits_are_equal_and_one_other_value_is_found(dtype: Any) -> None:
    first = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(dtype)
    second = first.clone()
    assert compare_bits(first, second).mismatched == 0
    second[1, 1] = torch.ones((), dtype=dtype)
    found = compare_bits(first, second)
    assert (found.mismatched, found.elements, found.max_abs) == (1, 6, 1.0)
    assert found.worst_abs is not None
    assert found.worst_abs[0] == (1, 1)


@pytest.mark.parametrize("dtype", [torch.float8_e5m2, torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_zeros_of_other_signs_differ(dtype: Any) -> None:
    first, second = torch.tensor([1.0, 0.0]).to(dtype), torch.tensor([1.0, -0.0]).to(dtype)
    found = compare_bits(first, second)
    assert (found.mismatched, found.max_abs) == (1, 0.0)
    assert found.worst_abs == ((1,), 0.0, 0.0)
    assert str(found.worst_abs[2]) == "-0.0"


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_nan_equals_nan_and_nothing_else(dtype: Any) -> None:
    first = torch.tensor([NAN, 1.0]).to(dtype)
    assert compare_bits(first, torch.tensor([NAN, 1.0]).to(dtype)).mismatched == 0
    assert compare_bits(first, torch.tensor([0.0, 1.0]).to(dtype)).mismatched == 1


def test_payloads_of_nan_do_not_matter() -> None:
    first, second = (torch.frombuffer(bytearray(struct.pack("<II", bits, 0)), dtype=torch.float32) for bits in (
        0x7FC00000, 0xFFC12345,
    ))  # fmt: skip
    assert not torch.equal(first.view(torch.int32), second.view(torch.int32))
    assert compare_bits(first, second).mismatched == 0


def test_parts_of_complex_numbers_are_compared_each() -> None:
    first = torch.tensor([complex(NAN, 1), complex(0.0, 2), complex(3, 4)])
    assert compare_bits(first, first.clone()).mismatched == 0
    assert compare_bits(first, torch.tensor([complex(NAN, 2), complex(-0.0, 2), complex(3, 4)])).mismatched == 2


def test_an_infinity_is_only_like_itself() -> None:
    inf = float("inf")
    assert compare_bits(torch.tensor([inf, -inf]), torch.tensor([inf, -inf])).mismatched == 0
    assert compare_bits(torch.tensor([inf, -inf]), torch.tensor([inf, inf])).mismatched == 1


def test_views_with_strides_and_empty_tensors() -> None:
    square = torch.arange(12.0).reshape(3, 4)
    assert compare_bits(square.t(), square.t().contiguous()).mismatched == 0
    assert compare_bits(torch.zeros(0, 3), torch.zeros(0, 3)).elements == 0


def test_text_says_where_how_many_and_how_much() -> None:
    first = SideResult([torch.zeros(2, 3)], gradients={"x": torch.zeros(4)})
    second = SideResult([torch.tensor([[0, 0, 0], [0, 0, 0.25]])], gradients={"x": torch.zeros(4)})
    (text,) = differences(first, second)
    assert text.startswith("output[0]: 1 of 6 elements differ (16.7 %)")
    assert "worst absolute difference 0.25 at [1, 2]: first run 0.0, second run 0.25" in text
    assert "tolerance: atol 0, rtol 0 (bitwise)" in text


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        (torch.zeros(2), torch.zeros(3), "output 0: shape [2] in first run, [3] in second run"),
        (torch.zeros(2), torch.zeros(2, dtype=torch.float64), "dtype float32 in first run, float64 in second run"),
        (torch.zeros(2), [torch.zeros(2)], "structure: first run returned float32[2], second run list(float32[2])"),
        (1, 2, "output 0: first run gave int 1, second run 2"),
        (0.0, -0.0, "output 0: first run gave float 0.0, second run -0.0"),
        (True, 1, "output 0: first run gave bool True, second run 1"),
        (torch.zeros(2), None, "output 0: first run gave a tensor of shape [2] and dtype float32, second run NoneType"),
    ],
)
def test_form_and_plain_values(first: Any, second: Any, says: str) -> None:
    (text,) = differences(SideResult(first), SideResult(second))
    assert says in text


@pytest.mark.parametrize("value", [NAN, complex(NAN, 0.0), "text", None, 2**80])
def test_plain_values_that_are_the_same(value: Any) -> None:
    assert differences(SideResult([value]), SideResult([value])) == []


def test_changed_arguments_and_gradients_too() -> None:
    zeros, ones = torch.zeros(2), torch.ones(2)
    first = SideResult(None, changed={"xs": [zeros, zeros]}, gradients={"x": zeros, "y": zeros})
    second = SideResult(None, changed={"xs": [zeros, ones]}, gradients={"x": ones})
    found = differences(first, second)
    assert [text.split(":")[0] for text in found] == ["changed argument xs[1]", "gradient of x", "gradient of y"]
    assert found[2] == "gradient of y: first run gave one, second run none"


def test_without_values_only_the_form_counts() -> None:
    assert differences(SideResult(torch.zeros(2)), SideResult(torch.ones(2)), values=False) == []
    assert len(differences(SideResult(torch.zeros(2)), SideResult(torch.ones(3)), values=False)) == 1
