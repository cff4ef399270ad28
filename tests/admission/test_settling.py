from __future__ import annotations

import pytest

from pytest_paddleapi.admission.settling import Settling
from pytest_paddleapi.gpu_admission import GIB, MIB, AdmissionRules, Lease, LeaseState


def lease(number: int = 0, *devices: str) -> Lease:
    return Lease(
        id=f"paddleapi-a/{number}",
        slot=f"s{number}",
        group="g",
        devices=devices or ("d0",),
        bytes=GIB,
        state=LeaseState.RELEASE_PENDING,
        case="c",
        created=0.0,
        updated=0.0,
    )


@pytest.fixture
def settling() -> Settling:
    return Settling(AdmissionRules())


def test_one_sample_settles_nothing(settling: Settling) -> None:
    assert settling.settled(0.0, [lease()], {"d0": GIB}) == ()


@pytest.mark.parametrize(
    ("later", "change", "settles"),
    [
        (0.99, 0, False),
        (1.0, 0, True),
        (1.0, 64 * MIB - 1, True),
        (1.0, 64 * MIB, False),
        (1.0, -64 * MIB, False),
        (50.0, 63 * MIB, True),
    ],
)
def test_two_samples_a_second_apart_that_differ_by_less_than_64_mib(
    settling: Settling, later: float, change: int, settles: bool
) -> None:
    settling.settled(0.0, [lease()], {"d0": GIB})
    assert settling.settled(later, [lease()], {"d0": GIB + change}) == ((lease(),) if settles else ())


def test_a_sample_that_is_too_early_does_not_push_the_first_one_away(settling: Settling) -> None:
    for moment in (0.0, 0.4, 0.8):
        assert settling.settled(moment, [lease()], {"d0": GIB}) == ()
    assert settling.settled(1.2, [lease()], {"d0": GIB}) == (lease(),)


def test_memory_that_still_moves_starts_the_wait_anew(settling: Settling) -> None:
    settling.settled(0.0, [lease()], {"d0": GIB})
    settling.settled(1.0, [lease()], {"d0": 2 * GIB})
    assert settling.settled(1.9, [lease()], {"d0": 2 * GIB}) == ()
    assert settling.settled(2.0, [lease()], {"d0": 2 * GIB}) == (lease(),)


def test_slow_creeping_is_seen_against_the_first_sample(settling: Settling) -> None:
    """40 MiB each half second: every neighbouring pair is close, but a second apart they are not."""
    for step in range(10):
        assert settling.settled(step / 2, [lease()], {"d0": GIB + step * 40 * MIB}) == ()


def test_all_devices_of_the_group_must_rest(settling: Settling) -> None:
    pair = lease(0, "d0", "d1")
    settling.settled(0.0, [pair], {"d0": GIB, "d1": GIB})
    assert settling.settled(1.0, [pair], {"d0": GIB, "d1": 2 * GIB}) == ()
    assert settling.settled(2.0, [pair], {"d0": GIB, "d1": 2 * GIB}) == (pair,)


def test_an_unreadable_device_makes_its_leases_wait_and_no_others(settling: Settling) -> None:
    pending = [lease(0, "d0"), lease(1, "d1")]
    settling.settled(0.0, pending, {"d0": GIB, "d1": GIB})
    assert settling.settled(1.0, pending, {"d1": GIB}) == (pending[1],)
    assert settling.settled(2.0, pending, {"d0": GIB, "d1": GIB}) == tuple(pending)


def test_asking_again_gives_the_same_answer(settling: Settling) -> None:
    """The ledger may fail to write what was settled, and asks again."""
    settling.settled(0.0, [lease()], {"d0": GIB})
    assert settling.settled(1.0, [lease()], {"d0": GIB}) == settling.settled(1.1, [lease()], {"d0": GIB}) != ()


def test_a_lease_that_is_gone_leaves_no_sample_behind(settling: Settling) -> None:
    settling.settled(0.0, [lease()], {"d0": GIB})
    settling.settled(1.0, [], {})
    assert settling.settled(2.0, [lease()], {"d0": GIB}) == ()
