"""Files in memory that a child writes into and the worker reads: stdout, stderr, stacks. Bounded."""

from __future__ import annotations

import fcntl
import os
import threading

from . import kernel

#: Kept of one case's output: its beginning and its end.
_HEAD, _TAIL = 32 * 1024, 64 * 1024
#: What a file may hold before its middle is given back, so that a child that prints for ever fills no memory.
_LARGEST = 8 << 20


class OutputFile:
    """A file without a name, opened for appending; the child gets a copy of :attr:`fd`.

    It lies in memory: a full disk would make each line that a case prints an error of the case.
    """

    def __init__(self) -> None:
        self.fd = os.memfd_create("paddleapi-output", os.MFD_CLOEXEC)
        # Appending, so that the child goes on at the new end after the file was emptied.
        fcntl.fcntl(self.fd, fcntl.F_SETFL, fcntl.fcntl(self.fd, fcntl.F_GETFL) | os.O_APPEND)
        self._lock = threading.Lock()
        self._closed = False
        #: Where the middle part that was given back ends. What is read begins no earlier, beside the head.
        self._freed = _HEAD

    def append(self, data: bytes) -> None:
        """Add what came another way; nothing once it is closed. From another thread than :meth:`close` too."""
        with self._lock:
            if not self._closed:
                os.write(self.fd, data)
                self.trim()

    def size(self) -> int:
        """Bytes that were written since the last :meth:`take`, those given back included."""
        return os.fstat(self.fd).st_size

    def held(self) -> int:
        """Bytes of memory that the file takes now."""
        return os.fstat(self.fd).st_blocks * 512

    def trim(self) -> None:
        """Give back the middle of a file that is too large. Nothing that the child writes meanwhile is lost."""
        size = self.size()
        if size - self._freed > _LARGEST:
            kernel.punch_hole(self.fd, self._freed, size - _TAIL - self._freed)
            self._freed = size - _TAIL

    def since(self, offset: int) -> str:
        """The text from byte ``offset`` on, at most the last 64 KiB of it."""
        start = max(offset, self.size() - _TAIL)
        return os.pread(self.fd, _TAIL, start).decode("utf-8", "replace")

    def peek(self) -> str:
        """The text so far, without taking it."""
        return self._text(self.size())

    def take(self) -> str:
        """The text since the last call; long text is cut in the middle."""
        size = self.size()
        if not size:
            return ""
        text = self._text(size)
        os.ftruncate(self.fd, 0)
        self._freed = _HEAD
        return text

    def _text(self, size: int) -> str:
        head = os.pread(self.fd, _HEAD, 0)
        start = max(len(head), size - _TAIL)
        tail = os.pread(self.fd, _TAIL, start)
        left_out = start - len(head)
        middle = f"\n... {left_out} bytes left out ...\n" if left_out > 0 else ""
        return head.decode("utf-8", "replace") + middle + tail.decode("utf-8", "replace")

    def close(self) -> None:
        """Close our end; the child's copy stays valid."""
        with self._lock:
            self._closed = True
            os.close(self.fd)
