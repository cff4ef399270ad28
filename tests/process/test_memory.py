"""The lease of host memory, and the peak that a case reaches."""

from __future__ import annotations

import pytest

from pytest_paddleapi.process.messages import CaseOptions, Verdict
from pytest_paddleapi.process.server import lease_slack
from pytest_paddleapi.process.supervisor import Supervisor

from .support import LIGHT, MakeSlot

MIB = 1 << 20
#: More than a lease of 64 MiB and its slack together.
BEYOND = 600


@pytest.mark.parametrize("side", ["paddle", "torch", "numpy", "python"])
def test_an_allocation_beyond_the_lease_is_deferred(slot: Supervisor, side: str) -> None:
    attempt = slot.run(f"paddle allocate {side} {BEYOND}", lease_bytes=64 * MIB, whole_device=False)
    assert attempt.result.verdict is Verdict.DEFERRED, attempt.result.text
    assert attempt.result.needed_bytes is not None
    assert attempt.result.needed_bytes >= 128 * MIB
    assert "lease of 64 MiB" in attempt.result.text


@pytest.mark.parametrize("side", ["paddle", "torch", "numpy", "python"])
def test_an_allocation_beyond_all_that_the_device_can_give_is_oom(slot: Supervisor, side: str) -> None:
    attempt = slot.run(f"paddle allocate {side} {BEYOND}", lease_bytes=64 * MIB, whole_device=True)
    assert attempt.result.verdict is Verdict.OOM, attempt.result.text
    assert attempt.result.needed_bytes is None


@pytest.mark.parametrize("side", ["paddle", "torch", "numpy", "python"])
def test_an_allocation_within_the_lease_passes(slot: Supervisor, side: str) -> None:
    attempt = slot.run(f"paddle allocate {side} {BEYOND}", lease_bytes=BEYOND * MIB, whole_device=False)
    assert attempt.result.verdict is Verdict.PASS, attempt.result.text


def test_without_a_lease_there_is_no_limit(slot: Supervisor) -> None:
    assert slot.run(f"paddle allocate torch {BEYOND}", whole_device=False).result.verdict is Verdict.PASS


def test_the_limit_ends_with_its_case_and_the_process_lives_on(slot: Supervisor) -> None:
    before = slot.run("paddle limits")
    denied = slot.run(f"paddle allocate paddle {BEYOND}", lease_bytes=64 * MIB, whole_device=False)
    after = slot.run("paddle limits")
    assert before.stdout == after.stdout
    assert before.pid == denied.pid == after.pid


def test_the_limit_counts_from_what_the_process_holds_already(light_slot: Supervisor) -> None:
    limits = [
        int(light_slot.run("paddle limits", lease_bytes=size * MIB).stdout.split()[1]) for size in (0, 64, 64, 128)
    ]
    assert limits[0] == -1
    assert abs(limits[2] - limits[1]) < 4 * MIB
    assert abs(limits[3] - limits[2] - 64 * MIB) < 4 * MIB


def test_a_process_that_ends_itself_for_want_of_memory_is_deferred(slot: Supervisor) -> None:
    """A C++ exception inside a kernel ends the process; without a lease the same call passes."""
    attempt = slot.run("paddle big_roi", lease_bytes=64 * MIB, whole_device=False)
    assert attempt.result.verdict is Verdict.DEFERRED, attempt.result.text
    assert "SIGABRT" in attempt.result.text
    assert attempt.result.needed_bytes == 128 * MIB
    assert "bad_alloc" in attempt.stderr


def test_the_slack_holds_threads_and_libraries_that_come_with_the_first_use(make_slot: MakeSlot) -> None:
    """Everything that a fresh process loads and starts fits beside a lease of a megabyte."""
    slot = make_slot(CaseOptions(threads=2))
    attempt = slot.run("paddle work", lease_bytes=MIB, whole_device=False)
    slot.close()
    assert attempt.result.verdict is Verdict.PASS, attempt.result.text


def test_the_slack_grows_with_the_threads() -> None:
    assert lease_slack(0) == lease_slack(1) < lease_slack(2) < lease_slack(64)


def test_a_text_that_means_memory_only_under_a_limit(light_slot: Supervisor) -> None:
    config = "reference verdict torch_error could not execute a primitive"
    assert light_slot.run(config, 64 * MIB, whole_device=False).result.verdict is Verdict.DEFERRED
    assert light_slot.run(config, 64 * MIB, whole_device=True).result.verdict is Verdict.TORCH_ERROR


def test_a_device_that_is_not_the_host_limits_no_host_memory(make_slot: MakeSlot) -> None:
    slot = make_slot(CaseOptions(device="gpu:0"), runner=LIGHT, modules=())
    assert slot.run("paddle limits", lease_bytes=64 * MIB).stdout.split()[1] == "-1"
    slot.close()


def test_the_peak_is_the_growth_of_resident_memory(slot: Supervisor) -> None:
    slot.run("paddle allocate numpy 1")
    small = slot.run("paddle allocate numpy 1").result.measured.peak_bytes
    large = slot.run("paddle allocate numpy 300").result.measured.peak_bytes
    again = slot.run("paddle allocate numpy 1").result.measured.peak_bytes
    if large is None:
        pytest.skip("the kernel does not let a process reset its peak")
    assert small is not None
    assert again is not None
    # The kernel counts resident pages per CPU and adds them up now and then.
    assert 298 * MIB <= large < 340 * MIB
    assert small < 40 * MIB
    assert again < 40 * MIB
