"""A device whose memory is a few numbers, for tests in one process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_paddleapi.devices.model import Holder, MemoryReading
from pytest_paddleapi.gpu_admission import GIB, AdmissionRules, Group, Slot

#: Small enough to reckon in the head: no reserve but one byte in a hundred, nothing rounded up.
SMALL = AdmissionRules(reserve_bytes=10, reserve_fraction=0.0, settle_bytes=5)


@dataclass
class MemoryDevice:
    """``total`` bytes; ``held`` by processes, ``other`` by whoever cannot be measured."""

    uuid: str = "GPU-0"
    total: int = 100
    held: dict[Holder, int] = field(default_factory=dict)
    other: int = 0
    index: int = 0
    model: str = "simulated"
    free_needs_holders: bool = False
    error: Exception | None = None
    hidden: set[Holder] = field(default_factory=set)
    asked: list[tuple[Holder, ...]] = field(default_factory=list)

    def read(self, holders: Sequence[Holder] = ()) -> MemoryReading:
        self.asked.append(tuple(holders))
        if self.error is not None:
            raise self.error
        known = {holder: self.held.get(holder, 0) for holder in holders if holder not in self.hidden}
        return MemoryReading(self.total, self.total - self.other - sum(self.held.values()), known)


def slot(name: str = "s0", *devices: str) -> Slot:
    return Slot(name, Group("g0", devices or ("GPU-0",)))


#: What a real device looks like to the rules.
REAL = 80 * GIB
