"""Workers on other hosts: their places, and their leases in the ledger of their own host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from execnet import XSpec

from pytest_paddleapi.devices.host import HostDevice
from pytest_paddleapi.devices.model import DeviceLostError, Holder, MemoryReading
from pytest_paddleapi.devices.selection import DeviceOptions
from pytest_paddleapi.fleet import Placement, build_fleet
from pytest_paddleapi.gpu_admission import GIB, AdmissionRules, Granted, Group, Ledger, Slot
from pytest_paddleapi.host_lease import HostLease
from pytest_paddleapi.hosts import Hosts, host_of, neighbours, remote_groups
from pytest_paddleapi.options.model import RunOptions
from pytest_paddleapi.process.messages import CaseOptions, CaseResult, Mode
from pytest_paddleapi.reporting import AttemptInfo
from pytest_paddleapi.results.verdicts import Verdict
from pytest_paddleapi.scheduling.dispatching import Dispatch, Grant, NoRoom
from pytest_paddleapi.scheduling.hosts_admission import UNKNOWN_CAPACITY, HostsAdmission

SPECS = [
    XSpec(text)
    for text in (
        "popen",
        "ssh=a",
        "ssh=-p 22 me@b",
        "socket=10.0.0.1:8888",
        "socket=10.0.0.1:8889",
        "ssh=a",
        "popen//via=x",
    )
]
RULES = AdmissionRules(reserve_bytes=0, reserve_fraction=0.0)


def dispatch(size: int, *, whole: bool = False) -> Dispatch:
    return Dispatch("gw0", 0, 7, 1, size, whole, False)


def test_hosts_are_told_apart_by_how_they_are_reached() -> None:
    assert [host_of(spec) for spec in SPECS] == [
        "",
        "ssh a",
        "ssh -p 22 me@b",
        "socket 10.0.0.1",
        "socket 10.0.0.1",
        "ssh a",
        "via x",
    ]
    assert remote_groups(SPECS) == [
        "ssh a #0",
        "ssh -p 22 me@b #0",
        "socket 10.0.0.1 #0",
        "socket 10.0.0.1 #1",
        "ssh a #1",
        "via x #0",
    ]
    assert [neighbours(spec, SPECS) for spec in SPECS] == [1, 2, 1, 2, 2, 2, 1]


def test_a_worker_that_takes_the_place_of_a_dead_one_gets_its_devices() -> None:
    hosts = Hosts(build_fleet("cpu", DeviceOptions(), cores=2))
    assert [hosts.place_remote(f"gw{n}", "ssh a").ordinal for n in range(3)] == [0, 1, 2]
    assert hosts.place_remote("gw3", "ssh b").ordinal == 0
    hosts.leave("gw1")
    assert not hosts.is_remote("gw1")
    assert hosts.place_remote("gw4", "ssh a").ordinal == 1
    assert hosts.group_of("gw4") == "ssh a #1" and hosts.is_remote("gw4")


def test_a_worker_asks_the_ledger_of_its_own_host(tmp_path: Path) -> None:
    options = RunOptions(case=CaseOptions(mode=Mode.ACCURACY), memory_limit=4 * GIB, ledger=tmp_path / "ledger")
    lease = HostLease(options, Placement(), RULES, "label")
    device = HostDevice(4 * GIB)
    ran: list[Dispatch] = []

    def attempt(granted: Dispatch) -> tuple[CaseResult, AttemptInfo]:
        ran.append(granted)
        held = [other for state in foreign.snapshot().sessions for other in state.leases if other.case == "the case"]
        assert [other.bytes for other in held] == [granted.lease_bytes]
        return CaseResult(granted.token, Verdict.PASS, ""), AttemptInfo(granted.token, granted.attempt)

    with Ledger([device], folder=tmp_path / "ledger", rules=RULES) as foreign:
        theirs = foreign.reserve(Slot("s", Group("cpu", (device.uuid,))), "theirs", 3 * GIB)
        assert isinstance(theirs, Granted)
        result, info = lease.run(dispatch(2 * GIB), "the case", attempt)
        assert (result.verdict, ran) == (Verdict.DEFERRED, [])
        assert info.capacity_bytes is not None and 3 * GIB < info.capacity_bytes <= 4 * GIB
        foreign.release("s")
        result, info = lease.run(dispatch(2 * GIB), "the case", attempt)
        assert result.verdict is Verdict.PASS and ran[-1].lease_bytes == 2 * GIB
        # Its end is known to everybody, without another case.
        states = [other.state.value for state in foreign.snapshot().sessions for other in state.leases]
        assert states == ["release_pending"]
        # More than this host can ever give: the controller is told how much that is, and nothing is tried.
        result, _ = lease.run(dispatch(9 * GIB), "the case", attempt)
        assert result.verdict is Verdict.DEFERRED and "can give" in result.text and len(ran) == 1
        # But a case that outgrew its lease everywhere else gets all there is.
        result, _ = lease.run(dispatch(9 * GIB, whole=True), "the case", attempt)
        assert ran[-1].whole_device and 3 * GIB < ran[-1].lease_bytes <= 4 * GIB
    lease.close()


class Fading:
    """A device that falls off the bus."""

    uuid, index, model = "GPU-a", 0, "x"
    free_needs_holders = False
    lost = False

    def read(self, holders: Sequence[Holder] = ()) -> MemoryReading:
        if self.lost:
            raise DeviceLostError(self.uuid, "GPU is lost")
        return MemoryReading(80 * GIB, 80 * GIB)


def test_a_worker_whose_device_is_lost_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = Fading()
    monkeypatch.setattr("pytest_paddleapi.host_lease.devices_of", lambda placement, limit: (device,))
    options = RunOptions(case=CaseOptions(mode=Mode.ACCURACY), ledger=tmp_path / "ledger")
    lease = HostLease(options, Placement(), RULES, "label")
    ran = CaseResult(7, Verdict.PASS, ""), AttemptInfo(7, 1)
    assert lease.run(dispatch(GIB), "a", lambda granted: ran)[0].verdict is Verdict.PASS
    device.lost = True
    result, info = lease.run(dispatch(GIB), "b", lambda granted: pytest.fail("it ran on a lost device"))
    assert result.verdict is Verdict.DEFERRED
    assert info.device_lost and "GPU is lost" in (info.retired or "")
    lease.close()


def test_without_a_ledger_the_worker_retires(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    options = RunOptions(case=CaseOptions(mode=Mode.ACCURACY), ledger=tmp_path / "file")
    lease = HostLease(options, Placement(), RULES, "label")
    result, info = lease.run(dispatch(GIB), "c", lambda granted: pytest.fail("it ran without a lease"))
    assert result.verdict is Verdict.DEFERRED and info.retired and str(tmp_path / "file") in info.retired


def test_the_controller_grants_other_hosts_what_they_say_they_have(tmp_path: Path) -> None:
    groups = {"cpu": (HostDevice(4 * GIB),)}
    admission = HostsAdmission(
        groups, remote=["ssh a #0"], local=False, workers=1, folder=tmp_path / "ledger", rules=RULES
    )
    admission.place("gw0", "ssh a #0")
    assert not admission.is_oversize(100 * GIB) and admission.target("ssh a #0") == 1
    grant = admission.reserve("gw0", "c", 100 * GIB, grown=False)
    assert isinstance(grant, Grant) and grant.nbytes == 100 * GIB and not grant.whole_device
    # This host's ledger holds nothing for it.
    admission.finished("gw0", pid=1)
    admission.flush()
    assert admission.ledger.leases == () and admission.confirm("gw0", 1)
    admission.note_capacity("gw0", 16 * GIB)
    assert admission.is_oversize(100 * GIB) and not admission.is_oversize(16 * GIB)
    assert admission.reserve("gw0", "c", 17 * GIB, grown=False) == NoRoom(16 * GIB)
    grant = admission.reserve("gw0", "c", 17 * GIB, grown=True)
    assert isinstance(grant, Grant) and (grant.nbytes, grant.whole_device) == (16 * GIB, True)
    admission.gone("gw0")
    admission.close()


def test_slots_here_are_admitted_by_the_ledger_here(tmp_path: Path) -> None:
    groups = {"cpu": (HostDevice(4 * GIB),)}
    admission = HostsAdmission(groups, remote=["ssh a #0"], local=True, workers=1, folder=tmp_path / "l", rules=RULES)
    admission.place("gw0", "cpu")
    assert isinstance(admission.reserve("gw0", "c", 2 * GIB, grown=False), Grant)
    assert [lease.bytes for lease in admission.ledger.leases] == [2 * GIB]
    assert admission.capacities["ssh a #0"] == UNKNOWN_CAPACITY
    admission.close()
