"""Admission for a session some of whose workers are on other hosts, which have ledgers of their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ..devices.model import Device
from ..gpu_admission import AdmissionRules, Group, Policy
from .admission import LedgerAdmission
from .dispatching import Grant, NoRoom

__all__ = ["UNKNOWN_CAPACITY", "HostsAdmission"]

#: Bytes, until a worker has told what one case can be given on its host.
UNKNOWN_CAPACITY = 1 << 62


class HostsAdmission(LedgerAdmission):
    """The ledger of this host for the slots here. A slot on another host is granted whatever it asks for: its worker
    asks the ledger there before the case runs, and sends the case back where that refuses.

    ``remote`` are the groups on other hosts, of one slot each; ``local`` is False where all slots are there, so that
    what fits on this host does not matter.
    """

    def __init__(
        self,
        groups: Mapping[str, Sequence[Device]],
        *,
        remote: Collection[str],
        local: bool,
        workers: int,
        folder: Path | None = None,
        rules: AdmissionRules | None = None,
        label: str = "",
    ) -> None:
        super().__init__(groups, workers=workers, folder=folder, rules=rules, label=label)
        self._remote = frozenset(remote)
        self.policy = Policy({**dict.fromkeys(self.groups, workers), **dict.fromkeys(remote, 1)}, self.rules)
        if not local:
            self.capacities.clear()
        self.capacities.update(dict.fromkeys(remote, UNKNOWN_CAPACITY))

    def place(self, slot: str, group: str) -> None:
        """As in the base; of a group on another host the devices are not known here, so its name stands for them."""
        if group in self._remote:
            self._places[slot] = Group(group, (group,))
        else:
            super().place(slot, group)

    def note_capacity(self, slot: str, nbytes: int) -> None:
        """The most that one case can be given on the slot's host, as its worker says."""
        group = self._places[slot].name
        if group in self.capacities:
            self.capacities[group] = nbytes

    def _reserve(self, slot: str, label: str, need: int, *, grown: bool) -> Grant | NoRoom:
        group = self._places[slot].name
        if group not in self._remote:
            return super()._reserve(slot, label, need, grown=grown)
        usable = self.capacities.get(group, 0)
        if need <= usable:
            return Grant(need, grown and need == usable)
        # As on this host: what a case that outgrew its lease has on the largest device there is, is final.
        return Grant(usable, True) if grown and usable and usable == self.capacity else NoRoom(usable)

    def confirm(self, slot: str, pid: int) -> bool:
        """The worker on another host has asked its own ledger."""
        return self._is_remote(slot) or super().confirm(slot, pid)

    def finished(self, slot: str, *, pid: int | None) -> None:
        """Nothing is held here for a slot on another host."""
        if not self._is_remote(slot):
            super().finished(slot, pid=pid)

    def gone(self, slot: str) -> None:
        """As :meth:`finished`."""
        if not self._is_remote(slot):
            super().gone(slot)

    def _is_remote(self, slot: str) -> bool:
        place = self._places.get(slot)
        return place is not None and place.name in self._remote
