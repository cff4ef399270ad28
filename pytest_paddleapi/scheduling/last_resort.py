"""Ends a process in which no thread runs any more, not even the watchdog's: a program of its own.

A C call that holds Python's global interpreter lock and does not return stops every Python thread of its process.
Only another process can end it then. The watchdog's thread writes a byte into this program's standard input at every
look; where none comes for too long, the watched process, which is this one's parent, is killed: with SIGABRT first,
upon which ``faulthandler`` (pytest enables it) prints all stacks without needing the lock, then with SIGKILL. A dead
process cannot choose its exit code, so a shell sees 134 or 137 in place of the watchdog's 2.

Time in which the parent is stopped (Ctrl-Z, a debugger) does not count. The end of the input, or of the parent, ends
this program. It is run by path, isolated, so it may import nothing but the standard library::

    python -I -S last_resort.py PARENT SECONDS
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time

__all__ = ["ABORT_SECONDS", "main"]

#: What faulthandler may take to print the stacks of all threads.
ABORT_SECONDS = 10.0

_LOOK_SECONDS = 10.0
#: As the watchdog counts: a longer time between two looks means that this program, or the machine, was stopped.
_MOST_COUNTED = 3 * _LOOK_SECONDS


def main(parent: int, seconds: float) -> int:
    """Watch until the parent is gone, or has been silent for ``seconds`` and is killed."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends with its parent, whoever is told to end first
    silent = 0.0
    looked = time.monotonic()
    while silent < seconds:
        ready, _, _ = select.select([0], [], [], min(_LOOK_SECONDS, seconds - silent))
        now = time.monotonic()
        if ready:
            if not os.read(0, 65536):
                return 0
            silent = 0.0
        elif not _is_stopped(parent):
            silent += min(now - looked, _MOST_COUNTED)
        looked = now
        # Not the input alone: a child that the parent forked holds the other end too.
        if os.getppid() != parent:
            return 0
    _end(parent, seconds)
    return 0


def _is_stopped(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
    except OSError:
        return False


def _end(parent: int, seconds: float) -> None:
    text = (
        f"\npytest-paddleapi: no Python thread of process {parent} could run for {seconds:.0f} s, so something in it "
        "holds the global interpreter lock and does not return; it is killed (SIGABRT, then SIGKILL)\n"
    )
    # In a thread: nobody may be reading the other end of our stderr.
    telling = threading.Thread(target=_tell, args=(text,), daemon=True)
    telling.start()
    telling.join(1.0)
    for number in (signal.SIGABRT, signal.SIGKILL):
        if os.getppid() != parent:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(parent, number)
        deadline = time.monotonic() + ABORT_SECONDS
        while os.getppid() == parent and time.monotonic() < deadline:
            time.sleep(0.01)


def _tell(text: str) -> None:
    with contextlib.suppress(OSError):  # a closed stderr: there is nobody to tell
        os.write(2, text.encode())


if __name__ == "__main__":
    # Not through the interpreter's end: a thread may hang in a write.
    os._exit(main(int(sys.argv[1]), float(sys.argv[2])))
