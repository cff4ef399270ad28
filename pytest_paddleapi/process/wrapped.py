"""Stands between a wrapper, such as a sanitizer, and the process that it watches, and tells how that one ended.

A wrapper's exit code does not say which signal ended the process under it, and often not even that one did. So the
keeper lets the wrapper start this program, by its path, isolated, as ``wrapped.py COMMAND...``. Its standard input,
which wrappers pass on also where they close every other descriptor, is a socket of the keeper's. Through it comes one
descriptor; the command is started with that descriptor's number and this process's id as further arguments. What is
written back are two numbers: the id of the command's process, and its wait status. If nobody is left at the other end,
it ends the command.

It is run by path, so it may import nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import socket
import struct
import sys
from typing import NoReturn

#: What is written: one number at a time.
NUMBER = struct.Struct("=q")


def main() -> NoReturn:
    """Entry point."""
    keeper, passed_on = _take_over()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    command = [*sys.argv[1:], str(passed_on), str(os.getpid())]
    pid = os.posix_spawn(command[0], command, os.environ)
    os.close(passed_on)
    _tell(keeper, pid)
    poll = select.poll()
    poll.register(wake_read, select.POLLIN)
    poll.register(keeper, 0)  # only that its other end is gone
    while (status := _ended(pid)) is None:
        events = dict(poll.poll())
        if keeper.fileno() in events:
            os.kill(pid, signal.SIGKILL)  # not reaped yet, so the id is still its own
            poll.unregister(keeper)
        with contextlib.suppress(BlockingIOError):
            os.read(wake_read, 4096)
    _tell(keeper, status)
    _end_as(status)


def _take_over() -> tuple[socket.socket, int]:
    """The socket that is standard input, which is an empty file from now on, and the descriptor that comes through."""
    try:
        keeper = socket.socket(fileno=os.dup(0))
        _, (passed_on,), _, _ = socket.recv_fds(keeper, 1, 1)
    except (OSError, ValueError) as exc:
        sys.exit(f"{sys.argv[0]}: standard input is not what the keeper gave the program that started this one: {exc}")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.set_inheritable(passed_on, True)
    return keeper, passed_on


def _ended(pid: int) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    return status if ended else None


def _tell(keeper: socket.socket, number: int) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # nobody is left, which the loop notices
        keeper.sendall(NUMBER.pack(number))


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
