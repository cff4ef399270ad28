"""Cases in processes under a sanitizer's stand-in: whose a finding is, and what becomes of the session."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable

import psutil
import pytest

from pytest_paddleapi.process.errors import StartError
from pytest_paddleapi.process.messages import Verdict
from pytest_paddleapi.process.slot import SlotState, StartRules
from pytest_paddleapi.process.supervisor import Supervisor


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wrapper_of(slot: Supervisor) -> psutil.Process:
    """The sanitizer that the case process runs under."""
    assert slot.pid is not None
    return psutil.Process(os.getsid(slot.pid))


def test_a_case_without_findings_passes_in_one_session_for_many(slot: Supervisor) -> None:
    first = slot.run("paddle pass")
    assert first.result.verdict is Verdict.PASS, first.result.text
    assert "compute_sanitizer.py" in " ".join(wrapper_of(slot).cmdline())
    assert first.stdout == first.stderr == ""
    second = slot.run("paddle say out hello")
    assert (second.result.verdict, second.stdout, second.pid) == (Verdict.PASS, "hello\n", first.pid)
    slot.end_gently()
    # The harmless report at the start is all that was counted.
    assert slot.sanitizer_notes == []
    assert slot.state is SlotState.LOADED


@pytest.mark.parametrize("name", ["write", "api", "race", "slow:write"])
def test_a_finding_in_the_second_case_of_three_is_its_own(slot: Supervisor, name: str) -> None:
    pids = set()
    for config, expected in (
        ("paddle pass", Verdict.PASS),
        (f"paddle kernel {name}", Verdict.PADDLE_CUDA),
        ("paddle pass", Verdict.PASS),
    ):
        attempt = slot.run(config)
        assert attempt.result.verdict is expected, attempt.result.text
        pids.add(attempt.pid)
        if expected is Verdict.PADDLE_CUDA:
            title = attempt.result.text.splitlines()[0]
            assert title.startswith("the sanitizer found 1 error in Paddle (stage: paddle): ")
            assert "=========         Host Frame: phi::StandInKernel in libpaddle.so" in attempt.result.text
            assert "without the sanitizer's findings it was pass" in attempt.result.text
    assert len(pids) == 1
    slot.end_gently()
    assert slot.sanitizer_notes == []


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        ("inputs", Verdict.CONFIG_INPUT),
        ("reference", Verdict.TORCH_ERROR),
        ("paddle", Verdict.PADDLE_CUDA),
        ("comparison", Verdict.PADDLE_CUDA),
    ],
)
def test_a_finding_is_charged_to_the_stage_that_caused_it(shared: Supervisor, stage: str, expected: Verdict) -> None:
    # The runner enters every stage up to the one where it acts; the last one ends with the case.
    attempt = shared.run(f"{stage} kernel write")
    assert attempt.result.verdict is expected, attempt.result.text
    assert f"(stage: {stage})" in attempt.result.text.splitlines()[0]
    assert shared.run("paddle pass").result.verdict is Verdict.PASS


@pytest.fixture(scope="module")
def shared(make_slot: Callable[..., Supervisor]) -> Supervisor:
    """One slot for tests that leave it usable."""
    return make_slot()


def test_a_harmless_report_is_left_out_unless_a_finding_stands_beside_it(shared: Supervisor) -> None:
    harmless = shared.run("paddle kernel probe")
    assert harmless.result.verdict is Verdict.PASS, harmless.result.text
    assert "cuGetProcAddress" not in harmless.result.text
    both = shared.run("paddle kernel probe write")
    assert both.result.verdict is Verdict.PADDLE_CUDA
    assert "cuGetProcAddress_v2" in both.result.text and "Invalid __global__ write" in both.result.text


def test_a_finding_does_not_hide_what_the_case_ended_as(shared: Supervisor) -> None:
    attempt = shared.run("paddle now write")
    assert attempt.result.verdict is Verdict.PADDLE_CUDA
    for verdict in ("oom", "deferred"):
        shared.run("paddle pass")
        kept = shared.run(f"paddle verdict {verdict} no memory")
        assert kept.result.verdict is Verdict(verdict)


def test_a_fatal_error_with_a_harmless_report_beside_it_shows_both(slot: Supervisor) -> None:
    attempt = slot.run("paddle fatal")
    assert attempt.result.verdict is Verdict.PADDLE_CUDA
    assert attempt.result.text.startswith("CUDA error(700)")
    following = slot.run("paddle pass")
    assert following.result.verdict is Verdict.PASS
    assert following.pid != attempt.pid
    assert slot.sanitizer_notes == []


@pytest.mark.parametrize(("action", "name"), [("segfault", "SIGSEGV"), ("kill 6", "SIGABRT"), ("kill 8", "SIGFPE")])
def test_a_crash_is_told_by_its_own_signal_and_the_session_is_rebuilt(
    make_slot: Callable[..., Supervisor], action: str, name: str
) -> None:
    slot = make_slot()
    attempt = slot.run(f"paddle {action}")
    assert attempt.result.verdict is Verdict.PADDLE_CRASH, attempt.result.text
    assert name in attempt.result.text.splitlines()[0]
    assert "didn't terminate successfully" not in attempt.result.text
    assert slot.run("paddle pass").result.verdict is Verdict.PASS
    slot.close()
    assert slot.sanitizer_notes == []


def test_the_process_s_own_exit_code_is_told(slot: Supervisor) -> None:
    attempt = slot.run("paddle exit 7")
    assert attempt.result.verdict is Verdict.PADDLE_CRASH
    assert "exited with code 7" in attempt.result.text


def test_a_crash_with_a_finding_is_the_finding_s(slot: Supervisor) -> None:
    attempt = slot.run("paddle now_and_die write")
    assert attempt.result.verdict is Verdict.PADDLE_CUDA, attempt.result.text
    assert "Invalid __global__ write" in attempt.result.text
    assert "SIGABRT" in attempt.result.text


def test_a_case_over_its_time_limit_takes_the_sanitizer_with_it(slot: Supervisor) -> None:
    slot.ensure_ready()
    wrapper = wrapper_of(slot)
    attempt = slot.run("paddle sleep 60", timeout=0.5)
    assert attempt.result.verdict is Verdict.TIMEOUT
    assert "its process group was killed" in attempt.result.text
    # The stacks are those of the process that hangs, not of the sanitizer.
    assert "light_runner.py" in attempt.stacks
    assert attempt.pid is not None
    assert not alive(attempt.pid) and not alive(wrapper.pid)
    following = slot.run("paddle pass")
    assert following.result.verdict is Verdict.PASS
    assert following.pid != attempt.pid


@pytest.mark.parametrize("who", ["sanitizer", "case process"])
def test_a_kill_from_outside_is_no_fault_of_the_case(slot: Supervisor, who: str) -> None:
    slot.ensure_ready()
    assert slot.pid is not None
    pid, wrapper = slot.pid, wrapper_of(slot).pid
    target = wrapper if who == "sanitizer" else pid
    timer = threading.Timer(0.5, os.kill, (target, signal.SIGKILL))
    timer.start()
    attempt = slot.run("paddle sleep 60", timeout=30)
    timer.join()
    assert attempt.result.verdict is Verdict.EXTERNAL_KILL, attempt.result.text
    assert not alive(pid) and not alive(wrapper)
    assert slot.run("paddle pass").result.verdict is Verdict.PASS


def test_a_sanitizer_that_is_killed_between_cases_is_replaced(slot: Supervisor) -> None:
    first = slot.run("paddle pass")
    wrapper_of(slot).kill()
    second = slot.run("paddle pass")
    assert second.result.verdict is Verdict.PASS
    assert second.pid != first.pid


def test_what_comes_at_the_end_belongs_to_the_session(slot: Supervisor) -> None:
    slot.run("paddle now leak")
    assert slot.run("paddle kernel silent").result.verdict is Verdict.PASS
    slot.end_gently()
    (note,) = slot.sanitizer_notes
    assert note.startswith("a process that ran 2 cases, the last paddle kernel silent: the sanitizer found 1 error")
    assert "Leaked 4,194,304 bytes" in note


def test_errors_that_were_counted_and_not_printed_are_told(slot: Supervisor) -> None:
    assert slot.run("paddle kernel silent").result.verdict is Verdict.PASS
    slot.end_gently()
    (note,) = slot.sanitizer_notes
    assert "the sanitizer counted 2 errors, and printed 1" in note


@pytest.mark.parametrize("action", ["leak", "silent"])
def test_what_comes_at_the_end_is_the_case_s_where_only_one_ran(slot: Supervisor, action: str) -> None:
    attempt = slot.run(f"paddle kernel {action}", alone=True)
    assert attempt.result.verdict is Verdict.PADDLE_CUDA, attempt.result.text
    assert slot.state is SlotState.LOADED
    assert slot.sanitizer_notes == []


def test_the_only_case_passes_where_the_end_says_nothing(slot: Supervisor) -> None:
    attempt = slot.run("paddle pass", alone=True)
    assert attempt.result.verdict is Verdict.PASS, attempt.result.text


def test_a_session_is_rebuilt_before_the_sanitizer_stops_printing(slot: Supervisor) -> None:
    first = slot.run("paddle now " + " ".join(["api"] * 60))
    assert first.result.verdict is Verdict.PADDLE_CUDA
    assert "the sanitizer found 60 errors in Paddle" in first.result.text
    second = slot.run("paddle kernel write")
    assert second.result.verdict is Verdict.PADDLE_CUDA
    assert second.pid != first.pid


def test_nothing_of_it_is_left(make_slot: Callable[..., Supervisor]) -> None:
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    slot = make_slot()
    slot.run("paddle pass")
    slot.restart()
    slot.run("paddle pass")
    keeper = wrapper_of(slot).parent()
    assert keeper is not None
    pids = [keeper.pid, *(process.pid for process in keeper.children(recursive=True))]
    assert len(pids) >= 4  # sanitizer, what stands between, the case process; and a spare, if it has come up yet
    slot.close()
    assert [pid for pid in pids if alive(pid)] == []
    deadline = time.monotonic() + 10
    while threading.active_count() > threads and time.monotonic() < deadline:
        time.sleep(0.02)
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_the_whole_tree_dies_with_the_keeper(slot: Supervisor) -> None:
    slot.ensure_ready()
    assert slot.pid is not None
    wrapper = wrapper_of(slot)
    keeper = wrapper.parent()
    assert keeper is not None
    pids = [slot.pid, wrapper.pid]
    keeper.kill()
    deadline = time.monotonic() + 10
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(alive, pids))


def test_a_sanitizer_that_cannot_run_the_program_is_a_failed_start_with_its_words(
    make_slot: Callable[..., Supervisor],
) -> None:
    slot = make_slot("--no-such-option", rules=StartRules(retire_after=1))
    with pytest.raises(StartError, match="unrecognised option '--no-such-option'"):
        slot.ensure_ready()
    slot.close()


def test_a_command_that_does_not_exist_is_a_failed_start(make_slot: Callable[..., Supervisor]) -> None:
    slot = make_slot(command=("/no/such/compute-sanitizer",), rules=StartRules(retire_after=1))
    with pytest.raises(StartError, match="/no/such/compute-sanitizer"):
        slot.ensure_ready()
    slot.close()


def test_a_sanitizer_serves_the_cpu_too(make_slot: Callable[..., Supervisor]) -> None:
    slot = make_slot(device="cpu")
    assert slot.run("paddle kernel write").result.verdict is Verdict.PADDLE_CUDA
    slot.close()
    assert sys.executable in slot._sanitizer.words  # type: ignore[union-attr]
