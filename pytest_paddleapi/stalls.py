"""The watchdog of a pytest session: what moves, what is to be said and killed when nothing does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .scheduling.engine import Engine
from .scheduling.watchdog import Watchdog, WatchdogTimes, ledger_command, stall_limit

__all__ = ["RunWatch"]


class RunWatch:
    """Watches one run's engine.

    ``timeout`` is the time limit of a case, ``limit`` the one for the whole run (None: from the time limit; 0: off),
    ``device`` the kind of device. ``kill`` kills the slots, from another thread.
    """

    def __init__(
        self, timeout: float, limit: float | None, *, ledger: Path | None, device: str, kill: Callable[[str], None]
    ) -> None:
        #: Why the run must end; set from another thread, looked at by the loops.
        self.reason = ""
        self._engine: Engine | None = None
        self._seen = -1
        self._watchdog = Watchdog(
            WatchdogTimes(stall_limit(timeout, limit)),
            describe=self._describe,
            kill=kill,
            stop=self._stop,
            memory_command=ledger_command(ledger, device),
        )

    def start(self) -> None:
        """Begin, in the main thread, before pytest has taken stderr for a test."""
        self._watchdog.start()

    def look(self, engine: Engine) -> None:
        """Called by the main thread whenever it has served the engine."""
        self._engine = engine
        if engine.progress != self._seen:
            self._seen = engine.progress
            self._watchdog.beat(active=bool(engine.busy or len(engine.queue)))
        elif engine.busy == 0 and (engine.elsewhere or engine.admission.paused or not len(engine.queue)):
            self.rest()

    def rest(self) -> None:
        """Nothing is meant to move now: a pause, or somebody else's tests."""
        self._watchdog.beat(active=False)

    def finished(self) -> None:
        """The main thread is back from the run. Can be called again."""
        self._watchdog.finished()

    def _stop(self, reason: str) -> None:
        self.reason = reason

    def _describe(self) -> str:
        engine = self._engine
        return "no case was given to a slot yet" if engine is None else engine.describe()
