"""A simulated GPU farm, from the tests' side: make one, start processes on it, look at it, and do it harm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .build import Libraries, build
from .layout import DEVICES, FAULTS, FILE_VARIABLE, REFUSALS, Action, DeviceEntry, Event, FarmError, FaultEntry, State

__all__ = ["MIB", "Action", "Event", "Farm", "FarmError", "Fault", "Refusal"]

MIB = 1 << 20
_HERE = Path(__file__).parent
_VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Refusal:
    """An allocation that was refused."""

    #: When, on the clock of :func:`time.monotonic_ns`.
    at_ns: int
    pid: int
    #: How many bytes were asked for, and how many were free on the device then.
    size: int
    free: int
    #: A fault refused, not the want of memory.
    injected: bool


class Fault:
    """A fault that was injected; its rule stays until :meth:`remove` or :meth:`Farm.clear`."""

    def __init__(self, state: State, place: int, generation: int) -> None:
        self._state = state
        self._place = place
        self._generation = generation

    @property
    def struck(self) -> int:
        """How often it has struck, in all processes together."""
        return self._count("fired")

    @property
    def seen(self) -> int:
        """How many events fitted it, whether it struck or not."""
        return self._count("seen")

    def remove(self) -> None:
        """Take it away; nothing if it is gone already."""
        with self._state.locked() as entry:
            rule = entry.faults[self._place]
            if rule.generation == self._generation:
                rule.generation = 0

    def _count(self, field: str) -> int:
        with self._state.locked() as entry:
            rule = entry.faults[self._place]
            if rule.generation != self._generation:
                raise FarmError("this fault was removed, and its counts with it; read them before")
            return int(getattr(rule, field))


class Farm:
    """Devices of a simulated kind, in a folder of their own.

    ``mib`` is the memory of each device (or of each in turn) in MiB, ``context_mib`` what a process takes by preparing
    a device, and ``release_seconds`` how long memory that is given back, or was a dead process's, is not yet seen
    free. ``mig`` divides a GPU, by its index, into MIG instances of so many MiB; they are numbered after the GPUs,
    and the GPU itself cannot be used then.

    Raises:
        FarmUnavailableError: the libraries cannot be built on this machine.
        FarmError: the sizes or numbers do not fit together, or the folder holds a farm already.
    """

    def __init__(
        self,
        folder: Path,
        devices: int = 2,
        mib: int | Sequence[int] = 4096,
        *,
        context_mib: int = 64,
        uuids: Sequence[str] | None = None,
        release_seconds: float = 0.0,
        mig: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        sizes = [mib] * devices if isinstance(mib, int) else list(mib)
        names = (
            list(uuids)
            if uuids is not None
            else [f"GPU-{i:08x}-51a0-4000-8000-00000000{i:04x}" for i in range(devices)]
        )
        divided = dict(mig or {})
        parts = [(gpu, size) for gpu in sorted(divided) for size in divided[gpu]]
        _check(devices, sizes, names, divided, len(parts))
        self.folder = folder
        self.devices = devices
        self.libraries: Libraries = build()
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "farm.state"
        self._state = State.create(self.file, self.libraries.control)
        with self._state.locked() as entry:
            for i, (size, uuid) in enumerate(zip(sizes, names)):
                _fill(entry.device[i], uuid, "Simulated GPU", size, context_mib, release_seconds, -1)
                entry.device[i].mig = i in divided
            for i, (gpu, size) in enumerate(parts, devices):
                name = f"Simulated GPU MIG {size}mb"
                uuid = f"MIG-{i:08x}-51a0-4000-8000-00000000{gpu:04x}"
                _fill(entry.device[i], uuid, name, size, context_mib, release_seconds, gpu)
            entry.devices = devices + len(parts)
        self._write_programs()
        self._write_entry_point()

    def __enter__(self) -> Farm:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; processes that run on the farm go on."""
        self._state.close()

    def environment(self, **more: str) -> dict[str, str]:
        """The variables, beside those of this process, to start a process on the farm with; ``more`` are added.

        Search paths are put in front of this process's own. ``FLAGS_use_system_allocator=1`` makes Paddle ask the
        device for each tensor; without it, Paddle keeps a cache and the account shows what the cache holds.
        """
        # One that is set outside names real devices, and would hide ours.
        hidden = _VISIBLE in os.environ and {_VISIBLE: ",".join(self.uuid(i) for i in range(self.devices))}
        return {
            FILE_VARIABLE: str(self.file),
            "CUSTOM_DEVICE_ROOT": str(self.libraries.device),
            "LD_LIBRARY_PATH": _in_front(self.libraries.nvml, "LD_LIBRARY_PATH"),
            "PATH": _in_front(self.folder / "bin", "PATH"),
            "PYTHONPATH": _in_front(self.folder / "site", "PYTHONPATH"),
            "FLAGS_use_system_allocator": "1",
            # Or each process says in six lines that it has found the device.
            "GLOG_minloglevel": "1",
            **(hidden or {}),
            **more,
        }

    def uuid(self, device: int) -> str:
        """What NVML and the visibility variable call a device."""
        return bytes(self._device(device).uuid).decode()

    def total(self, device: int) -> int:
        """Bytes of a device."""
        return int(self._device(device).total)

    def used(self, device: int) -> int:
        """Bytes in use: of processes, foreign, and given back but not yet seen free."""
        self._device(device)
        with self._state.locked():
            return self._state.used(device)

    def by_process(self, device: int) -> dict[int, int]:
        """Bytes by process id, contexts included, of the living processes that have prepared the device."""
        self._device(device)
        with self._state.locked() as entry:
            processes = entry.processes[: entry.processes_top]
            return {p.pid: p.bytes[device] for p in processes if p.pid and p.contexts >> device & 1}

    def peak(self, device: int) -> int:
        """The most bytes that were ever in use at an allocation, or since :meth:`reset_peak`."""
        return int(self._device(device).peak)

    def reset_peak(self, device: int) -> None:
        """Let the peak begin at what is in use now."""
        self._device(device)
        with self._state.locked() as entry:
            entry.device[device].peak = self._state.used(device)

    def allocations(self, device: int) -> tuple[int, int]:
        """How many allocations the device has granted, and how many were given back one by one."""
        entry = self._device(device)
        return int(entry.allocations), int(entry.frees)

    def refused(self, device: int) -> int:
        """How many allocations were refused, for want of memory or by a fault."""
        return int(self._device(device).refused)

    def refusals(self, device: int) -> list[Refusal]:
        """The latest refusals, oldest first; at most 256 are kept."""
        self._device(device)
        with self._state.locked() as entry:
            on = entry.device[device]
            numbers = range(max(0, on.refused - REFUSALS), on.refused)
            found = [on.refusals[number % REFUSALS] for number in numbers]
            return [Refusal(r.at_ns, r.pid, r.bytes, r.free, bool(r.injected)) for r in found]

    def foreign(self, device: int, size: int) -> None:
        """Let somebody who is not listed hold ``size`` bytes from now on.

        Raises:
            FarmError: so much is not free.
        """
        self._device(device)
        with self._state.locked() as entry:
            on = entry.device[device]
            room = on.total - (self._state.used(device) - on.foreign)
            if not 0 <= size <= room:
                raise FarmError(f"device {device} has {room} bytes for foreign use, not {size}")
            on.foreign = size
            on.peak = max(on.peak, self._state.used(device))

    @contextmanager
    def foreigner(
        self, device: int, *, seed: int, most: int, step_seconds: float = 0.05
    ) -> Iterator[subprocess.Popen[str]]:
        """A real process that holds up to ``most`` bytes, other ones each step; ``seed`` decides. Killed at the end."""
        self._device(device)
        arguments = [str(self.libraries.control), str(device), str(seed), str(most), str(step_seconds)]
        process = subprocess.Popen(
            [sys.executable, str(_HERE / "foreigner.py"), *arguments],
            env={**os.environ, **self.environment()},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()

    def slow_release(self, device: int, seconds: float) -> None:
        """Let memory be seen free only so long after it is given back, or after its dead holder is noticed."""
        self._device(device)
        with self._state.locked() as entry:
            entry.device[device].release_ns = round(seconds * 1e9)

    def inject(
        self,
        event: Event,
        action: Action,
        *,
        device: int | None = None,
        pid: int | None = None,
        nth: int = 1,
        times: int = 1,
        per_process: bool = False,
        probability: float = 1.0,
        seed: int = 0,
        code: int = 0,
        milliseconds: int = 0,
        call: str = "",
    ) -> Fault:
        """Let ``action`` happen at ``event``.

        It strikes from the ``nth`` event on, at most ``times`` times (0: no limit); with a ``probability`` below 1 only
        where the ``seed`` and the event's number say so: the same order of events, the same faults. Events are counted
        from now, of all devices or of ``device``, of all processes or of ``pid``, and together, or (``per_process``)
        by each process for itself. ``code`` is for :attr:`Action.FAIL`, ``milliseconds`` for :attr:`Action.HANG`, and
        ``call`` limits NVML faults to one function (its name without ``_v2``), tool faults to one tool. Where several
        faults fit an event, the first one injected strikes.

        Raises:
            FarmError: a number is out of range, or there are 64 faults already.
        """
        if nth < 1 or times < 0 or not 0.0 <= probability <= 1.0 or milliseconds < 0:
            raise FarmError(f"no fault: nth={nth}, times={times}, probability={probability}, {milliseconds} ms")
        if device is not None:
            self._device(device)
        with self._state.locked() as entry:
            free = [i for i in range(FAULTS) if not entry.faults[i].generation]
            if not free:
                raise FarmError(f"{FAULTS} faults are injected already; remove some")
            place = free[0]
            entry.generation += 1
            entry.faults[place] = FaultEntry(
                generation=entry.generation,
                event=event,
                action=action,
                device=-1 if device is None else device,
                pid=pid or 0,
                nth=nth,
                times=times,
                per_process=per_process,
                probability=probability,
                seed=seed,
                code=code,
                milliseconds=milliseconds,
                call=call.encode(),
            )
            entry.faults_top = max(entry.faults_top, place + 1)
            return Fault(self._state, place, int(entry.generation))

    def clear(self) -> None:
        """Remove every fault, foreign use and slow release; what is on its way back is free at once."""
        with self._state.locked() as entry:
            for i in range(FAULTS):
                entry.faults[i].generation = 0
            entry.faults_top = 0
            for on in entry.device[: entry.devices]:
                on.foreign = on.release_ns = on.releases_top = 0
                for release in on.releases:
                    release.bytes = 0

    def _device(self, device: int) -> DeviceEntry:
        if not 0 <= device < self._state.entry.devices:
            raise FarmError(f"the farm has devices 0 to {self._state.entry.devices - 1}, not {device}")
        found: DeviceEntry = self._state.entry.device[device]
        return found

    def _write_programs(self) -> None:
        folder = self.folder / "bin"
        folder.mkdir()
        for tool in ("xpu-smi", "ixsmi"):
            program = folder / tool
            # -I: neither the environment's nor the caller's folder decides what is imported; it starts quicker too.
            command = f'exec "{sys.executable}" -I -S "{_HERE / "vendor_tools.py"}" {tool} "{self.libraries.control}"'
            program.write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
            program.chmod(0o700)

    def _write_entry_point(self) -> None:
        information = self.folder / "site" / "simfarm-1.0.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: simfarm\nVersion: 1.0\n", encoding="utf-8")
        entry_points = "[pytest_paddleapi.devices]\nsim_gpu = simfarm_kind:KIND\n"
        (information / "entry_points.txt").write_text(entry_points, encoding="utf-8")
        shutil.copyfile(_HERE / "kind.py", self.folder / "site" / "simfarm_kind.py")


def _check(devices: int, sizes: list[int], names: list[str], divided: Mapping[int, Sequence[int]], parts: int) -> None:
    if not (devices >= 1 and devices + parts <= DEVICES):
        raise FarmError(f"a farm has 1 to {DEVICES} devices and MIG instances, not {devices} and {parts}")
    if len(sizes) != devices or len(set(names)) != devices:
        raise FarmError(f"{devices} devices want as many sizes and different UUIDs, not {sizes} and {names}")
    for gpu, instances in divided.items():
        if not 0 <= gpu < devices or sum(instances) > sizes[gpu]:
            raise FarmError(f"GPU {gpu} cannot be divided into instances of {list(instances)} MiB")


def _fill(
    device: DeviceEntry, uuid: str, name: str, mib: int, context_mib: int, release_seconds: float, parent: int
) -> None:
    device.uuid, device.name, device.mig_parent = uuid.encode(), name.encode(), parent
    device.total, device.context = mib * MIB, context_mib * MIB
    device.release_ns = round(release_seconds * 1e9)


def _in_front(folder: Path, variable: str) -> str:
    earlier = os.environ.get(variable)
    return f"{folder}{os.pathsep}{earlier}" if earlier else str(folder)
