from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_paddleapi.admission.accounting import holders_on, lowered, promised, room_at_least, sightings
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


def test_a_baseline_falls_to_what_the_holder_has() -> None:
    active = lease(holder=HOLDER, baseline=(25,))
    assert lowered(active, "GPU-0", reading(25)) is active
    assert lowered(active, "GPU-0", reading(30)) is active
    assert lowered(active, "GPU-0", reading(None)) is active
    fallen = lowered(active, "GPU-0", reading(5))
    assert fallen.baseline == (5,)
    # What the case takes from then on is in use, and not promised beside it.
    assert unrealised(active, "GPU-0", reading(20)) == 40
    assert unrealised(fallen, "GPU-0", reading(20)) == 25


def test_only_an_active_leases_baseline_falls_and_on_the_device_that_was_read() -> None:
    ended = lease(holder=HOLDER, baseline=(25,), state=LeaseState.RELEASE_PENDING)
    assert lowered(ended, "GPU-0", reading(5)) is ended
    unmeasured = lease(holder=HOLDER, baseline=(None,))
    assert lowered(unmeasured, "GPU-0", reading(5)) is unmeasured
    pair = lease(holder=HOLDER, devices=("GPU-0", "GPU-1"), baseline=(25, 30))
    assert lowered(pair, "GPU-1", reading(5)).baseline == (25, 5)


@given(st.integers(0, 30), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 40)), min_size=1, max_size=8))
def test_a_falling_baseline_never_promises_too_little(left: int, moments: list[tuple[int, int]]) -> None:
    """``left`` of the last case drains while the new one takes and gives back."""
    now = lease(holder=HOLDER, baseline=(5 + left,))
    for drained, taken in moments:
        left = max(0, left - drained)
        at = reading(5 + left + taken)
        assert unrealised(now, "GPU-0", at) >= 40 - taken
        now = lowered(now, "GPU-0", at)
        assert unrealised(now, "GPU-0", at) >= 40 - taken


def test_those_that_were_measured_on_the_device_are_sighted() -> None:
    here, unknown = lease(holder=HOLDER, baseline=(5,)), lease(holder=Holder(8, 800, 1))
    elsewhere = lease(holder=HOLDER, devices=("GPU-1",))
    assert list(sightings([here, unknown, lease(), elsewhere], "GPU-0", reading(7))) == [(here, 7)]
