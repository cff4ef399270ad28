"""Parsing and printing are each other's inverse."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pytest_paddleapi.config import Call, parse_call, print_call
from pytest_paddleapi.config.canonical import canonical_text, usual_spelling

from .language import CALLS, examples, holds_nan


@given(CALLS)
@examples(200)
def test_a_printed_call_is_parsed_as_itself(call: Call) -> None:
    text = print_call(call)
    again = parse_call(text)
    assert print_call(again) == text
    assert holds_nan(call) or again == call


@given(CALLS)
@examples(80)
def test_canonical_text_is_one_printable_line_that_can_be_encoded(call: Call) -> None:
    text = print_call(call)
    assert text.isprintable()
    assert text.encode().decode() == text


@given(CALLS)
@examples(80)
def test_the_canonical_text_of_canonical_text_is_itself(call: Call) -> None:
    text = print_call(call)
    assert canonical_text(text) == text
    assert usual_spelling(text) in (text, None)


def spell(value: Any, draw: st.DrawFn) -> str:
    """One of the ways to write a call's value."""
    if isinstance(value, (list, tuple)):
        inner = ",".join(spell(item, draw) for item in value)
        comma = draw(st.sampled_from(["", ","])) if value else ""
        if isinstance(value, list):
            return draw(st.sampled_from([f"list[{inner}{comma}]", f"[{inner}{comma}]", f"list [ {inner} ]"]))
        return draw(st.sampled_from([f"tuple({inner}{comma})", f"({inner},)" if value else "()"]))
    if isinstance(value, str):
        return repr(value) if draw(st.booleans()) else print_call(Call("paddle.f", (value,)))[len("paddle.f(") : -1]
    return print_call(Call("paddle.f", (value,)))[len("paddle.f(") : -1]


@st.composite
def calls_and_spellings(draw: st.DrawFn) -> tuple[Call, str]:
    call = draw(CALLS)
    parts = [spell(value, draw) for value in call.args]
    parts += [f"{name}={spell(value, draw)}" for name, value in call.kwargs]
    separator = draw(st.sampled_from([", ", ",", " , "]))
    end = draw(st.sampled_from([")", ", )", ",)"])) if parts else ")"
    return call, f"{call.api}({separator.join(parts)}{end}"


@given(calls_and_spellings())
@examples(150)
def test_however_a_call_is_spelt_its_canonical_text_is_one(drawn: tuple[Call, str]) -> None:
    call, text = drawn
    assert canonical_text(text) == print_call(call)
