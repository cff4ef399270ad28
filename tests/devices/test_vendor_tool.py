"""Running vendors' tools: real processes that print, hang, fail and leave children behind."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from pytest_paddleapi.devices.model import DeviceReadingError, DeviceReadingTimeoutError
from pytest_paddleapi.devices.vendor_tool import VendorTool, run_limited

from .vendor_programs import Program


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path / "bin", "chip-smi", "hello\n")


def run(program: Program, seconds: float = 30.0) -> str:
    return run_limited([str(program.path)], what="chip 0", seconds=seconds, environ=program.environ(LANG="de_DE"))


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
            return True
        time.sleep(0.02)
    return False


class TestRun:
    def test_gives_what_it_prints(self, program: Program) -> None:
        assert run(program) == "hello\n"

    def test_is_in_the_language_of_the_tables(self, program: Program) -> None:
        program.does("echo $LC_ALL $LANG")
        assert run(program) == "C de_DE\n"

    def test_one_that_hangs_is_killed_with_what_it_started(self, program: Program) -> None:
        program.does(f"sleep 600 &\necho $! > '{program.folder}/child'\nwait")
        started = time.monotonic()
        with pytest.raises(DeviceReadingTimeoutError, match=r"chip 0: .*chip-smi did not answer within 2 s"):
            run(program, 2.0)
        assert time.monotonic() - started < 30
        assert gone(program.pids[0])
        assert gone(int((program.folder / "child").read_text()))

    def test_one_that_closes_its_output_and_hangs_is_killed(self, program: Program) -> None:
        program.does("exec >&- 2>&-\nsleep 600")
        with pytest.raises(DeviceReadingTimeoutError):
            run(program, 2.0)
        assert gone(program.pids[0])

    def test_what_it_leaves_in_the_background_is_killed(self, program: Program) -> None:
        program.does(f"sleep 600 >/dev/null 2>&1 &\necho $! > '{program.folder}/child'\necho done")
        assert run(program) == "done\n"
        assert gone(int((program.folder / "child").read_text()))

    def test_one_that_fails_says_why(self, program: Program) -> None:
        program.does("echo table\necho 'permission denied' >&2\nexit 3")
        with pytest.raises(DeviceReadingError, match=r"chip-smi ended with exit code 3: permission denied"):
            run(program)

    def test_one_that_is_killed_says_by_what(self, program: Program) -> None:
        program.does("kill -SEGV $$")
        with pytest.raises(DeviceReadingError, match="ended with signal 11"):
            run(program)

    def test_one_that_may_not_be_run_is_an_error(self, program: Program) -> None:
        program.path.chmod(0o600)
        with pytest.raises(DeviceReadingError, match="chip-smi cannot be started: Permission denied"):
            run(program)

    def test_one_that_is_not_there_is_an_error(self, program: Program) -> None:
        program.path.unlink()
        with pytest.raises(DeviceReadingError, match="cannot be started: No such file"):
            run(program)

    def test_output_without_end_is_cut_off(self, program: Program) -> None:
        program.does("exec yes")
        with pytest.raises(DeviceReadingError, match="writes without end"):
            run(program)
        assert gone(program.pids[0])

    def test_bytes_that_are_no_text_are_no_crash(self, program: Program) -> None:
        program.does(r"printf '\377\376'")
        assert run(program) == "\ufffd\ufffd"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class TestSharing:
    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def tool(self, program: Program, clock: Clock) -> VendorTool:
        return VendorTool([str(program.path)], seconds=30.0, clock=clock, environ=program.environ())

    def test_all_devices_share_one_start(self, program: Program, tool: VendorTool) -> None:
        assert [tool.read(f"chip {index}") for index in range(8)] == [("hello\n", 100.0)] * 8
        assert len(program.pids) == 1

    def test_no_answer_is_older_than_two_seconds(self, program: Program, tool: VendorTool, clock: Clock) -> None:
        tool.read("chip 0")
        program.prints("changed\n")
        clock.now = 101.99
        assert tool.read("chip 0") == ("hello\n", 100.0)
        clock.now = 102.0
        assert tool.read("chip 1") == ("changed\n", 102.0)

    def test_the_age_counts_from_the_start_of_a_slow_tool(self, program: Program, clock: Clock) -> None:
        tool = VendorTool([str(program.path)], keep=0.2, environ=program.environ())
        program.does("sleep 0.3\necho slow")
        _, taken = tool.read("chip 0")
        assert time.monotonic() - taken >= 0.3
        tool.read("chip 0")
        assert len(program.pids) == 2

    def test_threads_wait_for_one_start(self, program: Program, tool: VendorTool) -> None:
        program.does("sleep 0.2\necho once")
        texts: list[str] = []
        threads = [threading.Thread(target=lambda: texts.append(tool.read("chip")[0])) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert texts == ["once\n"] * 6
        assert len(program.pids) == 1

    def test_a_failure_is_not_tried_again_for_each_device(
        self, program: Program, tool: VendorTool, clock: Clock
    ) -> None:
        program.does("exit 1")
        for index in range(4):
            with pytest.raises(DeviceReadingError, match=f"chip {index}: .*exit code 1"):
                tool.read(f"chip {index}")
        assert len(program.pids) == 1
        program.does("echo back")
        clock.now += 2
        assert tool.read("chip 0")[0] == "back\n"

    def test_an_old_answer_does_not_stand_in_for_a_failure(
        self, program: Program, tool: VendorTool, clock: Clock
    ) -> None:
        tool.read("chip 0")
        program.does("exit 1")
        clock.now += 2
        with pytest.raises(DeviceReadingError):
            tool.read("chip 0")
