"""What goes in and out of the engine: memory that is asked for, cases that are sent, and how they end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..gpu_admission import Setback
from ..results.verdicts import Verdict

__all__ = ["Admission", "Dispatch", "Ended", "Grant", "NoRoom"]


@dataclass(frozen=True)
class Grant:
    """Memory that was promised; ``whole_device`` where nothing more could ever be."""

    nbytes: int
    whole_device: bool


@dataclass(frozen=True)
class NoRoom:
    """Nothing was promised. ``available`` is the most that would have been, in bytes (below 0 where more is promised
    than there is); None where that is not known, or another reason than memory stands in the way."""

    available: int | None = None


class Admission(Protocol):
    """Who promises memory; the ledger of :mod:`pytest_paddleapi.gpu_admission` behind it."""

    #: Why nothing can be promised at present, where that is not for want of memory.
    trouble: str

    @property
    def paused(self) -> bool:
        """True while somebody wants this session to admit nothing and to give its devices back."""

    def place(self, slot: str, group: str) -> None:
        """A slot runs cases on this group of devices from now on."""

    def drop_group(self, group: str) -> None:
        """The group's devices are lost, or have no slot left: nothing can be admitted there any more."""

    def take_lost(self) -> dict[str, str]:
        """Groups with a device that was found lost since the last question, and why."""

    def need(self, estimate: int) -> int:
        """Admission bytes of a case with this estimated peak."""

    def is_oversize(self, need: int) -> bool:
        """True where no group that is left could ever admit that much; False where none is left."""

    def target(self, group: str) -> int:
        """How many cases may run at once on this group now."""

    def reserve(self, slot: str, label: str, need: int, *, grown: bool) -> Grant | NoRoom:
        """Promise memory to a slot, or refuse for now and say how much there is. ``grown``: the case ran out of less
        before, and may be given all that there is where that is less than ``need``."""

    def finished(self, slot: str, *, pid: int | None) -> None:
        """The case on this slot ended, in this process; the memory is on its way back.

        Followed by :meth:`reserve` for the same slot, or by :meth:`flush`."""

    def flush(self) -> None:
        """Let everyone know of ended cases whose slots got no new one."""

    def gone(self, slot: str) -> None:
        """The slot's process died, and its memory with it."""

    def note_context(self, slot: str, nbytes: int) -> None:
        """So much of the slot's devices a process takes for itself: no case can have that."""

    def note_capacity(self, slot: str, nbytes: int) -> None:
        """So much one case can be given on the slot's host, as a worker on another host says."""

    def succeeded(self, label: str, slot: str) -> None:
        """The memory that the case was given was enough, whatever its verdict."""

    def failed(self, label: str, slot: str, setback: Setback, now: float) -> float:
        """A deferral, timeout or crash. Returns when the case may be tried again."""

    def wants_restart(self, slot: str) -> bool:
        """True where the slot's own process is suspected of holding memory; answered once."""

    def under_pressure(self, now: float, *, waiting: int, busy: int) -> bool:
        """True where work has waited too long with nothing running."""

    def housekeep(self, now: float) -> None:
        """Settle memory that has come back; called often."""


@dataclass(frozen=True)
class Dispatch:
    """Run this case on that slot now."""

    slot: str
    case: int
    token: int
    attempt: int
    lease_bytes: int
    whole_device: bool
    #: The case was killed from outside before; another kill is its result.
    killed_before: bool
    #: Start the slot's process anew first.
    restart: bool = False
    #: Token of the attempt that must pass before this one may begin, under its lease; 0 for none.
    after: int = 0
    #: Bytes that the case is expected to hold at its peak.
    estimate: int = 0


@dataclass(frozen=True)
class Ended:
    """What a slot reports of one attempt. ``external`` marks a kill that was nobody of ours; ``retired``
    says why the slot can take no more cases, and ``device_lost`` that none on its devices can. ``context_bytes``
    is what its process held of the device, where that is why the lease was not confirmed."""

    verdict: Verdict
    needed_bytes: int | None = None
    external: bool = False
    pid: int | None = None
    retired: str | None = None
    device_lost: bool = False
    context_bytes: int | None = None
    #: The most that one case can be given on the slot's host, where that is another one than the engine's.
    capacity_bytes: int | None = None
