"""Run a vendor's command line tool: with a time limit, not too often, and one reading for all its devices."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping

from .model import DeviceReadingError, DeviceReadingTimeoutError

__all__ = ["KEEP_SECONDS", "LIMIT_SECONDS", "VendorTool", "run_limited"]

#: A tool that has not answered in this time hangs in its driver.
LIMIT_SECONDS = 5.0

#: The tools load the driver and ask every device, which costs all cases on the host; not more often than this.
KEEP_SECONDS = 2.0

#: After SIGKILL; a process that the kernel does not let go (state D) is left behind.
_KILLED_SECONDS = 0.5

#: A table of a hundred devices takes 100 KiB.
_MOST_BYTES = 4 << 20

#: Killed but not gone: kept, so that a later call reaps them.
_unreaped: list[subprocess.Popen[bytes]] = []


def run_limited(command: list[str], *, what: str, seconds: float = LIMIT_SECONDS, environ: Mapping[str, str]) -> str:
    """What ``command`` writes to its standard output. It is killed, with its process group, when the time is over.

    ``what`` names the device or the tool in errors.

    Raises:
        DeviceReadingTimeoutError: it took longer than ``seconds``.
        DeviceReadingError: it could not be started, ended with an error, or wrote too much.
    """
    _unreaped[:] = [process for process in _unreaped if process.poll() is None]
    deadline = time.monotonic() + seconds
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**environ, "LC_ALL": "C"},
            start_new_session=True,
        )
    except OSError as exc:
        raise DeviceReadingError(what, f"{command[0]} cannot be started: {exc.strerror or exc}") from exc
    try:
        output, errors = _collect(process, deadline, what)
        status = process.wait(max(0.0, deadline - time.monotonic()))
    except (subprocess.TimeoutExpired, TimeoutError):
        raise DeviceReadingTimeoutError(what, f"{command[0]} did not answer within {seconds:g} s") from None
    finally:
        _end(process)
    if status != 0:
        told = _last_line(errors) or _last_line(output)
        raise DeviceReadingError(what, f"{command[0]} ended with {_status(status)}{f': {told}' if told else ''}")
    return output.decode("utf-8", "replace")


def _collect(process: subprocess.Popen[bytes], deadline: float, what: str) -> tuple[bytes, bytes]:
    assert process.stdout is not None
    assert process.stderr is not None
    texts = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    with selectors.DefaultSelector() as selector:
        for fd in texts:
            selector.register(fd, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            for key, _ in selector.select(left):
                chunk = os.read(key.fd, 65536)
                texts[key.fd] += chunk
                if not chunk:
                    selector.unregister(key.fd)
            if sum(map(len, texts.values())) > _MOST_BYTES:
                raise DeviceReadingError(what, f"{process.args!r} writes without end")
    output, errors = texts.values()
    return bytes(output), bytes(errors)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the group, also where the tool itself has ended and something that it started has not."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # gone, or another user's by now
        os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(_KILLED_SECONDS)
    except subprocess.TimeoutExpired:
        _unreaped.append(process)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _last_line(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").split("\n")
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")


def _status(status: int) -> str:
    return f"exit code {status}" if status >= 0 else f"signal {-status}"


class VendorTool:
    """One tool and its last table, shared by all devices that it tells of. Threads may share it.

    An answer counts from the moment when the tool was started, which is not later than when it measured. A failure
    is kept as long as an answer, so that a broken tool is not started again for every device.
    """

    def __init__(
        self,
        command: list[str],
        *,
        seconds: float = LIMIT_SECONDS,
        keep: float = KEEP_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.command = command
        self._seconds = seconds
        self._keep = keep
        self._clock = clock
        self._environ = dict(os.environ if environ is None else environ)
        self._lock = threading.Lock()
        self._taken = float("-inf")
        self._text = ""
        self._error: tuple[type[DeviceReadingError], str] | None = None

    def read(self, what: str) -> tuple[str, float]:
        """The tool's output and when it was started (seconds of the clock); at most ``keep`` seconds ago, or just now.

        Raises:
            DeviceReadingError: as :func:`run_limited`; ``what`` is the device in the message.
        """
        with self._lock:
            if not self._taken <= self._clock() < self._taken + self._keep:
                self._run(what)
            if self._error is not None:
                kind, why = self._error
                raise kind(what, why)
            return self._text, self._taken

    def _run(self, what: str) -> None:
        self._taken, self._error = self._clock(), None
        try:
            self._text = run_limited(self.command, what=what, seconds=self._seconds, environ=self._environ)
        except DeviceReadingError as exc:
            self._error = type(exc), exc.why
