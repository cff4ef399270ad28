"""Ctrl-C, and runs in which nothing moves."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

#: Each takes seconds, so that a signal comes while it runs.
SLOW = 'paddle.matmul(Tensor([{}, 2000],"float64"), Tensor([2000, 2000],"float64"))'
HANGS = 'paddle.pow(Tensor([2],"int64"), -1)'


class Session:
    """A pytest process, whose lines can be waited for."""

    def __init__(self, folder: Path, *args: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--accuracy", *args],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            # Whoever runs the tests in the background may ignore it, and children would inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)

    def await_text(self, text: str, seconds: float = 90.0) -> None:
        deadline = time.monotonic() + seconds
        while not any(text in line for line in self.lines):
            assert self.process.poll() is None, "".join(self.lines)
            assert time.monotonic() < deadline, "".join(self.lines)
            time.sleep(0.02)

    def interrupt(self) -> None:
        """Ctrl-C as a terminal sends it: to the whole group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self, seconds: float = 90.0) -> str:
        self.process.wait(seconds)
        self._reader.join(10)
        return "".join(self.lines)


def descendants(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


@pytest.mark.parametrize("workers", [pytest.param("-n0", marks=pytest.mark.slow), "-n2"])
def test_the_first_ctrl_c_lets_running_cases_end_and_starts_nothing_more(tmp_path: Path, workers: str) -> None:
    (tmp_path / "a.txt").write_text("\n".join(SLOW.format(n) for n in range(1000, 1012)))
    session = Session(tmp_path, "--paddleapi-configs=a.txt", workers)
    session.await_text("PASSED")
    started = descendants(session.process.pid)
    session.interrupt()
    out = session.end()
    assert session.process.returncode == pytest.ExitCode.INTERRUPTED, out
    assert "running cases may end" in out
    assert "Ctrl-C: stopped after the running cases" in out
    passed = re.search(r"(\d+) passed", out)
    assert passed is not None
    assert 2 <= int(passed[1]) <= 4
    assert "KeyboardInterrupt" not in out
    assert not any(process.is_running() for process in started)


@pytest.mark.parametrize("workers", [pytest.param("-n0", marks=pytest.mark.slow), "-n2"])
def test_the_second_ctrl_c_kills(tmp_path: Path, workers: str) -> None:
    (tmp_path / "a.txt").write_text(f'paddle.abs(Tensor([2],"float32"))\n{HANGS}\n')
    session = Session(tmp_path, "--paddleapi-configs=a.txt", workers)
    session.await_text("PASSED")
    started = descendants(session.process.pid)
    session.interrupt()
    session.await_text("press it again")
    time.sleep(1.0)
    assert session.process.poll() is None
    begin = time.monotonic()
    session.interrupt()
    out = session.end()
    assert time.monotonic() - begin < 30
    assert session.process.returncode == pytest.ExitCode.INTERRUPTED, out
    psutil.wait_procs(started, timeout=10)
    assert not any(process.is_running() for process in started)


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_run_in_which_nothing_moves_is_ended_and_says_what_hung(tmp_path: Path, workers: str) -> None:
    (tmp_path / "a.txt").write_text(f'paddle.abs(Tensor([2],"float32"))\n{HANGS}\npaddle.abs(Tensor([3],"float32"))\n')
    session = Session(
        tmp_path, "--paddleapi-configs=a.txt", workers, "--paddleapi-stall-timeout=30", "--paddleapi-ledger=ledger"
    )
    out = session.end(150)
    assert session.process.returncode == pytest.ExitCode.TESTS_FAILED, out
    assert "runs a.txt::paddle.pow" in out
    assert "no case was started and none ended for 30 s" in out
    assert 'paddle.pow[Tensor([2],"int64"), -1]' in out.rpartition("cases were not run")[2]


@pytest.mark.any_version
def test_a_number_below_zero_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text('paddle.abs(Tensor([2],"float32"))\n')
    session = Session(tmp_path, "--paddleapi-configs=a.txt", "--paddleapi-stall-timeout=-1")
    assert "--paddleapi-stall-timeout=-1.0 is out of range" in session.end()
