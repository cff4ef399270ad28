"""The lease of a worker that is on another host than the controller, in the ledger of its own host."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from .devices.model import DeviceError
from .fleet import Placement, devices_of
from .gpu_admission import AdmissionRules, LedgerError
from .options.model import RunOptions
from .process.messages import CaseResult
from .reporting import AttemptInfo
from .results.verdicts import Verdict
from .scheduling.admission import LedgerAdmission
from .scheduling.dispatching import Dispatch, NoRoom
from .scheduling.local import SLOT

__all__ = ["HostLease"]

Attempt = tuple[CaseResult, AttemptInfo]


class HostLease:
    """Asks for memory before each case, and gives it back after it.

    A case for which there is none now goes back to the controller as deferred. Every attempt tells the controller how
    much one case can be given here, so that it sends no larger ones.
    """

    def __init__(self, options: RunOptions, placement: Placement, rules: AdmissionRules, label: str) -> None:
        self._options = options
        self._placement = placement
        self._rules = rules
        self._label = label
        self._admission: LedgerAdmission | None = None

    def run(self, dispatch: Dispatch, case: str, attempt: Callable[[Dispatch], Attempt]) -> Attempt:
        """Run ``attempt`` under a lease of what the controller asks for."""
        try:
            admission = self._open()
        except (DeviceError, LedgerError) as exc:
            # Nothing can be promised on this host: no case can run here.
            info = AttemptInfo(dispatch.token, dispatch.attempt, retired=str(exc))
            return CaseResult(dispatch.token, Verdict.DEFERRED, str(exc)), info
        refused, granted = self._ask(admission, dispatch, case)
        if lost := "; ".join(admission.take_lost().values()):
            info = AttemptInfo(dispatch.token, dispatch.attempt, retired=lost, device_lost=True)
            return CaseResult(dispatch.token, Verdict.DEFERRED, lost), info
        if granted is None:
            info = AttemptInfo(dispatch.token, dispatch.attempt, capacity_bytes=admission.capacity)
            return CaseResult(dispatch.token, Verdict.DEFERRED, refused), info
        pid = None
        try:
            result, info = attempt(granted)
            pid = info.pid
            if info.context_bytes:
                admission.note_context(SLOT, info.context_bytes)
        finally:
            admission.finished(SLOT, pid=pid)
            admission.flush()
        return result, replace(info, capacity_bytes=admission.capacity)

    def confirm(self, pid: int) -> str:
        """Why the lease does not fit any more, now that the slot's process is ready; empty where it does."""
        admission = self._open()
        if admission.confirm(SLOT, pid):
            return ""
        return admission.trouble or "somebody else took the memory meanwhile"

    def rest(self) -> bool:
        """Called while there is no case: sees that memory comes back. True where this session is asked to pause."""
        if self._admission is None:
            return False
        self._admission.housekeep(time.monotonic())
        return self._admission.paused

    def close(self) -> None:
        """Leave the ledger."""
        if self._admission is not None:
            self._admission.close()
            self._admission = None

    # ----------------------------------------------------------------------------------------

    def _open(self) -> LedgerAdmission:
        if self._admission is None:
            groups = {self._placement.group: devices_of(self._placement, self._options.memory_limit)}
            self._admission = LedgerAdmission(
                groups, workers=1, folder=self._options.ledger, rules=self._rules, label=self._label
            )
            self._admission.place(SLOT, self._placement.group)
        return self._admission

    @staticmethod
    def _ask(admission: LedgerAdmission, dispatch: Dispatch, case: str) -> tuple[str, Dispatch | None]:
        """Why there is no memory, or the dispatch with what there is."""
        if admission.paused:
            return "this session is asked to pause on the worker's host", None
        admission.housekeep(time.monotonic())
        need = dispatch.lease_bytes or admission.need(0)
        if need > admission.capacity and not dispatch.whole_device:
            return f"it needs {need} bytes, and the worker's host can give {admission.capacity} to one case", None
        grant = admission.reserve(SLOT, case, need, grown=dispatch.whole_device)
        if isinstance(grant, NoRoom):
            return admission.trouble or f"the worker's host has no {need} bytes for it now", None
        return "", replace(dispatch, lease_bytes=grant.nbytes, whole_device=grant.whole_device)
