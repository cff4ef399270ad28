"""The few Linux calls that Python has no function for."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import stat
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
#: Of ``linux/falloc.h``: a hole is only punched where the size is kept.
_FALLOC_FL_KEEP_SIZE, _FALLOC_FL_PUNCH_HOLE = 1, 2
#: Of ``Documentation/admin-guide/devices.txt``: memory devices, terminals, and pseudo-terminals.
_HARMLESS_MAJORS = frozenset({1, 4, 5, *range(136, 144)})
_PAGE = os.sysconf("SC_PAGE_SIZE")


def _call(name: str, *arguments: int) -> None:
    """A function of the C library that returns 0; each argument is as wide as a pointer."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc[name](*map(ctypes.c_long, arguments)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}({arguments[0]}): {os.strerror(code)}")


def _prctl(option: int, value: int) -> None:
    _call("prctl", option, value, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when the thread that made it ends; exit now if it has already.

    ``parent`` is the process id that the parent must have.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of grandchildren whose parent dies, so that they can be reaped."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def threads() -> int:
    """How many threads this process has."""
    return len(os.listdir("/proc/self/task"))


def open_devices() -> list[str]:
    """Device files that this process has open or mapped, other than terminals and the like of ``/dev/null``."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one that listed
            mode = os.stat(f"/proc/self/fd/{name}")
            if stat.S_ISCHR(mode.st_mode) and os.major(mode.st_rdev) not in _HARMLESS_MAJORS:
                found.append(os.readlink(f"/proc/self/fd/{name}"))
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        mapped = {line.split(maxsplit=5)[5].strip() for line in file if " /dev/" in line}
    return sorted({*found, *(name for name in mapped if not name.startswith(("/dev/shm/", "/dev/zero")))})


def prefer_for_oom_kill() -> None:
    """Ask the kernel's OOM killer to take this process before the worker, which holds the verdicts."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "wb") as file:  # not everywhere writable
        file.write(b"500")


def punch_hole(fd: int, offset: int, length: int) -> None:
    """Give back what a file's ``length`` bytes from ``offset`` on take; they read as zeros, its size stays.

    Raises:
        OSError: the file system has no holes.
    """
    _call("fallocate", fd, _FALLOC_FL_PUNCH_HOLE | _FALLOC_FL_KEEP_SIZE, offset, length)


def start_time(pid: int) -> int:
    """Field 22 of ``/proc/PID/stat``: with the pid it names one process exactly.

    Raises:
        OSError: there is no such process.
    """
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def is_running(pid: int, started: int) -> bool:
    """The process exists and is no zombie; ``started`` is its :func:`start_time`, so that no other is meant."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return False
    return fields[0] not in (b"Z", b"X") and int(fields[19]) == started


def await_end(pid: int, started: int, seconds: float) -> bool:
    """Wait until a process that is not our child does not run any more; False where it does after ``seconds``."""
    deadline = time.monotonic() + seconds
    while is_running(pid, started):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def children() -> list[int]:
    """Ids of this process's children, zombies and adopted ones too. For a process of one thread."""
    own = os.getpid()
    try:
        with open(f"/proc/self/task/{own}/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        return [pid for pid in _pids() if _parent(pid) == own]


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _parent(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return None


def data_and_resident_bytes() -> tuple[int, int]:
    """This process's private writable address space (what RLIMIT_DATA limits) and its resident memory."""
    with open("/proc/self/statm", "rb") as file:
        fields = file.read().split()
    return int(fields[5]) * _PAGE, int(fields[1]) * _PAGE


def reset_peak() -> bool:
    """Make the peak of resident memory start again from now; False where the kernel does not allow it."""
    try:
        with open("/proc/self/clear_refs", "wb") as file:
            file.write(b"5")
    except OSError:
        return False
    return True


def peak_resident_bytes() -> int:
    """The peak of resident memory since :func:`reset_peak`, for a process that was forked, or was a spare.

    The number of ``VmHWM`` in ``/proc/self/status``, in a fiftieth of the time. (After an ``exec`` it could be that
    of the program before; getrusage(2), ``ru_maxrss``. A spare's was the keeper, which is far smaller than a
    process with frameworks.)
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
