"""Whether the memory of ended cases comes back at once here, as far as that was seen. Pure: time and readings come in.

A slot's next case may be given what its process still holds of the last one only where that will have gone before the
next one needs it. Nobody promises that: it is what was seen of the cases before, and where nothing was, it is not so.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..devices.model import Holder
from .records import Lease
from .rules import AdmissionRules

__all__ = ["Promptness"]


@dataclass
class _Watch:
    """A slot's process and its present case."""

    holder: Holder | None
    inherited: bool
    ended: float | None = None
    #: What the case was last seen to hold beyond its lease's baseline, where that is much and has not come back.
    out: dict[str, int] = field(default_factory=dict)


class Promptness:
    """Counts the ended cases in a row that gave their memory back at once, on any device of a session.

    A case counts if it was last seen, before its end or right after, to hold more than ``rules.prompt_bytes`` beyond
    its lease's baseline, and within ``rules.prompt_seconds`` of its end to hold less than ``rules.settle_bytes``, on
    all devices where it held much. One that is seen to hold more later begins the row anew; so does one that ran out
    of memory under a lease that had inherited. Where nobody looked in time, a case says nothing.

    Nor does it count where what came back may have been another case's: under a lease that has inherited, and where
    the baseline had at least half as much of earlier cases in it. What a process holds without any case is taken for
    the least that any was seen to hold on the device.

    Seconds are of any clock that never goes back. The time of a reading is to be taken after it and that of an end
    when it is known: what errs then errs towards slow.
    """

    def __init__(self, rules: AdmissionRules) -> None:
        self.rules = rules
        self._row = 0
        self._watched: dict[str, _Watch] = {}
        #: The least that any process was seen to hold, by device.
        self._floors: dict[str, int] = {}

    @property
    def prompt(self) -> bool:
        """True where what a process still holds may count towards its next lease."""
        return 0 < self.rules.prompt_cases <= self._row

    def begins(self, lease: Lease, *, inherited: bool = False) -> None:
        """A slot has a new lease, or the process of its lease is another one now. ``inherited``: what is left of the
        last case counts towards the lease."""
        for device, baseline in zip(lease.devices, lease.baseline):
            if baseline is not None:
                self._floors[device] = min(baseline, self._floors.get(device, baseline))
        self._watched[lease.slot] = _Watch(lease.holder, inherited)

    def seen(self, lease: Lease, device: str, held: int, now: float) -> None:
        """The holder of ``lease``, the slot's present or last one, holds so many bytes on ``device``."""
        watch = self._watched.get(lease.slot)
        baseline = lease.baseline[lease.devices.index(device)] if lease.baseline else None
        if watch is None or watch.holder != lease.holder or baseline is None:
            return
        self._floors[device] = min(held, self._floors.get(device, held))
        beyond = held - baseline
        if beyond > self.rules.prompt_bytes:
            watch.out[device] = max(beyond, watch.out.get(device, 0))
        elif watch.ended is None:
            watch.out.pop(device, None)
        if watch.ended is not None and device in watch.out:
            self._judge(watch, device, baseline, held, now - watch.ended)

    def _judge(self, watch: _Watch, device: str, baseline: int, held: int, seconds: float) -> None:
        back, late = held - baseline < self.rules.settle_bytes, seconds > self.rules.prompt_seconds
        if late and not back:
            self._row = 0
        if not late and not back:
            return
        mixed = watch.inherited or 2 * (baseline - self._floors[device]) >= watch.out.pop(device)
        if late or mixed:
            watch.out.clear()
        elif not watch.out:
            self._row += 1

    def ended(self, slot: str, now: float) -> None:
        """The slot's case has ended."""
        watch = self._watched.get(slot)
        if watch is not None and watch.ended is None:
            watch.ended = now

    def ran_out(self, slot: str) -> None:
        """The slot's case has found less memory than it was promised."""
        watch = self._watched.get(slot)
        if watch is not None and watch.inherited:
            self._row = 0

    def forget(self, slot: str) -> None:
        """The slot's process has died: memory that comes back from there says nothing."""
        self._watched.pop(slot, None)
