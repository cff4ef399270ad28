"""Text of any kind: nothing of it runs, and the parser always answers, soon."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_paddleapi.config import ConfigSyntaxError, parse_call
from pytest_paddleapi.config.parse import MAX_LINE

from .language import examples

PROGRAM = Path(__file__).parent / "fuzz_program.py"


def fuzz(seed: int, count: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(PROGRAM), str(seed), str(count)], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def check(found: dict[str, Any], count: int) -> None:
    assert found["lines"] == count
    assert 0.02 * count < found["valid"] < 0.5 * count, "the lines are not near enough to the language, or too near"
    assert found["events"] == []
    assert found["crashes"] == []
    assert found["only_trees"]
    assert found["slowest"] < 1.0, found["slow_line"]


def test_five_thousand_mutated_lines_run_nothing_and_never_crash() -> None:
    check(fuzz(seed=20, count=5_000), 5_000)


@pytest.mark.slow
def test_a_hundred_thousand_mutated_lines_run_nothing_and_never_crash() -> None:
    check(fuzz(seed=21, count=100_000), 100_000)


@given(st.text(st.characters(exclude_categories=()), max_size=60))
@examples(100)
def test_any_text_within_a_call_is_a_call_or_an_error_with_a_column(text: str) -> None:
    line = f"paddle.abs({text})"
    error = ConfigSyntaxError(line, 0, "none")
    try:
        parse_call(line)
    except ConfigSyntaxError as exc:
        error = exc
    assert 0 <= error.column <= len(line)
    assert str(error).encode()
    assert "\0" not in str(error)


LONG = 33_000
CHAINS = {
    "signs": "-" * LONG + "1",
    "signs on lines of their own": "-\n" * LONG + "1",
    "additions": "1" + "+1" * LONG,
    "products": "1" + "*1" * LONG,
    "powers": "1" + "**1" * LONG,
    "comparisons": "1" + "<1" * LONG,
    "attributes": "a" + ".b" * LONG,
    "calls": "a" + "()" * LONG,
    "subscripts": "a" + "[1]" * LONG,
    "negations": "not " * LONG + "1",
    "alternatives": "1 if 1 else " * LONG + "1",
    "alternatives without blanks": "1if(1)else(" * LONG,
    "conjunctions": "1" + " and 1" * LONG,
    "lambdas": "lambda:" * LONG + "1",
    "lambdas with arguments": "lambda a,b:" * LONG + "1",
    "awaits": "await " * LONG + "a",
    "strings": '"a"' * LONG,
    "f-strings": 'f"{a}"' * LONG,
    "names": "x " * LONG,
    "points": "1." + ".1" * LONG,
    "parentheses": "(" * LONG + ")" * LONG,
    "brackets": "[" * LONG + "]" * LONG,
    "lists": "list[" * LONG + "]" * LONG,
    "tuples": "tuple(" * LONG + ")" * LONG,
    "dicts": "{1:" * LONG + "1" + "}" * LONG,
    "open dicts": "{1:{2:" * LONG,
    "quotes": "'" * LONG,
    "backslashes": '"' + "\\" * (LONG + 1) + '"',
    "digits": "1" * LONG,
    "hexadecimal digits": "0x" + "f" * LONG,
    "exponent": "1e" + "9" * LONG,
    "underscores": "1" + "_1" * LONG,
    "stars": "*" * LONG + "a",
    "assignments": "a=" * LONG + "1",
    "the same name": "a=1," * (LONG // 4),
    "newlines": "\n" * LONG + "q",
}


@pytest.mark.parametrize("chain", CHAINS)
def test_a_long_chain_is_an_error_at_once(chain: str) -> None:
    text = f"paddle.abs({CHAINS[chain]})"
    start = time.process_time()
    with pytest.raises(ConfigSyntaxError):
        parse_call(text)
    assert time.process_time() - start < 1.0


@pytest.mark.parametrize(
    "template", ["({})", "[{}]", "list[{}]", "tuple({})", "{{1:{}}}", "f(a={})", "slice({})", "-({})"]
)
@pytest.mark.parametrize("core", ["1 1", "1,,", "a=", "1=1", ":", "*", "", "01", "a b", ")", "'"])
def test_nested_faults_take_no_longer_the_deeper_they_are(template: str, core: str) -> None:
    text = core
    for _ in range(30):
        text = template.format(text)
    start = time.process_time()
    try:
        parse_call(f"paddle.abs({text})")
    except ConfigSyntaxError:
        pass
    else:
        assert core == "", "only nothing at all can be nested"
    assert time.process_time() - start < 1.0


def test_a_line_of_thirty_three_thousand_characters_is_a_call() -> None:
    tensors = ",".join(['Tensor([12, 34],"float32")'] * 1270)
    text = f"paddle.concat(list[{tensors},], axis=0, )"
    assert len(text) > LONG
    assert len(parse_call(text).args[0]) == 1270


def test_a_line_over_the_limit_is_an_error_that_says_so() -> None:
    with pytest.raises(ConfigSyntaxError, match=f"longer than {MAX_LINE} characters"):
        parse_call(f"paddle.abs({'1,' * MAX_LINE})")
