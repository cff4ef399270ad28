"""Which GPUs and MIG instances there are, and which of them ``CUDA_VISIBLE_DEVICES`` shows.

A GPU in MIG mode is no device any more: CUDA runs on its instances only. NVML numbers instances for each GPU anew
and CUDA does not number them at all, so they get the numbers behind the last GPU's, in the order of the GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["VISIBLE", "Listing", "Part", "list_gpus", "visible_parts"]

VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Part:
    """A GPU or a MIG instance. ``instances`` are a GPU's own, where it is in MIG mode."""

    uuid: str
    index: int
    model: str
    in_mig_mode: bool = False
    instances: tuple[Part, ...] = ()


@dataclass
class Listing:
    """All GPUs that NVML can name, by index, and what cannot be used with the reason."""

    count: int
    gpus: dict[int, Part] = field(default_factory=dict)
    unusable: list[tuple[str, str]] = field(default_factory=list)

    def instances(self) -> list[Part]:
        """The MIG instances of all GPUs."""
        return [part for gpu in self.gpus.values() for part in gpu.instances]

    def usable(self) -> list[Part]:
        """What CUDA can run on: GPUs that are not in MIG mode, and instances, by index."""
        whole = [gpu for gpu in self.gpus.values() if not gpu.in_mig_mode]
        return [*whole, *self.instances()]


def list_gpus(count: int) -> Listing:
    """Ask NVML, which must be initialised, for its ``count`` GPUs."""
    import pynvml

    listing = Listing(count)
    for index in range(count):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            gpu = Part(_text(pynvml.nvmlDeviceGetUUID(handle)), index, _text(pynvml.nvmlDeviceGetName(handle)))
        except pynvml.NVMLError as exc:
            listing.unusable.append((f"GPU {index}", f"{exc}"))
            continue
        if _in_mig_mode(handle):
            gpu = _with_instances(gpu, handle, listing)
        listing.gpus[index] = gpu
    return listing


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value  # bytes before nvidia-ml-py 11.515


def _in_mig_mode(handle: Any) -> bool:
    import pynvml

    try:
        current, _ = pynvml.nvmlDeviceGetMigMode(handle)
    except pynvml.NVMLError:
        # The driver or the GPU knows no MIG, or does not tell. If it is in that mode after all, its memory is
        # refused, which is an error and no zero.
        return False
    return bool(current == pynvml.NVML_DEVICE_MIG_ENABLE)


def _with_instances(gpu: Part, handle: Any, listing: Listing) -> Part:
    first = listing.count + len(listing.instances())
    found: list[Part] = []
    why = ""
    for answer in _instances(handle):
        if isinstance(answer, str):
            why = why or answer
        else:
            uuid, model = answer
            found.append(Part(uuid, first + len(found), model))
    if not found and not why:
        why = "it has none; make them with nvidia-smi mig -cgi, or switch MIG off"
    reason = f"MIG is enabled, so only its instances can be used{f': {why}' if why else ''}"
    listing.unusable.append((f"GPU {gpu.index}", reason))
    return Part(gpu.uuid, gpu.index, gpu.model, True, tuple(found))


def _instances(handle: Any) -> Iterator[tuple[str, str] | str]:
    """UUID and name of each instance; a text where NVML refuses."""
    import pynvml

    try:
        most = int(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle))
    except pynvml.NVMLError as exc:
        yield f"NVML does not list them ({exc})"
        return
    for number in range(most):
        try:
            instance = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
            yield _text(pynvml.nvmlDeviceGetUUID(instance)), _text(pynvml.nvmlDeviceGetName(instance))
        except pynvml.NVMLError_NotFound:
            continue  # numbers up to the most that are possible, few of which are taken
        except pynvml.NVMLError as exc:
            yield f"NVML does not tell of number {number} ({exc})"


def visible_parts(listed: str, listing: Listing) -> tuple[list[Part], str]:
    """What CUDA would make of ``CUDA_VISIBLE_DEVICES``, and why it would see nothing if so.

    CUDA takes indices and (abbreviated) UUIDs up to the first that it does not know, and nothing at all where one
    stands twice (CUDA Programming Guide, "CUDA Environment Variables"). Indices are taken in PCI order. Of a GPU in
    MIG mode it takes the first instance. Of several instances a process can use one only; here each is a device,
    because every case process is shown its own.
    """
    chosen: list[Part] = []
    for token in listed.split(","):
        part = _named(token.strip(), listing, len(chosen))
        if part is not None and part.in_mig_mode:
            part = part.instances[0] if part.instances else None
        if part is None:
            break
        if any(part.uuid == other.uuid for other in chosen):
            return [], f"{VISIBLE}={listed!r} names {part.uuid} twice, so CUDA sees no device"
        chosen.append(part)
    return chosen, "" if chosen else f"{VISIBLE}={listed!r} hides every GPU"


def _named(token: str, listing: Listing, position: int) -> Part | None:
    if token.isascii() and token.isdigit():
        return listing.gpus.get(int(token))
    if token.startswith("MIG-"):
        return _unique(token, listing.instances()) or _unlisted_instance(token, listing, position)
    return _unique(token, listing.gpus.values()) if token.startswith("GPU-") else None


def _unique(token: str, parts: Iterable[Part]) -> Part | None:
    matches = [part for part in parts if part.uuid.startswith(token)]
    return next((part for part in matches if part.uuid == token), matches[0] if len(matches) == 1 else None)


def _unlisted_instance(uuid: str, listing: Listing, position: int) -> Part | None:
    """An instance that NVML knows by its UUID only: by number it may refuse it without privileges."""
    import pynvml

    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        model = _text(pynvml.nvmlDeviceGetName(handle))
    except pynvml.NVMLError:
        return None
    # Behind all numbers that are taken, so that no two devices have one.
    return Part(uuid, listing.count + len(listing.instances()) + position, model)
