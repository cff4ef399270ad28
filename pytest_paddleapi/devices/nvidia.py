"""NVIDIA GPUs through NVML, the library behind ``nvidia-smi``.

NVML numbers GPUs by PCI bus; CUDA may number them by speed. So a GPU is known by its UUID here, and the
visibility variable of a case process holds UUIDs. A MIG instance has a UUID too and is a device of its own; the
GPU that it is a part of is none then (see :mod:`~pytest_paddleapi.devices.nvidia_listing`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from .model import Device, DeviceLostError, DeviceReadingError, Holder, MemoryReading, Probe
from .nvidia_listing import VISIBLE, list_gpus, visible_parts
from .processes import identify
from .readings import TimedReader, bracketed

__all__ = ["KIND", "NvidiaDevice", "NvidiaKind"]

T = TypeVar("T")

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
            why = f"{exc}; on a GPU with MIG enabled, name a MIG instance by its UUID in {VISIBLE} instead"
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
    visibility_variable: str | None = VISIBLE

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
        listing = list_gpus(count)
        listed = environ.get(VISIBLE)
        if listed is None:
            chosen, refused = listing.usable(), ""
        else:
            chosen, refused = visible_parts(listed, listing)
        nothing = "; ".join(why for _, why in listing.unusable) or "NVML lists no GPU that can be used"
        devices = tuple(NvidiaDevice(part.uuid, part.index, part.model) for part in chosen)
        return Probe(devices, "" if devices else refused or nothing, tuple(listing.unusable))

    def visible(self, devices: Sequence[Device]) -> str:
        """UUIDs, so that it does not matter in which order CUDA counts."""
        return ",".join(device.uuid for device in devices)

    def paddle_device(self, position: int) -> str:
        """Paddle counts the visible GPUs."""
        return f"gpu:{position}"

    def torch_device(self, position: int) -> str:
        """So does Torch."""
        return f"cuda:{position}"


KIND = NvidiaKind()
