"""The host itself as a device: its memory, as far as this process may use it."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping, Sequence

from .cgroups import MemoryGroup, memory_groups
from .model import Device, DeviceReadingError, Holder, MemoryReading, Probe
from .processes import private_bytes
from .readings import bracketed

__all__ = ["KIND", "HostDevice", "HostKind"]

#: A level without a limit is not looked at again for so long. Limits that are there are read every time.
_LIMIT_SECONDS = 1.0


class HostDevice:
    """Host memory: the least of what the kernel calls available and what each control group leaves.

    Every process that runs on one kernel gives it the same ``uuid`` (from the boot id), in containers too.
    ``memory_limit`` (bytes; ``--paddleapi-memory-limit``) makes the host look smaller: the total is no more
    than it, and free is no more than it less what the holders of leases hold.
    """

    def __init__(self, memory_limit: int | None = None, *, proc: str = "/proc") -> None:
        if memory_limit is not None and memory_limit <= 0:
            raise ValueError(f"a memory limit is a positive number of bytes, not {memory_limit}")
        self.memory_limit = memory_limit
        self._proc = proc
        self._groups = memory_groups(proc)
        self._limited: tuple[MemoryGroup, ...] = ()
        self._looked = float("-inf")
        self.uuid = f"host-{self._boot_id()}"
        self.index = 0
        self.model = platform.machine() or "cpu"  # processor() would start a program to find out

    def __repr__(self) -> str:
        return f"HostDevice({self.uuid!r}, memory_limit={self.memory_limit})"

    @property
    def free_needs_holders(self) -> bool:
        return self.memory_limit is not None

    def read(self, holders: Sequence[Holder] = ()) -> MemoryReading:
        """See :meth:`pytest_paddleapi.devices.model.Device.read`. Takes about 40 µs, and 100 µs for each holder."""
        total, free = self._available()
        held: dict[Holder, int] = {}
        if holders:
            free, held = bracketed(lambda: self._available()[1], lambda: self._held(holders))
        if self.memory_limit is not None:
            total = min(total, self.memory_limit)
            free = max(0, min(free, self.memory_limit - sum(held.values())))
        return MemoryReading(total, free, held)

    def _held(self, holders: Sequence[Holder]) -> dict[Holder, int]:
        return {holder: size for holder in holders if (size := private_bytes(holder, self._proc)) is not None}

    def _available(self) -> tuple[int, int]:
        try:
            total, free = _meminfo(f"{self._proc}/meminfo")
            for group in self._limited_groups():
                memory = group.read()
                if memory is not None:
                    total, free = min(total, memory.limit), min(free, memory.available)
        except (OSError, ValueError) as exc:
            raise DeviceReadingError("the host", f"{exc}") from exc
        return total, free

    def _limited_groups(self) -> tuple[MemoryGroup, ...]:
        now = time.monotonic()
        if now - self._looked >= _LIMIT_SECONDS:
            self._limited = tuple(group for group in self._groups if group.limit() is not None)
            self._looked = now
        return self._limited

    def _boot_id(self) -> str:
        try:
            with open(f"{self._proc}/sys/kernel/random/boot_id", encoding="ascii") as file:
                return file.read().strip()
        except OSError:
            return os.uname().nodename


def _meminfo(path: str) -> tuple[int, int]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = os.read(fd, 8192)
    finally:
        os.close(fd)
    return _kibibytes(text, b"MemTotal:", path) * 1024, _kibibytes(text, b"MemAvailable:", path) * 1024


def _kibibytes(text: bytes, key: bytes, path: str) -> int:
    at = text.find(key)
    if at < 0:
        raise ValueError(f"{path} has no {key.decode()} line (Linux 3.14 or later is needed)")
    return int(text[at + len(key) : at + len(key) + 32].split(None, 1)[0])


class HostKind:
    """The kind that is always there, behind all others."""

    name = "cpu"
    priority = 0
    visibility_variable: str | None = None

    def __init__(self, memory_limit: int | None = None) -> None:
        self.memory_limit = memory_limit

    def probe(self, environ: Mapping[str, str]) -> Probe:
        """One device; the environment hides nothing."""
        return Probe((HostDevice(self.memory_limit),))

    def visible(self, devices: Sequence[Device]) -> str:
        """Nothing to hide."""
        return ""

    def paddle_device(self, position: int) -> str:
        """Paddle counts no CPUs."""
        return "cpu"

    def torch_device(self, position: int) -> str:
        """Nor does Torch."""
        return "cpu"


KIND = HostKind()
