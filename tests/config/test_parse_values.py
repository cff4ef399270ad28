"""What each form of the language means."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pytest_paddleapi.config import Call, DtypeRef, TensorSpec, TypeRef, parse_call, print_call, print_value

from .language import varied_lines

F32 = TensorSpec((2,), "float32")

#: Text of a value, the value, and the canonical text where it is another.
VALUES: list[tuple[str, Any, str | None]] = [
    ("None", None, None),
    ("True", True, None),
    ("False", False, None),
    ("0", 0, None),
    ("-3", -3, None),
    ("+3", 3, "3"),
    ("-0", 0, "0"),
    ("1_000", 1000, "1000"),
    ("0xff", 255, "255"),
    ("18446744073709551615", 2**64 - 1, None),
    ("-9223372036854775808", -(2**63), None),
    ("1e-05", 1e-05, None),
    ("1E5", 1e5, "100000.0"),
    ("1.", 1.0, "1.0"),
    (".5", 0.5, "0.5"),
    ("-0.0", -0.0, None),
    ("0.1", 0.1, None),
    ("0.10", 0.1, "0.1"),
    ("inf", math.inf, None),
    ("-inf", -math.inf, None),
    ("math.inf", math.inf, "inf"),
    ("-math.inf", -math.inf, "-inf"),
    ("1e999", math.inf, "inf"),
    ("2j", 2j, "complex(0.0,2.0)"),
    ("1.5-2j", 1.5 - 2j, "complex(1.5,-2.0)"),
    ("-1.5e-05-2.5e-05j", -1.5e-05 - 2.5e-05j, "complex(-1.5e-05,-2.5e-05)"),
    ("(1+2j)", 1 + 2j, "complex(1.0,2.0)"),
    ("-(1+2j)", -1 - 2j, "complex(-1.0,-2.0)"),
    ("complex(1,2)", 1 + 2j, "complex(1.0,2.0)"),
    ("complex(-inf,2)", complex(-math.inf, 2), "complex(-inf,2.0)"),
    ("(1+infj)", complex(1, math.inf), "complex(1.0,inf)"),
    ('"abc"', "abc", None),
    ("'abc'", "abc", '"abc"'),
    ('""', "", None),
    ("'say \"hi\"'", 'say "hi"', '"say \\"hi\\""'),
    ('"a\\\\b"', "a\\b", None),
    ('"a\\tb"', "a\tb", '"a\\x09b"'),
    ('"a\tb"', "a\tb", '"a\\x09b"'),
    ('"größe 漢"', "größe 漢", None),
    ('"\\ud800"', "\ud800", None),
    ('"\u200b"', "\u200b", '"\\u200b"'),
    ('"a list[1] b"', "a list[1] b", None),
    ('"# no comment"', "# no comment", None),
    ("Ellipsis", Ellipsis, None),
    ("...", Ellipsis, "Ellipsis"),
    ('Tensor([2],"float32")', F32, None),
    ('Tensor([],"int64")', TensorSpec((), "int64"), None),
    ('Tensor([0, 3],"bool")', TensorSpec((0, 3), "bool"), None),
    ("Tensor((2,3),'bfloat16')", TensorSpec((2, 3), "bfloat16"), 'Tensor([2, 3],"bfloat16")'),
    ('Tensor(list[2,],"float8_e4m3fn")', TensorSpec((2,), "float8_e4m3fn"), 'Tensor([2],"float8_e4m3fn")'),
    ("list[]", [], None),
    ("list[1,]", [1], "list[1]"),
    ("list [ 1 , 2 ]", [1, 2], "list[1,2]"),
    ("[1, 2]", [1, 2], "list[1,2]"),
    ("list[list[1],[2]]", [[1], [2]], "list[list[1],list[2]]"),
    ("tuple()", (), None),
    ("tuple(1,)", (1,), "tuple(1)"),
    ("()", (), "tuple()"),
    ("(1,)", (1,), "tuple(1)"),
    ("(1)", 1, "1"),
    ('{"a":1,2:list[3]}', {"a": 1, 2: [3]}, None),
    ("{}", {}, None),
    ("{None: True, -1.5: False}", {None: True, -1.5: False}, "{None:True,-1.5:False}"),
    ("slice(1,2,3)", slice(1, 2, 3), None),
    ("slice(None,None,-1)", slice(None, None, -1), None),
    ("slice(5)", slice(5), "slice(None,5,None)"),
    ('slice(Tensor([],"int64"),None)', slice(TensorSpec((), "int64"), None), 'slice(Tensor([],"int64"),None,None)'),
    ("Dtype(float16)", DtypeRef("float16"), None),
    ("Dtype(paddle.float16)", DtypeRef("float16"), "Dtype(float16)"),
    ("VarType(float32)", DtypeRef("float32", "VarType"), None),
    ("type(numpy.float64)", TypeRef("numpy.float64"), None),
    ("type(bool)", TypeRef("bool"), None),
    ("type(int)", TypeRef("int"), None),
]


@pytest.mark.parametrize(("text", "value", "canonical"), VALUES, ids=[text for text, *_ in VALUES])
def test_a_value_is_read_and_printed(text: str, value: Any, canonical: str | None) -> None:
    (read,) = parse_call(f"paddle.f({text})").args
    assert read == value
    assert type(read) is type(value)
    assert print_value(read) == (text if canonical is None else canonical)
    assert parse_call(f"paddle.f(x={text}, )").kwargs == (("x", value),)


@pytest.mark.parametrize("text", ["nan", "-nan", "math.nan"])
def test_nan_has_one_spelling(text: str) -> None:
    (read,) = parse_call(f"paddle.f({text})").args
    assert math.isnan(read)
    assert print_value(read) == "nan"


@pytest.mark.parametrize(
    "text",
    [
        "paddle.f(1,2,x=3)",
        "  paddle.f(1, 2, x=3)  ",
        "paddle.f(1,2,x=3,)",
        "paddle.f (1, 2, x = 3, )",
        "paddle.f(1, 2, x=3)  # slow on old cards, say list[1]",
        "paddle.f(\n    1,  # it's the first\n    2, x=3,\n)",
        "paddle.f(\r\n1,\r2,\tx=3)",
    ],
)
def test_blanks_commas_line_ends_and_comments_do_not_matter(text: str) -> None:
    call = parse_call(text)
    assert call == Call("paddle.f", (1, 2), (("x", 3),))
    assert print_call(call) == "paddle.f(1, 2, x=3)"


def test_arguments_keep_their_order_and_names() -> None:
    call = parse_call('paddle.nn.functional.f(Tensor([2],"float32"), b=1, a=None, )')
    assert call.api == "paddle.nn.functional.f"
    assert call.args == (F32,)
    assert call.kwargs == (("b", 1), ("a", None))


def test_a_method_and_a_dunder_method_are_names_like_others() -> None:
    assert parse_call('paddle.Tensor.__getitem__(Tensor([2],"float32"), 0, )').api == "paddle.Tensor.__getitem__"
    assert parse_call("paddle.Tensor.rank()").args == ()


def test_the_tensors_of_a_call_come_in_the_order_written() -> None:
    one, two, three, four = (f'Tensor([{size}],"bool")' for size in (1, 2, 3, 4))
    text = f'paddle.f(list[{one},{{"a":{two}}}], slice({three},None), x={four})'
    assert [spec.shape for spec in parse_call(text).tensors()] == [(1,), (2,), (3,), (4,)]


@pytest.mark.parametrize("line", varied_lines(), ids=range(len(varied_lines())))
def test_a_line_as_captured_or_written_is_in_the_language(line: str) -> None:
    call = parse_call(line)
    assert line.startswith(call.api + "(")
    assert parse_call(print_call(call)) == call or "nan" in line
