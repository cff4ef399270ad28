"""The memory of the host's devices for people who look: within a time limit, whatever a driver does."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ..devices.host import HostDevice
from ..devices.model import Device, DeviceError, DeviceReadingError, Holder, MemoryReading
from ..devices.readings import ABANDON_SECONDS, TimedReader, within
from ..devices.registry import DeviceRegistry, default_registry
from ..gpu_admission import Lease
from . import CommandUsageError

__all__ = ["DeviceMemory", "HostMemory"]

#: Of the time that is left for finding devices, the part that one kind may take where several are asked.
_PART_OF_ONE_KIND = 0.4

#: Looking for devices can cost seconds and, with a sick driver, a thread each time. So not with every refresh.
_AGAIN_SECONDS = 30.0

#: However little time is left: a healthy driver answers in this.
_LEAST_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """A device and its memory now; ``reading`` is None where it could not be read, and ``error`` says why."""

    uuid: str
    index: int
    model: str
    reading: MemoryReading | None
    error: str = ""


class HostMemory:
    """Finds the devices of one kind (``auto``: the first that has some) and reads them, again and again.

    ``kind`` and ``trouble`` say what was found: the kind's name, and why there is nothing, or what was passed over.
    """

    def __init__(self, name: str = "auto", registry: DeviceRegistry | None = None) -> None:
        self.kind = ""
        self.trouble: tuple[str, ...] = ()
        self._name = name
        self._registry = registry
        self._found: tuple[Device, ...] = ()
        self._looked = float("-inf")
        self._readers: dict[str, TimedReader] = {}

    def read(self, leases: Sequence[Lease], seconds: float) -> list[DeviceMemory]:
        """Every device with its memory; takes ``seconds`` at the most, or a little more where they are very few.

        With ``auto`` the host's own memory is among them if a lease is on it.
        """
        deadline = time.monotonic() + seconds
        if not self._found and time.monotonic() >= self._looked + _AGAIN_SECONDS:
            self._find(max(_LEAST_SECONDS, seconds / 2))
        devices = [*self._found, *self._host(leases)]
        return self._read_all(devices, leases, max(_LEAST_SECONDS, deadline - time.monotonic()))

    def check(self) -> None:
        """Make sure that the chosen kind exists.

        Raises:
            CommandUsageError: no kind has that name; the message lists them.
        """
        kinds = self._known().kinds
        if self._name != "auto" and self._name not in kinds:
            raise CommandUsageError(f"--device: no kind is called {self._name!r}; there are: auto, {', '.join(kinds)}")

    def _known(self) -> DeviceRegistry:
        if self._registry is None:
            self._registry = default_registry()
        return self._registry

    def _find(self, seconds: float) -> None:
        self._looked = time.monotonic()
        registry = self._known()
        each = min(ABANDON_SECONDS, seconds if self._name != "auto" else seconds * _PART_OF_ONE_KIND)
        try:
            # The kinds are asked one after the other, so the whole has a limit of its own.
            selection = within(seconds, "the devices", lambda: registry.select(self._name, seconds=each))
        except DeviceReadingError as exc:
            self.trouble = (f"the devices could not be listed: {exc.why}",)
        except DeviceError as exc:
            self.trouble = (str(exc),)
        else:
            self.kind, self._found = selection.kind.name, selection.devices
            self.trouble = tuple(f"{device}: {why}" for device, why in selection.unusable)

    def _host(self, leases: Sequence[Lease]) -> list[Device]:
        if self._name != "auto":
            return []
        known = {device.uuid for device in self._found}
        host = HostDevice()
        on_it = any(host.uuid in lease.devices for lease in leases)
        return [host] if on_it and host.uuid not in known else []

    def _read_all(self, devices: Sequence[Device], leases: Sequence[Lease], seconds: float) -> list[DeviceMemory]:
        """All at once: one that hangs must not use up the time of the others."""
        found: dict[str, DeviceMemory] = {}

        def read(device: Device) -> None:
            found[device.uuid] = self._read_one(device, _holders(device.uuid, leases), seconds)

        threads = [threading.Thread(target=read, args=(device,), daemon=True) for device in devices]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()  # ends in time, because the reader gives up
        return [found[device.uuid] for device in devices]

    def _read_one(self, device: Device, holders: Sequence[Holder], seconds: float) -> DeviceMemory:
        reader = self._readers.setdefault(device.uuid, TimedReader(device.uuid, patience=seconds))
        reading, error = None, ""
        try:
            reading = reader.read(lambda: device.read(holders))
        except DeviceReadingError as exc:
            error = exc.why
        except Exception as exc:  # noqa: BLE001  a third party's device may raise anything; the others are shown
            error = f"{type(exc).__name__}: {exc}"
        return DeviceMemory(device.uuid, device.index, device.model, reading, error)


def _holders(device: str, leases: Sequence[Lease]) -> tuple[Holder, ...]:
    return tuple({lease.holder: None for lease in leases if lease.holder and device in lease.devices})
