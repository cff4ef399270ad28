"""The command line as people call it, and other sessions in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import pytest_paddleapi

__all__ = ["Session", "command_line", "folder", "run", "start"]

PROGRAM = Path(__file__).with_name("session_program.py")
ROOT = Path(pytest_paddleapi.__file__).parent.parent
#: Far more than any of it takes.
SECONDS = 60


@dataclass
class Session:
    """A session of another process."""

    process: subprocess.Popen[str]
    name: str

    @property
    def pid(self) -> int:
        return self.process.pid

    def look(self) -> str:
        """Let it make a transaction; ``paused`` or ``going``."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The ledger's; there from the start, as a shared one is."""
    made = tmp_path / "ledger"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., Session]]:
    """Start a session that holds what it is told."""
    sessions: list[Session] = []

    def begin(label: str = "a label", *slots: str) -> Session:
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(folder), label, *slots],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert process.stdout is not None
        words = process.stdout.readline().split()
        sessions.append(Session(process, words[-1] if words else ""))
        assert words[:1] == ["ready"], f"it did not get ready (exit code {process.poll()})"
        return sessions[-1]

    yield begin
    for session in sessions:
        session.end()


def command_line(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pytest_paddleapi", *arguments]


def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """What ``python -m pytest_paddleapi`` does with these arguments."""
    return subprocess.run(
        command_line(*arguments),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
    )
