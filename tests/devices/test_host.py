"""The host's memory as a device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from pytest_paddleapi.devices.cgroups import MemoryGroup
from pytest_paddleapi.devices.host import KIND, HostDevice
from pytest_paddleapi.devices.model import Device, DeviceKind, DeviceReadingError, Holder
from pytest_paddleapi.devices.processes import identify

MIB = 1 << 20
GIB = 1 << 30


def proc(root: Path, total: int = 64 * GIB, available: int = 40 * GIB) -> Path:
    (root / "sys/kernel/random").mkdir(parents=True)
    (root / "sys/kernel/random/boot_id").write_text("0f0f\n")
    (root / "meminfo").write_text(
        f"MemTotal:       {total // 1024} kB\nMemFree:         1234 kB\nMemAvailable:   {available // 1024} kB\n"
    )
    return root


def own() -> Holder:
    found = identify(os.getpid())
    assert found is not None
    return found


def test_this_host_reads_as_psutil_reads_it() -> None:
    reading, expected = HostDevice().read(), psutil.virtual_memory()
    assert reading.total <= expected.total
    assert 0 < reading.free <= expected.available + 256 * MIB
    assert reading.held == {}


def test_all_processes_of_one_kernel_call_it_by_one_name(tmp_path: Path) -> None:
    assert HostDevice().uuid == HostDevice(5 * GIB).uuid
    assert HostDevice(proc=str(proc(tmp_path))).uuid == "host-0f0f"


def test_free_is_what_the_kernel_calls_available(tmp_path: Path) -> None:
    reading = HostDevice(proc=str(proc(tmp_path))).read()
    assert (reading.total, reading.free) == (64 * GIB, 40 * GIB)


def limited(device: HostDevice, folder: Path, limit: int, usage: int) -> None:
    folder.mkdir()
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.high").write_text("max\n")
    (folder / "memory.current").write_text(f"{usage}\n")
    (folder / "memory.stat").write_text("inactive_file 0\nactive_file 0\n")
    device._groups = (*device._groups, MemoryGroup(str(folder), 2))


def test_the_tightest_group_limits_total_and_free_each(tmp_path: Path) -> None:
    device = HostDevice(proc=str(proc(tmp_path)))
    limited(device, tmp_path / "outer", 50 * GIB, 45 * GIB)
    limited(device, tmp_path / "inner", 16 * GIB, 1 * GIB)
    reading = device.read()
    assert (reading.total, reading.free) == (16 * GIB, 5 * GIB)


def test_a_limit_that_is_set_later_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("pytest_paddleapi.devices.host.time.monotonic", lambda: now)
    device = HostDevice(proc=str(proc(tmp_path)))
    limited(device, tmp_path / "job", 16 * GIB, 1 * GIB)
    (tmp_path / "job/memory.max").write_text("max\n")
    assert device.read().free == 40 * GIB
    (tmp_path / "job/memory.max").write_text(f"{8 * GIB}\n")
    now += 1.0
    assert device.read().free == 7 * GIB


def test_holders_are_measured_and_strangers_are_not() -> None:
    me = own()
    stranger = Holder(me.pid, me.started + 1, me.namespace)
    held = HostDevice().read((me, stranger)).held
    assert held.keys() == {me}
    assert held[me] > MIB


def test_what_a_real_process_takes_is_seen_in_what_it_holds() -> None:
    program = (
        "import sys; sys.stdin.readline(); x = b'x' * (300 << 20); print('ready', flush=True); sys.stdin.readline()"
    )
    device = HostDevice()
    with subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        holder = identify(process.pid)
        assert holder is not None
        before = device.read((holder,)).held[holder]
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        after = device.read((holder,)).held[holder]
        process.kill()
    assert 295 * MIB <= after - before <= 330 * MIB


class TestMemoryLimit:
    def test_makes_the_host_look_smaller(self, tmp_path: Path) -> None:
        device = HostDevice(10 * GIB, proc=str(proc(tmp_path)))
        reading = device.read()
        assert (reading.total, reading.free) == (10 * GIB, 10 * GIB)

    def test_free_is_less_what_the_holders_of_leases_hold(self) -> None:
        me = own()
        device = HostDevice(1 * GIB)
        reading = device.read((me,))
        assert device.free_needs_holders
        assert reading.free == min(HostDevice().read().free, 1 * GIB - reading.held[me]) < 1 * GIB

    def test_never_makes_free_more_than_it_is(self, tmp_path: Path) -> None:
        reading = HostDevice(100 * GIB, proc=str(proc(tmp_path))).read()
        assert (reading.total, reading.free) == (64 * GIB, 40 * GIB)

    def test_held_beyond_the_limit_leaves_nothing_not_less(self) -> None:
        assert HostDevice(1 * MIB).read((own(),)).free == 0

    @pytest.mark.parametrize("limit", [0, -5])
    def test_must_be_positive(self, limit: int) -> None:
        with pytest.raises(ValueError, match=str(limit)):
            HostDevice(limit)


@pytest.mark.parametrize("text", ["", "MemTotal: 5 kB\n", "MemTotal: x kB\nMemAvailable: 3 kB\n"])
def test_an_unreadable_meminfo_is_an_error_not_zero(tmp_path: Path, text: str) -> None:
    (proc(tmp_path) / "meminfo").write_text(text)
    with pytest.raises(DeviceReadingError, match="host"):
        HostDevice(proc=str(tmp_path)).read()


@pytest.mark.parametrize("look", [1, 2, 3])
def test_memory_that_moves_while_it_is_read_is_never_counted_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: int
) -> None:
    """A process takes 4 of 40 GiB just before one of the looks at what it holds."""
    device = HostDevice(proc=str(proc(tmp_path)))
    looks = []

    def held(holder: Holder, _: str) -> int:
        looks.append(holder)
        if len(looks) == look:
            (tmp_path / "meminfo").write_text(f"MemTotal: {64 << 20} kB\nMemAvailable: {36 << 20} kB\n")
        return 4 * GIB if len(looks) >= look else 0

    monkeypatch.setattr("pytest_paddleapi.devices.host.private_bytes", held)
    reading = device.read((own(),))
    assert reading.free + reading.held[own()] <= 40 * GIB
    assert len(looks) == 3


def test_the_kind_is_always_there_and_last() -> None:
    (device,) = KIND.probe({"CUDA_VISIBLE_DEVICES": "0"}).devices
    assert isinstance(device, Device)
    assert isinstance(KIND, DeviceKind)
    assert (KIND.name, KIND.priority, KIND.visibility_variable) == ("cpu", 0, None)
    assert (KIND.paddle_device(0), KIND.torch_device(0)) == ("cpu", "cpu")
