"""``--paddleapi-set``."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from pytest_paddleapi.admission.rules import DEVICE_RULES, AdmissionRules
from pytest_paddleapi.numbers import Numbers, read_numbers
from pytest_paddleapi.options.sizes import read_size
from pytest_paddleapi.process.slot import StartRules

DOCS = Path(__file__).parent.parent / "docs" / "numbers.md"


def numbers(*given: str) -> Numbers:
    return read_numbers(given, read_size)


def test_without_any_the_defaults_hold() -> None:
    assert numbers() == Numbers(AdmissionRules(), DEVICE_RULES, StartRules())
    assert numbers().admission("cpu") == AdmissionRules()
    assert numbers().admission("nvidia") == DEVICE_RULES


def test_where_processes_keep_a_cache_it_counts_towards_the_next_lease() -> None:
    assert not numbers().admission("nvidia").inherit_held
    kept = numbers().admission("nvidia", keeps_cache=True)
    assert kept == dataclasses.replace(DEVICE_RULES, inherit_held=True)
    assert numbers().admission("cpu", keeps_cache=True) == AdmissionRules()


def test_sizes_times_counts_and_lists() -> None:
    found = numbers(
        "reserve_bytes=128MiB",
        "minimum_bytes=1048576",
        "first_delay=0.5",
        "first_target=3",
        "waits=1,2",
        "retire_after=0",
    )
    assert found.devices == dataclasses.replace(
        DEVICE_RULES, reserve_bytes=128 << 20, minimum_bytes=1 << 20, first_delay=0.5, first_target=3
    )
    assert found.host == AdmissionRules(reserve_bytes=128 << 20, minimum_bytes=1 << 20, first_delay=0.5, first_target=3)
    assert found.starts == StartRules(waits=(1.0, 2.0), retire_after=0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("reserve_byte=1GiB", "did you mean reserve_bytes"),
        ("xyz=1", "there are: count_ended, deferrals_to_restart"),
        ("first_target", "write NAME=VALUE"),
        ("first_target=many", "first_target is like 1, which 'many' is not"),
        ("first_target=0", "must be positive"),
        ("margin_factor=0.5", "no lease"),
        ("reserve_bytes=much", "is not a size"),
        ("pressure_seconds=5", "give --paddleapi-pressure-timeout instead"),
    ],
)
def test_what_cannot_be_is_a_usage_error_that_names_it(text: str, message: str) -> None:
    with pytest.raises(pytest.UsageError, match=message) as caught:
        numbers(text)
    assert "--paddleapi-set" in str(caught.value)


def test_one_number_is_set_once() -> None:
    with pytest.raises(pytest.UsageError, match="given twice"):
        numbers("first_delay=1", "first_delay=2")


def test_the_documentation_has_every_number() -> None:
    text = DOCS.read_text()
    for rules in (AdmissionRules, StartRules):
        for field in dataclasses.fields(rules):
            assert f"| `{field.name}` |" in text or field.name == "pressure_seconds", field.name
