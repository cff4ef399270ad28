"""The watchdog in real processes that really hang."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

import pytest_paddleapi
from pytest_paddleapi.scheduling.watchdog import Watchdog, WatchdogTimes, ledger_command

PROGRAM = Path(__file__).with_name("watchdog_program.py")
ENVIRON = {**os.environ, "PYTHONPATH": str(Path(pytest_paddleapi.__file__).parent.parent)}
#: The limits are half a second each, starting Python takes another; a busy machine takes a multiple.
SECONDS = 60


@dataclass
class Ended:
    code: int
    stdout: str
    stderr: str
    seconds: float
    folder: Path

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()


def run(scenario: str, folder: Path) -> Ended:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(PROGRAM), scenario, str(folder)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env=ENVIRON,
    )
    return Ended(done.returncode, done.stdout, done.stderr, time.monotonic() - began, folder)


class TestAMainThreadThatDoesNotComeBack:
    @pytest.mark.parametrize("scenario", ["sleep", "lock"])
    def test_ends_with_2_after_a_report(self, tmp_path: Path, scenario: str) -> None:
        ended = run(scenario, tmp_path)
        assert ended.code == 2
        told = ended.stderr
        assert "watchdog: no case was started and none ended for 0.5 s" in told
        assert "slots:\nslot0 busy with paddle.abs\n" in told
        assert f'File "{PROGRAM}", line' in told
        assert f" in {scenario}\n" in told
        assert f"ledger {tmp_path / 'ledger'} at " in told
        assert "available" in told
        assert told.rstrip().endswith("the main thread did not come back within 0.7 s: exit code 2")
        assert ended.has("stopped")
        assert (tmp_path / "killed").read_text() == (
            "no case was started and none ended for 0.5 s, though some were running or waiting\n"
        )

    def test_whose_callbacks_hang_too(self, tmp_path: Path) -> None:
        ended = run("callbacks_hang", tmp_path)
        assert ended.code == 2
        assert "Python's stacks:" in ended.stderr
        assert "available" in ended.stderr

    def test_whose_callbacks_fail(self, tmp_path: Path) -> None:
        ended = run("callbacks_fail", tmp_path)
        assert ended.code == 2
        for what in ("tell the slots' states", "ask the run to stop", "kill the slots"):
            assert f"(could not {what}: RuntimeError: dictionary changed size during iteration)" in ended.stderr

    def test_while_the_devices_do_not_answer(self, tmp_path: Path) -> None:
        ended = run("memory_hangs", tmp_path)
        assert ended.code == 2
        assert "(the devices' memory was not told within 0.5 s)" in ended.stderr
        assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))

    def test_while_pytest_captures(self, tmp_path: Path) -> None:
        ended = run("hangs_in_pytest", tmp_path)
        assert ended.code == 2
        assert "slots:\nslot0 busy with paddle.abs\n" in ended.stderr
        assert " in test_hangs\n" in ended.stderr
        assert "hidden" not in ended.stderr

    def test_while_nobody_reads_stderr(self, tmp_path: Path) -> None:
        read, write = os.pipe()
        os.set_blocking(write, False)
        try:
            while True:
                os.write(write, bytes(4096))
        except BlockingIOError:
            os.set_blocking(write, True)
        try:
            command = [sys.executable, str(PROGRAM), "sleep_with_short_limits", str(tmp_path)]
            process = subprocess.Popen(command, stderr=write, env=ENVIRON)
            try:
                # Every part of the report is left behind at its limit.
                assert process.wait(SECONDS) == 2
            finally:
                process.kill()
                process.wait()
        finally:
            os.close(read)
            os.close(write)
        assert (tmp_path / "other" / "killed").exists()

    def test_nor_lets_any_other_thread_run(self, tmp_path: Path) -> None:
        """The process of last resort ends it; faulthandler tells the stack from within."""
        ended = run("never_returns_from_c", tmp_path)
        assert ended.code == -signal.SIGABRT
        assert re.search(r"no Python thread of process \d+ could run for \d+ s", ended.stderr)
        assert "Fatal Python error: Aborted" in ended.stderr
        assert " in never_returns_from_c\n" in ended.stderr


class TestAMainThreadThatComesBack:
    def test_decides_the_exit_code(self, tmp_path: Path) -> None:
        ended = run("comes_back", tmp_path)
        assert ended.code == 1
        assert "the run ends with exit code 1" in ended.stderr
        assert "did not come back" not in ended.stderr

    def test_may_do_so_until_the_grace_is_over(self, tmp_path: Path) -> None:
        ended = run("comes_back_late", tmp_path)
        assert ended.code == 1
        assert "did not come back" not in ended.stderr
        assert (tmp_path / "other" / "killed").read_text().count("\n") == 1

    def test_ends_with_the_code_of_pytest(self, tmp_path: Path) -> None:
        ended = run("in_pytest", tmp_path)
        assert ended.code == pytest.ExitCode.TESTS_FAILED
        assert "slots:\nslot0 busy" in ended.stderr
        assert "did not come back" not in ended.stderr
        assert "no case was started and none ended for 0.5 s" in ended.stdout


@pytest.mark.parametrize("scenario", ["goes_on", "has_nothing_to_do", "has_not_begun", "is_switched_off"])
def test_no_alarm_where(scenario: str, tmp_path: Path) -> None:
    ended = run(scenario, tmp_path)
    assert (ended.code, ended.stderr) == (0, "")
    assert not [path for path in tmp_path.rglob("*") if path.name in ("stopped", "killed")]


def test_finished_leaves_no_process_and_no_descriptor(tmp_path: Path) -> None:
    ended = run("leaves_nothing", tmp_path)
    assert (ended.code, ended.stderr) == (0, "")
    descriptors, *children = map(int, ended.stdout.split())
    assert descriptors == 0
    assert len(children) == 1
    assert not psutil.pid_exists(children[0])


class TestTheProcessOfLastResort:
    @pytest.fixture
    def watched(self, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), "is_watched_for_long", str(tmp_path)], stdout=subprocess.PIPE, env=ENVIRON
        )
        yield process
        process.kill()
        process.communicate()

    def test_ends_with_what_it_watches(self, watched: subprocess.Popen[bytes]) -> None:
        assert watched.stdout is not None
        guard = psutil.Process(int(watched.stdout.readline()))
        assert "last_resort.py" in " ".join(guard.cmdline())
        watched.kill()
        watched.wait()
        guard.wait(10)

    def test_its_own_death_hurts_nobody(self, watched: subprocess.Popen[bytes]) -> None:
        assert watched.stdout is not None
        psutil.Process(int(watched.stdout.readline())).kill()
        assert watched.wait(SECONDS) == 0


def test_a_beat_is_cheap() -> None:
    watchdog = Watchdog(
        WatchdogTimes(None), describe=str, kill=lambda reason: None, stop=lambda reason: None, memory_command=[]
    )
    times = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(1000):
            watchdog.beat()
        times.append((time.perf_counter() - began) / 1000)
    # About 1 µs; a bound that a busy machine keeps too.
    assert min(times) < 50e-6


def test_the_command_for_the_memory_stays_within_its_limit(tmp_path: Path) -> None:
    command = ledger_command(tmp_path, "cpu", 10.0)
    assert command[-3:] == ["--device=cpu", "--limit=7", f"--ledger={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env=ENVIRON)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"ledger {tmp_path} at ")
