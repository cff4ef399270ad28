"""Looking at the ledger, and asking its sessions to pause, without being one of them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from .rules import AdmissionRules
from .store import LedgerStore, SessionState

__all__ = ["LedgerSnapshot", "pause_session", "read_ledger", "resume_session"]


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
