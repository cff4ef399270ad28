"""The shared file of a simulated GPU farm, as ``sim_state.h`` lays it out, and the lock around it.

Standard library only: the fake vendor tools import this module too.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_char, c_double, c_int64, c_uint32, c_uint64
from enum import IntEnum
from pathlib import Path
from typing import Any

__all__ = ["CONTROL", "FAULTS", "FILE_VARIABLE", "Action", "Event", "FarmError", "State"]

#: The environment variable that names the file; the libraries read it too.
FILE_VARIABLE = "SIMFARM_FILE"
#: The file of the control library, beside the others that :mod:`build` makes.
CONTROL = "libsimfarm.so"

# The numbers of sim_state.h; State checks their sum, the size of the structure.
VERSION = 1
DEVICES = 32
PROCESSES = 512
FAULTS = 64
RELEASES = 1024
REFUSALS = 256
_TEXT = 96
_CALL = 64


class FarmError(Exception):
    """The farm cannot do what it was asked for; the message says why and what to do."""


class Event(IntEnum):
    """Where a fault may strike."""

    #: A process prepares a device.
    INIT = 1
    ALLOCATE = 2
    #: A copy in any direction.
    COPY = 3
    SYNCHRONIZE = 4
    #: A call of NVML.
    NVML = 5
    #: A start of ``xpu-smi`` or ``ixsmi``.
    TOOL = 6


class Action(IntEnum):
    """What a fault does."""

    #: Say no: an allocation finds no memory, a copy or synchronisation fails.
    REFUSE = 1
    #: SIGABRT.
    ABORT = 2
    #: SIGSEGV, by a real write to address 0.
    SEGFAULT = 3
    #: Not return for ``milliseconds``, or ever.
    HANG = 4
    #: Fail with ``code``: a CUDA error (45 lost, 46 unavailable, 700 illegal access …), an NVML error, an exit code.
    FAIL = 5
    #: A tool prints what no parser expects.
    GARBAGE = 6
    #: A copy arrives with its last byte one less.
    CORRUPT = 7


class Release(ctypes.Structure):
    _fields_ = (("until_ns", c_uint64), ("bytes", c_uint64))


class RefusalEntry(ctypes.Structure):
    _fields_ = (
        ("at_ns", c_uint64),
        ("bytes", c_uint64),
        ("free", c_uint64),
        ("pid", c_uint32),
        ("injected", c_uint32),
    )


class DeviceEntry(ctypes.Structure):
    _fields_ = (
        ("uuid", c_char * _TEXT),
        ("name", c_char * _TEXT),
        ("total", c_uint64),
        ("context", c_uint64),
        ("foreign", c_uint64),
        ("release_ns", c_uint64),
        ("peak", c_uint64),
        ("allocations", c_uint64),
        ("frees", c_uint64),
        ("copies", c_uint64),
        ("refused", c_uint64),
        ("mig_parent", c_int64),
        ("mig", c_uint64),
        ("releases_top", c_uint64),
        ("releases", Release * RELEASES),
        ("refusals", RefusalEntry * REFUSALS),
    )


class ProcessEntry(ctypes.Structure):
    _fields_ = (
        ("pid", c_uint64),
        ("started", c_uint64),
        ("contexts", c_uint64),
        ("bytes", c_uint64 * DEVICES),
    )


class FaultEntry(ctypes.Structure):
    _fields_ = (
        ("generation", c_uint64),
        ("event", c_uint32),
        ("action", c_uint32),
        ("device", c_int64),
        ("pid", c_uint64),
        ("nth", c_uint64),
        ("times", c_uint64),
        ("per_process", c_uint64),
        ("probability", c_double),
        ("seed", c_uint64),
        ("code", c_int64),
        ("milliseconds", c_uint64),
        ("seen", c_uint64),
        ("fired", c_uint64),
        ("call", c_char * _CALL),
    )


class StateEntry(ctypes.Structure):
    _fields_ = (
        ("magic", c_uint64),
        ("version", c_uint64),
        ("size", c_uint64),
        ("devices", c_uint64),
        ("lock", c_uint64 * 16),
        ("processes_top", c_uint64),
        ("faults_top", c_uint64),
        ("generation", c_uint64),
        ("faults", FaultEntry * FAULTS),
        ("processes", ProcessEntry * PROCESSES),
        ("device", DeviceEntry * DEVICES),
    )


class State:
    """A mapped farm file.

    Raises:
        FarmError: the file is not there, or is of another version or size than this module and the library.
    """

    def __init__(self, file: Path, library: Path) -> None:
        self.file = file
        self._library = _load(library)
        why = ctypes.create_string_buffer(512)
        self._address: int | None = self._library.simfarm_attach(os.fsencode(file), why, len(why))
        if not self._address:
            raise FarmError(f"cannot attach to the farm: {why.value.decode()}")
        self.entry = StateEntry.from_address(self._address)
        if (self.entry.version, self.entry.size) != (VERSION, ctypes.sizeof(StateEntry)):
            found = f"version {self.entry.version}, {self.entry.size} bytes"
            self.close()
            raise FarmError(
                f"{file} has {found}; layout.py describes version {VERSION}, {ctypes.sizeof(StateEntry)} bytes: "
                "bring it and sim_state.h together"
            )

    @staticmethod
    def create(file: Path, library: Path) -> State:
        """Make the file, without devices.

        Raises:
            FarmError: it is there already, or cannot be made.
        """
        error = _load(library).simfarm_create(os.fsencode(file))
        if error:
            raise FarmError(f"cannot make the farm's file {file}: {os.strerror(error)}")
        return State(file, library)

    @contextmanager
    def locked(self) -> Iterator[StateEntry]:
        """The state, while nobody else changes it; without the dead and what is back by now."""
        self._library.simfarm_lock(self._address)
        try:
            self._library.simfarm_sweep(self._address)
            yield self.entry
        finally:
            self._library.simfarm_unlock(self._address)

    def used(self, device: int) -> int:
        """Bytes in use on a device, by whomever; call it with the lock held."""
        return int(self._library.simfarm_used(self._address, device))

    def take(self, device: int, size: int) -> bool:
        """Take bytes for this very process, as a program would that is none of Paddle's; False if they don't fit."""
        return bool(self._library.simfarm_take(self._address, device, size))

    def give(self, device: int, size: int) -> None:
        """Give back what :meth:`take` took."""
        self._library.simfarm_give(self._address, device, size)

    def tool_fault(self, tool: str) -> Action | None:
        """What a fake tool is to do wrong; a hang is over, or never ends, when this returns."""
        action = self._library.simfarm_tool(self._address, tool.encode())
        return Action(action) if action else None

    def close(self) -> None:
        """Unmap the file; no entry of it may be touched afterwards."""
        if self._address:
            self._library.simfarm_detach(self._address)
            self._address = None


def _load(library: Path) -> Any:
    loaded = ctypes.CDLL(os.fspath(library))
    pointer, number = ctypes.c_void_p, c_uint64
    for name, result, arguments in (
        ("create", ctypes.c_int, [ctypes.c_char_p]),
        ("attach", pointer, [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]),
        ("detach", None, [pointer]),
        ("lock", None, [pointer]),
        ("unlock", None, [pointer]),
        ("sweep", None, [pointer]),
        ("used", number, [pointer, number]),
        ("take", ctypes.c_int, [pointer, number, number]),
        ("give", None, [pointer, number, number]),
        ("tool", c_uint32, [pointer, ctypes.c_char_p]),
    ):
        function = getattr(loaded, f"simfarm_{name}")
        function.restype, function.argtypes = result, arguments
    return loaded
