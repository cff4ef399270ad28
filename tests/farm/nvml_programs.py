"""What the tests ask the plugin's NVIDIA kind, which asks the real nvidia-ml-py, in an environment of a farm.

Run as ``python nvml_programs.py FUNCTION ARGUMENTS``; prints as JSON what the function returns.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from pytest_paddleapi.devices.model import DeviceReadingError
from pytest_paddleapi.devices.nvidia import KIND, NvidiaDevice
from pytest_paddleapi.devices.processes import identify
from pytest_paddleapi.devices.readings import TimedReader
from pytest_paddleapi.devices.registry import default_registry


def probe(visible: str | None = None) -> dict[str, Any]:
    """What the kind finds."""
    found = KIND.probe({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})
    devices = [[device.uuid, device.index, device.model] for device in found.devices]
    return {"devices": devices, "why_not": found.why_not, "unusable": [list(entry) for entry in found.unusable]}


def read(uuid: str, pids: list[int]) -> dict[str, Any]:
    """A reading of one device, with what the processes hold."""
    KIND.probe({})
    holders = [holder for pid in pids if (holder := identify(pid)) is not None]
    reading = NvidiaDevice(uuid, 0, "").read(holders)
    held = {str(holder.pid): size for holder, size in reading.held.items()}
    return {"total": reading.total, "free": reading.free, "held": held}


def read_errors(uuid: str, count: int, patience: float = 5.0) -> list[list[str] | str]:
    """Readings one after the other: "ok", or the error's class and text."""
    KIND.probe({})
    device = NvidiaDevice(uuid, 0, "", reader=TimedReader(uuid, patience=patience))
    holder = identify(os.getpid())
    assert holder is not None
    found: list[list[str] | str] = []
    for _ in range(count):
        try:
            device.read([holder])
        except DeviceReadingError as exc:
            found.append([type(exc).__name__, str(exc)])
        else:
            found.append("ok")
    return found


def late_probe(seconds: float) -> dict[str, Any]:
    """What ``auto`` takes when a driver hangs, and how long it took to find out."""
    begun = time.monotonic()
    selection = default_registry().select("auto", {}, seconds=seconds)
    passed = [[entry.name, entry.why] for entry in selection.passed_over]
    return {"kind": selection.kind.name, "passed_over": passed, "seconds": time.monotonic() - begun}


def select() -> dict[str, Any]:
    """What ``auto`` takes, and how it names things."""
    selection = default_registry().select()
    kind = selection.kind
    names = [kind.paddle_device(1), kind.torch_device(1), kind.visible(selection.devices)]
    return {"kind": kind.name, "priority": kind.priority, "devices": len(selection.devices), "names": names}


def raw_mig(index: int) -> dict[str, Any]:
    """The MIG calls of NVML on one GPU."""
    import pynvml

    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
    found: dict[str, Any] = {"mode": pynvml.nvmlDeviceGetMigMode(gpu)[0]}
    found["most"] = pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu)
    instances = []
    for number in range(found["most"]):
        try:
            instance = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, number)
        except pynvml.NVMLError_NotFound:
            break
        parent = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance)
        total = pynvml.nvmlDeviceGetMemoryInfo(instance).total
        instances.append([pynvml.nvmlDeviceGetUUID(instance), total, pynvml.nvmlDeviceGetIndex(parent)])
    return {**found, "instances": instances}


if __name__ == "__main__":
    # A reader's thread may hang in the library; the answer must not wait for it.
    print(json.dumps(globals()[sys.argv[1]](**json.loads(sys.argv[2]))), flush=True)
    os._exit(0)
