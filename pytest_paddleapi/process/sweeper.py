"""Ends what a launcher (zygote or keeper) and its case processes leave behind, however they and the worker died.

Run as a program, with its standard input a pipe that only the launcher holds open: when that is gone,
whoever killed it, everything that descends from it is killed. The kernel kills children with their parent
(parent-death signal), but not what these started.

It is run by path, isolated, so it may import nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

#: How long killed processes are waited for; one in the kernel's hands (state D) may take for ever.
GONE_SECONDS = 5.0


def marked(entry: bytes) -> list[int]:
    """Ids of the processes that were started with ``entry`` (``NAME=value``) in their environment.

    Environments are inherited, so a value that is used once marks a process and all that it made,
    wherever they hang in the process tree. Who is at its end has none, and is left out.
    """
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and entry in _environment(int(name))]


def kill_marked(entry: bytes, seconds: float = GONE_SECONDS) -> list[int]:
    """Kill every process of :func:`marked` until none is left; returns those that live after ``seconds``."""
    deadline = time.monotonic() + seconds
    while found := marked(entry):
        for pid in found:
            _kill_if_marked(pid, entry)
        if time.monotonic() > deadline:
            return found
        time.sleep(0.002)
    return []


def _kill_if_marked(pid: int, entry: bytes) -> None:
    try:
        handle = os.pidfd_open(pid)
    except (OSError, AttributeError):  # gone, or a kernel (or a Python built on one) older than 5.3
        handle = -1
    try:
        # Looked at again, because the id may be another process's by now; the handle cannot.
        if entry in _environment(pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if handle >= 0:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                else:
                    os.kill(pid, signal.SIGKILL)
    finally:
        if handle >= 0:
            os.close(handle)


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:  # gone, or another user's: not ours in either case
        return []


def main() -> int:
    """Entry point; the argument is the mark."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends by itself, when its work is done
    while os.read(0, 1):
        pass
    return 1 if kill_marked(os.fsencode(sys.argv[1])) else 0


if __name__ == "__main__":
    sys.exit(main())
