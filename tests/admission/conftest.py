from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_paddleapi.gpu_admission import Ledger

from .simulated import SMALL, MemoryDevice


@pytest.fixture
def device() -> MemoryDevice:
    return MemoryDevice()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def open_ledger(folder: Path, device: MemoryDevice) -> Iterator[Callable[..., Ledger]]:
    """Opens sessions in one folder; all are closed at the end."""
    with ExitStack() as stack:

        def make(**options: Any) -> Ledger:
            options = {"folder": folder, "rules": SMALL, **options}
            devices = options.pop("devices", [device])
            ledger = Ledger(devices, **options)
            stack.callback(ledger.close)
            return ledger

        yield make


@pytest.fixture
def ledger(open_ledger: Callable[..., Ledger]) -> Ledger:
    return open_ledger()


class Programs:
    """Real processes that run ``program.py``; those still there at the end are killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[subprocess.Popen[str]] = []
        self._others: list[int] = []

    def start(self, command: str, *arguments: str) -> tuple[subprocess.Popen[str], list[str]]:
        """The process, and the words that it said when it was ready."""
        line = [sys.executable, str(Path(__file__).with_name("program.py")), command, str(self._folder), *arguments]
        # Where the tests run in the background of a shell, SIGINT is ignored, and children inherit that.
        process = subprocess.Popen(
            line,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self._running.append(process)
        assert process.stdout is not None
        words = process.stdout.readline().split(maxsplit=2)
        assert words[:1] == ["ready"], f"{command} did not get ready (exit code {process.poll()})"
        return process, words[1:]

    def kill_later(self, pid: int) -> None:
        """Another process to end with the test."""
        self._others.append(pid)

    def end(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        for pid in self._others:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def programs(folder: Path) -> Iterator[Programs]:
    running = Programs(folder)
    yield running
    running.end()
