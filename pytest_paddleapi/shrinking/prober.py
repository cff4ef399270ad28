"""Runs for the search: each in the case process of a slot of its own, with a short time limit."""

from __future__ import annotations

from collections.abc import Mapping

from ..process.messages import CaseOptions, CaseResult
from ..process.supervisor import Supervisor

__all__ = ["Prober"]


class Prober:
    """A slot that runs one config after the other.

    Args:
        options: what decides the verdicts.
        timeout: seconds of a run. A config that is over it has the verdict ``timeout``.
        environment: added to the case process's environment.

    Raises (when called):
        StartError: no case process can be started.
    """

    def __init__(self, options: CaseOptions, *, timeout: float, environment: Mapping[str, str] | None = None) -> None:
        self._supervisor = Supervisor(options, environment=environment)
        self._timeout = timeout

    def __call__(self, config: str) -> CaseResult:
        return self._supervisor.run(config, timeout=self._timeout).result

    def close(self) -> None:
        """End the slot's processes."""
        self._supervisor.close()

    def __enter__(self) -> Prober:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
