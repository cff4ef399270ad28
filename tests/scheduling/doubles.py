"""Admission for tests: the answers that most of them do not care about."""

from __future__ import annotations

from pytest_paddleapi.gpu_admission import Setback


class QuietAdmission:
    """All of :class:`~pytest_paddleapi.scheduling.dispatching.Admission` that promises and takes back nothing."""

    def flush(self) -> None:
        return

    def succeeded(self, label: str, slot: str) -> None:
        return

    def failed(self, label: str, slot: str, setback: Setback, now: float) -> float:
        return now

    def note_capacity(self, slot: str, nbytes: int) -> None:
        return

    def wants_restart(self, slot: str) -> bool:
        return False

    def take_lost(self) -> dict[str, str]:
        return {}

    def under_pressure(self, now: float, *, waiting: int, busy: int) -> bool:
        return False

    def housekeep(self, now: float) -> None:
        return
