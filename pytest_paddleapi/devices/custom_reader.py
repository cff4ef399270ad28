"""The parent's side of :mod:`~pytest_paddleapi.devices.custom_memory`: one resident child for a type of device."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from . import custom_memory
from .model import DeviceReadingError, DeviceReadingTimeoutError
from .readings import PATIENCE_SECONDS

__all__ = ["AGAIN_SECONDS", "MemoryChild"]

#: A child that has died is not started anew sooner than this after its start: it loads a driver each time.
AGAIN_SECONDS = 10.0


class MemoryChild:
    """Starts the child when it is first asked, and again when it has died. Threads may share it.

    ``arguments`` are those of ``custom_memory.py``. The child ends with this process, because its input does.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environ: Mapping[str, str],
        *,
        patience: float = PATIENCE_SECONDS,
        again: float = AGAIN_SECONDS,
    ) -> None:
        self._command = [sys.executable, "-I", "-S", custom_memory.__file__, *arguments]
        self._environ = dict(environ)
        self._patience = patience
        self._again = again
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._started = float("-inf")
        self._why = ""
        self._ready = False
        self._buffer = b""
        self._request = 0
        #: When the request was sent that is not answered yet; None where there is none.
        self._waiting: float | None = None

    @property
    def pid(self) -> int | None:
        """The child's process id, None where there is none."""
        return None if self._process is None else self._process.pid

    def read(self, what: str, index: int, seconds: float | None = None) -> tuple[int, int]:
        """Total and free bytes of device ``index`` now; ``what`` names it in errors.

        Raises:
            DeviceReadingTimeoutError: no answer within ``seconds`` (the patience, if None), or, at once, an earlier
                request is still without one.
            DeviceReadingError: the plug-in cannot tell, or the child has died.
        """
        with self._lock:
            deadline = time.monotonic() + (self._patience if seconds is None else seconds)
            self._leave_late_answers(what)
            self._start(what)
            self._await_ready(what, deadline)
            self._request += 1
            self._send(what, f"{self._request} {index}\n".encode())
            answer = self._line(what, deadline)
            self._waiting = None
        if "error" in answer:
            raise DeviceReadingError(what, str(answer["error"]))
        return int(answer["total"]), int(answer["free"])

    def close(self) -> None:
        """End the child. Can be called again; the next reading starts a new one."""
        with self._lock:
            self._end()
            self._started = float("-inf")

    def _leave_late_answers(self, what: str) -> None:
        while self._waiting is not None:
            since = self._waiting
            try:
                late = self._line(what, time.monotonic())
            except DeviceReadingTimeoutError:
                why = f"its driver has not answered for {time.monotonic() - since:.0f} s"
                raise DeviceReadingTimeoutError(what, why) from None
            if late.get("request") == self._request:
                self._waiting = None

    def _start(self, what: str) -> None:
        if self._process is not None:
            return
        now = time.monotonic()
        if now - self._started < self._again:
            raise DeviceReadingError(what, self._why)
        self._started = now
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self._environ,
                start_new_session=True,
            )
        except OSError as exc:
            self._why = f"{sys.executable} cannot be started: {exc}"
            raise DeviceReadingError(what, self._why) from exc
        atexit.register(self.close)

    def _await_ready(self, what: str, deadline: float) -> None:
        if self._ready:
            return
        answer = self._line(what, deadline)
        if "error" in answer:
            self._why = str(answer["error"])
            self._end()
            raise DeviceReadingError(what, self._why)
        self._ready = True

    def _send(self, what: str, request: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            os.write(self._process.stdin.fileno(), request)
        except OSError as exc:
            raise DeviceReadingError(what, self._died()) from exc
        self._waiting = time.monotonic()

    def _line(self, what: str, deadline: float) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            readable, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
            if not readable:
                raise DeviceReadingTimeoutError(what, "no answer in time from the process that asks its driver")
            chunk = os.read(fd, 65536)
            if not chunk:
                raise DeviceReadingError(what, self._died())
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self._why = f"the process that asks its driver wrote {line[:80]!r}"
            self._end()
            raise DeviceReadingError(what, self._why)
        return answer

    def _died(self) -> str:
        status = self._end()
        how = "" if status is None else f" ({f'signal {-status}' if status < 0 else f'exit code {status}'})"
        if status == -signal.SIGALRM:
            how = f" (killed after {custom_memory.HANG_SECONDS} s in the driver)"
        self._why = f"the process that asks its driver has died{how}"
        return self._why

    def _end(self) -> int | None:
        process, self._process = self._process, None
        self._ready, self._waiting, self._buffer = False, None, b""
        atexit.unregister(self.close)
        if process is None:
            return None
        status: int | None = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = process.wait(0.05)  # by itself, where it has died: then how is worth knowing
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # in the kernel's hands (state D); it has its signal
            process.wait(0.5)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        return status
