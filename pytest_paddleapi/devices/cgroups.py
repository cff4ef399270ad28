"""The memory limits of the control groups that this process is in (version 1, version 2, and both at once).

A limit may stand at any level between the process's own group and the mount point, and the tightest counts.
Layout: https://docs.kernel.org/admin-guide/cgroup-v2.html and .../cgroup-v1/memory.html.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["GroupMemory", "MemoryGroup", "memory_groups"]

#: Version 1 writes "no limit" as the largest page-aligned 63-bit number; nothing real comes near this.
_UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """Bytes that one group may use, and that it could still take."""

    limit: int
    available: int


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """One level of the hierarchy: a folder with the memory controller's files."""

    folder: str
    version: int

    def read(self) -> GroupMemory | None:
        """The limit and what is left of it, or None where this level sets none.

        What is left is limit − usage + the file cache that the kernel would drop first. The kernel's own
        ``MemAvailable`` does not count on all of the cache; neither do we: half of the active part.

        Raises:
            OSError: the group's files cannot be read.
            ValueError: they say something else than numbers.
        """
        limit = self.limit()
        if limit is None:
            return None
        usage = _number(f"{self.folder}/{'memory.current' if self.version == 2 else 'memory.usage_in_bytes'}")
        prefix = "" if self.version == 2 else "total_"  # version 1: plain names leave the children out
        stat = dict(line.split() for line in _text(f"{self.folder}/memory.stat").splitlines())
        cache = int(stat.get(f"{prefix}inactive_file", 0)) + int(stat.get(f"{prefix}active_file", 0)) // 2
        return GroupMemory(limit, max(0, min(limit, limit - usage + cache)))

    def limit(self) -> int | None:
        """The bytes that this level allows, or None where it sets no limit.

        Raises:
            OSError, ValueError: as :meth:`read`.
        """
        if self.version == 1:
            found = [_number(f"{self.folder}/memory.limit_in_bytes")]
        else:
            # Above memory.high nothing is killed but everything is slowed to a crawl: a limit for us too.
            names = [f"{self.folder}/memory.max", f"{self.folder}/memory.high"]
            found = [int(text) for name in names if (text := _text(name).strip()) != "max"]
        return min((limit for limit in found if limit < _UNLIMITED), default=None)


def _text(path: str) -> str:
    # Not open(): these are read for every admission, and a text file object costs more than the kernel's part.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        chunks = []
        while chunk := os.read(fd, 65536):
            chunks.append(chunk)
    finally:
        os.close(fd)
    return b"".join(chunks).decode("utf-8", "surrogateescape")


def _number(path: str) -> int:
    return int(_text(path))


def memory_groups(proc: str = "/proc") -> tuple[MemoryGroup, ...]:
    """Every level that has memory files, from the process's own group up to the mount point.

    Empty where the process is in no memory group, or ``/proc`` or the hierarchy cannot be seen.
    """
    try:
        membership = _text(f"{proc}/self/cgroup").splitlines()
        mounts = _text(f"{proc}/self/mountinfo").splitlines()
    except OSError:
        return ()
    levels: list[MemoryGroup] = []
    for line in membership:
        number, controllers, path = line.split(":", 2)
        version = 2 if number == "0" and not controllers else 1
        if version == 2 or "memory" in controllers.split(","):
            levels.extend(_levels(path, version, mounts))
    return tuple(levels)


def _levels(path: str, version: int, mounts: list[str]) -> Iterator[MemoryGroup]:
    found = _mount_point(version, mounts)
    if found is None:
        return
    root, top = found
    # In a container the mount may show only the part of the hierarchy that begins at ``root``. A path that
    # leads out of it ("/.." under a group namespace) leaves only the top to look at.
    inside = os.path.relpath(path, root)
    folder = top if inside.startswith("..") else os.path.normpath(os.path.join(top, inside))
    needed = "memory.max" if version == 2 else "memory.limit_in_bytes"
    while True:
        # The real root of version 2 has no memory.max; a mount of version 2 beside version 1 has none at all.
        if os.path.exists(f"{folder}/{needed}"):
            yield MemoryGroup(folder, version)
        if folder == top or len(folder) <= len(top):
            return
        folder = os.path.dirname(folder)


def _mount_point(version: int, mounts: list[str]) -> tuple[str, str] | None:
    for line in mounts:
        before, _, after = line.partition(" - ")
        kind, *rest = after.split()
        fields = before.split()
        wanted = kind == "cgroup2" if version == 2 else kind == "cgroup" and "memory" in rest[-1].split(",")
        if wanted:
            return _unescape(fields[3]), _unescape(fields[4])
    return None


def _unescape(text: str) -> str:
    # mountinfo writes blanks and backslashes as three octal digits.
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text
