"""Cases that kill their process, each with a call that really does so on the CPU."""

from __future__ import annotations

import os
import signal
import threading
import time

import psutil
import pytest

from pytest_paddleapi.process.errors import UnconfirmedError
from pytest_paddleapi.process.fatal import FATAL_EXIT_CODE
from pytest_paddleapi.process.messages import Verdict
from pytest_paddleapi.process.slot import SlotState
from pytest_paddleapi.process.supervisor import Attempt, Supervisor

from .support import alive, wait_until


def run(slot: Supervisor, config: str, **arguments: object) -> Attempt:
    """Run a case, and see that the slot is none the worse for it."""
    attempt = slot.run(config, **arguments)  # type: ignore[arg-type]
    following = slot.run("paddle pass")
    assert following.result.verdict is Verdict.PASS, following.result.text
    assert following.stdout == following.stderr == following.stacks == ""
    return attempt


@pytest.mark.parametrize(
    ("config", "name", "function"),
    [
        ("paddle floor_divide", "SIGFPE", "floor_divide"),
        ("paddle index_put", "SIGSEGV", "index_put"),
        ("paddle roi_align", "SIGABRT", "roi_align"),
    ],
)
def test_a_crash_of_paddle(slot: Supervisor, config: str, name: str, function: str) -> None:
    attempt = run(slot, config)
    assert attempt.result.verdict is Verdict.PADDLE_CRASH
    assert name in attempt.result.text
    assert "stage: paddle" in attempt.result.text
    assert f"in {function}" in attempt.stacks, "Python's stack at the crash"
    assert attempt.stacks in attempt.result.text
    assert "Extension modules" not in attempt.stacks
    assert "zygote.py" not in attempt.stacks


def test_a_crash_of_torch_is_charged_to_the_reference(slot: Supervisor) -> None:
    attempt = run(slot, "reference pdist")
    assert attempt.result.verdict is Verdict.TORCH_ERROR
    assert "SIGFPE" in attempt.result.text
    assert "stage: reference" in attempt.result.text
    assert "in pdist" in attempt.stacks


def test_what_the_c_library_said_before_an_abort_is_captured(slot: Supervisor) -> None:
    assert "vector::reserve" in run(slot, "paddle roi_align").stderr


@pytest.mark.parametrize(
    ("stage", "verdict"),
    [
        ("starting", Verdict.CONFIG_INPUT),
        ("inputs", Verdict.CONFIG_INPUT),
        ("reference", Verdict.TORCH_ERROR),
        ("paddle", Verdict.PADDLE_CRASH),
        ("comparison", Verdict.PADDLE_CRASH),
    ],
)
@pytest.mark.parametrize(
    ("action", "how"),
    [("segfault", "SIGSEGV"), ("exit 0", "exited with code 0"), ("exit 7", "exited with code 7")],
)
def test_a_death_is_charged_to_the_stage(
    light_slot: Supervisor, stage: str, verdict: Verdict, action: str, how: str
) -> None:
    attempt = run(light_slot, f"{stage} {action}")
    assert attempt.result.verdict is verdict
    assert how in attempt.result.text
    assert f"stage: {stage}" in attempt.result.text


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("stage", ["starting", "inputs", "reference", "paddle", "comparison"])
def test_a_signal_that_is_not_ours_is_an_external_kill(light_slot: Supervisor, stage: str, number: int) -> None:
    attempt = run(light_slot, f"{stage} kill {int(number)}")
    assert attempt.result.verdict is Verdict.EXTERNAL_KILL
    assert signal.Signals(number).name in attempt.result.text


def test_sigterm_kills_a_process_that_has_paddles_handlers(slot: Supervisor) -> None:
    attempt = run(slot, "paddle kill 15")
    assert attempt.result.verdict is Verdict.EXTERNAL_KILL
    assert "SIGTERM" in attempt.result.text


def test_the_process_after_a_crash_is_a_fresh_one(light_slot: Supervisor) -> None:
    light_slot.run("paddle pass")
    assert light_slot.run("paddle pass").result.text.startswith("cases 2")
    dead = light_slot.run("paddle segfault")
    fresh = light_slot.run("paddle pass")
    assert fresh.result.text.startswith("cases 1")
    assert fresh.pid != dead.pid
    assert dead.pid is not None
    assert not alive(dead.pid)


def test_a_fatal_result_is_kept_and_its_process_replaced(light_slot: Supervisor) -> None:
    first = light_slot.run("paddle fatal")
    assert (first.result.verdict, first.result.text, first.result.fatal) == (
        Verdict.PADDLE_CUDA,
        "CUDA error(700)",
        True,
    )
    assert light_slot.state is SlotState.LOADED
    assert first.pid is not None
    assert not alive(first.pid)
    assert light_slot.run("paddle pass").result.text.startswith("cases 1")


def test_the_exit_code_of_a_fatal_result_is_its_own(light_slot: Supervisor) -> None:
    assert f"code {FATAL_EXIT_CODE}" in light_slot.run(f"paddle exit {FATAL_EXIT_CODE}").result.text


def test_an_exception_that_the_runner_lets_through_costs_no_process(light_slot: Supervisor) -> None:
    before = light_slot.run("paddle pass").pid
    attempt = light_slot.run("paddle raise something odd")
    assert attempt.result.verdict is Verdict.PADDLE_ERROR
    assert "RuntimeError: something odd" in attempt.result.text
    assert light_slot.run("reference raise x").result.verdict is Verdict.TORCH_ERROR
    assert light_slot.run("inputs raise x").result.verdict is Verdict.CONFIG_INPUT
    assert light_slot.run("paddle sys_exit 3").result.verdict is Verdict.PADDLE_ERROR
    assert light_slot.run("paddle pass").pid == before


def test_a_text_that_is_no_unicode_arrives(light_slot: Supervisor) -> None:
    attempt = run(light_slot, "paddle raise_bytes")
    assert attempt.result.verdict is Verdict.PADDLE_ERROR
    assert "RuntimeError: caf\\udce9" in attempt.result.text


def test_a_text_that_is_too_long_is_cut_in_the_middle(light_slot: Supervisor) -> None:
    text = run(light_slot, "paddle raise_long").result.text
    assert len(text) < 300_000
    assert "the beginning" in text
    assert text.rstrip().endswith("the end")


def test_garbage_on_the_channel_is_charged_to_the_stage_and_kills(light_slot: Supervisor) -> None:
    attempt = run(light_slot, "paddle garbage")
    assert attempt.result.verdict is Verdict.PADDLE_CRASH
    assert "no message" in attempt.result.text
    assert attempt.pid is not None
    assert not alive(attempt.pid)


def test_a_process_that_dies_between_cases_costs_the_next_case_nothing(light_slot: Supervisor) -> None:
    pid = light_slot.run("paddle pass").pid
    assert pid is not None
    os.kill(pid, signal.SIGSEGV)
    assert wait_until(lambda: not alive(pid))
    attempt = light_slot.run("paddle pass")
    assert attempt.result.verdict is Verdict.PASS
    assert attempt.pid != pid


def test_a_process_that_dies_unseen_just_before_a_case_costs_it_nothing(light_slot: Supervisor) -> None:
    light_slot.run("paddle pass")
    pid = light_slot.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)  # it will not take the case, which is sent before it dies
    killer = threading.Timer(0.3, os.kill, (pid, signal.SIGKILL))
    killer.start()
    attempt = light_slot.run("paddle say out once")
    killer.join()
    assert attempt.result.verdict is Verdict.PASS
    assert attempt.stdout == "once\n"
    assert attempt.pid != pid


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_the_death_of_the_zygote_loses_no_case(light_slot: Supervisor, number: int) -> None:
    light_slot.ensure_ready()
    assert light_slot.pid is not None
    zygote = psutil.Process(light_slot.pid).parent()
    assert zygote is not None
    case = light_slot.pid
    killer = threading.Timer(0.3, os.kill, (zygote.pid, number))
    killer.start()
    attempt = light_slot.run("paddle sleep 60", timeout=30)
    killer.join()
    assert attempt.result.verdict is Verdict.EXTERNAL_KILL
    assert signal.Signals(number).name in attempt.result.text
    assert "stage: paddle" in attempt.result.text
    assert not alive(case)
    assert light_slot.run("paddle pass").result.verdict is Verdict.PASS


def test_the_death_of_the_zygote_between_cases_is_mended(light_slot: Supervisor) -> None:
    light_slot.run("paddle pass")
    assert light_slot.pid is not None
    zygote = psutil.Process(light_slot.pid).parent()
    assert zygote is not None
    case = light_slot.pid
    zygote.kill()
    assert wait_until(lambda: not alive(case))
    assert light_slot.run("paddle pass").result.verdict is Verdict.PASS


def test_a_case_may_take_as_long_as_it_needs_between_stages(light_slot: Supervisor) -> None:
    start = time.monotonic()
    attempt = light_slot.run("reference sleep 0.5", timeout=60)
    assert attempt.result.verdict is Verdict.PASS
    assert 0.5 <= attempt.seconds <= time.monotonic() - start
    assert attempt.result.seconds >= 0.5


def test_a_process_that_closes_its_channel_and_stays_is_charged_to_its_side(light_slot: Supervisor) -> None:
    """It is killed by us, so that nobody from outside is to blame."""
    result = light_slot.run("paddle closed", timeout=50).result
    assert result.verdict is Verdict.PADDLE_CRASH, result.text
    assert "closed its channel" in result.text
    assert light_slot.run("paddle pass").result.verdict is Verdict.PASS


def test_a_case_that_dies_of_what_an_earlier_one_did_is_run_again(light_slot: Supervisor) -> None:
    damaging = light_slot.run("paddle damage")
    innocent = light_slot.run("paddle damaged")
    assert innocent.result.verdict is Verdict.PASS
    assert innocent.pid != damaging.pid
    (note,) = innocent.result.measured.notes
    assert "had run other cases" in note
    assert "SIGABRT" in note


def test_before_it_is_run_again_somebody_is_asked_whether_it_may(light_slot: Supervisor) -> None:
    light_slot.run("paddle damage")
    asked: list[int | None] = []

    def confirm() -> bool:
        asked.append(light_slot.pid)
        return False

    with pytest.raises(UnconfirmedError):
        light_slot.run("paddle damaged", confirm=confirm)
    # Once, when the new process was ready, and not for the one that was there.
    assert asked == [light_slot.pid] and light_slot.pid is not None
    assert light_slot.run("paddle pass", confirm=confirm).result.verdict is Verdict.PASS
    assert len(asked) == 1


def test_a_case_that_crashes_by_itself_is_a_crash_both_times(light_slot: Supervisor) -> None:
    first = light_slot.run("paddle segfault")
    assert first.result.verdict is Verdict.PADDLE_CRASH
    assert light_slot.run("paddle pass").result.verdict is Verdict.PASS
    second = light_slot.run("paddle segfault")
    assert second.result.verdict is Verdict.PADDLE_CRASH
    assert "SIGSEGV" in second.result.text
    assert "light_runner.py" in second.stacks
