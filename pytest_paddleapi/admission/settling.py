"""When the memory of an ended case counts as given back. Pure: time and readings are passed in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .records import Lease
from .rules import AdmissionRules

__all__ = ["Settling"]


@dataclass
class Settling:
    """The first of the two samples that each ``release_pending`` lease waits for."""

    rules: AdmissionRules
    _samples: dict[str, tuple[float, dict[str, int]]] = field(default_factory=dict)

    def settled(self, now: float, pending: Iterable[Lease], free: Mapping[str, int]) -> tuple[Lease, ...]:
        """Those of ``pending`` whose devices' free memory has not moved since a sample that is old enough.

        ``pending`` are all leases in that state, ``free`` the bytes free by device; a lease with a device that is
        missing there waits. Asking again gives the same answer, so a caller that fails to act on it loses nothing.
        """
        before, self._samples = self._samples, {}
        return tuple(lease for lease in pending if self._is_settled(now, lease, before.get(lease.id), free))

    def _is_settled(
        self, now: float, lease: Lease, sample: tuple[float, dict[str, int]] | None, free: Mapping[str, int]
    ) -> bool:
        if any(device not in free for device in lease.devices):
            if sample is not None:
                self._samples[lease.id] = sample
            return False
        current = {device: free[device] for device in lease.devices}
        if sample is None:
            self._samples[lease.id] = (now, current)
            return False
        taken, earlier = sample
        if now - taken < self.rules.settle_seconds:
            self._samples[lease.id] = sample
            return False
        still = all(abs(current[device] - earlier[device]) < self.rules.settle_bytes for device in current)
        self._samples[lease.id] = sample if still else (now, current)
        return still
