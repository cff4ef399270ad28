"""The case process's side of a sanitizer: says in the sanitizer's own output where a case and its stages begin.

The sanitizer prints what it finds when its own process gets round to it. So before each mark the devices finish
their work (the caller's part), and the sanitizer is waited for until it has nothing to do.
"""

from __future__ import annotations

import os
import time

from .sanitizer_reports import END, mark

__all__ = ["Marks"]

#: The sanitizer's threads are looked at this often, and must be seen asleep so many times in a row.
_LOOK_SECONDS, _QUIET_LOOKS = 0.002, 3
#: One that is never at rest is waited for no longer.
_LONGEST_SECONDS = 1.0
#: Between the case process and the sanitizer there are a few launchers.
_MOST_ANCESTORS = 8


class Marks:
    """Writes marks into ``fd``, which is what the sanitizer prints into; taken over."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def stage(self, token: int, name: str) -> None:
        """A case enters a stage."""
        self._write(token, name)

    def end(self, token: int) -> None:
        """A case has ended."""
        self._write(token, END)

    def _write(self, token: int, place: str) -> None:
        settle()
        data = mark(token, place)
        while data:
            data = data[os.write(self._fd, data) :]


def settle() -> None:
    """Wait until no thread of the processes above this one, in its session, has anything to do."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    above = _ancestors()
    quiet = 0
    while quiet < _QUIET_LOOKS and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        quiet = quiet + 1 if not any(_works(pid) for pid in above) else 0


def _ancestors() -> list[int]:
    """The processes above this one up to the leader of its session, which is the sanitizer."""
    leader, pid = os.getsid(0), os.getppid()
    found: list[int] = []
    while pid > 1 and len(found) < _MOST_ANCESTORS:
        found.append(pid)
        if pid == leader:
            break
        pid = _parent(pid)
    return found


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:  # it has ended
        return 0


def _works(pid: int) -> bool:
    """A thread of it runs, waits for a core, or for a disk."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return False
    return any(_state(pid, thread) in (b"R", b"D") for thread in threads)


def _state(pid: int, thread: str) -> bytes:
    try:
        with open(f"/proc/{pid}/task/{thread}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0]
    except OSError:  # the thread has ended
        return b""
