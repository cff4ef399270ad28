"""The header of a session, as lines, and how to say something in the middle of a run."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from .config.manifest import COMMAND_LINE, Manifest
from .devices.host import HostDevice
from .devices.model import Device, DeviceReadingError
from .gpu_admission import GIB

__all__ = ["header_lines", "memory_text", "say"]


def header_lines(mode: str, where: str, manifest: Manifest, left_out: Iterable[str], notes: Iterable[str]) -> list[str]:
    """What runs, on what, from where; ``left_out`` says what else than duplicates and other text is left out."""
    files = sum(1 for file in manifest.by_file if file is not COMMAND_LINE)
    places = [_count(files, "file")] if files else []
    places += ["the command line"] if COMMAND_LINE in manifest.by_file else []
    counts = f"{_count(len(manifest.cases), 'config')} from {' and '.join(places)}"
    passed = [_count(manifest.duplicates, "duplicate")] if manifest.duplicates else []
    passed += [f"{_count(manifest.skipped, 'line')} without a config"] if manifest.skipped else []
    passed += left_out
    versions = ", ".join(f"{name} {_version(name)}" for name in ("paddlepaddle", "torch"))
    return [
        f"paddleapi: {mode} {where}, {versions}",
        f"paddleapi: {counts}{', left out: ' + ', '.join(passed) if passed else ''}",
        *(f"paddleapi: {note}" for note in notes),
    ]


def memory_text(groups: Mapping[str, Sequence[Device]]) -> str:
    """What is in use of each device; of one that cannot be read, that."""
    devices = {device.uuid: device for group in groups.values() for device in group}
    if not devices:
        return ""
    return f"memory in use: {', '.join(map(_memory, devices.values()))}"


def _memory(device: Device) -> str:
    name = "host" if isinstance(device, HostDevice) else f"device {device.index}"
    try:
        reading = device.read()
    except DeviceReadingError:
        return f"{name} unknown"
    return f"{name} {(reading.total - reading.free) / GIB:.1f} of {reading.total / GIB:.1f} GiB"


def say(config: pytest.Config, line: str) -> None:
    """Write a line between whatever the terminal shows of the run.

    To be called in the main thread, between tests. Reporters of other plugins are asked in the way that they have.
    """
    manager = config.pluginmanager
    rich = manager.getplugin("rich-terminal-reporter")
    if rich is not None:
        # Its live display is redrawn below what is printed through its own console.
        rich.console.print(line, markup=False, highlight=False)
        return
    reporter: Any = manager.getplugin("terminalreporter")
    if reporter is None:
        return
    reporter.ensure_newline()
    if reporter._tw.width_of_current_line:  # dots, which it does not count as an open line
        reporter._tw.line()
    reporter.write_line(line)
    if hasattr(reporter, "reset_tracked_lines"):
        # pytest-sugar counts the lines up to those that it draws again; it begins new ones below.
        reporter.reset_tracked_lines()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed as a package)"
