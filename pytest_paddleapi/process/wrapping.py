"""The keeper's side of a process that runs under a wrapper, such as a sanitizer."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tty
from collections.abc import Sequence

from . import wrapped

__all__ = ["Wrapping"]


class Wrapping:
    """One wrapper and the process under it: how to start it, and what :mod:`.wrapped` says of that process.

    Attributes:
        output: the reading end of the wrapper's standard output and error, to be passed on and closed.
        pid: the process under the wrapper; None while it has not begun.
        status: how it ended, as from ``wait``; None while it runs, and where nobody could say.

    Raises:
        OSError: there are no descriptors left.
    """

    def __init__(self, words: Sequence[str], inner: Sequence[str], passed_on: int) -> None:
        """``inner`` is the command under the wrapper; it gets the descriptor ``passed_on`` as its first argument."""
        self.output, self._output_of_wrapper = _stream()
        self._control, self._control_of_wrapper = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        socket.send_fds(self._control, [b" "], [passed_on])
        self._control.setblocking(False)
        self.command = [*words, sys.executable, "-I", "-S", wrapped.__file__, *inner]
        self.pid: int | None = None
        self.status: int | None = None
        self._numbers = b""

    @property
    def file_actions(self) -> list[tuple[int, int, int]]:
        """For ``posix_spawn``: standard input, output and error of the wrapper."""
        sources = (self._control_of_wrapper.fileno(), self._output_of_wrapper, self._output_of_wrapper)
        return [(os.POSIX_SPAWN_DUP2, source, target) for target, source in enumerate(sources)]

    def started(self) -> None:
        """Close what is the wrapper's; called when it was started, or could not be."""
        os.close(self._output_of_wrapper)
        self._control_of_wrapper.close()

    def passed_on(self) -> None:
        """Somebody else has the output now."""
        os.close(self.output)

    def look(self) -> None:
        """Read what came about the process."""
        with contextlib.suppress(BlockingIOError, ConnectionResetError):  # reset: it never read what was sent
            while data := self._control.recv(4096):
                self._numbers += data
        whole = len(self._numbers) - len(self._numbers) % wrapped.NUMBER.size
        numbers = [number for (number,) in wrapped.NUMBER.iter_unpack(self._numbers[:whole])]
        self.pid = numbers[0] if numbers else None
        self.status = numbers[1] if len(numbers) > 1 else None

    def close(self) -> None:
        """Nothing more is asked of it."""
        self._control.close()


def _stream() -> tuple[int, int]:
    """A reading and a writing end.

    A terminal, where there is one to be had: programs let go of a terminal's lines at once, and of a pipe's when a
    buffer is full, which would charge what they say to a later case.
    """
    try:
        reading, writing = os.openpty()
    except OSError:  # no /dev/pts, or all in use
        return os.pipe2(os.O_CLOEXEC)
    try:
        tty.setraw(writing)
    except BaseException:
        os.close(reading)
        os.close(writing)
        raise
    return reading, writing
