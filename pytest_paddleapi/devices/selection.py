"""Which of the devices in sight a session uses, and how many workers share each: the device options, checked.

:func:`select_kind` asks a registry; the rest is pure: option values and what the registry found in, a plan out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .model import Device, DeviceError, DeviceKind
from .registry import DeviceRegistry, Selection

__all__ = [
    "MOST_WORKERS",
    "DeviceOptionError",
    "DeviceOptions",
    "DevicePlan",
    "parse_gpu_ids",
    "plan_devices",
    "select_kind",
]

#: In all. More case processes than this do not fit a host: each has both frameworks in memory.
MOST_WORKERS = 64

_DEVICE = "--paddleapi-device"
_GPU_IDS = "--paddleapi-gpu-ids"
_NUM_GPUS = "--paddleapi-num-gpus"
_WORKERS = "--paddleapi-workers-per-gpu"

#: A single id, or both ends of a range. Nothing has ids of more digits.
_PART = re.compile(r"(\d{1,6})(?:\s*-\s*(\d{1,6}))?", re.ASCII)

#: One range may name so many; it is a slip of the finger otherwise.
_MOST_IN_RANGE = 4096

#: A message names so many unknown ids.
_MOST_NAMED = 10


class DeviceOptionError(DeviceError):
    """A device option is wrong: the caller makes a usage error of it. ``option`` is its name."""

    def __init__(self, option: str, why: str) -> None:
        self.option = option
        self.why = why
        super().__init__(option, why)

    def __str__(self) -> str:
        return f"{self.option}: {self.why}"


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """The options as given; None where one is not."""

    gpu_ids: str | None = None
    num_gpus: int | None = None
    workers_per_gpu: int | None = None
    #: For the dual modes, which compute on one device and compare on a second one.
    pairs: bool = False


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """What a session uses.

    A group is what one case process gets: one device, or two consecutive ones for the dual modes. Each group has
    ``workers_per_group`` workers: ``--paddleapi-workers-per-gpu``, one for pairs, the cores on the host CPU.
    """

    kind: DeviceKind
    devices: tuple[Device, ...]
    groups: tuple[tuple[Device, ...], ...]
    workers_per_group: int

    @property
    def workers(self) -> int:
        """How many case processes there can be in all; at most :data:`MOST_WORKERS`."""
        return len(self.groups) * self.workers_per_group


def select_kind(registry: DeviceRegistry, name: str = "auto", environ: Mapping[str, str] | None = None) -> Selection:
    """The kind of ``--paddleapi-device=NAME`` and its devices: :meth:`~.registry.DeviceRegistry.select`.

    Raises:
        DeviceOptionError: no kind is called so, or it has no device; the message says which kinds there are, or why.
    """
    try:
        return registry.select(name, environ)
    except DeviceError as exc:
        raise DeviceOptionError(_DEVICE, str(exc)) from exc


def parse_gpu_ids(text: str) -> tuple[int, ...] | None:
    """The ids that ``0,2,4-7`` names, in its order; None for ``-1``, which means all.

    Raises:
        DeviceOptionError: it is something else, a range runs backwards, or an id stands twice.
    """
    if text.strip() == "-1":
        return None
    ids: list[int] = []
    for part in text.split(","):
        for number in _part(part.strip(), text):
            if number in ids:
                raise DeviceOptionError(_GPU_IDS, f"{text!r} names {number} twice; name each device once")
            ids.append(number)
    return tuple(ids)


def _part(part: str, text: str) -> Iterable[int]:
    match = _PART.fullmatch(part)
    if match is None:
        what = "an empty id" if not part else f"{part!r}"
        alone = "-1 means all and stands alone"
        hint = alone if part == "-1" else "give ids and ranges such as 0,2,4-7, or -1 for all"
        raise DeviceOptionError(_GPU_IDS, f"{text!r} has {what}, which is no id: {hint}")
    first = int(match[1])
    last = int(match[2]) if match[2] else first
    if last < first:
        raise DeviceOptionError(_GPU_IDS, f"the range {part!r} of {text!r} runs backwards; write {last}-{first}")
    if last - first >= _MOST_IN_RANGE:
        raise DeviceOptionError(_GPU_IDS, f"the range {part!r} of {text!r} names {last - first + 1} devices")
    return range(first, last + 1)


def plan_devices(
    kind: DeviceKind,
    devices: Sequence[Device],
    options: DeviceOptions,
    *,
    cores: int,
    unusable: Sequence[tuple[str, str]] = (),
) -> DevicePlan:
    """The devices and workers of a session.

    ``devices`` (at least one) are those in sight, and ``unusable`` those that cannot be used, with reasons, both of
    a registry's selection; an id is a device's ``index``. Without ids, the first ``num_gpus`` are taken, or all.
    ``cores`` is how many the host has for this session: on the host CPU there is one worker for each.

    Raises:
        DeviceOptionError: the options contradict each other or the devices; the message says which there are.
    """
    if kind.name == "cpu":
        return _plan_host(kind, devices, options, cores)
    there = _there(devices, unusable)
    _check_positive(_NUM_GPUS, options.num_gpus, there)
    _check_positive(_WORKERS, options.workers_per_gpu, there)
    chosen = _chosen(devices, options, there)
    groups = _pairs(chosen, devices, options, there) if options.pairs else tuple((device,) for device in chosen)
    return DevicePlan(kind, chosen, groups, _workers(len(groups), options))


def _plan_host(kind: DeviceKind, devices: Sequence[Device], options: DeviceOptions, cores: int) -> DevicePlan:
    given = ((_GPU_IDS, options.gpu_ids), (_NUM_GPUS, options.num_gpus), (_WORKERS, options.workers_per_gpu))
    for option, value in given:
        if value is not None:
            why = "there is no GPU here: cases run on the host CPU, with one worker for each core; leave the option out"
            raise DeviceOptionError(option, why)
    if options.pairs:
        raise DeviceOptionError(
            _DEVICE, "this mode needs two GPUs, and there is no GPU here: cases run on the host CPU"
        )
    return DevicePlan(kind, tuple(devices[:1]), (tuple(devices[:1]),), max(1, min(cores, MOST_WORKERS)))


def _check_positive(option: str, value: int | None, there: str) -> None:
    if value is not None and value < 1:
        raise DeviceOptionError(option, f"{value} is not possible; give 1 or more ({there})")


def _chosen(devices: Sequence[Device], options: DeviceOptions, there: str) -> tuple[Device, ...]:
    if options.gpu_ids is None:
        wanted = len(devices) if options.num_gpus is None else options.num_gpus
        if wanted > len(devices):
            raise DeviceOptionError(_NUM_GPUS, f"{wanted} are asked for, but {there}")
        return tuple(devices[:wanted])
    ids = parse_gpu_ids(options.gpu_ids)
    chosen = tuple(devices) if ids is None else _with_ids(devices, ids, there)
    if options.num_gpus is not None and options.num_gpus != len(chosen):
        why = f"{options.num_gpus} does not match {_GPU_IDS}={options.gpu_ids}, which names {len(chosen)} ({there})"
        raise DeviceOptionError(_NUM_GPUS, why)
    return chosen


def _with_ids(devices: Sequence[Device], ids: Sequence[int], there: str) -> tuple[Device, ...]:
    by_index = {device.index: device for device in devices}
    unknown = [str(number) for number in ids if number not in by_index]
    if unknown:
        more = f" and {len(unknown) - _MOST_NAMED} more" if len(unknown) > _MOST_NAMED else ""
        raise DeviceOptionError(_GPU_IDS, f"no device has the id {', '.join(unknown[:_MOST_NAMED])}{more}; {there}")
    return tuple(by_index[number] for number in ids)


def _pairs(
    chosen: Sequence[Device], devices: Sequence[Device], options: DeviceOptions, there: str
) -> tuple[tuple[Device, ...], ...]:
    option = _GPU_IDS if options.num_gpus is None else _NUM_GPUS
    if len(devices) == 1:
        raise DeviceOptionError(_DEVICE, f"this mode takes devices in pairs, and there is only one ({there})")
    if len(chosen) % 2:
        raise DeviceOptionError(
            option,
            f"this mode takes devices in pairs, and {len(chosen)} is an odd number; choose an even one ({there})",
        )
    mig = next((device.uuid for device in chosen if device.uuid.startswith("MIG-")), None)
    if mig is not None:
        # CUDA gives a process one MIG instance at most (NVIDIA MIG User Guide, "CUDA Device Enumeration").
        raise DeviceOptionError(option, f"this mode takes devices in pairs, and no process can see two like {mig}")
    return tuple((first, second) for first, second in zip(chosen[::2], chosen[1::2]))


def _workers(groups: int, options: DeviceOptions) -> int:
    each = 1 if options.workers_per_gpu is None else options.workers_per_gpu
    if options.pairs and each != 1:
        raise DeviceOptionError(_WORKERS, f"{each} is not possible: a mode for two devices has one worker a pair")
    if groups * each > MOST_WORKERS:
        option = _GPU_IDS if options.workers_per_gpu is None else _WORKERS
        what = "pairs" if options.pairs else "devices"
        why = f"{groups} {what} with {each} on each make {groups * each} workers; {MOST_WORKERS} at most are possible"
        raise DeviceOptionError(option, why)
    return each


def _there(devices: Sequence[Device], unusable: Sequence[tuple[str, str]]) -> str:
    """Which devices there are, for messages: by model, with ranges of ids."""
    by_model: dict[str, list[int]] = {}
    for device in devices:
        by_model.setdefault(device.model, []).append(device.index)
    listed = ", ".join(f"{_ranges(sorted(ids))} ({model})" for model, ids in by_model.items())
    text = f"there {'is' if len(devices) == 1 else 'are'} {len(devices)}: {listed}"
    return text + "".join(f"; not usable: {name} ({why})" for name, why in unusable)


def _ranges(ids: Sequence[int]) -> str:
    ends: list[list[int]] = []
    for number in ids:
        if ends and number == ends[-1][1] + 1:
            ends[-1][1] = number
        else:
            ends.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ends)
