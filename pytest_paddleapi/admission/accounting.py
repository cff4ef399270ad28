"""How much of a device is still to be given away. Pure: leases and readings in, bytes out.

A device's free memory already lacks what running cases hold. So of each lease only the part counts that its
process does not hold *yet*; the whole of it would count the held part twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from msgspec import structs

from ..devices.model import Holder, MemoryReading
from .records import Lease, LeaseState
from .rules import AdmissionRules

__all__ = ["holders_on", "lowered", "promised", "room", "room_at_least", "sightings", "unrealised"]


def unrealised(lease: Lease, device: str, reading: MemoryReading) -> int:
    """What ``lease`` promises on ``device`` beyond what its holder has taken since its baseline; never below 0.

    Where it is not known what the holder has (no holder yet, none measured, no baseline), all of it.

    The baseline may hold memory of the process's last case, which is on its way back to the device. While that is
    there it is missing from the free memory; once it has gone, the new case's bytes would count twice, in the free
    memory and in the promise, were the baseline not :func:`lowered` with it.
    """
    return max(0, lease.bytes - _realised(lease, device, reading))


def _realised(lease: Lease, device: str, reading: MemoryReading) -> int:
    if lease.holder is None:
        return 0
    beyond = _beyond_baseline(lease, device, reading)
    # A process may shrink below its baseline. It can still claim all of its lease then.
    return max(0, lease.reported or 0 if beyond is None else beyond)


def _beyond_baseline(lease: Lease, device: str, reading: MemoryReading) -> int | None:
    if lease.holder is None or not lease.baseline:
        return None
    held, baseline = reading.held.get(lease.holder), lease.baseline[lease.devices.index(device)]
    return None if held is None or baseline is None else held - baseline


def sightings(leases: Iterable[Lease], device: str, reading: MemoryReading) -> Iterator[tuple[Lease, int]]:
    """Each of the leases on ``device`` whose holder was measured, with the bytes that it holds there."""
    for lease in leases:
        held = reading.held.get(lease.holder) if lease.holder and device in lease.devices else None
        if held is not None:
            yield lease, held


def lowered(lease: Lease, device: str, reading: MemoryReading) -> Lease:
    """``lease`` with a baseline on ``device`` of no more than its holder has in ``reading``; itself where it is so.

    Only while it is active. This never makes :func:`unrealised` too small: a baseline is what was left of the last
    case at some moment, with the process's own memory and what the new case had by then. What was left is no more
    now, and the process's own is no less, so all that it holds beyond the baseline is the new case's.

    That rests on a process that keeps no cache of freed memory between its cases (``AdmissionRules.inherit_held`` is
    false for those alone): what goes into a cache is not the new case's, and what comes out of one is not seen. It
    also rests on a reading that is newer than the baseline.
    """
    beyond = _beyond_baseline(lease, device, reading)
    if lease.state is not LeaseState.ACTIVE or beyond is None or beyond >= 0:
        return lease
    place = lease.devices.index(device)
    baseline = tuple(reading.held[lease.holder] if n == place else b for n, b in enumerate(lease.baseline))  # type: ignore[index]
    return structs.replace(lease, baseline=baseline)


def promised(device: str, leases: Iterable[Lease]) -> int:
    """The sum of all leases on ``device``, as if nothing of them were in use."""
    return sum(lease.bytes for lease in leases if device in lease.devices)


def room_at_least(device: str, reading: MemoryReading, leases: Iterable[Lease], rules: AdmissionRules) -> int:
    """A lower bound of :func:`room` that needs no knowledge of holders. Below 0 it says nothing."""
    return reading.free - rules.reserve_of(reading.total) - promised(device, leases)


def room(device: str, reading: MemoryReading, leases: Iterable[Lease], rules: AdmissionRules) -> int:
    """Bytes of ``device`` that are free, not reserved and not promised to anybody; below 0 if over-promised."""
    claims = [
        unrealised(lease, device, reading)
        for lease in leases
        if device in lease.devices and (rules.count_ended or lease.state is LeaseState.ACTIVE)
    ]
    reserve = rules.reserve_of(reading.total)
    if len(claims) <= 1:
        reserve = math.ceil(reserve * rules.lone_reserve)
    return reading.free - reserve - sum(claims)


def holders_on(device: str, leases: Iterable[Lease]) -> tuple[Holder, ...]:
    """The processes whose memory on ``device`` matters."""
    return tuple({lease.holder: None for lease in leases if lease.holder and device in lease.devices})
