"""A worker's own look at its devices before it runs a case.

The controller reserves memory; until the slot's process is ready seconds may pass, in which others take it. Where the
worker is on another host than the controller, this look is the only one at the memory that the case will get.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ..devices.model import Device, DeviceError
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
            if self._devices is None:
                self._devices = tuple(self._find())
            return still_fits(self._devices, self._folder, rules=self._rules)
        except (DeviceError, LedgerError) as exc:
            return str(exc)
