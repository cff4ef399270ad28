"""Files that a child writes into and the worker reads: stdout, stderr, stacks. Bounded."""

from __future__ import annotations

import os
import tempfile
import threading

#: Kept of one case's output: its beginning and its end.
_HEAD, _TAIL = 32 * 1024, 64 * 1024
#: A file that grew beyond this is emptied, so that a child that prints for ever fills no disk.
_LARGEST = 8 << 20


class OutputFile:
    """An unlinked temporary file, opened for appending; the child gets a copy of :attr:`fd`."""

    def __init__(self) -> None:
        fd, path = tempfile.mkstemp(prefix="paddleapi-")
        os.close(fd)
        # Appending, so that the child goes on at the new end after the file was emptied.
        self.fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        os.unlink(path)
        self._lock = threading.Lock()
        self._closed = False
        #: Of what trimming removed: its beginning, its end, and how many bytes it was.
        self._head = b""
        self._last = b""
        self._dropped = 0

    def append(self, data: bytes) -> None:
        """Add what came another way; nothing once it is closed. From another thread than :meth:`close` too."""
        with self._lock:
            if not self._closed:
                os.write(self.fd, data)
                self.trim()

    def size(self) -> int:
        """Bytes in the file now."""
        return os.fstat(self.fd).st_size

    def trim(self) -> None:
        """Empty the file if it is too large, keeping its beginning and end. Called while the child writes."""
        size = self.size()
        if size > _LARGEST:
            if not self._head:
                self._head = os.pread(self.fd, _HEAD, 0)
            # What is written between these two lines is lost; whoever writes that fast goes on writing.
            self._last = os.pread(self.fd, _TAIL, size - _TAIL)
            # One byte stays, so that the child sees that something was printed (see ``server._is_silent``).
            os.ftruncate(self.fd, 1)
            self._dropped += size - 1

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
        if not size and not self._dropped:
            return ""
        text = self._text(size)
        os.ftruncate(self.fd, 0)
        self._head, self._last, self._dropped = b"", b"", 0
        return text

    def _text(self, size: int) -> str:
        head = self._head or os.pread(self.fd, _HEAD, 0)
        start = 1 if self._dropped else len(head)
        rest = os.pread(self.fd, _TAIL, max(start, size - _TAIL)) if size > start else b""
        tail = (self._last + rest)[-_TAIL:]
        left_out = self._dropped + size - len(head) - len(tail)
        middle = f"\n... {left_out} bytes left out ...\n" if left_out > 0 else ""
        return head.decode("utf-8", "replace") + middle + tail.decode("utf-8", "replace")

    def close(self) -> None:
        """Close our end; the child's copy stays valid."""
        with self._lock:
            self._closed = True
            os.close(self.fd)
