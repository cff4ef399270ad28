"""The tables that ``xpu-smi`` and ``ixsmi`` print: which devices there are, and the memory of each.

In both, a device's first line begins with ``| <index> `` and its memory stands within the next seven lines as
``<used>MiB / <total>MiB``. Everything else (versions, process lists, frames) differs between releases and is not
looked at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["VendorRow", "VendorTableError", "parse_table"]

MIB = 1 << 20

#: Lines behind a device's first one in which its memory may stand.
_MEMORY_WITHIN = 7

_DEVICE = re.compile(r"^\|\s+(\d{1,4})\s+(.*)")
_MEMORY = re.compile(r"(?<![\w.-])(\d+)MiB\s*/\s*(\d+)MiB")
_BUS = re.compile(r"\b[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]\b")


class VendorTableError(ValueError):
    """The text is no such table, or contradicts itself: nothing of it can be trusted."""


@dataclass(frozen=True, slots=True)
class VendorRow:
    """One device: ``used`` and ``total`` in bytes, None where the table does not tell; ``bus`` may be empty."""

    index: int
    model: str
    bus: str
    used: int | None
    total: int | None


def parse_table(text: str, *, ends_at: str = "", names: str = "") -> dict[int, VendorRow]:
    """The devices by index, in the order of the table.

    ``ends_at`` is what stands in the first line behind the list of devices; ``names`` is what the first line of
    every device holds (the vendor's name), where other lines begin with a number too.

    Raises:
        VendorTableError: there is no device in it, or two have one index.
    """
    lines = _device_list(text.splitlines(), ends_at)
    starts = [at for at, line in enumerate(lines) if _DEVICE.match(line) and names in line]
    rows: dict[int, VendorRow] = {}
    for start, following in zip(starts, [*starts[1:], len(lines)]):
        # Not beyond the next device's line: a device without memory must not get its neighbour's.
        row = _row(lines[start], lines[start + 1 : min(start + 1 + _MEMORY_WITHIN, following)])
        if row.index in rows:
            raise VendorTableError(f"two devices have the index {row.index}")
        rows[row.index] = row
    if not rows:
        raise VendorTableError(f"no line begins with '| <index> '{f' and names {names}' if names else ''}")
    return rows


def _device_list(lines: list[str], ends_at: str) -> list[str]:
    if not ends_at:
        return lines
    return lines[: next((at for at, line in enumerate(lines) if ends_at in line), len(lines))]


def _row(first: str, following: list[str]) -> VendorRow:
    match = _DEVICE.match(first)
    assert match is not None  # the caller has looked
    cell = match[2].split("|")[0].strip()
    bus = _BUS.search(first)
    memory = next((found for line in following if (found := _MEMORY.search(line))), None)
    used, total = (None, None) if memory is None else (int(memory[1]) * MIB, int(memory[2]) * MIB)
    if used is not None and total is not None and not 0 <= used <= total != 0:
        used = total = None  # more used than there is, or nothing at all: unknown, not full
    # Behind the name, at some distance, may stand a state such as "N/A".
    return VendorRow(int(match[1]), re.split(r"\s{2,}", cell)[0], bus[0].lower() if bus else "", used, total)
