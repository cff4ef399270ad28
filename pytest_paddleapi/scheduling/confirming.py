"""A worker's own look at its devices before it runs a case.

The controller reserves memory; until the slot's process is ready seconds may pass, in which others take it. Where the
worker is on another host than the controller, this look is the only one at the memory that the case will get.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ..devices.model import Device, DeviceError
from ..devices.processes import identify
from ..gpu_admission import AdmissionRules, LedgerError, still_fits


class Confirmation:
    """Asks whether everything that is promised on a worker's devices still fits.

    ``find_devices`` is called once, when the first question comes; it may take seconds.
    """

    def __init__(
        self, find_devices: Callable[[], Sequence[Device]], folder: Path | None, rules: AdmissionRules | None = None
    ) -> None:
        self._find = find_devices
        self._folder = folder
        self._rules = rules or AdmissionRules()
        self._devices: tuple[Device, ...] | None = None

    def refusal(self) -> str:
        """Why the case must not run now; empty where it may."""
        try:
            return still_fits(self._found(), self._folder, rules=self._rules)
        except (DeviceError, LedgerError) as exc:
            return str(exc)

    def held(self, pid: int) -> int | None:
        """Bytes of the worker's devices that the process has taken by getting ready, on the one where it has most.

        None where nobody can tell.
        """
        holder = identify(pid)
        if holder is None:
            return None
        try:
            return max((device.read((holder,)).held.get(holder, 0) for device in self._found()), default=0) or None
        except DeviceError:
            return None

    def _found(self) -> tuple[Device, ...]:
        if self._devices is None:
            self._devices = tuple(self._find())
        return self._devices
