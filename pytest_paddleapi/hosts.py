"""Workers on other hosts (``--tx ssh=...``, ``--tx socket=...``): who they are, and what each is told.

The controller sees nothing of another host: not its devices, memory or ledger. So it gives such a worker a
number among those of its host; the worker finds the devices itself, takes those of that number, and holds its lease in
the ledger of its own host (:mod:`.host_lease`). To the controller each of them is a group of devices of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from .fleet import Fleet

__all__ = ["INPUT", "Hosts", "RemotePlace", "host_of"]

#: Where a worker on another host finds its :class:`RemotePlace`, in xdist's ``workerinput``.
INPUT = "paddleapi_remote"


class RemotePlace(msgspec.Struct, frozen=True):
    """What a worker on another host is told: the kind of device that it must find there, and which one is its own."""

    kind: str
    ordinal: int


def host_of(spec: Any) -> str:
    """A name for the host of an execnet spec; empty for the controller's own.

    What is reached through a socket or ssh counts as another host even at 127.0.0.1: it may be a container.
    """
    for kind in ("ssh", "vagrant_ssh"):
        if target := getattr(spec, kind, None):
            return f"{kind} {target}"
    if address := getattr(spec, "socket", None):
        return f"socket {str(address).rpartition(':')[0]}"
    if gateway := getattr(spec, "installvia", None) or getattr(spec, "via", None):
        return f"via {gateway}"
    return ""


class Hosts:
    """Which group of devices each worker of a session is on: one of ``fleet``, or its own on another host."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._remote: dict[str, tuple[str, int]] = {}

    def place_remote(self, worker: str, host: str) -> RemotePlace:
        """The lowest number that is free on this host."""
        taken = {number for other, number in self._remote.values() if other == host}
        number = next(n for n in range(len(taken) + 1) if n not in taken)
        self._remote[worker] = host, number
        return RemotePlace(self._fleet.kind.name, number)

    def is_remote(self, worker: str) -> bool:
        """The worker is on another host."""
        return worker in self._remote

    def group_of(self, worker: str) -> str:
        """The name of the worker's group."""
        return _group(*self._remote[worker]) if worker in self._remote else self._fleet.group_of(worker)

    def leave(self, worker: str) -> None:
        """The worker is gone; its place is free."""
        if self._remote.pop(worker, None) is None:
            self._fleet.leave(worker)


def remote_groups(specs: Iterable[Any]) -> list[str]:
    """The groups of all workers on other hosts that these execnet specs start."""
    counts: dict[str, int] = {}
    groups = []
    for host in filter(None, map(host_of, specs)):
        groups.append(_group(host, counts.get(host, 0)))
        counts[host] = counts.get(host, 0) + 1
    return groups


def neighbours(spec: Any, specs: Collection[Any]) -> int:
    """How many of the specs are on the host of this one, itself included."""
    return max(1, sum(host_of(other) == host_of(spec) for other in specs))


def _group(host: str, number: int) -> str:
    return f"{host} #{number}"
