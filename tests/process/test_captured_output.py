"""What a case prints, from Python and from C, is its own; it is bounded, and a crash loses none of it."""

from __future__ import annotations

import threading
import time

import pytest

from pytest_paddleapi.process.messages import Verdict
from pytest_paddleapi.process.supervisor import Supervisor


@pytest.mark.parametrize(
    ("action", "stdout", "stderr"),
    [
        ("say out from Python", "from Python\n", ""),
        ("say err from Python", "", "from Python\n"),
        ("say c from C", "from C\n", ""),
        ("say out naïve ☃", "naïve ☃\n", ""),
    ],
)
def test_output_of_python_and_c(light_slot: Supervisor, action: str, stdout: str, stderr: str) -> None:
    attempt = light_slot.run(f"paddle {action}")
    assert (attempt.stdout, attempt.stderr) == (stdout, stderr)


def test_each_case_has_its_own_output(light_slot: Supervisor) -> None:
    outputs = [light_slot.run(f"paddle say out {word}").stdout for word in ("one", "two", "three")]
    assert outputs == ["one\n", "two\n", "three\n"]
    assert light_slot.run("paddle pass").stdout == ""


def test_lines_before_a_crash_are_kept(light_slot: Supervisor) -> None:
    attempt = light_slot.run("paddle say_and_die")
    assert attempt.result.verdict is Verdict.PADDLE_CRASH
    assert sorted(attempt.stdout.splitlines()) == ["last of C", "last of Python"]


def test_much_output_keeps_its_beginning_and_its_end(light_slot: Supervisor) -> None:
    attempt = light_slot.run("paddle print_much 40")
    assert attempt.result.verdict is Verdict.PASS
    assert attempt.stdout.startswith("the very first line\n")
    assert attempt.stdout.endswith("the very last line\n")
    assert "bytes left out" in attempt.stdout
    assert len(attempt.stdout) < 200_000


def test_printing_for_ever_fills_no_memory(light_slot: Supervisor) -> None:
    largest = 0
    done = threading.Event()

    def watch() -> None:
        nonlocal largest
        while not done.is_set():
            largest = max(largest, light_slot._stdout.held())
            time.sleep(0.002)

    light_slot.ensure_ready()
    watcher = threading.Thread(target=watch)
    watcher.start()
    attempt = light_slot.run("paddle print_for_ever", timeout=1.5)
    done.set()
    watcher.join()
    assert attempt.result.verdict is Verdict.TIMEOUT
    assert attempt.stdout.startswith("the very first line\n")
    assert 0 < largest < 1 << 30, f"{largest / 2**20:.0f} MiB"
    assert light_slot._stdout.held() == 0


def test_stdin_is_empty(light_slot: Supervisor) -> None:
    assert light_slot.run("paddle stdin").stdout == "''\n"
