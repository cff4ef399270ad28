"""The simulated device of the ledger's soak: what each process holds, in a file.

What a dead process held is free, as with a driver. Nothing here uses the ledger or any code of the package but what
every device shares, so the checker may rely on it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import random
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytest_paddleapi.devices.model import Holder, MemoryReading
from pytest_paddleapi.devices.readings import bracketed

GIB = 1 << 30
TOTAL = 80 * GIB

#: Bytes by process id and start time.
Processes = dict[tuple[int, int], int]


def start_of(pid: int) -> int | None:
    """When a living process started, in clock ticks."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


class DeviceFile:
    """80 GiB shared by whoever opens this file; every access holds a lock of the file."""

    RECORD = struct.Struct("<qqq")  # pid, start, bytes
    RECORDS = 256

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(self.RECORD.size * self.RECORDS))

    @contextmanager
    def locked(self) -> Iterator[int]:
        """The open file, locked. Opened anew each time: a forked child would share its parent's lock."""
        fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield fd
        finally:
            os.close(fd)

    def living(self, fd: int) -> Processes:
        """What living processes hold."""
        records = self.RECORD.iter_unpack(os.pread(fd, self.RECORD.size * self.RECORDS, 0))
        return {(pid, start): size for pid, start, size in records if pid and start_of(pid) == start}

    def read(self) -> Processes:
        """The same, with the lock taken for it."""
        with self.locked() as fd:
            return self.living(fd)

    def peek(self) -> Processes:
        """The same without the lock: for the driver, which may have stopped whoever has it."""
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return self.living(fd)
        finally:
            os.close(fd)

    def change(self, pid: int, by: int) -> bool:
        """A process takes (or, below 0, gives back) memory; False if there is not so much."""
        start = start_of(pid)
        assert start is not None
        with self.locked() as fd:
            held = self.living(fd)
            if by > 0 and sum(held.values()) + by > TOTAL:
                return False
            held[pid, start] = held.get((pid, start), 0) + by
            assert held[pid, start] >= 0
            records = [self.RECORD.pack(*key, size) for key, size in held.items() if size]
            os.pwrite(fd, b"".join(records).ljust(self.RECORD.size * self.RECORDS, b"\0"), 0)
        return True


class SoakDevice:
    """The device as the ledger sees it: looks one after the other, between which anything may happen."""

    uuid, index, model, free_needs_holders = "GPU-soak", 0, "simulated", False

    def __init__(self, file: DeviceFile, chance: random.Random) -> None:
        self._file = file
        self._chance = chance

    def read(self, holders: Sequence[Holder] = ()) -> MemoryReading:
        """See :class:`pytest_paddleapi.devices.model.Device`."""
        if not holders:
            return MemoryReading(TOTAL, self._free())
        free, held = bracketed(self._free, lambda: self._held(holders))
        return MemoryReading(TOTAL, free, held)

    def _free(self) -> int:
        self._linger()
        return TOTAL - sum(self._file.read().values())

    def _held(self, holders: Sequence[Holder]) -> dict[Holder, int]:
        self._linger()
        known = self._file.read()
        return {h: known.get((h.pid, h.started), 0) for h in holders if start_of(h.pid) == h.started}

    def _linger(self) -> None:
        if self._chance.random() < 0.1:
            time.sleep(self._chance.uniform(0, 0.002))


COUNTERS = (
    "sessions",
    "reserved",
    "replaced",
    "refused",
    "unknown",
    "unconfirmed",
    "finished",
    "settled",
    "released",
    "allocations",
    "refused_allocations",
    "checks",
    "unchecked",
    "violations",
    "peak_permille",
)


class Counters:
    """One row of numbers for each process, in shared memory; each process writes only its own row."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._memory = mmap.mmap(-1, rows * len(COUNTERS) * 8)
        self.row = 0

    def add(self, name: str, by: int = 1) -> None:
        """Count."""
        at = (self.row * len(COUNTERS) + COUNTERS.index(name)) * 8
        (before,) = struct.unpack_from("<q", self._memory, at)
        value = max(before, by) if name == "peak_permille" else before + by
        struct.pack_into("<q", self._memory, at, value)

    def total(self, name: str) -> int:
        """Over all rows."""
        column = [
            struct.unpack_from("<q", self._memory, (row * len(COUNTERS) + COUNTERS.index(name)) * 8)[0]
            for row in range(self._rows)
        ]
        return max(column) if name == "peak_permille" else sum(column)
