"""Whether ended cases give their memory back at once, as it was seen."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_paddleapi.admission.promptness import Promptness
from pytest_paddleapi.devices.model import Holder
from pytest_paddleapi.gpu_admission import DEVICE_RULES, GIB, MIB, AdmissionRules, Lease, LeaseState

CONTEXT = 500 * MIB
HOLDER = Holder(7, 700, 1)


def lease(slot: str = "s0", *, baseline: int = CONTEXT, **changes: Any) -> Lease:
    fields: dict[str, Any] = {
        "id": "paddleapi-a/0",
        "slot": slot,
        "group": "g0",
        "devices": ("GPU-0",),
        "bytes": 20 * GIB,
        "state": LeaseState.ACTIVE,
        "case": "c",
        "created": 0.0,
        "updated": 0.0,
        "holder": HOLDER,
    }
    fields.update(changes)
    return Lease(**fields, baseline=(baseline,) * len(fields["devices"]))


@pytest.fixture
def promptness() -> Promptness:
    return Promptness(DEVICE_RULES)


def run(
    promptness: Promptness,
    *,
    size: int = 2 * GIB,
    left: int = 0,
    after: float = 0.05,
    baseline: int = CONTEXT,
    inherited: bool = False,
) -> None:
    """A case of ``size`` bytes ends at 0, and is seen to have ``left`` of them ``after`` seconds."""
    its = lease(baseline=baseline)
    promptness.begins(its, inherited=inherited)
    promptness.seen(its, "GPU-0", baseline + size, -1.0)
    promptness.ended("s0", 0.0)
    promptness.seen(its, "GPU-0", baseline + left, after)


def test_three_cases_in_a_row_make_it_prompt(promptness: Promptness) -> None:
    for _ in range(3):
        assert not promptness.prompt
        run(promptness, left=63 * MIB)
    assert promptness.prompt


def test_where_the_rules_want_none_it_never_is() -> None:
    promptness = Promptness(AdmissionRules())
    for _ in range(5):
        run(promptness)
    assert not promptness.prompt


def test_one_that_is_still_out_begins_the_row_anew(promptness: Promptness) -> None:
    for _ in range(3):
        run(promptness)
    run(promptness, left=65 * MIB, after=0.11)
    assert not promptness.prompt
    for _ in range(2):
        run(promptness)
    assert not promptness.prompt


@pytest.mark.parametrize(
    "case",
    [
        {"size": GIB},  # no more than a driver may keep
        {"after": 0.11},  # nobody looked in time
        {"left": GIB, "after": 0.05},  # nor again
        {"inherited": True},  # what was seen may have been the last case's
    ],
)
def test_what_shows_nothing_counts_neither_for_it_nor_against(promptness: Promptness, case: dict[str, Any]) -> None:
    run(promptness, **case)
    for _ in range(2):
        run(promptness)
    assert not promptness.prompt
    run(promptness, **case)
    run(promptness)
    assert promptness.prompt


def test_memory_of_an_earlier_case_in_the_baseline_is_not_taken_for_the_cases_own(promptness: Promptness) -> None:
    """The case has kept all that it had: what came back is what was left of the one before."""
    promptness.begins(lease("s1"))
    for _ in range(3):
        run(promptness, size=3 * GIB, baseline=CONTEXT + 3 * GIB)
    assert not promptness.prompt
    for _ in range(3):
        run(promptness, size=3 * GIB, baseline=CONTEXT + GIB)  # that much cannot have been three
    assert promptness.prompt


def test_what_is_seen_first_after_the_end_counts_too(promptness: Promptness) -> None:
    for _ in range(3):
        promptness.begins(lease())
        promptness.ended("s0", 0.0)
        promptness.seen(lease(), "GPU-0", CONTEXT + 2 * GIB, 0.01)
        promptness.seen(lease(), "GPU-0", CONTEXT, 0.02)
        promptness.seen(lease(), "GPU-0", CONTEXT, 0.03)  # once
    assert promptness.prompt


def test_memory_that_was_given_back_before_the_end_shows_nothing(promptness: Promptness) -> None:
    for _ in range(3):
        promptness.begins(lease())
        promptness.seen(lease(), "GPU-0", CONTEXT + 2 * GIB, -1.0)
        promptness.seen(lease(), "GPU-0", CONTEXT, -0.5)
        promptness.ended("s0", 0.0)
        promptness.seen(lease(), "GPU-0", CONTEXT, 0.05)
    assert not promptness.prompt


def test_a_pair_is_back_when_both_devices_are(promptness: Promptness) -> None:
    pair = lease(devices=("GPU-0", "GPU-1"), baseline=CONTEXT)
    for number in range(3):
        promptness.begins(pair)
        for device in pair.devices:
            promptness.seen(pair, device, CONTEXT + 2 * GIB, -1.0)
        promptness.ended("s0", 0.0)
        promptness.seen(pair, "GPU-0", CONTEXT, 0.01)
        if number < 2:
            promptness.seen(pair, "GPU-1", CONTEXT, 0.02)
    assert not promptness.prompt
    promptness.seen(pair, "GPU-1", CONTEXT, 0.05)
    assert promptness.prompt


def test_running_out_under_a_lease_that_has_inherited_begins_the_row_anew(promptness: Promptness) -> None:
    for _ in range(3):
        run(promptness)
    promptness.begins(lease())
    promptness.ran_out("s0")
    assert promptness.prompt
    promptness.begins(lease(), inherited=True)
    promptness.ran_out("s0")
    assert not promptness.prompt


def test_a_dead_process_shows_nothing(promptness: Promptness) -> None:
    for _ in range(3):
        run(promptness)
    promptness.begins(lease())
    promptness.ended("s0", 0.0)
    promptness.seen(lease(), "GPU-0", CONTEXT + 2 * GIB, 0.01)
    promptness.forget("s0")
    promptness.seen(lease(), "GPU-0", CONTEXT + 2 * GIB, 1.0)
    assert promptness.prompt


def test_another_process_than_the_leases_shows_nothing(promptness: Promptness) -> None:
    for _ in range(3):
        promptness.begins(lease())
        promptness.ended("s0", 0.0)
        other = lease(holder=Holder(8, 800, 1))
        promptness.seen(other, "GPU-0", CONTEXT + 2 * GIB, 0.01)
        promptness.seen(other, "GPU-0", CONTEXT, 0.02)
    assert not promptness.prompt
