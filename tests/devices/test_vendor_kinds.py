"""Kunlun XPUs and Iluvatar GPUs, over tools that print what the real ones print."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_paddleapi.devices import vendor_device
from pytest_paddleapi.devices.iluvatar import KIND as ILUVATAR
from pytest_paddleapi.devices.iluvatar import IluvatarKind
from pytest_paddleapi.devices.model import (
    Device,
    DeviceKind,
    DeviceReadingError,
    DeviceReadingTimeoutError,
    MemoryReading,
    paddle_names,
)
from pytest_paddleapi.devices.registry import DeviceRegistry, default_registry
from pytest_paddleapi.devices.vendor_device import VendorKind
from pytest_paddleapi.devices.vendor_tool import VendorTool
from pytest_paddleapi.devices.xpu import KIND as XPU
from pytest_paddleapi.devices.xpu import XpuKind

from .test_vendor_table import IXSMI, XPU_SMI
from .vendor_programs import Program

MIB = 1 << 20


@pytest.fixture
def xpu_smi(tmp_path: Path) -> Program:
    return Program(tmp_path / "bin", "xpu-smi", XPU_SMI)


@pytest.fixture
def ixsmi(tmp_path: Path) -> Program:
    return Program(tmp_path / "bin", "ixsmi", IXSMI)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the clock that ages readings; and readings have a shorter time limit."""
    ahead = [0.0]

    def tool(command: list[str], *, environ: dict[str, str]) -> VendorTool:
        return VendorTool(command, seconds=3.0, clock=lambda: time.monotonic() + ahead[0], environ=environ)

    def move(seconds: float) -> None:
        ahead[0] += seconds

    monkeypatch.setattr(vendor_device, "VendorTool", tool)
    return move


@pytest.mark.usefixtures("later")
class TestProbe:
    def test_lists_the_devices_of_xpu_smi(self, xpu_smi: Program) -> None:
        found = XpuKind().probe(xpu_smi.environ())
        assert [(device.uuid, device.index, device.model) for device in found.devices] == [
            ("xpu-00000000:52:00.0", 0, "P800 OAM"),
            ("xpu-00000000:56:00.0", 1, "P800 OAM"),
        ]
        assert (found.why_not, found.unusable) == ("", ())

    def test_lists_the_devices_of_ixsmi(self, ixsmi: Program) -> None:
        found = IluvatarKind().probe(ixsmi.environ())
        assert [(device.uuid, device.index, device.model) for device in found.devices] == [
            ("iluvatar-00000000:8a:00.0", 0, "Iluvatar BI-V150"),
            ("iluvatar-00000000:8d:00.0", 1, "Iluvatar BI-V150"),
        ]

    @pytest.mark.parametrize(("kind", "program"), [(XpuKind(), "xpu-smi"), (IluvatarKind(), "ixsmi")])
    def test_without_the_tool_says_so(self, kind: VendorKind, program: str, tmp_path: Path) -> None:
        assert kind.probe({"PATH": str(tmp_path)}).why_not == f"there is no {program} on PATH"

    @pytest.mark.parametrize(
        ("commands", "why"),
        [
            ("echo 'cannot open /dev/xpuctrl: permission denied' >&2; exit 1", "permission denied"),
            ("echo Segmentation fault", "prints what cannot be read: no line begins with"),
            ("exec sleep 600", "did not answer within 3 s"),
        ],
    )
    def test_a_tool_that_does_not_work_is_a_reason(self, xpu_smi: Program, commands: str, why: str) -> None:
        xpu_smi.does(commands)
        found = XpuKind().probe(xpu_smi.environ())
        assert found.devices == ()
        assert why in found.why_not

    def test_a_device_without_memory_is_unusable_and_the_others_go_on(self, xpu_smi: Program) -> None:
        xpu_smi.prints(XPU_SMI.replace("2048MiB / 98304MiB", "      N/A / N/A     "))
        found = XpuKind().probe(xpu_smi.environ())
        assert [device.index for device in found.devices] == [1]
        assert found.unusable == (("Kunlun XPU 0", "xpu-smi does not tell its memory"),)

    def test_no_memory_at_all_is_a_reason(self, xpu_smi: Program) -> None:
        xpu_smi.prints(XPU_SMI.replace("MiB", "ERR"))
        found = XpuKind().probe(xpu_smi.environ())
        assert found.devices == ()
        assert found.why_not == "xpu-smi does not tell the memory of any device"

    def test_without_bus_ids_a_device_is_named_by_its_index(self, xpu_smi: Program) -> None:
        xpu_smi.prints("| 0 Chip |\n| 1MiB / 9MiB |\n| 2 Chip |\n| 1MiB / 9MiB |\n")
        assert [device.uuid for device in XpuKind().probe(xpu_smi.environ()).devices] == ["xpu-0", "xpu-2"]


@pytest.mark.usefixtures("later")
class TestOuterVisibility:
    @pytest.mark.parametrize(
        ("listed", "expected"), [("1", [1]), ("1,0", [1, 0]), (" 0 , 1 ", [0, 1]), ("0,7,1", [0]), ("all", [0, 1])]
    )
    def test_is_respected(self, xpu_smi: Program, ixsmi: Program, listed: str, expected: list[int]) -> None:
        for kind, program in ((XpuKind(), xpu_smi), (IluvatarKind(), ixsmi)):
            environ = program.environ(**{kind.visibility_variable or "": listed})
            assert [device.index for device in kind.probe(environ).devices] == expected

    @pytest.mark.parametrize("listed", ["", "-1", "5", "0,0", "GPU-1234"])
    def test_that_hides_everything_is_a_reason(self, ixsmi: Program, listed: str) -> None:
        found = IluvatarKind().probe(ixsmi.environ(CUDA_VISIBLE_DEVICES=listed))
        assert found.devices == ()
        assert found.why_not == f"CUDA_VISIBLE_DEVICES={listed!r} hides every Iluvatar GPU that can be used"

    def test_of_another_vendor_is_not_looked_at(self, xpu_smi: Program) -> None:
        assert len(XpuKind().probe(xpu_smi.environ(CUDA_VISIBLE_DEVICES="")).devices) == 2


class TestReading:
    def test_follows_the_table_and_is_at_most_two_seconds_old(
        self, xpu_smi: Program, later: Callable[[float], None]
    ) -> None:
        first, second = XpuKind().probe(xpu_smi.environ()).devices
        assert first.read() == MemoryReading(98304 * MIB, 96256 * MIB, {}, first.read().taken)
        xpu_smi.prints(XPU_SMI.replace("   0MiB", "5000MiB"))
        assert second.read().free == 98304 * MIB
        later(2)
        before = second.read()
        assert before.free == 93304 * MIB
        assert before.taken is not None
        assert before.taken == first.read().taken

    def test_all_devices_share_one_start_of_the_tool(self, ixsmi: Program, later: Callable[[float], None]) -> None:
        devices = IluvatarKind().probe(ixsmi.environ()).devices
        for device in devices * 5:
            device.read()
        assert len(ixsmi.pids) == 1
        later(2)
        for device in devices:
            device.read()
        assert len(ixsmi.pids) == 2

    @pytest.mark.parametrize(
        ("commands", "error", "why"),
        [
            ("exit 1", DeviceReadingError, "exit code 1"),
            ("echo garbage", DeviceReadingError, "cannot be read"),
            ("exec sleep 600", DeviceReadingTimeoutError, "did not answer"),
            ("echo '| 0 P800 | 00000000:52:00.0 |'", DeviceReadingError, "does not tell its memory"),
            ("echo '| 1 P800 | 00000000:56:00.0 |'", DeviceReadingError, "does not list it any more"),
            ("echo '| 0 P800 | 00000000:99:00.0 |'", DeviceReadingError, "does not list it any more"),
        ],
    )
    def test_that_fails_is_unknown_and_neither_zero_nor_old(
        self,
        xpu_smi: Program,
        later: Callable[[float], None],
        commands: str,
        error: type[DeviceReadingError],
        why: str,
    ) -> None:
        device = XpuKind().probe(xpu_smi.environ()).devices[0]
        xpu_smi.does(commands)
        later(2)
        with pytest.raises(error, match=rf"xpu-00000000:52:00.0: .*{why}"):
            device.read()


@pytest.mark.usefixtures("later")
def test_names_and_visibility_of_case_processes(xpu_smi: Program, ixsmi: Program) -> None:
    xpus = XpuKind().probe(xpu_smi.environ()).devices
    gpus = IluvatarKind().probe(ixsmi.environ()).devices
    assert (XPU.visible(xpus[1:]), ILUVATAR.visible(gpus)) == ("1", "0,1")
    assert paddle_names(XPU, xpus[1:]) == ("xpu:0",)
    assert paddle_names(ILUVATAR, gpus) == ("iluvatar_gpu:0", "iluvatar_gpu:1")
    assert (XPU.torch_device(0), ILUVATAR.torch_device(1)) == ("cpu", "cuda:1")
    assert isinstance(xpus[0], Device)
    assert isinstance(XPU, DeviceKind)
    assert isinstance(ILUVATAR, DeviceKind)


@pytest.mark.usefixtures("later")
def test_auto_takes_them_in_their_order(xpu_smi: Program, ixsmi: Program) -> None:
    registry = DeviceRegistry()
    for kind in (IluvatarKind(), XpuKind(), default_registry().kinds["cpu"]):
        registry.register(kind)
    assert registry.select(environ=xpu_smi.environ()).kind.name == "xpu"
    xpu_smi.does("exit 1")
    assert (
        DeviceRegistry({"i": IluvatarKind(), "x": XpuKind()}).select(environ=xpu_smi.environ()).kind.name == "iluvatar"
    )
