"""A parsed call goes through the pipe and comes out the same."""

from __future__ import annotations

import math

import pytest
from hypothesis import given

from pytest_paddleapi.config import Call, parse_call, print_call
from pytest_paddleapi.process.wire import pack_call, pack_text, unpack_call

from ..config.language import CALLS, examples, holds_nan


@given(CALLS)
@examples(200)
def test_an_unpacked_call_is_the_one_that_was_packed(call: Call) -> None:
    again = unpack_call(pack_call(call))
    assert print_call(again) == print_call(call)
    assert holds_nan(call) or again == call


@pytest.mark.parametrize(
    "text",
    [
        'paddle.pad(Tensor([2, 0],"bfloat16"), list[1,tuple(2,)], mode="x\\udc80", value=-0.0)',
        "paddle.full(list[], 18446744073709551616, -18446744073709551616, complex(-0.0,inf))",
        'paddle.Tensor.__getitem__(Tensor([],"bool"), tuple(slice(None,-1,2),Ellipsis,None,True))',
        'paddle.cast(Tensor([1],"float32"), Dtype(float16), x={"a":VarType(int8),1:type(numpy.float64),None:[]})',
    ],
)
def test_every_kind_of_value_survives(text: str) -> None:
    call = parse_call(text)
    assert repr(unpack_call(pack_text(text))) == repr(call)


def test_signs_of_zero_and_nan_survive() -> None:
    call = unpack_call(pack_text("paddle.full(list[2], -0.0, nan)"))
    assert math.copysign(1, call.args[1]) == -1
    assert math.isnan(call.args[2])


def test_a_text_outside_the_language_is_left_to_its_reader() -> None:
    assert pack_text("paddle.abs(open('x'))") == b""


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x01", pack_text("paddle.f([1])")[:-1], b"\x93\xa1a\x90\x91\x63"])
def test_bytes_that_are_no_call_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="no packed call"):
        unpack_call(data)
