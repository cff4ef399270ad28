from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_paddleapi.admission.accounting import holders_on, promised, room_at_least
from pytest_paddleapi.devices.model import Holder, MemoryReading
from pytest_paddleapi.gpu_admission import Lease, LeaseState, room, unrealised

from .simulated import SMALL

HOLDER = Holder(7, 700, 1)


def lease(**changes: Any) -> Lease:
    fields: dict[str, Any] = {
        "id": "paddleapi-a/0",
        "slot": "s0",
        "group": "g0",
        "devices": ("GPU-0",),
        "bytes": 40,
        "state": LeaseState.ACTIVE,
        "case": "c",
        "created": 0.0,
        "updated": 0.0,
    }
    return Lease(**{**fields, **changes})


def reading(held: int | None, free: int = 60) -> MemoryReading:
    return MemoryReading(100, free, {} if held is None else {HOLDER: held})


@pytest.mark.parametrize(
    ("held", "baseline", "expected"),
    [
        (5, 5, 40),  # nothing taken yet
        (15, 5, 30),
        (45, 5, 0),
        (99, 5, 0),  # more than promised is not less than nothing
        (2, 5, 40),  # shrunk below its baseline: all of the lease can still be claimed
        (None, 5, 40),  # unknown counts in full
        (15, None, 40),
    ],
)
def test_the_unrealised_part_is_what_the_holder_does_not_hold_beyond_its_baseline(
    held: int | None, baseline: int | None, expected: int
) -> None:
    assert unrealised(lease(holder=HOLDER, baseline=(baseline,)), "GPU-0", reading(held)) == expected


def test_a_lease_without_a_holder_counts_in_full() -> None:
    assert unrealised(lease(), "GPU-0", reading(30)) == 40


def test_a_report_counts_only_where_the_device_cannot_tell() -> None:
    reported = lease(holder=HOLDER, baseline=(0,), reported=25)
    assert unrealised(reported, "GPU-0", reading(None)) == 15
    assert unrealised(reported, "GPU-0", reading(10)) == 30


def test_a_pair_has_a_baseline_for_each_device() -> None:
    pair = lease(holder=HOLDER, devices=("GPU-0", "GPU-1"), baseline=(0, 20))
    assert unrealised(pair, "GPU-0", reading(30)) == 10
    assert unrealised(pair, "GPU-1", reading(30)) == 30


def test_room_is_free_less_reserve_less_the_unrealised_of_leases_on_this_device() -> None:
    leases = [
        lease(holder=HOLDER, baseline=(0,)),
        lease(bytes=7),
        lease(bytes=1000, devices=("GPU-1",)),
    ]
    assert room("GPU-0", reading(25), leases, SMALL) == 60 - 10 - 15 - 7


def test_holders_are_those_on_the_device_each_once() -> None:
    other = Holder(8, 800, 1)
    leases = [
        lease(holder=HOLDER),
        lease(holder=HOLDER),
        lease(),
        lease(holder=other, devices=("GPU-1",)),
    ]
    assert holders_on("GPU-0", leases) == (HOLDER,)


@given(
    st.lists(st.tuples(st.integers(1, 50), st.one_of(st.none(), st.integers(0, 50)), st.integers(0, 20)), max_size=6),
    st.integers(0, 100),
)
def test_the_quick_bound_never_promises_more_than_the_exact_room(
    parts: list[tuple[int, int | None, int]], free: int
) -> None:
    leases, held = [], {}
    for pid, (size, taken, baseline) in enumerate(parts):
        holder = Holder(pid, 1, 1)
        leases.append(lease(bytes=size, holder=holder, baseline=(baseline,)))
        if taken is not None:
            held[holder] = taken
    now = MemoryReading(100, free, held)
    assert room_at_least("GPU-0", now, leases, SMALL) <= room("GPU-0", now, leases, SMALL)
    assert promised("GPU-0", leases) == sum(size for size, _, _ in parts)


def test_an_ended_lease_counts_in_full_or_only_by_what_is_still_in_use() -> None:
    ended = lease(holder=HOLDER, baseline=(5,), state=LeaseState.RELEASE_PENDING)
    active = lease(id="paddleapi-a/1", slot="s1", bytes=7)
    at = reading(15, free=90)
    assert room("GPU-0", at, [ended, active], SMALL) - room("GPU-0", at, [active], SMALL) == -30
    rules = replace(SMALL, count_ended=False)
    assert room("GPU-0", at, [ended, active], rules) == room("GPU-0", at, [active], SMALL)


def test_one_lease_alone_may_use_the_part_of_the_reserve_that_is_left_to_it() -> None:
    rules = replace(SMALL, reserve_bytes=10, reserve_fraction=0.0, lone_reserve=0.25)
    one, two = lease(), lease(id="paddleapi-a/1", slot="s1", bytes=7)
    assert room("GPU-0", reading(None), [one], rules) == 60 - 3 - 40
    assert room("GPU-0", reading(None), [one, two], rules) == 60 - 10 - 47
    elsewhere = lease(id="paddleapi-a/2", slot="s2", devices=("GPU-1",))
    assert room("GPU-0", reading(None), [one, elsewhere], rules) == 60 - 3 - 40
