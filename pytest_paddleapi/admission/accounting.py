"""How much of a device is still to be given away. Pure: leases and readings in, bytes out.

A device's free memory already lacks what running cases hold. So of each lease only the part counts that its
process does not hold *yet*; the whole of it would count the held part twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..devices.model import Holder, MemoryReading
from .records import Lease, LeaseState
from .rules import AdmissionRules

__all__ = ["holders_on", "promised", "room", "room_at_least", "unrealised"]


def unrealised(lease: Lease, device: str, reading: MemoryReading) -> int:
    """What ``lease`` promises on ``device`` beyond what its holder has taken since its baseline; never below 0.

    Where it is not known what the holder has (no holder yet, none measured, no baseline), all of it.
    """
    return max(0, lease.bytes - _realised(lease, device, reading))


def _realised(lease: Lease, device: str, reading: MemoryReading) -> int:
    if lease.holder is None:
        return 0
    held = reading.held.get(lease.holder)
    baseline = lease.baseline[lease.devices.index(device)] if lease.baseline else None
    if held is None or baseline is None:
        return max(0, lease.reported or 0)
    # A process may shrink below its baseline. It can still claim all of its lease then.
    return max(0, held - baseline)


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
