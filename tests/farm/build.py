"""Compiles the farm's libraries, once for each state of their sources."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .layout import CONTROL, FarmError

__all__ = ["FarmUnavailableError", "Libraries", "build"]

_HERE = Path(__file__).parent
_SOURCES = ("sim_state.h", "sim_device.cpp", "sim_nvml.c", "sim_control.c")
_HEADER = "paddle/phi/backends/device_ext.h"
_SECONDS = 120.0


class FarmUnavailableError(FarmError):
    """This machine lacks what the libraries are built with; tests are skipped for it, with its text."""


@dataclass(frozen=True)
class Libraries:
    """Where the libraries are; each in a folder of its own, because a search path takes all that a folder has."""

    folder: Path

    @property
    def device(self) -> Path:
        """The folder for ``CUSTOM_DEVICE_ROOT``."""
        return self.folder / "device"

    @property
    def nvml(self) -> Path:
        """The folder for ``LD_LIBRARY_PATH``."""
        return self.folder / "nvml"

    @property
    def control(self) -> Path:
        """The library that :class:`~.layout.State` loads."""
        return self.folder / CONTROL


def build() -> Libraries:
    """The libraries, from the cache in the temporary folder if they were built before from the same sources.

    Raises:
        FarmUnavailableError: there is no ``g++``, or no Paddle with its headers.
        FarmError: the compiler refuses, or the cache belongs to somebody else.
    """
    compiler = shutil.which("g++")
    if compiler is None:
        raise FarmUnavailableError("the simulated GPU farm needs g++ to build its libraries: install it (apt: g++)")
    include = _paddle_include()
    digest = hashlib.sha256((include / _HEADER).read_bytes())
    for name in _SOURCES:
        digest.update((_HERE / name).read_bytes())
    folder = Path(tempfile.gettempdir()) / f"simfarm-{os.getuid()}-{digest.hexdigest()[:16]}"
    if not folder.is_dir():
        _build_into(folder, compiler, include)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise FarmError(f"{folder} belongs to another user, so its libraries are not loaded; remove it or set TMPDIR")
    return Libraries(folder)


def _paddle_include() -> Path:
    found = importlib.util.find_spec("paddle")  # without importing it
    include = Path(found.origin).parent / "include" if found and found.origin else None
    if include is None or not (include / _HEADER).is_file():
        raise FarmUnavailableError(f"the simulated GPU farm needs an installed Paddle 3 with its header {_HEADER}")
    return include


def _build_into(folder: Path, compiler: str, include: Path) -> None:
    # Built aside and renamed, so that two sessions at once never see half a library.
    aside = Path(tempfile.mkdtemp(prefix="simfarm-build-"))
    made = Libraries(aside)
    made.device.mkdir()
    made.nvml.mkdir()
    common = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]
    c = [*common, "-x", "c", "-std=gnu11"]
    try:
        _run([*c, str(_HERE / "sim_control.c"), "-o", str(made.control)])
        _run([*c, str(_HERE / "sim_nvml.c"), "-o", str(made.nvml / "libnvidia-ml.so.1")])
        # libcommon has Paddle's errors; in a process of Paddle it is loaded already.
        paddle = ["-isystem", str(include), f"-L{include.parent / 'libs'}", "-lcommon"]
        device = [str(_HERE / "sim_device.cpp"), "-o", str(made.device / "libsim_gpu.so")]
        _run([*common, "-std=c++17", *device, *paddle])
        try:
            aside.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another session was quicker, with the same result
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode:
        raise FarmError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
