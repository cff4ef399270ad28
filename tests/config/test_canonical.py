"""The short way to the canonical text gives what the parser and the printer give."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_paddleapi.config import ConfigSyntaxError, parse_call, print_call
from pytest_paddleapi.config.canonical import canonical_text, usual_spelling

from .language import examples, varied_lines

USUAL = [
    'paddle.abs(Tensor([2, 3],"float32"), )',
    'paddle.abs(Tensor([2, 3],"float32"))',
    'paddle.concat(tuple(Tensor([31376, 768],"float32"),Tensor([1, 768],"float32"),), axis=0, )',
    "paddle.f(list[list[1,-2,],tuple(),], None, x=True, y=-inf, z=nan, )",
    'paddle.f(Tensor([],"bool"), 1e-05, -0.0, 1.5, 1234567.5, )',
    'paddle.f("bnij,jbnd->ibnd", "", "a b", slice(None,-1,2), Ellipsis, )',
    "paddle.f(Dtype(float16), VarType(bool), type(numpy.int32), type(int), )",
]
#: Each differs from the usual spelling in one respect that the parser must see.
OTHER = [
    "paddle.f()",
    "paddle.f(, )",
    "paddle.f(1,)",
    "paddle.f(1,2)",
    "paddle.f(1,  2)",
    "paddle.f( 1)",
    "paddle.f(-0)",
    "paddle.f(007)",
    "paddle.f(00.5)",
    "paddle.f(1.50)",
    "paddle.f(1e5)",
    "paddle.f(1e-5)",
    "paddle.f(1e+999)",
    "paddle.f(0.30000000000000004000)",
    "paddle.f(1.)",
    "paddle.f(.5)",
    "paddle.f(18446744073709551617)",
    "paddle.f(1j)",
    "paddle.f(-nan)",
    "paddle.f(math.inf)",
    "paddle.f('a')",
    'paddle.f("a\\"b")',
    'paddle.f("é\u200b")',
    'paddle.f("a)b")',
    'paddle.f("x,]", list[1,], )',
    'paddle.f("a,)", )',
    "paddle.f(x=1, x=2)",
    "paddle.f(x=1, 2)",
    "paddle.f(None=1)",
    "paddle.f(lambda=1)",
    "paddle.lambda(1)",
    "paddle.is.f(1)",
    "paddle.f(list[1,,])",
    "paddle.f(list[,])",
    "paddle.f(tuple(,))",
    "paddle.f(list[1, 2])",
    "paddle.f(list[list[list[1]]])",
    "paddle.f([1])",
    "paddle.f(slice(1))",
    "paddle.f(slice(1, 2, 3))",
    "paddle.f(slice(1.5,None,None))",
    "paddle.f(Dtype(paddle.float16))",
    "paddle.f(type(object))",
    'paddle.f(Tensor([2,3],"float32"))',
    'paddle.f(Tensor([2, 3], "float32"))',
    'paddle.f(Tensor([02],"float32"))',
    'paddle.f(Tensor([2],"float33"))',
    "paddle.f(1) ",
    "paddle.f(1)  # note",
    "paddle.f(1))",
    "paddle.f((1))",
    "torch.f(1)",
    "paddle(1)",
    "paddle.f(1",
    "paddle.f(1, \n)",
    "paddle" + ".f" * 30 + "(1)",
]


def by_parser(text: str) -> str | None:
    try:
        return print_call(parse_call(text))
    except ConfigSyntaxError:
        return None


@pytest.mark.parametrize("text", USUAL)
def test_the_usual_spelling_takes_the_short_way(text: str) -> None:
    assert usual_spelling(text) == by_parser(text) == canonical_text(text)


@pytest.mark.parametrize("text", OTHER)
def test_any_other_spelling_has_the_parsers_answer(text: str) -> None:
    if usual_spelling(text) is not None:
        assert usual_spelling(text) == by_parser(text)
    if by_parser(text) is None:
        with pytest.raises(ConfigSyntaxError):
            canonical_text(text)
    else:
        assert canonical_text(text) == by_parser(text)


def test_most_captured_lines_take_the_short_way() -> None:
    captured = [line for line in varied_lines() if line.endswith(", )") and "math." not in line and "j" not in line]
    short = [line for line in captured if usual_spelling(line) is not None]
    assert len(short) > 0.9 * len(captured) > 80


#: What lines in the usual spelling are made of, so that random sequences often come near it.
PIECES = st.sampled_from(
    [
        "list[", "tuple(", "]", ")", ",", ", ", ",]", ",)", "x=", "y=", "is=", "__debug__=", "_=", "1", "0", "-0", "-1",
        "00", "1.5", "1.50", "-0.0", "1e-05", "1e-5", "1e+16", "1e16", "None", "True", "nan", "-nan", "inf", "-inf",
        "Ellipsis", '"a,b"', '"a]"', '",)"', '""', '"é"', 'Tensor([2, 3],"float32")', 'Tensor([0],"bool")', 'Tensor([2',
        "slice(1,None,2)", "Dtype(bool)", "type(int)", "type(", " ", "(", "[",
    ]
)  # fmt: skip


@given(st.lists(PIECES, max_size=14).map("".join))
@examples(1500)
def test_both_ways_agree_on_text_made_of_the_usual_pieces(arguments: str) -> None:
    for text in (f"paddle.f({arguments})", f"paddle.f({arguments}, )"):
        usual = usual_spelling(text)
        assert usual is None or usual == by_parser(text)


VALUE = st.recursive(
    st.sampled_from(["1", "-1", "0", "1.5", "1e-05", "None", "nan", '"a,b"', 'Tensor([2],"int8")', "slice(1,None,2)"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"list[{''.join(item + ',' for item in items)}]"),
        st.lists(inner, max_size=3).map(lambda items: f"tuple({','.join(items)})"),
    ),
    max_leaves=6,
)  # fmt: skip


@given(st.lists(VALUE, max_size=3), st.dictionaries(st.sampled_from(["x", "axis", "_y1"]), VALUE, max_size=3))
@examples(300)
def test_both_ways_agree_on_calls_in_the_usual_spelling(places: list[str], named: dict[str, str]) -> None:
    arguments = "".join(f"{item}, " for item in [*places, *(f"{name}={value}" for name, value in named.items())])
    text = f"paddle.Tensor.f({arguments})"
    usual = usual_spelling(text)
    assert usual is None or usual == by_parser(text)
    shallow = not re.search(r"(?:list\[|tuple\().*(?:list\[|tuple\().*(?:list\[|tuple\()", text)
    assert usual is not None or not shallow or not arguments


def test_a_line_that_is_nearly_usual_is_refused_in_linear_time() -> None:
    tensors = 'Tensor([12, 34],"float32"),' * 3000
    assert usual_spelling(f"paddle.f(list[{tensors}?], )") is None
    assert usual_spelling(f"paddle.f(list[list[{'1,' * 20000}],list[{'1,' * 20000}?],], )") is None
    assert usual_spelling(f"paddle.f({'1, ' * 30000}?)") is None
