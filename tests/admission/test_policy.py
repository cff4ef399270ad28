from __future__ import annotations

import pytest

from pytest_paddleapi.gpu_admission import GIB, AdmissionRules, Policy, Setback


@pytest.fixture
def policy() -> Policy:
    return Policy({"g": 3})


def play(policy: Policy, outcomes: str) -> list[int]:
    """The target after each outcome: ``s`` success, ``d`` deferred, ``t`` timeout, ``c`` crash."""
    setbacks = {"d": Setback.DEFERRED, "t": Setback.TIMEOUT, "c": Setback.CRASH}
    targets = []
    for outcome in outcomes:
        if outcome == "s":
            policy.case_succeeded("case", "g", "slot")
        else:
            policy.case_failed("case", "g", "slot", setbacks[outcome], 0.0)
        targets.append(policy.target("g"))
    return targets


@pytest.mark.parametrize(
    ("outcomes", "targets"),
    [
        ("ssss", [1, 2, 2, 3]),
        ("ssssssss", [1, 2, 2, 3, 3, 3, 3, 3]),  # never above the workers
        ("sdss", [1, 1, 1, 2]),  # in a row means in a row
        ("ssd", [1, 2, 1]),
        ("sst", [1, 2, 1]),
        ("ssc", [1, 2, 1]),
        ("ddd", [1, 1, 1]),  # never below one
        ("ssssd", [1, 2, 2, 3, 2]),
        ("ssssds", [1, 2, 2, 3, 2, 2]),
        ("ssssdss", [1, 2, 2, 3, 2, 2, 3]),
    ],
)
def test_the_target_climbs_after_two_successes_and_falls_after_each_setback(outcomes: str, targets: list[int]) -> None:
    assert play(Policy({"g": 3}), outcomes) == targets


def test_groups_have_targets_of_their_own() -> None:
    policy = Policy({"a": 2, "b": 2})
    policy.case_succeeded("1", "a", "s")
    policy.case_succeeded("2", "a", "s")
    assert (policy.target("a"), policy.target("b")) == (2, 1)


def test_a_first_target_above_the_workers_is_cut() -> None:
    assert Policy({"g": 2}, AdmissionRules(first_target=8)).target("g") == 2


def test_a_group_may_start_as_many_as_its_target(policy: Policy) -> None:
    assert policy.may_start("g", 0)
    assert not policy.may_start("g", 1)


def test_a_group_without_workers_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        Policy({"empty": 0})


def test_deferral_doubles_up_to_thirty_seconds(policy: Policy) -> None:
    delays = [policy.case_failed("c", "g", "s", Setback.DEFERRED, 100.0) - 100.0 for _ in range(7)]
    assert delays == [1, 2, 4, 8, 16, 30, 30]


def test_deferral_is_per_case(policy: Policy) -> None:
    policy.case_failed("a", "g", "s", Setback.DEFERRED, 0.0)
    policy.case_failed("a", "g", "s", Setback.DEFERRED, 0.0)
    assert policy.case_failed("b", "g", "s", Setback.DEFERRED, 0.0) == 1.0
    assert policy.ready_at("a") == 2.0


def test_a_case_that_ran_starts_with_the_first_delay_again(policy: Policy) -> None:
    policy.case_failed("a", "g", "s", Setback.DEFERRED, 0.0)
    policy.case_succeeded("a", "g", "s")
    assert policy.ready_at("a") is None
    assert policy.case_failed("a", "g", "s", Setback.DEFERRED, 5.0) == 6.0


def test_timeouts_and_crashes_do_not_delay(policy: Policy) -> None:
    assert policy.case_failed("a", "g", "s", Setback.CRASH, 7.0) == 7.0
    assert policy.ready_at("a") is None


def test_a_forgotten_case_is_not_deferred(policy: Policy) -> None:
    policy.case_failed("a", "g", "s", Setback.DEFERRED, 0.0)
    policy.forget("a")
    assert policy.ready_at("a") is None


def test_a_slot_deferred_twice_in_a_row_wants_a_restart(policy: Policy) -> None:
    policy.case_failed("a", "g", "s", Setback.DEFERRED, 0.0)
    assert not policy.wants_restart("s")
    policy.case_failed("b", "g", "s", Setback.DEFERRED, 0.0)
    assert policy.wants_restart("s")
    policy.slot_restarted("s")
    assert not policy.wants_restart("s")


def test_a_success_between_two_deferrals_keeps_the_slot(policy: Policy) -> None:
    policy.case_failed("a", "g", "s", Setback.DEFERRED, 0.0)
    policy.case_succeeded("b", "g", "s")
    policy.case_failed("a", "g", "s", Setback.DEFERRED, 0.0)
    assert not policy.wants_restart("s")


def test_oversize_means_too_big_for_every_group(policy: Policy) -> None:
    usable = [22 * GIB, 76 * GIB]
    assert not policy.is_oversize(76 * GIB, usable)
    assert policy.is_oversize(76 * GIB + 1, usable)


class TestPressure:
    def test_ten_minutes_with_work_and_nothing_moving(self, policy: Policy) -> None:
        assert not policy.under_pressure(1000.0, waiting=1, busy=0)
        assert not policy.under_pressure(1599.9, waiting=1, busy=0)
        assert policy.under_pressure(1600.0, waiting=1, busy=0)

    @pytest.mark.parametrize(("waiting", "busy"), [(1, 1), (0, 0)])
    def test_starts_anew_when_something_runs_or_nothing_waits(self, policy: Policy, waiting: int, busy: int) -> None:
        policy.under_pressure(0.0, waiting=1, busy=0)
        assert not policy.under_pressure(599.0, waiting=waiting, busy=busy)
        assert not policy.under_pressure(600.0, waiting=1, busy=0)
        assert not policy.under_pressure(1199.0, waiting=1, busy=0)
        assert policy.under_pressure(1200.0, waiting=1, busy=0)

    def test_an_idle_session_is_under_no_pressure(self, policy: Policy) -> None:
        assert not any(policy.under_pressure(t, waiting=0, busy=0) for t in (0.0, 700.0, 1400.0))
