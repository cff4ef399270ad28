"""Processes by id and start time, and their private memory, straight from ``/proc``.

Reading two small files costs 25 µs, where psutil takes 75 µs for the start time alone. Only ``statm`` is cheap
enough for every admission: measured on a process with Paddle and Torch imported, ``statm`` takes 13 µs and
``smaps_rollup`` 16,800 µs, because the latter walks the page tables.
"""

from __future__ import annotations

import os
from functools import cache

from .model import Holder

__all__ = ["identify", "is_running", "own_namespace", "private_bytes"]

_PAGE = os.sysconf("SC_PAGE_SIZE")

# Where the fields that we use stand in /proc/<pid>/stat behind the command's closing parenthesis.
_STATE, _SESSION, _STARTED = 0, 3, 19

#: A process tree deeper or wider than this is not a case process; stop rather than follow a fork bomb.
_MOST_PROCESSES = 256


@cache
def own_namespace() -> int:
    """The inode of this process's process id namespace; 0 where the kernel has none."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _read(path: str) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # gone, or hidden from us (hidepid): both mean that we know nothing
        return None
    try:
        return os.read(fd, 65536)
    except OSError:  # ESRCH: it ended between open and read
        return None
    finally:
        os.close(fd)


def _stat(pid: int, proc: str) -> list[bytes] | None:
    text = _read(f"{proc}/{pid}/stat")
    # The command may hold spaces and parentheses, so count from its last closing one.
    return None if not text else text[text.rindex(b")") + 2 :].split()


def identify(pid: int, proc: str = "/proc") -> Holder | None:
    """The process that has ``pid`` now, or None if there is none."""
    fields = _stat(pid, proc)
    return None if fields is None else Holder(pid, int(fields[_STARTED]), own_namespace())


def is_running(holder: Holder, proc: str = "/proc") -> bool:
    """True while this very process is alive; a zombie holds nothing and is not."""
    if holder.namespace != own_namespace():
        return False
    fields = _stat(holder.pid, proc)
    return fields is not None and int(fields[_STARTED]) == holder.started and fields[_STATE] not in (b"Z", b"X")


def private_bytes(holder: Holder, proc: str = "/proc") -> int | None:
    """Resident memory of the process and of its children in the same session, less what is shared, in bytes.

    None where it is unknown: the process is gone, its id is another's now, or it is in another container.
    What is shared (files, shared memory) is left out because it is not certain that it left the free pool.
    Children are those that the main thread started; a missed one only makes the result smaller, which is the
    safe side: what a process is not known to hold stays reserved for it.
    """
    if holder.namespace != own_namespace():
        return None
    # Memory first, identity second: if the process is ours now, it was ours a moment before.
    total = _resident(holder.pid, proc)
    fields = _stat(holder.pid, proc)
    if total is None or fields is None or int(fields[_STARTED]) != holder.started:
        return None
    return total + _children_bytes(holder.pid, fields[_SESSION], proc)


def _resident(pid: int, proc: str) -> int | None:
    text = _read(f"{proc}/{pid}/statm")
    if not text:
        return None
    fields = text.split()
    return max(0, int(fields[1]) - int(fields[2])) * _PAGE


def _children_bytes(pid: int, session: bytes, proc: str) -> int:
    total = 0
    waiting, seen = [pid], {pid}
    while waiting and len(seen) <= _MOST_PROCESSES:
        parent = waiting.pop()
        for child in map(int, (_read(f"{proc}/{parent}/task/{parent}/children") or b"").split()):
            if child in seen:
                continue
            seen.add(child)
            size = _resident(child, proc)
            fields = _stat(child, proc)
            if size is not None and fields is not None and fields[_SESSION] == session:
                total += size
                waiting.append(child)
    return total
