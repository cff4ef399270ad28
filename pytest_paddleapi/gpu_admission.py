"""Share the devices of one host between everybody who asks here first.

Nothing in this module needs pytest, Paddle or Torch. A program of any kind can take part::

    from pytest_paddleapi.devices.registry import default_registry
    from pytest_paddleapi.gpu_admission import Granted, Group, Ledger, Slot

    devices = default_registry().select().devices
    slot = Slot("slot0", Group("gpu0", (devices[0].uuid,)))
    with Ledger(devices, label="my job") as ledger:
        answer = ledger.reserve(slot, "training", 8 << 30)
        if isinstance(answer, Granted) and ledger.confirm(answer.lease, pid=worker.pid):
            ...                                   # run it in that process
            ledger.finish(answer.lease)           # and call ledger.settle(time.monotonic()) every second

**What is promised.** At any moment, on each device: the free memory, less a reserve, less what leases have promised
but their processes do not hold yet, in all sessions of the host. No operation promises more than that. A lease whose
process cannot be measured counts in full.

**Who is alive.** A session holds a kernel lock for as long as it lives. No process id is trusted for that: a session
that dies by any signal has lost its lock at that instant, and the next one who looks drops its leases. So the ledger
works across containers that share its folder. Process ids (with their start times) only serve to measure memory.

**What goes wrong.** A lease file that is damaged is set aside with a :class:`LedgerWarning`; its owner writes it
again at its next transaction, and until then nobody is promised anything, since that session may have promised
everything. A folder that is cleaned away is made again by whoever comes next, each with its own leases. A full
disk raises :class:`LedgerWriteError` and changes nothing.

The parts: :mod:`~pytest_paddleapi.admission.rules` (the numbers), ``policy`` (who may ask when),
``accounting`` (how much is left), ``ledger`` (the operations), ``store`` (the files).
"""

from __future__ import annotations

from .admission.accounting import room, unrealised
from .admission.errors import (
    LeaseError,
    LedgerBusyError,
    LedgerError,
    LedgerFolderError,
    LedgerWarning,
    LedgerWriteError,
)
from .admission.folder import check_folder, default_folder
from .admission.ledger import (
    Admission,
    Granted,
    Ledger,
    Refusal,
    Refused,
)
from .admission.observing import LedgerSnapshot, pause_session, read_ledger, resume_session, still_fits
from .admission.policy import Policy, Setback
from .admission.promptness import Promptness
from .admission.records import Group, Lease, LeaseState, SessionHeader, Slot
from .admission.rules import DEVICE_RULES, GIB, MIB, AdmissionRules, MeasuredBytes
from .admission.store import SessionState

__all__ = [
    "DEVICE_RULES",
    "GIB",
    "MIB",
    "Admission",
    "AdmissionRules",
    "Granted",
    "Group",
    "Lease",
    "LeaseError",
    "LeaseState",
    "Ledger",
    "LedgerBusyError",
    "LedgerError",
    "LedgerFolderError",
    "LedgerSnapshot",
    "LedgerWarning",
    "LedgerWriteError",
    "MeasuredBytes",
    "Policy",
    "Promptness",
    "Refusal",
    "Refused",
    "SessionHeader",
    "SessionState",
    "Setback",
    "Slot",
    "check_folder",
    "default_folder",
    "pause_session",
    "read_ledger",
    "resume_session",
    "room",
    "still_fits",
    "unrealised",
]
