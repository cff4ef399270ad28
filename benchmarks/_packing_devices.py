"""Simulated devices: memory that processes take and give back, and others who take some of it for minutes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from _packing_cases import GIB

from pytest_paddleapi.devices.model import Holder, MemoryReading

#: Foreign processes: on which part of the devices, seconds between two, how long each stays, and its most bytes.
FOREIGN_SHARE, FOREIGN_PAUSE, FOREIGN_STAY, FOREIGN_BYTES = 0.25, 240.0, (60.0, 300.0), 20 * GIB


@dataclass
class SimulatedDevice:
    """``total`` bytes; what is ``used`` includes what dead processes have not given back yet."""

    uuid: str
    total: int
    used: int = 0
    #: What living case processes hold.
    held: dict[Holder, int] = field(default_factory=dict)
    #: Until when a process prepares this device; the next one waits.
    prepared_at: float = 0.0

    @property
    def free(self) -> int:
        """Bytes that anybody could still take."""
        return self.total - self.used

    def read(self) -> MemoryReading:
        """The memory now."""
        return MemoryReading(self.total, self.free, self.held)

    def take(self, holder: Holder, nbytes: int) -> bool:
        """False, and nothing is taken, where there is not so much."""
        if nbytes > self.total - self.used:
            return False
        self.used += nbytes
        self.held[holder] += nbytes
        return True

    def give_back(self, holder: Holder, nbytes: int) -> None:
        """A living process's memory is free again; nothing where it died meanwhile (all it had comes back at once)."""
        if holder in self.held:
            self.held[holder] -= nbytes
            self.used -= nbytes

    def die(self, holder: Holder) -> int:
        """The process is gone. Gives what is still to come back: it stays used until :meth:`settle`."""
        return self.held.pop(holder)

    def settle(self, nbytes: int) -> None:
        """Memory of nobody who lives is free again."""
        self.used -= nbytes


class Foreigner:
    """One process of somebody else after another on one device, by a schedule of its own."""

    def __init__(self, device: SimulatedDevice, seed: int) -> None:
        self.device = device
        self._rng = random.Random(seed)
        self._has = 0
        self.next = self._rng.expovariate(1 / FOREIGN_PAUSE)

    def act(self, now: float) -> None:
        """Take memory, or give back what was taken; sets the time of the next act."""
        if self._has:
            self.device.settle(self._has)
            self._has = 0
            self.next = now + self._rng.expovariate(1 / FOREIGN_PAUSE)
            return
        wanted, stay = self._rng.randint(1, FOREIGN_BYTES), self._rng.uniform(*FOREIGN_STAY)
        self._has = min(wanted, self.device.free)
        self.device.used += self._has
        self.next = now + stay


def foreigners_on(devices: list[SimulatedDevice], seed: int) -> list[Foreigner]:
    """Those devices that others use too are the same for each policy."""
    rng = random.Random(seed)
    return [Foreigner(d, seed * 7919 + n) for n, d in enumerate(devices) if rng.random() < FOREIGN_SHARE]
