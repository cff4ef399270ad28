"""Lines that are not in the language: what the error says and where it points."""

from __future__ import annotations

import pickle

import pytest

from pytest_paddleapi.config import ConfigSyntaxError, parse_call

#: The text, with ⟦ before the character that the error must point at, and a part of the reason.
FAULTS = [
    ("⟦", "expected a call"),
    ("⟦torch.abs(1)", "expected a call"),
    ("paddle⟦", "expected a call"),
    ("paddle⟦.1(2)", "expected a call"),
    ("paddle⟦.é(2)", "expected a call"),
    ("paddle.abs⟦", "expected a call"),
    ("paddle.abs⟦[1]", "expected a call"),
    ("  paddle.abs(⟦foo)", "unknown name 'foo'"),
    ("paddle.abs(⟦foo.bar)", "unknown name 'foo.bar'"),
    ("paddle.abs(1, ⟦paddle.float32)", "unknown name 'paddle.float32'"),
    ('paddle.abs(a="é漢", b=⟦foo)', "unknown name"),
    ('paddle.abs("\U0001f600", ⟦foo)', "unknown name"),
    ("paddle.abs(list[1, ⟦foo])", "unknown name"),
    ("paddle.abs(list[1], list [2], ⟦foo)", "unknown name"),
    ('paddle.abs(list["é", list[⟦foo]])', "unknown name"),
    ('paddle.abs(\n "é",\n  ⟦foo)', "unknown name"),
    ('paddle.abs(\r\n "é",\r  ⟦foo)', "unknown name"),
    ("paddle.abs(1,⟦,2)", "not a valid expression"),
    ("paddle.abs(\n1,\n⟦,2)", "not a valid expression"),
    ('paddle.abs("é",⟦,2)', "not a valid expression"),
    ("paddle.abs(a=b⟦=1)", "not a valid expression"),
    ("paddle.abs(a=1, ⟦2)", "without a name"),
    ("paddle.abs(a=1, ⟦Tensor([2],\"float32\"), b=2)", "without a name"),
    ("paddle.abs(a=list[1], ⟦list[2])", "without a name"),
    ("paddle.abs(a=1, a=⟦2)", "given twice"),
    ("paddle.abs⟦(1", "'(' is never closed"),
    ("paddle.abs(list⟦[1, 2", "'[' is never closed"),
    ("paddle.abs(list[1⟦)]", "')' does not close the '['"),
    ("paddle.abs(1)⟦)", "nothing after it"),
    ("paddle.abs(1)⟦.numpy()", "nothing after it"),
    ("paddle.abs(1)⟦, paddle.abs(2)", "nothing after it"),
    ("paddle.abs(1) ⟦+ 1", "nothing after it"),
    ('paddle.abs(⟦"abc)', "never closed"),
    ("paddle.abs('a', ⟦'b)", "never closed"),
    ('paddle.abs(⟦"a\nb")', "never closed"),
    ('paddle.abs(⟦"""a""")', "triple-quoted"),
    ('paddle.abs("é", ⟦b"a")', "prefix 'b'"),
    ('paddle.abs(⟦f"{1}")', "prefix 'f'"),
    ("paddle.abs(⟦rb'a')", "prefix 'rb'"),
    ('paddle.abs("a" ⟦"b")', "expected a comma"),
    ('paddle.abs(x ⟦"b")', "expected a comma"),
    ("paddle.abs(1 ⟦2)", "expected a comma"),
    ("paddle.abs(list[1] ⟦2)", "expected a comma"),
    ("paddle.abs(Tensor([2],\"float32\") ⟦Tensor([2],\"float32\"))", "expected a comma"),
    ("paddle.abs(tuple(1)⟦[0])", "expected a comma"),
    ("paddle.abs(x⟦[0])", "nothing else is indexed"),
    ("paddle.abs(tuple⟦[1])", "nothing else is indexed"),
    ("paddle.abs(⟦lambda: 1)", "'lambda' is not in the config language"),
    ("paddle.abs(x ⟦for x in y)", "'for' is not in the config language"),
    ("paddle.abs(1 ⟦if 1 else 2)", "'if' is not in the config language"),
    ("paddle.abs(⟦not True)", "'not' is not in the config language"),
    ("paddle.abs(⟦await x)", "'await' is not in the config language"),
    ("paddle.abs((x :⟦= 1))", "not expected here"),
    ("paddle.abs(1 =⟦= 2)", "not expected here"),
    ("paddle.abs(⟦*a)", "'*' is not in the config language"),
    ("paddle.abs(⟦**a)", "'*' is not in the config language"),
    ("paddle.abs({⟦**a})", "'*' is not in the config language"),
    ("paddle.abs(1 ⟦* 2)", "'*' is not in the config language"),
    ("paddle.abs(⟦~1)", "'~' is not in the config language"),
    ("paddle.abs(1⟦;2)", "';' is not in the config language"),
    ("paddle.abs(1 ⟦\\\n)", "is not in the config language"),
    ("paddle.abs(1⟦\x01)", "U+0001"),
    ("paddle.abs(⟦1+2)", "arithmetic is not in the config language"),
    ("paddle.abs(⟦2j+1)", "arithmetic is not in the config language"),
    ("paddle.abs(⟦1+complex(2,3))", "arithmetic is not in the config language"),
    ("paddle.abs(⟦True+2j)", "arithmetic is not in the config language"),
    ('paddle.abs(⟦-"a")', "a sign must stand before a number"),
    ("paddle.abs(⟦-True)", "a sign must stand before a number"),
    ("paddle.abs(⟦-list[1])", "a sign must stand before a number"),
    ("paddle.abs(⟦{1, 2})", "set expression is not in the config language"),
    ("paddle.abs({1:2, ⟦True:3})", "given twice"),
    ("paddle.abs({1:2, ⟦Ellipsis:2})", "a dict key must be"),
    ("paddle.abs(⟦list(1))", "written list[...]"),
    ("paddle.abs(⟦dict(a=1))", "'dict'(...) is not in the config language"),
    ("paddle.abs(⟦os.system(1))", "'os.system'(...) is not in the config language"),
    ("paddle.abs(⟦slice())", "one to three values"),
    ("paddle.abs(⟦slice(1,2,3,4))", "one to three values"),
    ("paddle.abs(⟦tuple(a=1))", "no named arguments"),
    ('paddle.abs(⟦complex("1"))', "one or two real numbers"),
    ("paddle.abs(⟦complex(1,2j))", "one or two real numbers"),
    ('paddle.abs(⟦Tensor([2]))', "a tensor is written"),
    ('paddle.abs(Tensor(⟦2,"float32"))', "a list of dimensions"),
    ('paddle.abs(Tensor([2, ⟦-1],"float32"))', "-1 is not a dimension"),
    ('paddle.abs(Tensor([⟦2.0],"float32"))', "2.0 is not a dimension"),
    ('paddle.abs(Tensor([⟦True],"float32"))', "True is not a dimension"),
    ('paddle.abs(Tensor(tuple(1,⟦None),"float32"))', "None is not a dimension"),
    ('paddle.abs(Tensor([⟦9223372036854775808],"float32"))', "is not a dimension"),
    ('paddle.abs(Tensor([2],⟦"float33"))', "'float33' is not a dtype"),
    ('paddle.abs(Tensor([2],⟦[3]))', "list[3] is not a dtype"),
    ('paddle.abs(Tensor([2],⟦{}))', "{} is not a dtype"),
    ("paddle.abs(⟦Dtype(float33))", "takes the name of a dtype"),
    ("paddle.abs(⟦Dtype(1))", "takes the name of a dtype"),
    ("paddle.abs(⟦VarType())", "takes the name of a dtype"),
    ("paddle.abs(⟦type(object))", "scalar type"),
    ("paddle.abs(⟦18446744073709551617)", "more than 64 bits"),
    ("paddle.abs(⟦0x1ffffffffffffffff)", "more than 64 bits"),
    ('paddle.abs("é", ⟦0777)', "begins with a zero"),
    ("paddle.abs(⟦12abc)", "'12abc' is not a number"),
    ("paddle.abs(⟦1if)", "'1if' is not a number"),
    (f"paddle.abs(⟦{'1' * 401})", "a number of more than 400 digits"),
    ('paddle.abs("a⟦\\x4")', "escape \\x"),
    ('paddle.abs("a\\\\⟦\\u12")', "escape \\u"),
    ('paddle.abs("⟦\\N{DASH}")', "escape \\N"),
    ('paddle.abs("⟦\\U00110000")', "escape \\U"),
    ("paddle.abs(⟦\0)", "NUL byte"),
    ('paddle.abs("a⟦\0")', "NUL byte"),
    ('paddle.abs("é⟦\udcff")', "not UTF-8"),
    ("paddle.abs(1) # ⟦\udcff", "not UTF-8"),
    (f"paddle.abs({'(' * 31}⟦(1))", "nested deeper than 32 levels"),
    (f"paddle.abs({'list[' * 31}list⟦[1]]", "nested deeper than 32 levels"),
]  # fmt: skip


@pytest.mark.parametrize(("marked", "reason"), FAULTS)
def test_a_fault_is_named_and_pointed_at(marked: str, reason: str) -> None:
    column = marked.index("⟦")
    text = marked.replace("⟦", "")
    with pytest.raises(ConfigSyntaxError) as caught:
        parse_call(text)
    assert reason in caught.value.reason
    assert caught.value.column == column
    assert f"(column {column + 1})" in str(caught.value)


def test_the_message_quotes_the_text_with_a_caret_under_the_fault() -> None:
    with pytest.raises(ConfigSyntaxError) as caught:
        parse_call("paddle.abs(axis=foo)")
    assert str(caught.value).splitlines()[1:] == [
        "  paddle.abs(axis=foo)",
        "                  ^",
    ]


def test_the_caret_allows_for_wide_and_combining_characters() -> None:
    with pytest.raises(ConfigSyntaxError) as caught:
        parse_call('paddle.abs("漢e\u0301", foo)')
    quoted, caret = str(caught.value).splitlines()[1:]
    assert quoted == '  paddle.abs("漢e\u0301", foo)'
    assert caret == "  " + " " * len('paddle.abs("xxe", ') + "^"


def test_the_message_shows_only_the_surroundings_of_a_fault_in_a_long_line() -> None:
    text = f"paddle.abs({'1, ' * 5000}foo, {'2, ' * 5000})"
    with pytest.raises(ConfigSyntaxError) as caught:
        parse_call(text)
    quoted, caret = str(caught.value).splitlines()[1:]
    assert len(quoted) < 140
    assert quoted.startswith("  ...")
    assert quoted.endswith("...")
    assert quoted[caret.index("^") :].startswith("foo")


def test_the_message_prints_whatever_the_line_holds() -> None:
    with pytest.raises(ConfigSyntaxError) as caught:
        parse_call('paddle.abs("\udc80\0\x1b[31m")')
    message = str(caught.value)
    message.encode()
    assert message.replace("\n", "").isprintable()


def test_a_huge_value_is_not_repeated_in_the_message() -> None:
    with pytest.raises(ConfigSyntaxError) as caught:
        parse_call(f"paddle.abs(Tensor([2],[{'1,' * 10_000}]))")
    assert len(str(caught.value)) < 500


def test_the_error_survives_a_pickle() -> None:
    error = ConfigSyntaxError("paddle.abs(foo)", 11, "unknown name")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.text, copy.column, copy.reason, str(copy)) == (error.text, 11, "unknown name", str(error))
