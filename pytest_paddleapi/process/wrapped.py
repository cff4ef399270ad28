"""Stands between a wrapper, such as a sanitizer, and the process that it watches, and tells how that one ended.

A wrapper's exit code does not say which signal ended the process under it, and often not even that one did. So the
keeper lets the wrapper start this program, by its path, isolated, as ``wrapped.py STATUS_FD COMMAND...``. It starts
the command with its own process id as a further argument, and writes two numbers into the pipe: the id of the
command's process, and its wait status. If nobody is left at the pipe's other end, it ends the command.

It is run by path, so it may import nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import struct
import sys
from typing import NoReturn

#: What is written: one number at a time.
NUMBER = struct.Struct("=q")


def main() -> NoReturn:
    """Entry point."""
    status_fd, command = int(sys.argv[1]), sys.argv[2:]
    os.set_inheritable(status_fd, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    pid = os.posix_spawn(command[0], [*command, str(os.getpid())], os.environ)
    _tell(status_fd, pid)
    poll = select.poll()
    poll.register(wake_read, select.POLLIN)
    poll.register(status_fd, 0)  # only its errors: that the other end is gone
    while (status := _ended(pid)) is None:
        events = dict(poll.poll())
        if status_fd in events:
            os.kill(pid, signal.SIGKILL)  # not reaped yet, so the id is still its own
            poll.unregister(status_fd)
        with contextlib.suppress(BlockingIOError):
            os.read(wake_read, 4096)
    _tell(status_fd, status)
    _end_as(status)


def _ended(pid: int) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    return status if ended else None


def _tell(fd: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody is left, which the loop notices
        os.write(fd, NUMBER.pack(number))


def _end_as(status: int) -> NoReturn:
    """End in the same way, so that the wrapper sees what it would have seen without this process."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler to be reset
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
