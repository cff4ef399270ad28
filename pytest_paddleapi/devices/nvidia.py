"""NVIDIA GPUs through NVML, the library behind ``nvidia-smi``.

NVML numbers GPUs by PCI bus; CUDA may number them by speed. So a GPU is known by its UUID here, and the
visibility variable of a case process holds UUIDs. A MIG instance has a UUID too and is a device of its own when
the outer ``CUDA_VISIBLE_DEVICES`` names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from .model import Device, DeviceLostError, DeviceReadingError, Holder, MemoryReading, Probe
from .processes import identify
from .readings import TimedReader, bracketed

__all__ = ["KIND", "NvidiaDevice", "NvidiaKind"]

T = TypeVar("T")

_VISIBLE = "CUDA_VISIBLE_DEVICES"

#: In place of a size; below every size, so that the least of several looks stays unknown.
_UNKNOWN = -1


class NvidiaDevice:
    """One GPU or MIG instance. NVML must be initialised (:meth:`NvidiaKind.probe` does it)."""

    free_needs_holders = False

    def __init__(self, uuid: str, index: int, model: str, *, reader: TimedReader | None = None) -> None:
        self.uuid = uuid
        self.index = index
        self.model = model
        self._reader = reader or TimedReader(uuid)
        self._handle: Any = None

    def __repr__(self) -> str:
        return f"NvidiaDevice({self.uuid!r}, index={self.index})"

    def read(self, holders: Sequence[Holder] = ()) -> MemoryReading:
        """See :meth:`pytest_paddleapi.devices.model.Device.read`.

        ``held`` is what the driver counts for a process on this GPU, its context included. Where the driver does
        not tell (no permission, not available, another process id namespace), it has no entry.
        """
        return self._reader.read(lambda: self._translated(lambda: self._read(holders)))

    def _read(self, holders: Sequence[Holder]) -> MemoryReading:
        import pynvml

        if self._handle is None:
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(self.uuid)
        memory = pynvml.nvmlDeviceGetMemoryInfo(self._handle)
        if not holders:
            return MemoryReading(int(memory.total), int(memory.free))
        free, by_pid = bracketed(
            lambda: int(pynvml.nvmlDeviceGetMemoryInfo(self._handle).free), lambda: _by_pid(self._handle)
        )
        # Who has a process id is looked up last: if it is the holder now, it was the holder in all the looks.
        return MemoryReading(int(memory.total), free, _ours(by_pid, holders))

    def _translated(self, call: Callable[[], T]) -> T:
        import pynvml

        try:
            return call()
        except (pynvml.NVMLError_GpuIsLost, pynvml.NVMLError_ResetRequired) as exc:
            raise DeviceLostError(self.uuid, f"{exc}") from exc
        except pynvml.NVMLError_NoPermission as exc:
            why = f"{exc}; on a GPU with MIG enabled, name a MIG instance by its UUID in {_VISIBLE} instead"
            raise DeviceReadingError(self.uuid, why) from exc
        except pynvml.NVMLError as exc:
            self._handle = None  # it may be stale after a driver reset; the next reading asks for a new one
            raise DeviceReadingError(self.uuid, f"{exc}") from exc


def _by_pid(handle: Any) -> dict[int, int]:
    """What each listed process holds; ``_UNKNOWN`` where the driver does not say."""
    import pynvml

    try:
        listed = _running(handle)
    except (pynvml.NVMLError_NoPermission, pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return {}  # unknown, which is not zero
    found: dict[int, int] = {}
    for process in listed:
        # One process has an entry for each of its contexts. One unknown part makes the sum unknown.
        before, size = found.get(process.pid, 0), process.usedGpuMemory
        found[process.pid] = _UNKNOWN if before == _UNKNOWN or size is None else before + int(size)
    return found


def _running(handle: Any) -> list[Any]:
    import pynvml

    try:
        return list(pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
    except pynvml.NVMLLibraryMismatchError:  # what nvidia-ml-py makes of a driver before 510
        return list(pynvml.nvmlDeviceGetComputeRunningProcesses_v2(handle))


def _ours(by_pid: Mapping[int, int], holders: Sequence[Holder]) -> dict[Holder, int]:
    """The listed memory of ``holders``, if the listed process ids are those of our own namespace.

    Inside a container some drivers list the host's ids, and an id of the host may by chance be that of a
    process of ours. So one listed id (0 apart, which stands for "hidden") that we cannot see means: trust none.
    """
    seen: dict[int, Holder] = {}
    for pid in by_pid:
        if pid == 0:
            continue
        process = identify(pid)
        if process is None:
            return {}
        seen[pid] = process
    held: dict[Holder, int] = {}
    for holder in holders:
        size = by_pid.get(holder.pid, _UNKNOWN)
        if size != _UNKNOWN and seen.get(holder.pid) == holder:
            held[holder] = size
    return held


class NvidiaKind:
    """GPUs that NVML can see and the outer ``CUDA_VISIBLE_DEVICES`` leaves in sight."""

    name = "nvidia"
    priority = 100
    visibility_variable: str | None = _VISIBLE

    def probe(self, environ: Mapping[str, str]) -> Probe:
        """Initialise NVML and list the GPUs, in the order of ``CUDA_VISIBLE_DEVICES`` where that is set."""
        try:
            import pynvml
        except ImportError as exc:
            return Probe(why_not=f"nvidia-ml-py cannot be imported ({exc}); install it with pip")
        try:
            pynvml.nvmlInit()
            count = int(pynvml.nvmlDeviceGetCount())
        except pynvml.NVMLError_LibraryNotFound:
            return Probe(why_not="there is no NVIDIA driver (libnvidia-ml.so.1 not found)")
        except pynvml.NVMLError_LibRmVersionMismatch as exc:
            return Probe(why_not=f"{exc}; the driver was updated while loaded: reload its modules or reboot")
        except pynvml.NVMLError as exc:
            return Probe(why_not=f"NVML: {exc}")
        devices, unusable = _enumerate(count)
        listed = environ.get(_VISIBLE)
        if listed is None:
            chosen, refused = list(devices.values()), ""
        else:
            chosen, refused = _visible_devices(listed, devices)
        why_not = "" if chosen else refused or "NVML lists no GPU that can be used"
        return Probe(tuple(chosen), why_not, tuple(unusable))

    def visible(self, devices: Sequence[Device]) -> str:
        """UUIDs, so that it does not matter in which order CUDA counts."""
        return ",".join(device.uuid for device in devices)

    def paddle_device(self, position: int) -> str:
        """Paddle counts the visible GPUs."""
        return f"gpu:{position}"

    def torch_device(self, position: int) -> str:
        """So does Torch."""
        return f"cuda:{position}"


def _enumerate(count: int) -> tuple[dict[int, NvidiaDevice], list[tuple[str, str]]]:
    import pynvml

    devices: dict[int, NvidiaDevice] = {}
    unusable: list[tuple[str, str]] = []
    for index in range(count):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid, model = pynvml.nvmlDeviceGetUUID(handle), pynvml.nvmlDeviceGetName(handle)
        except pynvml.NVMLError as exc:
            unusable.append((f"GPU {index}", f"{exc}"))
        else:
            devices[index] = NvidiaDevice(_text(uuid), index, _text(model))
    return devices, unusable


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value  # bytes before nvidia-ml-py 11.515


def _visible_devices(listed: str, devices: Mapping[int, NvidiaDevice]) -> tuple[list[NvidiaDevice], str]:
    """What CUDA would make of ``CUDA_VISIBLE_DEVICES``, and why it would see nothing if so.

    CUDA takes indices and (abbreviated) UUIDs up to the first that it does not know, and nothing at all where one
    stands twice (CUDA Programming Guide, "CUDA Environment Variables"). Indices are taken in PCI order.
    """
    chosen: list[NvidiaDevice] = []
    for token in listed.split(","):
        device = _named(token.strip(), devices)
        if device is None:
            break
        if any(device.uuid == other.uuid for other in chosen):
            return [], f"{_VISIBLE}={listed!r} names {device.uuid} twice, so CUDA sees no device"
        chosen.append(device)
    return chosen, "" if chosen else f"{_VISIBLE}={listed!r} hides every GPU"


def _named(token: str, devices: Mapping[int, NvidiaDevice]) -> NvidiaDevice | None:
    if token.isascii() and token.isdigit():
        return devices.get(int(token))
    if token.startswith("MIG-"):
        return _mig_instance(token)
    matches = [device for device in devices.values() if token.startswith("GPU-") and device.uuid.startswith(token)]
    return matches[0] if len(matches) == 1 else None


def _mig_instance(uuid: str) -> NvidiaDevice | None:
    """A MIG instance, kept by the handle that its UUID gives: by index NVML refuses it without privileges."""
    import pynvml

    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        model = _text(pynvml.nvmlDeviceGetName(handle))
    except pynvml.NVMLError:
        return None
    return NvidiaDevice(uuid, -1, model)


KIND = NvidiaKind()
