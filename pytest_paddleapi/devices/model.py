"""What every kind of device offers to the rest: identity, a memory reading, and its names in the frameworks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import msgspec

from ..errors import PaddleApiError

__all__ = [
    "Device",
    "DeviceError",
    "DeviceKind",
    "DeviceLostError",
    "DeviceReadingError",
    "DeviceReadingTimeoutError",
    "Holder",
    "MemoryReading",
    "Probe",
    "paddle_names",
]


class DeviceError(PaddleApiError):
    """A device, or a kind of device, cannot be used; the message says which and why."""


class DeviceReadingError(DeviceError):
    """The memory of ``device`` could not be read. It is not zero and not full: it is unknown."""

    def __init__(self, device: str, why: str) -> None:
        self.device = device
        self.why = why
        super().__init__(device, why)

    def __str__(self) -> str:
        return f"cannot read the memory of {self.device}: {self.why}"


class DeviceReadingTimeoutError(DeviceReadingError):
    """The reading did not come in time; it may still be hanging in the driver."""


class DeviceLostError(DeviceReadingError):
    """The driver says that the device is gone (fell off the bus, or needs a reset); it will not come back by itself."""


class Holder(msgspec.Struct, frozen=True):
    """One process, exactly: a process id alone may name another process a moment later.

    ``started`` is field 22 of ``/proc/<pid>/stat`` (clock ticks since boot); ``namespace`` is the inode of
    the process id namespace in which ``pid`` counts, so that a record from another container is never
    taken for a process of ours.
    """

    pid: int
    started: int
    namespace: int


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """The memory of one device at one moment, in bytes.

    ``free`` is what a process could still allocate, whoever holds the rest. ``held`` has, of the processes
    asked about, those whose part could be measured; one that is missing is unknown, not zero.

    ``taken`` is when it was measured (seconds of ``time.monotonic``, a lower bound) where that was not within the
    call: see :meth:`Device.read`. Two readings with one ``taken`` are one measurement, and show no change.
    """

    total: int
    free: int
    held: Mapping[Holder, int] = field(default_factory=dict)
    taken: float | None = None


@runtime_checkable
class Device(Protocol):
    """One device of this host. ``uuid`` names it for good, ``index`` only as the vendor's tool counts today."""

    @property
    def uuid(self) -> str: ...

    @property
    def index(self) -> int: ...

    @property
    def model(self) -> str: ...

    @property
    def free_needs_holders(self) -> bool:
        """True where ``free`` is only right when :meth:`read` is told of everyone who holds a lease."""

    def read(self, holders: Sequence[Holder] = ()) -> MemoryReading:
        """Measure now; never an old value.

        The one exception are devices that only a vendor's command line tool can measure. It takes long and tells
        of all devices at once, so its table is shared by them and read at most every 2 s. Such a reading says in
        ``taken`` when it was measured, and is at most 2 s old (or was measured for this very call).

        ``free`` and ``held`` must fit each other: no byte may stand in both, though it may be missing from both.
        Drivers tell them one after the other, and memory moves meanwhile;
        :func:`pytest_paddleapi.devices.readings.bracketed` asks in the right order.

        Raises:
            DeviceReadingError: the memory is unknown (see its subclasses).
        """


@dataclass(frozen=True, slots=True)
class Probe:
    """What a kind found on this host. ``why_not`` says why there is nothing to use (empty if there is)."""

    devices: tuple[Device, ...] = ()
    why_not: str = ""
    #: Devices that are there but cannot be used, and why; people want to know.
    unusable: tuple[tuple[str, str], ...] = ()


@runtime_checkable
class DeviceKind(Protocol):
    """One kind of device; a module of this package each, or an entry point of a third party."""

    @property
    def name(self) -> str:
        """What ``--paddleapi-device`` takes."""

    @property
    def priority(self) -> int:
        """``auto`` takes the highest priority whose probe finds something. The host CPU has 0."""

    @property
    def visibility_variable(self) -> str | None:
        """The environment variable that hides the other devices from a process; None where there is none."""

    def probe(self, environ: Mapping[str, str]) -> Probe:
        """Look for devices that ``environ`` (the outer visibility variable) leaves in sight.

        May hang where a driver hangs; the caller limits the time. Returns, rather than raises, why not.
        """

    # A device may have a ``paddle_name`` of its own, which goes before this kind's: see :func:`paddle_names`.

    def visible(self, devices: Sequence[Device]) -> str:
        """The value of the visibility variable that shows just these devices, in this order."""

    def paddle_device(self, position: int) -> str:
        """Paddle's name of the ``position``-th visible device, such as ``gpu:0``."""

    def torch_device(self, position: int) -> str:
        """Torch's name of the ``position``-th visible device, such as ``cuda:0``."""


def paddle_names(kind: DeviceKind, devices: Sequence[Device]) -> tuple[str, ...]:
    """What Paddle calls ``devices`` in a process to which the visibility variable shows just these, in this order.

    Most kinds count what is visible. Where hiding does not make Paddle count anew (custom devices), each device has
    a ``paddle_name`` attribute.
    """
    return tuple(
        str(getattr(device, "paddle_name", None) or kind.paddle_device(position))
        for position, device in enumerate(devices)
    )
