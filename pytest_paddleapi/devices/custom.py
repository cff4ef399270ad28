"""Paddle's custom devices: whatever a plug-in registers with Paddle.

Which there are only Paddle can tell, and this process must never import it. So a child does, and only where there is
reason to: a plug-in is installed, or ``CUSTOM_DEVICE_ROOT`` names a folder of them. Memory comes from the plug-in
itself, through a resident child (:mod:`~pytest_paddleapi.devices.custom_memory`).

A case process sees the devices that this process sees, and each is called by Paddle by its own number, because hiding
does not make Paddle count anew: under ``FLAGS_selected_<type>s=1`` Paddle 3.3 sets up one device and still calls it
``<type>:1``. What the driver itself hides (its own variable, which case processes inherit) is never seen here.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from .custom_reader import MemoryChild
from .model import Device, DeviceReadingError, Holder, MemoryReading, Probe
from .vendor_device import listed_indices
from .vendor_tool import run_limited

__all__ = ["KIND", "CustomDevice", "CustomKind"]

_ROOT = "CUSTOM_DEVICE_ROOT"

#: Importing Paddle takes 4 s on an idle machine; a plug-in adds its driver. Below the registry's limit for a probe.
PROBE_SECONDS = 20.0

#: For the first reading, in which the driver is loaded.
FIRST_READING_SECONDS = 8.0

#: Variables by which the drivers of known types hide and renumber devices, beside ``<TYPE>_VISIBLE_DEVICES``, which
#: Paddle's launcher reads (paddle/distributed/launch/context/device.py).
_DRIVER_VARIABLES = {
    "npu": "ASCEND_RT_VISIBLE_DEVICES",
    "gcu": "TOPS_VISIBLE_DEVICES",
    "iluvatar_gpu": "CUDA_VISIBLE_DEVICES",
}

# What the child runs: not from the folder that it is started in, where people keep checkouts of Paddle.
_PROGRAM = """
import sys
sys.path[:] = [entry for entry in sys.path if entry]
import json, os
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
from paddle.base import core
types = {name: core.get_custom_device_count(name) for name in core.get_all_custom_device_type() or ()}
out.write("\\n" + json.dumps({"custom_devices": types, "root": os.environ.get("CUSTOM_DEVICE_ROOT", "")}) + "\\n")
out.flush()
os._exit(0)
"""


class CustomDevice:
    """One custom device. What a single process holds is not known: ``held`` is empty."""

    free_needs_holders = False

    def __init__(self, device_type: str, index: int, uuid: str, child: MemoryChild) -> None:
        self.uuid = uuid
        self.index = index
        self.model = device_type
        #: Paddle's name, whichever devices a process is shown.
        self.paddle_name = f"{device_type}:{index}"
        self._child = child

    def __repr__(self) -> str:
        return f"CustomDevice({self.paddle_name!r}, uuid={self.uuid!r})"

    def read(self, holders: Sequence[Holder] = (), *, seconds: float | None = None) -> MemoryReading:
        """See :meth:`pytest_paddleapi.devices.model.Device.read`; ``seconds`` is how long to wait for the driver.

        Raises:
            DeviceReadingError: the plug-in cannot tell, or does not answer.
        """
        total, free = self._child.read(self.uuid, self.index, seconds)
        return MemoryReading(total, free)


class CustomKind:
    """The first type of custom device that Paddle has devices of.

    ``device_type`` is empty until :meth:`probe` has found one. Of several types one can be had by pointing
    ``CUSTOM_DEVICE_ROOT`` at a folder with its plug-in alone.
    """

    name = "custom"
    priority = 50

    def __init__(self) -> None:
        self.device_type = ""
        self._children: dict[tuple[str, ...], MemoryChild] = {}

    @property
    def visibility_variable(self) -> str | None:
        """``FLAGS_selected_<type>s``, which keeps Paddle from setting up the other devices; None before the probe."""
        return f"FLAGS_selected_{self.device_type}s" if self.device_type else None

    def probe(self, environ: Mapping[str, str]) -> Probe:
        """Ask Paddle in a child, if a plug-in is installed; then each device for its memory."""
        package = _paddle_folder()
        reason = _no_reason(package, environ)
        if package is None or reason:
            return Probe(why_not=reason)
        try:
            types, root = _registered(environ)
        except DeviceReadingError as exc:
            return Probe(why_not=exc.why)
        if "iluvatar_gpu" in types and shutil.which("ixsmi", path=environ.get("PATH", os.defpath)):
            # One device must not stand in the ledger under two names.
            del types["iluvatar_gpu"]
        self.device_type = next(iter(types), "")
        if not self.device_type:
            return Probe(why_not=f"Paddle finds no device of its plug-ins in {root}")
        others = [
            (name, f"{self.device_type} goes first; {_ROOT} can choose") for name in types if name != self.device_type
        ]
        devices, refused = self._devices(types[self.device_type], package, root, environ)
        usable, silent = _sorted_out(devices)
        why_not = "" if usable else refused or "; ".join(why for _, why in silent)
        return Probe(tuple(usable), why_not, (*silent, *others))

    def visible(self, devices: Sequence[Device]) -> str:
        """Paddle's own numbers."""
        return ",".join(str(device.index) for device in devices)

    def paddle_device(self, position: int) -> str:
        """Right where all devices are shown; otherwise a device's ``paddle_name`` is (see ``paddle_names``)."""
        return f"{self.device_type}:{position}"

    def torch_device(self, position: int) -> str:
        """The CPU: a plug-in of Paddle's brings no Torch."""
        return "cpu"

    def _devices(
        self, count: int, package: Path, root: str, environ: Mapping[str, str]
    ) -> tuple[list[CustomDevice], str]:
        listed = environ.get(self.visibility_variable or "")
        every = dict.fromkeys(range(count))
        indices = list(every) if not listed else listed_indices(listed, every)
        child = self._child(package, root, environ)
        numbers = _host_numbers(self.device_type, count, environ)
        devices = [
            CustomDevice(self.device_type, index, f"{self.device_type}-{numbers[index]}", child) for index in indices
        ]
        return devices, "" if devices else f"{self.visibility_variable}={listed!r} hides every {self.device_type}"

    def _child(self, package: Path, root: str, environ: Mapping[str, str]) -> MemoryChild:
        arguments = (
            self.device_type,
            str(package / "include/paddle/phi/backends/device_ext.h"),
            str(package / "base/libpaddle.so"),
            *sorted(map(str, Path(root).glob("*.so"))),
        )
        if arguments not in self._children:
            self._children[arguments] = MemoryChild(arguments, environ)
        return self._children[arguments]


def _paddle_folder() -> Path | None:
    try:
        spec = importlib.util.find_spec("paddle")  # looks for it and does not import it
    except (ImportError, ValueError):
        return None
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _no_reason(package: Path | None, environ: Mapping[str, str]) -> str:
    """Why Paddle need not be asked; "" where a plug-in may be there."""
    root = environ.get(_ROOT)
    if package is None:
        return f"Paddle is not installed for {sys.executable}"
    if root:
        return "" if _has_file(Path(root)) else f"{_ROOT}={root!r} is no folder with a plug-in"
    installed = package.parent / "paddle_custom_device"
    return "" if _has_file(installed) else f"no Paddle plug-in is installed ({_ROOT} is not set, {installed} is empty)"


def _has_file(folder: Path) -> bool:
    try:
        return any(entry.is_file() for entry in folder.iterdir())
    except OSError:
        return False


def _registered(environ: Mapping[str, str]) -> tuple[dict[str, int], str]:
    """How many devices Paddle has of each type (those with none left out), and the folder of its plug-ins."""
    text = run_limited(
        [sys.executable, "-c", _PROGRAM], what="the custom devices", seconds=PROBE_SECONDS, environ=environ
    )
    for line in reversed(text.splitlines()):
        try:
            answer = json.loads(line)
        except ValueError:
            continue
        if isinstance(answer, dict) and isinstance(answer.get("custom_devices"), dict):
            return {name: int(count) for name, count in answer["custom_devices"].items() if count}, str(answer["root"])
    raise DeviceReadingError("the custom devices", "the process that imports Paddle told nothing")


def _host_numbers(device_type: str, count: int, environ: Mapping[str, str]) -> list[int]:
    """The numbers that the devices have without the driver's variable: the ledger must know them by one name.

    Paddle's own numbers where the variable is not known, or does not list as many devices as there are.
    """
    for variable in (_DRIVER_VARIABLES.get(device_type, ""), f"{device_type.upper()}_VISIBLE_DEVICES"):
        tokens = [token.strip() for token in environ.get(variable, "").split(",")]
        if len(tokens) == count == len(set(tokens)) and all(token.isascii() and token.isdigit() for token in tokens):
            return [int(token) for token in tokens]
    return list(range(count))


def _sorted_out(devices: Sequence[CustomDevice]) -> tuple[list[CustomDevice], list[tuple[str, str]]]:
    """Those whose memory can be read, and the others, with reasons: nothing could ever be promised on them."""
    usable: list[CustomDevice] = []
    silent: list[tuple[str, str]] = []
    for device in devices:
        try:
            device.read(seconds=FIRST_READING_SECONDS)
        except DeviceReadingError as exc:
            silent.append((device.paddle_name, exc.why))
        else:
            usable.append(device)
    return usable, silent


KIND = CustomKind()
