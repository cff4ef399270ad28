"""What ``ledger`` shows, as data: pure, from the ledger and the devices' memory. It is also the JSON form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from ..devices.model import MemoryReading
from ..gpu_admission import AdmissionRules, Lease, LedgerSnapshot, SessionState, room, unrealised
from .host_memory import DeviceMemory

__all__ = ["DeviceView", "LeaseView", "LedgerView", "SessionView", "make_view"]


class DeviceView(msgspec.Struct, frozen=True, kw_only=True):
    """One device; sizes in bytes, None where they cannot be known.

    ``reserve`` and ``available`` are by the default rules: what stays free while several leases are on the device, and
    what could still be promised (below 0: more is promised than there is). ``promised`` is the sum of its leases,
    ``unrealised`` the part of it that their processes have not taken, ``held`` what those of them that can be measured
    hold. ``error`` says why nothing was read.
    """

    uuid: str
    index: int | None
    model: str
    total: int | None
    free: int | None
    reserve: int | None
    promised: int
    unrealised: int | None
    held: int | None
    available: int | None
    error: str = ""


class LeaseView(msgspec.Struct, frozen=True, kw_only=True):
    """One lease; ``bytes`` on each of its ``devices``, ``pid`` None before there is a process, ``age`` in seconds."""

    id: str
    slot: str
    group: str
    devices: tuple[str, ...]
    state: str
    bytes: int
    case: str
    pid: int | None
    age: float


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """One live session. ``unknown`` says why its leases cannot be known, and is empty where they are.

    ``started`` in seconds since 1970. Who it is stands in its lease file: None where that cannot be read.
    """

    name: str
    user: str | None
    host: str | None
    label: str | None
    pid: int | None
    started: float | None
    paused: bool
    unknown: str
    leases: tuple[LeaseView, ...]


class LedgerView(msgspec.Struct, frozen=True, kw_only=True):
    """One look. ``time`` in seconds since 1970; ``kind`` is empty where no device was found; ``notes`` are warnings."""

    folder: str
    time: float
    kind: str
    devices: tuple[DeviceView, ...]
    sessions: tuple[SessionView, ...]
    notes: tuple[str, ...]


def make_view(
    snapshot: LedgerSnapshot,
    kind: str,
    memory: Sequence[DeviceMemory],
    notes: Iterable[str],
    now: float,
    rules: Callable[[str], AdmissionRules],
) -> LedgerView:
    """Put the ledger and the memory beside each other.

    ``now`` in seconds since 1970; ``rules`` gives those that hold on a device.
    """
    leases = [lease for session in snapshot.sessions for lease in session.leases]
    devices = [_device(device, leases, rules(device.uuid)) for device in memory]
    return LedgerView(
        folder=snapshot.folder,
        time=now,
        kind=kind,
        devices=(*devices, *_not_read({device.uuid for device in memory}, leases)),
        sessions=tuple(_session(session, now) for session in snapshot.sessions),
        notes=tuple(notes),
    )


def _device(device: DeviceMemory, leases: Sequence[Lease], rules: AdmissionRules) -> DeviceView:
    here = [lease for lease in leases if device.uuid in lease.devices]
    reading = device.reading
    return DeviceView(
        uuid=device.uuid,
        index=device.index,
        model=device.model,
        total=None if reading is None else reading.total,
        free=None if reading is None else reading.free,
        reserve=None if reading is None else rules.reserve_of(reading.total),
        promised=sum(lease.bytes for lease in here),
        unrealised=None if reading is None else sum(unrealised(lease, device.uuid, reading) for lease in here),
        held=_held(reading, here),
        available=None if reading is None else room(device.uuid, reading, here, rules),
        error=device.error,
    )


def _held(reading: MemoryReading | None, leases: Sequence[Lease]) -> int | None:
    if reading is None or (not reading.held and any(lease.holder for lease in leases)):
        return None  # nobody tells what a single process has
    return sum(reading.held.values())


def _not_read(read: set[str], leases: Sequence[Lease]) -> list[DeviceView]:
    """Devices on which somebody has a lease and that this command did not look at."""
    others = dict.fromkeys(uuid for lease in leases for uuid in lease.devices if uuid not in read)
    return [
        DeviceView(
            uuid=uuid,
            index=None,
            model="",
            total=None,
            free=None,
            reserve=None,
            promised=sum(lease.bytes for lease in leases if uuid in lease.devices),
            unrealised=None,
            held=None,
            available=None,
            error="not among the devices that were read (--device chooses their kind)",
        )
        for uuid in others
    ]


def _session(state: SessionState, now: float) -> SessionView:
    header = state.header
    return SessionView(
        name=state.name,
        user=header.user if header else None,
        host=header.host if header else None,
        label=header.label if header else None,
        pid=header.pid if header else None,
        started=header.started if header else None,
        paused=state.paused,
        unknown=state.unknown,
        leases=tuple(_lease(lease, now) for lease in state.leases),
    )


def _lease(lease: Lease, now: float) -> LeaseView:
    return LeaseView(
        id=lease.id,
        slot=lease.slot,
        group=lease.group,
        devices=lease.devices,
        state=lease.state.value,
        bytes=lease.bytes,
        case=lease.case,
        pid=lease.holder.pid if lease.holder else None,
        age=max(0.0, now - lease.created),
    )
