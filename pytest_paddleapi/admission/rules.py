"""Every number of admission, with its reason."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields

__all__ = ["DEVICE_RULES", "GIB", "MIB", "AdmissionRules", "MeasuredBytes"]

MIB = 1 << 20
GIB = 1 << 30


class MeasuredBytes(int):
    """An estimate that was measured in an earlier run of the case, with what runs differ by in it."""


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """The numbers that say how much memory is promised, to how many, and how long anything waits.

    Bytes and seconds.

    Raises:
        ValueError: a number that cannot work; the message names it.
    """

    #: Never promised to anyone: room for what nobody estimates (contexts, fragments, other people's desktops).
    reserve_bytes: int = 2 * GIB
    #: The same as a part of the device: fragmentation grows with the device.
    reserve_fraction: float = 0.05
    #: How much of the reserve stays where only one lease is on a device. The contexts of the slots' own idle processes
    #: are in use then, as nothing else of theirs is, and with 1 a case near the device's limit can never start.
    lone_reserve: float = 1.0
    #: No lease is smaller: contexts and library workspaces alone take hundreds of MiB.
    minimum_bytes: int = 1 * GIB
    #: Added to an estimate, for what it cannot know: workspaces, the comparison's temporaries.
    margin_bytes: int = 512 * MIB
    #: And for big cases in proportion: allocators round up, and kernels differ from the reference.
    margin_factor: float = 1.25
    #: The same for an estimate that is :class:`MeasuredBytes`.
    measured_factor: float = 1.25
    #: Cases at once on a group at the start. Nothing is known about the device yet.
    first_target: int = 1
    #: One success may be luck (a tiny case); two in a row raise the target.
    successes_to_raise: int = 2
    #: An ended case's lease counts until its memory is seen back. False: only what is still in use counts, which the
    #: device's free memory lacks anyway; an ended case takes no more.
    count_ended: bool = True
    #: What a process still holds of its last case counts towards the lease of its next one: true where it is an
    #: allocator's cache, which the next case is given. False: it is on its way back to the device.
    inherit_held: bool = True
    #: It counts all the same once so many cases in a row were seen to give their memory back at once: one or two may
    #: be luck. 0: never.
    prompt_cases: int = 0
    #: At once: so soon after a case's end. The next case of the process takes longer to get at all of its memory.
    prompt_seconds: float = 0.1
    #: Only cases that held more say something: a driver may keep the small change of any.
    prompt_bytes: int = 1 * GIB
    #: Of the waiting cases the largest that fits goes first, not the first in the order of the files: memory is full
    #: from the first, and small cases fill what is left. False where cores are what is short, as on the host.
    largest_first: bool = False
    #: A driver gives memory back some time after the process let go of it. Samples closer together see no change
    #: because nothing has happened yet.
    settle_seconds: float = 1.0
    #: Samples that differ by less are the same: running neighbours' small allocations, not a case's end.
    settle_bytes: int = 64 * MIB
    #: A deferred case waits this long at first, and doubles it each time ...
    first_delay: float = 1.0
    #: ... up to this: long enough not to burn start-ups, short enough to be there when memory comes back.
    longest_delay: float = 30.0
    #: Deferred twice in a row, a slot's own process is suspected of holding the memory.
    deferrals_to_restart: int = 2
    #: Work waits, and nothing runs, starts or ends: somebody else has the memory for good. Ten minutes cover a
    #: neighbour's longest pause between two jobs.
    pressure_seconds: float = 600.0
    #: A transaction takes under a millisecond, and at most a few seconds with a sick driver in it.
    mutex_seconds: float = 30.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value >= 0:  # also refuses NaN
                raise ValueError(f"AdmissionRules.{field.name} is {value}; it must not be negative")
        for name in ("minimum_bytes", "first_target", "successes_to_raise", "first_delay", "deferrals_to_restart"):
            if not getattr(self, name) > 0:
                raise ValueError(f"AdmissionRules.{name} is {getattr(self, name)}; it must be positive")
        if self.reserve_fraction >= 1:
            raise ValueError(
                f"AdmissionRules.reserve_fraction is {self.reserve_fraction}; a part of a device is below 1"
            )
        if self.lone_reserve > 1:
            raise ValueError(f"AdmissionRules.lone_reserve is {self.lone_reserve}; it is a part of the reserve")
        for name in ("margin_factor", "measured_factor"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"AdmissionRules.{name} is {getattr(self, name)}; a lease below the estimate is no lease"
                )
        if self.longest_delay < self.first_delay:
            raise ValueError("AdmissionRules.longest_delay is below first_delay")

    def admission_bytes(self, estimate: int) -> int:
        """What a case of ``estimate`` bytes asks for: the largest of minimum, estimate + margin, estimate × factor."""
        if estimate < 0:
            raise ValueError(f"an estimate of {estimate} bytes")
        factor = self.measured_factor if isinstance(estimate, MeasuredBytes) else self.margin_factor
        return max(self.minimum_bytes, estimate + self.margin_bytes, math.ceil(estimate * factor))

    def reserve_of(self, total: int) -> int:
        """The safety reserve of a device of ``total`` bytes."""
        return max(self.reserve_bytes, math.ceil(total * self.reserve_fraction))

    def usable(self, totals: Iterable[int]) -> int:
        """The most that one case can ever be given on a group whose devices have ``totals`` bytes.

        A lease takes the same number of bytes on each device of its group, so the smallest device counts.
        """
        return max(0, min(total - self.reserve_of(total) for total in totals))


#: Better where the devices are accelerators and nobody keeps a cache of freed memory on them. Simulated
#: (``benchmarks/packing.py``, 8 devices of 80 GiB): with many small cases the makespan over its lower bound falls
#: from 1.48 to 1.11 (8 workers a device); ``docs/numbers.md`` has what large ones take. What a process still
#: holds of its last case is on its way back, so it does not count towards the next lease, unless it was seen to be
#: back at once again and again; an ended case takes no more; a device's concurrency need not be found out case by
#: case, because memory is asked for anyway; and a case that is alone on a device may have the reserve, or one near the
#: limit could never start beside idle contexts. A measured peak needs no margin for what an estimate does not know.
DEVICE_RULES = AdmissionRules(
    first_target=64,
    count_ended=False,
    inherit_held=False,
    prompt_cases=3,
    lone_reserve=0.0,
    measured_factor=1.0,
    largest_first=True,
)
