"""Looking at the ledger, and asking its sessions to pause, without being one of them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ..devices.model import Device
from .accounting import holders_on, room
from .rules import AdmissionRules
from .store import LedgerStore, SessionState

__all__ = ["LedgerSnapshot", "pause_session", "read_ledger", "resume_session", "still_fits"]


@dataclass(frozen=True, slots=True)
class LedgerSnapshot:
    """Every live session and its leases, as of one moment."""

    folder: str
    sessions: tuple[SessionState, ...]


def read_ledger(folder: Path | None = None, *, wait: float = AdmissionRules().mutex_seconds) -> LedgerSnapshot:
    """What all live sessions on this host promise, without being one of them.

    Raises:
        LedgerFolderError, LedgerBusyError: see their docs.
    """
    with closing(LedgerStore(folder, wait=wait)) as store, store.transaction() as sessions:
        return LedgerSnapshot(store.path, sessions)


def still_fits(devices: Iterable[Device], folder: Path | None = None, *, rules: AdmissionRules | None = None) -> str:
    """Whether all that is promised on these devices is there; why not, or nothing. For a worker whose lease its
    controller holds: to be asked when its process is ready, before the case is sent.

    Raises:
        LedgerFolderError, LedgerBusyError, DeviceReadingError: see their docs.
    """
    rules = rules or AdmissionRules()
    with closing(LedgerStore(folder, wait=rules.mutex_seconds)) as store, store.transaction() as sessions:
        unknown = [f"session {state.name}: {state.unknown}" for state in sessions if state.unknown]
        if unknown:
            return "; ".join(unknown)
        leases = [lease for state in sessions for lease in state.leases]
        for device in devices:
            left = room(device.uuid, device.read(holders_on(device.uuid, leases)), leases, rules)
            if left < 0:
                return f"the memory of {device.uuid} was taken meanwhile: {-left / 2**20:.0f} MiB are missing"
    return ""


def pause_session(session: str, folder: Path | None = None, *, wait: float = AdmissionRules().mutex_seconds) -> None:
    """Ask a session to admit nothing, let its cases end and give its devices back, until :func:`resume_session`.

    Raises:
        LedgerError: there is no such live session, or see :func:`read_ledger`.
    """
    with closing(LedgerStore(folder, wait=wait)) as store, store.transaction():
        store.set_paused(session, True)


def resume_session(session: str, folder: Path | None = None, *, wait: float = AdmissionRules().mutex_seconds) -> None:
    """Let a paused session go on.

    Raises:
        LedgerError: there is no such live session, or see :func:`read_ledger`.
    """
    with closing(LedgerStore(folder, wait=wait)) as store, store.transaction():
        store.set_paused(session, False)
