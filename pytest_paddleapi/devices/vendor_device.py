"""Devices whose only source is a vendor's command line tool: what Kunlun XPUs and Iluvatar GPUs have in common."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .model import Device, DeviceReadingError, Holder, MemoryReading, Probe
from .vendor_table import VendorRow, VendorTableError, parse_table
from .vendor_tool import VendorTool

__all__ = ["VendorDevice", "VendorKind", "VendorReader", "listed_indices"]


@dataclass(frozen=True, slots=True)
class VendorReader:
    """A tool, and how its table is read (see :func:`~.vendor_table.parse_table`)."""

    tool: VendorTool
    ends_at: str = ""
    names: str = ""

    def table(self, what: str) -> tuple[dict[int, VendorRow], float]:
        """The devices by index, and when they were measured.

        Raises:
            DeviceReadingError: the tool fails, does not answer, or prints something else; ``what`` is the device.
        """
        text, taken = self.tool.read(what)
        try:
            return parse_table(text, ends_at=self.ends_at, names=self.names), taken
        except VendorTableError as exc:
            raise DeviceReadingError(what, f"{self.tool.command[0]} prints what cannot be read: {exc}") from exc


class VendorDevice:
    """One device as its vendor's tool tells of it. What a single process holds is not known: ``held`` is empty."""

    free_needs_holders = False

    def __init__(self, uuid: str, row: VendorRow, reader: VendorReader) -> None:
        self.uuid = uuid
        self.index = row.index
        self.model = row.model
        self._bus = row.bus
        self._reader = reader

    def __repr__(self) -> str:
        return f"VendorDevice({self.uuid!r}, index={self.index})"

    def read(self, holders: Sequence[Holder] = ()) -> MemoryReading:
        """See :meth:`pytest_paddleapi.devices.model.Device.read`; at most 2 s old, as ``taken`` says.

        Raises:
            DeviceReadingError: the tool fails or is silent, or its table does not tell the memory of this device.
        """
        table, taken = self._reader.table(self.uuid)
        row = table.get(self.index)
        if row is None or row.bus != self._bus:
            raise DeviceReadingError(self.uuid, f"{self._reader.tool.command[0]} does not list it any more")
        if row.used is None or row.total is None:
            raise DeviceReadingError(self.uuid, f"{self._reader.tool.command[0]} does not tell its memory")
        return MemoryReading(row.total, row.total - row.used, {}, taken)


class VendorKind:
    """The part of a kind that is the same for every vendor's tool. A subclass says what is different."""

    name: str
    priority: int
    visibility_variable: str | None
    #: The program to look for on PATH.
    program: str
    #: What is printed behind the list of devices, and in the first line of every device; "" where nothing is.
    ends_at = ""
    names = ""
    #: People's word for the device, in messages.
    title: str

    def __init__(self) -> None:
        self._readers: dict[str, VendorReader] = {}

    def probe(self, environ: Mapping[str, str]) -> Probe:
        """Ask the tool, if there is one; devices are those that the outer visibility variable leaves in sight."""
        program = shutil.which(self.program, path=environ.get("PATH", os.defpath))
        if program is None:
            return Probe(why_not=f"there is no {self.program} on PATH")
        reader = self._reader(program, environ)
        try:
            table, _ = reader.table(f"the {self.title} devices")
        except DeviceReadingError as exc:
            return Probe(why_not=exc.why)
        return self._sorted_out(table, reader, environ)

    def visible(self, devices: Sequence[Device]) -> str:
        """The vendor's indices, which are those of the whole host."""
        return ",".join(str(device.index) for device in devices)

    def _reader(self, program: str, environ: Mapping[str, str]) -> VendorReader:
        # One for each program and process: all devices share its readings, those of an earlier probe too.
        if program not in self._readers:
            tool = VendorTool([program], environ=environ)
            self._readers[program] = VendorReader(tool, self.ends_at, self.names)
        return self._readers[program]

    def _sorted_out(self, table: Mapping[int, VendorRow], reader: VendorReader, environ: Mapping[str, str]) -> Probe:
        unusable = tuple(
            (f"{self.title} {row.index}", f"{self.program} does not tell its memory")
            for row in table.values()
            if row.total is None
        )
        devices = {
            row.index: VendorDevice(f"{self.name}-{row.bus or row.index}", row, reader)
            for row in table.values()
            if row.total is not None
        }
        listed = environ.get(self.visibility_variable or "")
        if listed is None or listed.strip() == "all":
            chosen, refused = list(devices.values()), f"{self.program} does not tell the memory of any device"
        else:
            indices = listed_indices(listed, table)
            chosen = [devices[index] for index in indices if index in devices]
            refused = f"{self.visibility_variable}={listed!r} hides every {self.title} that can be used"
        return Probe(tuple(chosen), "" if chosen else refused, unusable)


def listed_indices(listed: str, known: Mapping[int, object]) -> list[int]:
    """The indices that an outer visibility variable shows: up to the first that is not known, as CUDA does.

    Nothing where one stands twice. Being stricter than a vendor's driver only leaves a device unused.
    """
    indices: list[int] = []
    for token in (token.strip() for token in listed.split(",")):
        if not (token.isascii() and token.isdigit() and int(token) in known):
            break
        if int(token) in indices:
            return []
        indices.append(int(token))
    return indices
