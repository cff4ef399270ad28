"""The keeper's side of a process that runs under a wrapper, such as a sanitizer."""

from __future__ import annotations

import contextlib
import os
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

    def __init__(self, words: Sequence[str], inner: Sequence[str]) -> None:
        self.output, self._output_of_wrapper = _stream()
        self._status_read, self._status_write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._status_read, False)
        os.set_inheritable(self._status_write, True)
        self.command = [*words, sys.executable, "-I", "-S", wrapped.__file__, str(self._status_write), *inner]
        self.pid: int | None = None
        self.status: int | None = None
        self._numbers = b""

    @property
    def file_actions(self) -> list[tuple[int, int, int]]:
        """For ``posix_spawn``: standard output and error of the wrapper."""
        return [(os.POSIX_SPAWN_DUP2, self._output_of_wrapper, fd) for fd in (1, 2)]

    def started(self) -> None:
        """Close what is the wrapper's; called when it was started, or could not be."""
        os.close(self._output_of_wrapper)
        os.close(self._status_write)

    def passed_on(self) -> None:
        """Somebody else has the output now."""
        os.close(self.output)

    def look(self) -> None:
        """Read what came about the process."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._status_read, 4096):
                self._numbers += data
        numbers = [number for (number,) in wrapped.NUMBER.iter_unpack(self._numbers)]
        self.pid = numbers[0] if numbers else None
        self.status = numbers[1] if len(numbers) > 1 else None

    def close(self) -> None:
        """Nothing more is asked of it."""
        os.close(self._status_read)


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
