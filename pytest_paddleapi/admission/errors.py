"""What can go wrong with the ledger."""

from __future__ import annotations

from ..errors import PaddleApiError

__all__ = [
    "LeaseError",
    "LedgerBusyError",
    "LedgerError",
    "LedgerFolderError",
    "LedgerWarning",
    "LedgerWriteError",
]


class LedgerError(PaddleApiError):
    """Something about the ledger in ``folder``; ``why`` says what, and what to do."""

    def __init__(self, folder: str, why: str) -> None:
        self.folder = folder
        self.why = why
        super().__init__(folder, why)

    def __str__(self) -> str:
        return f"ledger {self.folder}: {self.why}"


class LedgerFolderError(LedgerError):
    """The folder cannot hold a ledger: a symlink, another user's, not writable, or without real locks."""


class LedgerBusyError(LedgerError):
    """Somebody kept the ledger's mutex longer than anyone should; most likely a stopped process."""


class LedgerWriteError(LedgerError):
    """The session's leases could not be written (disk full, read-only). What was promised before still stands."""


class LeaseError(PaddleApiError):
    """A lease operation that makes no sense in the state it was called in: an error of the caller."""


class LedgerWarning(UserWarning):
    """Something was wrong in the ledger's folder and has been dealt with."""
