"""What ``ledger`` shows, as text for people."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..config.files import printable
from .ledger_view import DeviceView, LeaseView, LedgerView, SessionView

__all__ = ["duration", "render", "size"]

#: A case is a line of up to 160 characters in the ledger; the beginning names its API.
_CASE_LENGTH = 60

_DEVICE_COLUMNS = (
    "index",
    "model",
    "total",
    "free",
    "reserve",
    "promised",
    "unrealised",
    "held",
    "available",
    "uuid",
)
_LEASE_COLUMNS = ("slot", "state", "size", "pid", "age", "devices", "case")


def render(view: LedgerView) -> str:
    """The whole look, with a line end at its end.

    Names and labels come from files that, in a shared folder, other users write: what does not print is escaped.
    """
    kind = f" ({view.kind})" if view.kind else ""
    lines = [f"ledger {printable(view.folder)} at {_clock(view.time)}", "", f"devices{kind}"]
    lines += _indented(_devices(view.devices)) if view.devices else ["  none"]
    lines += ["", "sessions"]
    for session in view.sessions:
        lines += _indented(_session(session, view))
    if not view.sessions:
        lines.append("  none")
    if any(session.unknown for session in view.sessions):
        lines += ["", "Nothing new is promised to anybody while a session's leases are unknown."]
    return "\n".join(lines) + "\n"


def size(number: int | None) -> str:
    """Bytes as people read them; ``?`` for None."""
    if number is None:
        return "?"
    value = float(number)
    for unit in ("B", "KiB", "MiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def duration(seconds: float) -> str:
    """Seconds as people read them: ``42 s``, ``5 min``, ``3.2 h``, ``4.0 d``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} d"


def _devices(devices: Sequence[DeviceView]) -> list[str]:
    rows = [
        (
            "-" if device.index is None else str(device.index),
            printable(device.model) or "-",
            *map(size, (device.total, device.free, device.reserve, device.promised, device.unrealised, device.held)),
            size(device.available),
            printable(device.uuid) + (f"  ({printable(device.error)})" if device.error else ""),
        )
        for device in devices
    ]
    return _table(_DEVICE_COLUMNS, rows)


def _session(session: SessionView, view: LedgerView) -> list[str]:
    lines = [f"{session.name}{'  PAUSED' if session.paused else ''}"]
    if session.started is not None:
        who = printable(f"{session.user}@{session.host}")
        since = f"started {_clock(session.started)}, {duration(max(0.0, view.time - session.started))} ago"
        lines.append(f"  {who}, process {session.pid}, {since}")
    if session.label:
        lines.append(f"  {printable(session.label)}")
    if session.unknown:
        lines.append(f"  leases UNKNOWN: {printable(session.unknown)}")
    elif session.leases:
        lines += _indented(_table(_LEASE_COLUMNS, [_lease(lease, view) for lease in session.leases]))
    else:
        lines.append("  no leases")
    return lines


def _lease(lease: LeaseView, view: LedgerView) -> tuple[str, ...]:
    indices = {device.uuid: device.index for device in view.devices}
    known = [indices.get(uuid) for uuid in lease.devices]
    devices = [uuid if index is None else str(index) for uuid, index in zip(lease.devices, known)]
    case = printable(lease.case)
    return (
        printable(lease.slot),
        lease.state,
        size(lease.bytes),
        "-" if lease.pid is None else str(lease.pid),
        duration(lease.age),
        printable(",".join(devices)),
        case if len(case) <= _CASE_LENGTH else case[: _CASE_LENGTH - 1] + "…",
    )


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns side by side; the last is left as long as it is."""
    widths = [max(len(row[column]) for row in (columns, *rows)) for column in range(len(columns) - 1)]
    lines = []
    for row in (columns, *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths)]
        lines.append("  ".join([*cells, row[-1]]))
    return lines


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _clock(seconds: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):  # a time that another user's file claims
        return f"{seconds:g}"
