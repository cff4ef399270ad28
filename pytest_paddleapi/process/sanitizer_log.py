"""The worker's reader of what one sanitizer prints."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable

from .sanitizer_reports import Kind, Report, ReportParser

__all__ = ["SanitizerLog"]

_CHUNK = 64 * 1024
#: A line without an end is cut here, so that nothing that is printed fills the memory.
_LONGEST_LINE = 1 << 20


class SanitizerLog:
    """Reads ``fd``, which it owns, in a thread of its own, so that the sanitizer never waits for a reader.

    Args:
        fd: the reading end of the sanitizer's standard output and error.
        others: gets the lines that are no report: what the program under the sanitizer has printed before it was
            a case process, and what the sanitizer says in another form.
    """

    def __init__(self, fd: int, others: Callable[[str], None]) -> None:
        self._fd = fd
        self._others = others
        self._parser = ReportParser()
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._read, name="paddleapi-sanitizer", daemon=True)
        self._thread.start()

    def await_end_of(self, token: int, seconds: float) -> bool:
        """Wait until all was read that was printed before this case ended; False where that did not come in time."""
        deadline = time.monotonic() + seconds
        with self._changed:
            return self._changed.wait_for(
                lambda: self._parser.ended >= token or self._ended, max(0.0, deadline - time.monotonic())
            )

    def await_end(self, seconds: float) -> bool:
        """Wait until whoever could print has ended; False where somebody has not."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def take(self, token: int) -> list[Report]:
        """The reports of one case; they are not given again."""
        with self._changed:
            return self._parser.take(token)

    def take_rest(self) -> list[Report]:
        """The reports that belong to no case."""
        with self._changed:
            return self._parser.take_rest()

    def counts(self) -> Counter[Kind]:
        """How many reports of each kind there were."""
        with self._changed:
            return Counter(self._parser.counts)

    def _read(self) -> None:
        rest = b""
        try:
            while data := self._chunk():
                *lines, rest = (rest + data).split(b"\n")
                rest = rest[-_LONGEST_LINE:]
                self._feed(lines)
            self._feed([rest] if rest else [])
        finally:
            os.close(self._fd)
            with self._changed:
                self._parser.close()
                self._ended = True
                self._changed.notify_all()

    def _chunk(self) -> bytes:
        try:
            return os.read(self._fd, _CHUNK)
        except OSError:  # a terminal's way to say that nobody has it open any more (EIO)
            return b""

    def _feed(self, lines: list[bytes]) -> None:
        for line in lines:
            with self._changed:
                other = self._parser.feed(line.decode("utf-8", "replace"))
                self._changed.notify_all()
            if other:
                self._others(other)
