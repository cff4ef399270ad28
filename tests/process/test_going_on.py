"""A case process that goes on with the next case the moment one has passed."""

from __future__ import annotations

import os
import signal

from pytest_paddleapi.process.messages import Verdict
from pytest_paddleapi.process.slot import SlotState
from pytest_paddleapi.process.supervisor import Supervisor

from .support import wait_until

#: Long enough for the next request to come while it runs.
BRIEF = "paddle sleep 0.1"


def test_the_next_case_has_begun_before_it_is_asked_for(light_slot: Supervisor) -> None:
    light_slot.run(BRIEF, following=lambda: "paddle say out one")
    assert wait_until(lambda: light_slot._stdout.size() > 0, 10.0)
    second = light_slot.run("paddle say out one")
    assert second.result.verdict is Verdict.PASS
    assert "one" in second.stdout


def test_outputs_stay_apart(light_slot: Supervisor) -> None:
    words = [f"paddle say out word{n}" for n in range(20)]
    for config, following in zip(words, [*words[1:], ""]):
        attempt = light_slot.run(config, following=lambda text=following: text)  # type: ignore[misc]
        assert attempt.stdout.split() == [config.split()[-1]]


def test_it_does_not_go_on_after_anything_but_a_pass(light_slot: Supervisor) -> None:
    light_slot.run("paddle verdict paddle_accuracy differs", following=lambda: "paddle say out one")
    assert light_slot.state is SlotState.IDLE
    assert light_slot.run("paddle pass").stdout == ""


def test_a_case_that_nobody_asks_for_is_dropped_with_its_process(light_slot: Supervisor) -> None:
    first = light_slot.run(BRIEF, following=lambda: "paddle sleep 600")
    other = light_slot.run("paddle pass")
    assert other.result.verdict is Verdict.PASS
    assert other.pid != first.pid


def test_another_lease_is_another_case(light_slot: Supervisor) -> None:
    first = light_slot.run(BRIEF, 1 << 30, False, following=lambda: "paddle pass")
    other = light_slot.run("paddle pass", 1 << 29, False)
    assert other.pid != first.pid


def test_a_crash_is_charged_to_the_case_that_went_on(light_slot: Supervisor) -> None:
    light_slot.run(BRIEF, following=lambda: "paddle segfault")
    crashed = light_slot.run("paddle segfault")
    assert crashed.result.verdict is Verdict.PADDLE_CRASH
    assert "SIGSEGV" in crashed.result.text
    assert light_slot.run("paddle pass").result.verdict is Verdict.PASS


def test_its_time_limit_counts_from_its_own_start(light_slot: Supervisor) -> None:
    light_slot.run(BRIEF, timeout=0.5, following=lambda: "paddle sleep 600")
    late = light_slot.run("paddle sleep 600", timeout=0.5)
    assert late.result.verdict is Verdict.TIMEOUT
    assert 0.4 < late.seconds < 10


def test_a_process_killed_between_two_cases_is_replaced(light_slot: Supervisor) -> None:
    first = light_slot.run("paddle pass", following=lambda: "")
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    again = light_slot.run("paddle pass", following=lambda: "paddle pass")
    assert again.result.verdict is Verdict.PASS
    assert light_slot.run("paddle pass").pid == again.pid


def test_closing_ends_a_case_that_went_on(light_slot: Supervisor) -> None:
    attempt = light_slot.run(BRIEF, following=lambda: "paddle sleep 600")
    light_slot.close()
    assert attempt.pid is not None
    assert not os.path.exists(f"/proc/{attempt.pid}")


def test_results_that_come_together_are_both_seen(light_slot: Supervisor) -> None:
    # Cases without any work: the second one's result is there before the first one's has been read.
    for _ in range(300):
        attempt = light_slot.run("paddle pass", timeout=20, following=lambda: "paddle pass")
        assert attempt.result.verdict is Verdict.PASS


def test_a_config_too_long_for_the_socket_is_not_sent_ahead(light_slot: Supervisor) -> None:
    long = "paddle say out " + "x" * 300_000
    first = light_slot.run("paddle sleep 0.2", timeout=20, following=lambda: long)
    assert first.result.verdict is Verdict.PASS
    second = light_slot.run(long, timeout=20)
    assert second.result.verdict is Verdict.PASS
    assert second.pid == first.pid


def test_a_flood_of_output_stays_with_its_case(light_slot: Supervisor) -> None:
    flood = "paddle flood 20 0.5"  # MiB, then seconds in which the worker trims
    first = light_slot.run(flood, timeout=20, following=lambda: "paddle say out mine")
    second = light_slot.run("paddle say out mine", timeout=20)
    assert second.stdout == "mine\n"
    assert "bytes left out" in first.stdout
    assert first.stdout.count("x") < 200_000
