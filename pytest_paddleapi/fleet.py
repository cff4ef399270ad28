"""The devices of a session: which there are, how its workers are spread over them, and what each worker gets."""

from __future__ import annotations

import importlib.util
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from .devices.host import HostDevice
from .devices.model import Device, DeviceKind, DeviceReadingError, paddle_names
from .devices.readings import patiently
from .devices.registry import DeviceRegistry, PassedOver, default_registry
from .devices.selection import DeviceOptionError, DeviceOptions, DevicePlan, plan_devices, select_kind
from .process.messages import CaseOptions

__all__ = ["Fleet", "Placement", "build_fleet", "cpu_build", "devices_of"]

_CUDA_VERSION = re.compile(r"^cuda_version\s*=\s*['\"](.*)['\"]", re.MULTILINE)


class Placement(msgspec.Struct, frozen=True):
    """What one worker's case processes get: a group of devices, and how the frameworks find them."""

    #: The group's name: its devices' UUIDs, or ``cpu``.
    group: str = "cpu"
    kind: str = "cpu"
    uuids: tuple[str, ...] = ()
    #: Added to the environment of a case process, before it imports anything.
    environment: dict[str, str] = {}
    paddle: tuple[str, ...] = ("cpu",)
    torch: tuple[str, ...] = ("cpu",)

    def of_case(self, options: CaseOptions) -> CaseOptions:
        """The options with this placement's devices: the first computes, a second one holds results."""
        (device, second), (torch_device, second_torch) = (*self.paddle, "")[:2], (*self.torch, "cpu")[:2]
        return msgspec.structs.replace(
            options,
            device="cpu" if options.test_cpu else device,
            torch_device=torch_device,
            second_device=second,
            second_torch_device=second_torch,
        )


@dataclass
class Fleet:
    """The groups of devices of one session, in the controller, and which worker is on which."""

    plan: DevicePlan
    passed_over: tuple[PassedOver, ...] = ()
    unusable: tuple[tuple[str, str], ...] = ()
    _places: dict[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> DeviceKind:
        """The kind of all its devices."""
        return self.plan.kind

    @property
    def groups(self) -> dict[str, tuple[Device, ...]]:
        """The devices of each group by the group's name."""
        return {self._name(group): group for group in self.plan.groups}

    def _name(self, group: tuple[Device, ...]) -> str:
        return "cpu" if self.kind.name == "cpu" else "+".join(device.uuid for device in group)

    def placement(self, name: str) -> Placement:
        """What a worker on this group gets."""
        group = self.groups[name]
        variable = self.kind.visibility_variable
        return Placement(
            group=name,
            kind=self.kind.name,
            uuids=tuple(device.uuid for device in group),
            environment={variable: self.kind.visible(group)} if variable else {},
            paddle=paddle_names(self.kind, group),
            torch=tuple(self.kind.torch_device(position) for position in range(len(group))),
        )

    def place(self, worker: str, quarantined: Collection[str] = ()) -> Placement:
        """Choose the group of a new worker: the one with the fewest, breadth first; lost devices get none."""
        self._places.pop(worker, None)
        taken = Counter(self._places.values())
        names = list(self.groups)
        left = [name for name in names if name not in quarantined] or names
        self._places[worker] = min(left, key=lambda name: (taken[name], names.index(name)))
        return self.placement(self._places[worker])

    def leave(self, worker: str) -> None:
        """The worker is gone."""
        self._places.pop(worker, None)

    def group_of(self, worker: str) -> str:
        """The name of the worker's group."""
        return self._places[worker]

    @property
    def pairs(self) -> int:
        """How many pairs of devices there are; 0 where each group is one device."""
        return sum(len(group) > 1 for group in self.plan.groups)

    def workers_per_group(self, workers: int) -> int:
        """The most slots that a group has where ``workers`` are spread over all."""
        return -(-workers // len(self.plan.groups))

    def header(self, workers: int) -> str:
        """One line for the session's header."""
        if self.kind.name == "cpu":
            return f"on cpu, {workers} worker{'s' if workers != 1 else ''}"
        models = Counter(device.model for group in self.plan.groups for device in group)
        names = ", ".join(f"{count} x {model}" for model, count in models.items())
        shape = " in pairs" if len(self.plan.groups[0]) > 1 else ""
        return f"on {names} ({self.kind.name}){shape}, {workers} worker{'s' if workers != 1 else ''}"

    def notes(self, *, verbose: bool = False) -> Iterable[str]:
        """What else people should know of their devices; ``verbose``: also the kinds that were passed over."""
        for name, why in self.unusable:
            yield f"not usable: {name}: {why}"
        for entry in self.passed_over if verbose else ():
            yield f"passed over: {entry.name}: {entry.why}"


def build_fleet(
    name: str,
    options: DeviceOptions,
    *,
    cores: int,
    memory_limit: int | None = None,
    registry: DeviceRegistry | None = None,
    environ: Mapping[str, str] | None = None,
    paddle_on_cpu: bool = False,
) -> Fleet:
    """Find the devices that the options ask for.

    ``name`` is that of ``--paddleapi-device``, ``cores`` how many workers the host's CPU gets. ``auto`` passes over
    NVIDIA GPUs where the installed Paddle is a CPU build. With ``paddle_on_cpu`` the devices are Torch's alone, and
    a CPU build can be given ``nvidia``.

    Raises:
        DeviceOptionError: the options are wrong, or there is no such device.
    """
    registry = registry or default_registry()
    why_not = cpu_build()
    if name == "nvidia" and why_not and not paddle_on_cpu:
        raise DeviceOptionError("--paddleapi-device", f"nvidia cannot be used: {why_not}")
    passed: tuple[PassedOver, ...] = ()
    if name == "auto" and why_not and "nvidia" in registry.kinds:
        kinds = {other: kind for other, kind in registry.kinds.items() if other != "nvidia"}
        registry = DeviceRegistry(kinds, list(registry.failed))
        passed = (PassedOver("nvidia", why_not),)
    selection = select_kind(registry, name, environ)
    devices, unusable = selection.devices, selection.unusable
    if selection.kind.name == "cpu":
        devices = (HostDevice(memory_limit),)
    elif memory_limit is not None:
        raise DeviceOptionError(
            "--paddleapi-memory-limit", f"it is about host memory, and cases run on {selection.kind.name} devices"
        )
    else:
        devices, sick = _readable(devices)
        unusable = (*unusable, *sick)
        if not devices:
            why = "; ".join(f"{device}: {text}" for device, text in sick)
            raise DeviceOptionError("--paddleapi-device", f"no {selection.kind.name} device can be read: {why}")
    plan = plan_devices(selection.kind, devices, options, cores=cores, unusable=unusable)
    return Fleet(plan, (*passed, *selection.passed_over), unusable)


def _readable(devices: Iterable[Device]) -> tuple[tuple[Device, ...], tuple[tuple[str, str], ...]]:
    """Those whose memory can be read, and the others with the reason: without it, nothing can be promised there."""
    good: list[Device] = []
    bad: list[tuple[str, str]] = []
    for device in devices:
        try:
            patiently(device.read)
        except DeviceReadingError as exc:
            bad.append((device.uuid, exc.why))
        else:
            good.append(device)
    return tuple(good), tuple(bad)


def devices_of(placement: Placement, memory_limit: int | None = None) -> tuple[Device, ...]:
    """The devices of a placement that was made in another process of this host, to read their memory here.

    Raises:
        DeviceError: its kind does not find them here.
    """
    if placement.kind == "cpu":
        return (HostDevice(memory_limit),)
    found = default_registry().select(placement.kind, os.environ).devices
    by_uuid = {device.uuid: device for device in found}
    return tuple(by_uuid[uuid] for uuid in placement.uuids if uuid in by_uuid)


def single(fleet: Fleet) -> Fleet:
    """The same with its first group only: without workers there is one slot."""
    return replace(fleet, plan=replace(fleet.plan, groups=fleet.plan.groups[:1], workers_per_group=1))


def cpu_build() -> str:
    """Why the installed Paddle cannot use NVIDIA GPUs; empty if it can. Nothing is imported for it."""
    spec = importlib.util.find_spec("paddle")
    if spec is None or spec.origin is None:
        return ""
    try:
        text = (Path(spec.origin).parent / "version" / "__init__.py").read_text(encoding="utf-8")
    except OSError:
        return ""  # a build from source may have none; Paddle itself will say it
    found = _CUDA_VERSION.search(text)
    if found is None or found.group(1) != "False":
        return ""
    return "the installed Paddle is a build for the CPU; see the README for GPU builds"
