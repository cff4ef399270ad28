"""The child that asks a plug-in of Paddle for memory: a real library, in a real process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_paddleapi.devices import custom_memory
from pytest_paddleapi.devices.custom_memory import PluginError, interface_layout
from pytest_paddleapi.devices.custom_reader import MemoryChild
from pytest_paddleapi.devices.model import DeviceReadingError, DeviceReadingTimeoutError

HEADER = "include/paddle/phi/backends/device_ext.h"
#: For a child to start or to end on a busy machine.
LONG = 60.0

MakeChild = Callable[..., MemoryChild]


class TestLayout:
    def test_of_the_header_that_paddle_ships(self, paddle_folder: Path, tmp_path: Path) -> None:
        """As the compiler sees it."""
        offsets, size = interface_layout((paddle_folder / HEADER).read_text())
        names = ["initialize", "init_device", "set_device", "device_memory_stats", "blas_axpby"]
        program = "#include <paddle/phi/backends/device_ext.h>\n" + "".join(
            f"static_assert(offsetof(C_DeviceInterface, {name}) == {offsets[name]});\n" for name in names
        )
        program += f"static_assert(sizeof(C_DeviceInterface) == {size});\n"
        program += f"static_assert(sizeof(CustomRuntimeParams) == {custom_memory._Params.room.offset});\n"
        source = tmp_path / "check.cpp"
        source.write_text(program)
        command = ["g++", "-fsyntax-only", "-std=c++17", f"-I{paddle_folder / 'include'}", str(source)]
        subprocess.run(command, check=True, timeout=120)

    def test_passes_over_comments_and_counts_arrays(self) -> None:
        text = """
            struct C_DeviceInterface {
              size_t size;  // void* not_a_member;
              /* C_Status (*nor)(this); */
              void* reserved[3];
              C_Status (*ask)(const C_Device device, size_t* total);
            \n};"""
        assert interface_layout(text) == ({"size": 0, "reserved": 8, "ask": 32}, 40)

    @pytest.mark.parametrize("text", ["", "struct C_DeviceInterface {\n  int x;\n};", "struct Other {\n};"])
    def test_of_another_header_is_an_error(self, text: str) -> None:
        with pytest.raises(PluginError, match=r"device_ext\.h"):
            interface_layout(text)


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    file = tmp_path / "memory"
    file.write_text("1000 500\n2000 700\n")
    return file


@pytest.fixture
def make(chip_library: Path, paddle_folder: Path, memory: Path) -> Iterator[MakeChild]:
    made: list[MemoryChild] = []

    def child(device_type: str = "chip", *libraries: Path, **options: float) -> MemoryChild:
        arguments = arguments_for(paddle_folder, device_type, *(libraries or (chip_library,)))
        made.append(MemoryChild(arguments, {**os.environ, "CHIP_MEMORY": str(memory)}, **options))
        return made[-1]

    yield child
    for one in made:
        one.close()


def arguments_for(paddle_folder: Path, device_type: str, *libraries: Path) -> list[str]:
    fixed = [device_type, str(paddle_folder / HEADER), str(paddle_folder / "base/libpaddle.so")]
    return [*fixed, *map(str, libraries)]


def gone(pid: int) -> bool:
    deadline = time.monotonic() + LONG
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


class TestReading:
    def test_is_what_the_plug_in_says_now(self, make: MakeChild, memory: Path) -> None:
        child = make()
        assert child.read("chip-0", 0, LONG) == (1000, 500)
        assert child.read("chip-1", 1) == (2000, 700)
        memory.write_text("1000 400\n2000 0\n")
        assert child.read("chip-0", 0) == (1000, 400)
        assert child.read("chip-1", 1) == (2000, 0)

    def test_uses_one_process(self, make: MakeChild) -> None:
        child = make()
        assert child.pid is None
        child.read("chip-0", 0, LONG)
        first = child.pid
        child.read("chip-1", 1)
        assert child.pid == first

    @pytest.mark.parametrize("line", ["N/A\n", "0 0\n", "100 200\n"])
    def test_that_cannot_be_is_unknown_and_not_zero(self, make: MakeChild, memory: Path, line: str) -> None:
        memory.write_text(line)
        child = make()
        with pytest.raises(DeviceReadingError, match=r"chip-0: (device_memory_stats failed|the plug-in tells)"):
            child.read("chip-0", 0, LONG)
        memory.write_text("50 10\n")
        assert child.read("chip-0", 0) == (50, 10)

    def test_of_a_type_without_a_plug_in_says_what_there_is(
        self, make: MakeChild, chip_library: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "no.so").write_text("no library")
        child = make("other", chip_library, tmp_path / "no.so")
        with pytest.raises(DeviceReadingError, match=r"no plug-in serves other \(libchip.so: chip; no.so: cannot"):
            child.read("other-0", 0, LONG)
        with pytest.raises(DeviceReadingError, match="no plug-in serves other"):
            child.read("other-0", 0)  # without another start
        assert child.pid is None


class TestHanging:
    def test_is_not_waited_for(self, make: MakeChild, memory: Path) -> None:
        child = make(patience=0.2)
        child.read("chip-1", 1, LONG)
        memory.write_text("1000 666\n2000 700\n")
        with pytest.raises(DeviceReadingTimeoutError, match="chip-0: no answer in time"):
            child.read("chip-0", 0)
        started = time.monotonic()
        with pytest.raises(DeviceReadingTimeoutError, match="chip-1: its driver has not answered for"):
            child.read("chip-1", 1, LONG)
        assert time.monotonic() - started < 10

    def test_a_late_answer_is_not_taken_for_the_next(self, make: MakeChild, memory: Path) -> None:
        child = make()
        child.read("chip-0", 0, LONG)
        memory.write_text("1000 667\n2000 700\n")
        with pytest.raises(DeviceReadingTimeoutError):
            child.read("chip-0", 0, 0.1)
        deadline = time.monotonic() + LONG
        while True:
            try:
                assert child.read("chip-1", 1, LONG) == (2000, 700)
                break
            except DeviceReadingTimeoutError:
                assert time.monotonic() < deadline
                time.sleep(0.02)

    def test_in_the_driver_is_ended_by_the_kernel(self, chip_library: Path, paddle_folder: Path, memory: Path) -> None:
        memory.write_text("1000 666\n")
        program = (
            f"import sys; sys.path.insert(0, {str(Path(custom_memory.__file__).parent)!r}); import custom_memory;"
            "custom_memory.HANG_SECONDS = 1; custom_memory.main(sys.argv[1:])"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments_for(paddle_folder, "chip", chip_library)],
            input="1 0\n",
            text=True,
            capture_output=True,
            timeout=LONG,
            env={**os.environ, "CHIP_MEMORY": str(memory)},
        )
        assert done.returncode == -signal.SIGALRM
        assert done.stdout == '{"ready": true}\n'


class TestDeath:
    def test_of_the_child_is_an_error_and_it_is_started_anew_in_time(self, make: MakeChild) -> None:
        child = make(again=0.0)
        child.read("chip-0", 0, LONG)
        assert child.pid is not None
        os.kill(child.pid, signal.SIGALRM)
        assert gone(child.pid)
        with pytest.raises(DeviceReadingError, match=r"has died \(killed after 30 s in the driver\)"):
            child.read("chip-0", 0)
        assert child.read("chip-0", 0, LONG) == (1000, 500)

    def test_again_and_again_does_not_start_one_after_the_other(self, make: MakeChild) -> None:
        child = make(again=3600.0)
        child.read("chip-0", 0, LONG)
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        for _ in range(3):
            with pytest.raises(DeviceReadingError, match=r"has died \(signal 9\)"):
                child.read("chip-0", 0)
        assert child.pid is None

    def test_of_the_parent_ends_the_child(self, chip_library: Path, paddle_folder: Path, memory: Path) -> None:
        program = (
            "import os, sys; from pytest_paddleapi.devices.custom_reader import MemoryChild;"
            f"child = MemoryChild(sys.argv[1:], dict(os.environ)); child.read('chip-0', 0, {LONG});"
            "print(child.pid, flush=True); os.kill(os.getpid(), 9)"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments_for(paddle_folder, "chip", chip_library)],
            text=True,
            capture_output=True,
            timeout=LONG,
            env={**os.environ, "CHIP_MEMORY": str(memory)},
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert gone(int(done.stdout))

    def test_by_closing_leaves_nothing(self, make: MakeChild) -> None:
        child = make()
        child.read("chip-0", 0, LONG)
        pid = child.pid
        assert pid is not None
        child.close()
        assert gone(pid)
        assert child.read("chip-0", 0, LONG) == (1000, 500)
