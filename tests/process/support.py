"""What the tests of this folder share."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import psutil

import pytest_paddleapi
from pytest_paddleapi.process.launcher import Spares, Zygote
from pytest_paddleapi.process.supervisor import Supervisor

HERE = Path(__file__).parent
#: Where the case process finds the runners of this folder, and the package that is tested.
ENVIRONMENT = {"PYTHONPATH": f"{HERE}{os.pathsep}{Path(pytest_paddleapi.__file__).parents[1]}"}
#: How a case process comes to be, by the name that the tests' ids show.
LAUNCHERS: dict[str, type[Zygote] | type[Spares]] = {"fork": Zygote, "spare": Spares}
LIGHT = "light_runner:LightRunner"

MakeSlot = Callable[..., Supervisor]


def alive(pid: int) -> bool:
    """The process exists and is not a zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Wait for a condition; False where it did not come true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def tagged(name: str, value: str) -> list[psutil.Process]:
    """Every process, but zombies, whose environment has ``name=value``."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(name) == value and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found
