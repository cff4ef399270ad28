"""Paddle's custom devices: a stand-in for Paddle tells the child which there are, and once the real one does."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_paddleapi.devices import custom
from pytest_paddleapi.devices.custom import CustomDevice, CustomKind
from pytest_paddleapi.devices.model import Device, DeviceKind, DeviceReadingError, MemoryReading, Probe, paddle_names

from .vendor_programs import Program


class FakePaddle:
    """A package ``paddle`` for the child, whose plug-ins register what a test says; and the memory of the chips."""

    def __init__(self, folder: Path, plugins: Path) -> None:
        self.plugins = plugins
        self.memory = folder / "memory"
        self.starts = folder / "starts"
        self._path = folder / "path"
        (self._path / "paddle/base").mkdir(parents=True)
        (self._path / "paddle/__init__.py").write_text("")
        (self._path / "paddle/base/__init__.py").write_text("")
        self.memory.write_text("1000 500\n2000 700\n3000 900\n")
        self.registers({"chip": 3})

    def registers(self, types: dict[str, int], before: str = "") -> None:
        self.does(
            f"types = {types!r}\n{before}\n"
            "def get_all_custom_device_type():\n    return list(types)\n"
            "def get_custom_device_count(name):\n    return types[name]\n"
        )

    def does(self, code: str) -> None:
        first = f"open({str(self.starts)!r}, 'a').write('x')\n"
        (self._path / "paddle/base/core.py").write_text(first + code)

    def environ(self, **more: str) -> dict[str, str]:
        own = {"PYTHONPATH": str(self._path), "CUSTOM_DEVICE_ROOT": str(self.plugins), "CHIP_MEMORY": str(self.memory)}
        return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **own, **more}

    @property
    def started(self) -> int:
        return len(self.starts.read_text()) if self.starts.exists() else 0


@pytest.fixture
def paddle(tmp_path: Path, chip_library: Path) -> FakePaddle:
    return FakePaddle(tmp_path, chip_library.parent)


@pytest.fixture
def kind() -> Iterator[CustomKind]:
    made = CustomKind()
    yield made
    for child in made._children.values():
        child.close()


def names(found: Probe) -> list[str]:
    return [device.uuid for device in found.devices]


class TestReason:
    @pytest.fixture(autouse=True)
    def no_child(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*arguments: Any, **options: Any) -> None:
            raise AssertionError("a child was started")

        monkeypatch.setattr(custom, "run_limited", refuse)
        monkeypatch.setattr(custom, "MemoryChild", refuse)

    def test_without_paddle_there_is_none(self, kind: CustomKind, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(custom, "_paddle_folder", lambda: None)
        assert kind.probe({}).why_not == f"Paddle is not installed for {sys.executable}"

    @pytest.mark.parametrize("folder", [False, True])
    def test_without_an_installed_plug_in_there_is_none(
        self, kind: CustomKind, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: bool
    ) -> None:
        monkeypatch.setattr(custom, "_paddle_folder", lambda: tmp_path / "paddle")
        if folder:
            (tmp_path / "paddle_custom_device").mkdir()
        for environ in ({}, {"CUSTOM_DEVICE_ROOT": ""}):
            assert kind.probe(environ).why_not.startswith("no Paddle plug-in is installed")

    def test_a_root_without_a_plug_in_is_none(self, kind: CustomKind, tmp_path: Path) -> None:
        for folder in (tmp_path, tmp_path / "nowhere"):
            why = kind.probe({"CUSTOM_DEVICE_ROOT": str(folder)}).why_not
            assert why == f"CUSTOM_DEVICE_ROOT={str(folder)!r} is no folder with a plug-in"

    def test_an_installed_plug_in_is_one(
        self, kind: CustomKind, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(custom, "_paddle_folder", lambda: tmp_path / "paddle")
        (tmp_path / "paddle_custom_device").mkdir()
        (tmp_path / "paddle_custom_device/libx.so").write_text("")
        with pytest.raises(AssertionError, match="a child was started"):
            kind.probe({})


class TestProbe:
    def test_lists_the_devices_with_their_memory(self, kind: CustomKind, paddle: FakePaddle) -> None:
        found = kind.probe(paddle.environ())
        assert names(found) == ["chip-0", "chip-1", "chip-2"]
        assert [(device.index, device.model) for device in found.devices] == [(0, "chip"), (1, "chip"), (2, "chip")]
        assert found.devices[1].read() == MemoryReading(2000, 700)
        assert (found.why_not, found.unusable, paddle.started) == ("", (), 1)

    def test_imports_no_paddle_here(self, kind: CustomKind, paddle: FakePaddle) -> None:
        before = "paddle" in sys.modules
        kind.probe(paddle.environ())
        assert ("paddle" in sys.modules) == before

    def test_what_the_plug_in_prints_is_not_taken_for_an_answer(self, kind: CustomKind, paddle: FakePaddle) -> None:
        paddle.registers({"chip": 1}, 'import os; os.write(1, b\'{"custom_devices": {"evil": 9}}\\n\')')
        assert names(kind.probe(paddle.environ())) == ["chip-0"]

    @pytest.mark.parametrize(
        ("code", "why"),
        [
            ("raise ImportError('libchip.so: driver is missing')", "exit code 1: ImportError: libchip.so: driver is"),
            ("import os; os.abort()", "ended with signal 6"),
            ("import os; os._exit(0)", "told nothing"),
            ("import time; time.sleep(600)", "did not answer within 2 s"),
        ],
    )
    def test_a_paddle_that_does_not_come_up_is_a_reason(
        self, kind: CustomKind, paddle: FakePaddle, monkeypatch: pytest.MonkeyPatch, code: str, why: str
    ) -> None:
        if "sleep" in code:
            monkeypatch.setattr(custom, "PROBE_SECONDS", 2.0)
        paddle.does(code)
        started = time.monotonic()
        found = kind.probe(paddle.environ())
        assert found.devices == ()
        assert why in found.why_not
        assert time.monotonic() - started < 60

    @pytest.mark.parametrize("types", [{}, {"chip": 0}])
    def test_no_device_is_a_reason(self, kind: CustomKind, paddle: FakePaddle, types: dict[str, int]) -> None:
        paddle.registers(types)
        found = kind.probe(paddle.environ())
        assert found.why_not == f"Paddle finds no device of its plug-ins in {paddle.plugins}"

    def test_of_two_types_the_first_is_used_and_the_other_named(self, kind: CustomKind, paddle: FakePaddle) -> None:
        paddle.registers({"none": 0, "chip": 1, "other": 2})
        found = kind.probe(paddle.environ())
        assert names(found) == ["chip-0"]
        assert found.unusable == (("other", "chip goes first; CUSTOM_DEVICE_ROOT can choose"),)

    def test_a_device_whose_memory_is_unknown_is_unusable(self, kind: CustomKind, paddle: FakePaddle) -> None:
        paddle.memory.write_text("1000 500\nN/A\nN/A\n")
        found = kind.probe(paddle.environ())
        assert names(found) == ["chip-0"]
        assert [name for name, _ in found.unusable] == ["chip:1", "chip:2"]
        assert "device_memory_stats failed with status 2" in found.unusable[0][1]

    def test_no_known_memory_at_all_is_a_reason(self, kind: CustomKind, paddle: FakePaddle) -> None:
        paddle.registers({"other": 1})
        found = kind.probe(paddle.environ())
        assert found.devices == ()
        assert "no plug-in serves other (libchip.so: chip)" in found.why_not

    def test_an_iluvatar_gpu_is_left_to_its_own_kind(
        self, kind: CustomKind, paddle: FakePaddle, tmp_path: Path
    ) -> None:
        """Or the ledger would have one device under two names."""
        paddle.registers({"iluvatar_gpu": 1, "chip": 1})
        program = Program(tmp_path / "bin", "ixsmi")
        assert names(kind.probe(paddle.environ(**program.environ()))) == ["chip-0"]
        assert program.pids == []


class TestOuterVisibility:
    @pytest.mark.parametrize(("listed", "expected"), [("1", [1]), ("2,0", [2, 0]), ("", [0, 1, 2]), ("0,9,1", [0])])
    def test_of_paddles_flag_is_respected(
        self, kind: CustomKind, paddle: FakePaddle, listed: str, expected: list[int]
    ) -> None:
        found = kind.probe(paddle.environ(FLAGS_selected_chips=listed))
        assert [device.index for device in found.devices] == expected

    def test_that_hides_everything_is_a_reason(self, kind: CustomKind, paddle: FakePaddle) -> None:
        why = kind.probe(paddle.environ(FLAGS_selected_chips="7")).why_not
        assert why == "FLAGS_selected_chips='7' hides every chip"

    @pytest.mark.parametrize(
        ("variable", "listed", "expected"),
        [
            ("CHIP_VISIBLE_DEVICES", "4,6,2", ["chip-4", "chip-6", "chip-2"]),
            ("CHIP_VISIBLE_DEVICES", "4,6", ["chip-0", "chip-1", "chip-2"]),  # it hid nothing, so it is not obeyed
            ("CHIP_VISIBLE_DEVICES", "4,4,2", ["chip-0", "chip-1", "chip-2"]),
            ("CHIP_VISIBLE_DEVICES", "a,b,c", ["chip-0", "chip-1", "chip-2"]),
            ("CUDA_VISIBLE_DEVICES", "4,6,2", ["chip-0", "chip-1", "chip-2"]),
        ],
    )
    def test_of_the_driver_leaves_the_ledger_one_name_for_a_device(
        self, kind: CustomKind, paddle: FakePaddle, variable: str, listed: str, expected: list[str]
    ) -> None:
        found = kind.probe(paddle.environ(**{variable: listed}))
        assert names(found) == expected
        assert paddle_names(kind, found.devices) == ("chip:0", "chip:1", "chip:2")


def test_names_and_visibility_of_case_processes(kind: CustomKind, paddle: FakePaddle) -> None:
    assert kind.visibility_variable is None
    devices = kind.probe(paddle.environ()).devices
    assert isinstance(kind, DeviceKind)
    assert isinstance(devices[0], Device)
    assert kind.visibility_variable == "FLAGS_selected_chips"
    assert kind.visible(devices[1:]) == "1,2"
    # Paddle does not count anew.
    assert paddle_names(kind, devices[1:]) == ("chip:1", "chip:2")
    assert (kind.paddle_device(0), kind.torch_device(1)) == ("chip:0", "cpu")


def test_the_real_paddle_with_a_real_plug_in(
    kind: CustomKind, chip_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = tmp_path / "memory"
    memory.write_text("1000 500\n2000 700\n")
    monkeypatch.setattr(custom, "PROBE_SECONDS", 120.0)  # the machine may be busy
    environ = {**os.environ, "CUSTOM_DEVICE_ROOT": str(chip_library.parent), "CHIP_MEMORY": str(memory)}
    found = kind.probe(environ)
    assert names(found) == ["chip-0", "chip-1"], found.why_not
    memory.write_text("1000 100\n2000 700\n")
    device = found.devices[0]
    assert isinstance(device, CustomDevice)
    assert device.read() == MemoryReading(1000, 100)
    memory.unlink()
    with pytest.raises(DeviceReadingError, match="chip-0: "):
        device.read()
