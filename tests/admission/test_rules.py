from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_paddleapi.gpu_admission import GIB, MIB, AdmissionRules, MeasuredBytes


@pytest.mark.parametrize(
    ("estimate", "expected"),
    [
        (0, 1 * GIB),
        (100 * MIB, 1 * GIB),
        (512 * MIB, 1 * GIB),
        (512 * MIB + 1, 1 * GIB + 1),
        (1 * GIB, 1536 * MIB),
        (2 * GIB, 2560 * MIB),  # where both margins meet
        (2 * GIB + 4, 2560 * MIB + 5),
        (8 * GIB, 10 * GIB),
        (3, 1 * GIB),
    ],
)
def test_admission_bytes_are_the_largest_of_minimum_margin_and_factor(estimate: int, expected: int) -> None:
    assert AdmissionRules().admission_bytes(estimate) == expected


@given(st.integers(0, 1 << 45))
def test_admission_bytes_never_fall_short_of_any_of_the_three(estimate: int) -> None:
    size = AdmissionRules().admission_bytes(estimate)
    assert size >= GIB
    assert size >= estimate + 512 * MIB
    assert 4 * size >= 5 * estimate


@pytest.mark.parametrize(
    ("total", "expected"), [(1 * GIB, 2 * GIB), (40 * GIB, 2 * GIB), (80 * GIB, 4 * GIB), (141 * GIB, 7569879860)]
)
def test_the_reserve_is_the_larger_of_two_gib_and_five_percent(total: int, expected: int) -> None:
    assert AdmissionRules().reserve_of(total) == expected


def test_the_smallest_device_of_a_group_says_what_is_usable() -> None:
    assert AdmissionRules().usable([80 * GIB, 24 * GIB]) == 22 * GIB


def test_a_device_smaller_than_its_reserve_has_nothing_usable() -> None:
    assert AdmissionRules().usable([1 * GIB]) == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("reserve_bytes", -1),
        ("reserve_fraction", 1.0),
        ("margin_factor", 0.9),
        ("lone_reserve", 1.5),
        ("first_target", 0),
        ("settle_seconds", float("nan")),
        ("longest_delay", 0.5),
    ],
)
def test_numbers_that_cannot_work_are_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        AdmissionRules(**{name: value})  # type: ignore[arg-type]


def test_a_negative_estimate_is_an_error_not_a_small_lease() -> None:
    with pytest.raises(ValueError, match="-1"):
        AdmissionRules().admission_bytes(-1)


def test_a_measured_estimate_has_its_own_factor() -> None:
    rules = AdmissionRules(margin_factor=2.0, measured_factor=1.0, margin_bytes=0, minimum_bytes=1)
    assert rules.admission_bytes(10 * GIB) == 20 * GIB
    assert rules.admission_bytes(MeasuredBytes(10 * GIB)) == 10 * GIB
    assert AdmissionRules().admission_bytes(MeasuredBytes(10 * GIB)) == AdmissionRules().admission_bytes(10 * GIB)
