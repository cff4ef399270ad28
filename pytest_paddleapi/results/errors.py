"""What can be wrong with a folder of results."""

from __future__ import annotations

from ..errors import PaddleApiError


class ResultsError(PaddleApiError):
    """Results that cannot be kept or read; ``folder`` is where, ``why`` says what is wrong and what to do."""

    def __init__(self, folder: object, why: str) -> None:
        super().__init__(folder, why)
        self.folder = str(folder)
        self.why = why

    def __str__(self) -> str:
        return f"{self.folder}: {self.why}"


class ResultsLockedError(ResultsError):
    """Another live session writes to the folder."""


class ResultsDamagedError(ResultsError):
    """The file is no database, or a damaged one; it was left as it is."""
