"""Real Paddle processes on a farm, for the tests of this folder."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .farm import Farm

_HERE = Path(__file__).parent


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Wait for a condition; False where it did not come true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


@dataclass(frozen=True)
class Ended:
    """How a process ended: its wait status as :func:`os.waitstatus_to_exitcode` reads it, and what it left."""

    code: int
    output: str
    said: list[Any]


class Child:
    """One process that runs a function of ``programs.py``."""

    def __init__(self, zygote: PaddleProcesses, pid: int, output: Path, said: Path) -> None:
        self._zygote = zygote
        self.pid = pid
        self._output = output
        self._said = said
        self.ended: Ended | None = None

    @property
    def said(self) -> list[Any]:
        """What it has said so far."""
        if not self._said.exists():
            return []
        # The last line may still be on its way.
        return [json.loads(line) for line in self._said.read_text(encoding="utf-8").split("\n")[:-1]]

    def wait_for(self, count: int, seconds: float = 20.0) -> list[Any]:
        """Wait until it has said ``count`` things; they."""
        assert wait_until(lambda: len(self.said) >= count, seconds), (self.said, self._output.read_text())
        return self.said

    def wait(self, seconds: float = 30.0) -> Ended:
        """Wait for its end."""
        if self.ended is None:
            status = self._zygote.ask({"wait": self.pid, "seconds": seconds})
            assert status is not None, f"process {self.pid} still runs after {seconds} s"
            code = os.waitstatus_to_exitcode(status)
            self.ended = Ended(code, self._output.read_text(encoding="utf-8", errors="replace"), self.said)
        return self.ended

    def kill(self) -> Ended:
        """SIGKILL, and wait for its end."""
        if self.ended is None:
            os.kill(self.pid, signal.SIGKILL)
        return self.wait()


class PaddleProcesses:
    """Starts processes on a farm, all forked from one that has imported Paddle."""

    def __init__(self, farm: Farm, folder: Path, **environment: str) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._numbers = itertools.count()
        self._children: list[Child] = []
        self._log = (folder / "zygote.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(_HERE / "zygote.py")],
            # One thread a process: those of several processes would only wait for each other's.
            env={**os.environ, **farm.environment(**{"OMP_NUM_THREADS": "1", **environment})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._answer()

    def start(self, program: str, **arguments: Any) -> Child:
        """Start a function of ``programs.py`` in a process of its own."""
        number = next(self._numbers)
        output, said = self._folder / f"{number}.out", self._folder / f"{number}.said"
        output.touch()  # it may be killed before it does anything
        pid = self.ask({"start": program, "with": arguments, "output": str(output), "said": str(said)})
        child = Child(self, pid, output, said)
        self._children.append(child)
        return child

    def run(self, program: str, **arguments: Any) -> list[Any]:
        """Start it, wait for its end, which must be a good one; what it said."""
        ended = self.start(program, **arguments).wait()
        assert ended.code == 0, ended.output
        return ended.said

    def ask(self, request: dict[str, Any]) -> Any:
        """One request to the zygote, and its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def end_children(self) -> None:
        """Kill what still runs."""
        for child in self._children:
            child.kill()
        self._children.clear()

    def close(self) -> None:
        """End all."""
        with contextlib.suppress(BrokenPipeError, AssertionError):  # the zygote may be what has failed
            self.end_children()
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, (self._folder / "zygote.log").read_text(encoding="utf-8", errors="replace")
        return json.loads(line)


def ask_nvml(farm: Farm, program: str, **arguments: Any) -> Any:
    """Run a function of ``nvml_programs.py`` in a process on the farm; what it returns."""
    done = subprocess.run(
        [sys.executable, str(_HERE / "nvml_programs.py"), program, json.dumps(arguments)],
        env={**os.environ, **farm.environment()},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
