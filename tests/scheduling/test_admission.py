"""The engine's view of a real ledger, where the ledger cannot be written for a while."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_paddleapi.devices.host import HostDevice
from pytest_paddleapi.gpu_admission import GIB, LeaseState
from pytest_paddleapi.scheduling.admission import LedgerAdmission


@contextmanager
def no_room_on_disk() -> Iterator[None]:
    """Every write to a file fails, as the kernel makes it fail for a full quota."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_a_full_disk_refuses_for_a_while_and_loses_nothing(tmp_path: Path) -> None:
    admission = LedgerAdmission({"cpu": [HostDevice(64 * GIB)]}, workers=2, folder=tmp_path / "ledger")
    for slot in "ab":
        admission.place(slot, "cpu")
    try:
        need = admission.need(0)
        assert admission.reserve("a", "case 1", need, grown=False) is not None
        with no_room_on_disk():
            assert admission.reserve("b", "case 2", need, grown=False) is None
            assert "File too large" in admission.trouble
            admission.finished("a", pid=os.getpid())
            admission.flush()
            admission.housekeep(1.0)
            assert admission.reserve("a", "case 3", need, grown=False) is None
        (lease,) = admission.ledger.leases
        assert (lease.slot, lease.case, lease.state) == ("a", "case 1", LeaseState.ACTIVE)
        assert admission.reserve("b", "case 2", need, grown=False) is not None
        assert admission.trouble == ""
        assert admission.reserve("a", "case 3", need, grown=False) is not None
        assert sorted(lease.case for lease in admission.ledger.leases) == ["case 2", "case 3"]
        for slot in "ab":
            admission.finished(slot, pid=None)
        admission.flush()
        assert {lease.state for lease in admission.ledger.leases} == {LeaseState.RELEASE_PENDING}
    finally:
        admission.close()
