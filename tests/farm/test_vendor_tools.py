"""``xpu-smi`` and ``ixsmi``: their tables tell of the same memory as the account, in the form of the real tools."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from .farm import MIB, Action, Event, Farm
from .support import PaddleProcesses

TOOLS = ["xpu-smi", "ixsmi"]
_DEVICE = re.compile(r"^\| (\d+) ")
_MEMORY = re.compile(r"(\d+)MiB / (\d+)MiB")


def run(farm: Farm, tool: str, timeout: float = 20) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **farm.environment()}
    return subprocess.run([tool], env=environment, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.mark.parametrize("tool", TOOLS)
def test_each_device_has_its_memory_within_seven_lines(farm: Farm, paddle: PaddleProcesses, tool: str) -> None:
    paddle.start("hold", size=100 * MIB, device=1).wait_for(1)
    farm.foreign(0, 200 * MIB)
    lines = run(farm, tool).stdout.split("Processes:")[0].splitlines()
    at = {int(match[1]): number for number, line in enumerate(lines) if (match := _DEVICE.match(line))}
    found = {index: _MEMORY.search("\n".join(lines[start + 1 : start + 8])) for index, start in at.items()}
    assert {index: match.groups() for index, match in found.items() if match} == {
        0: ("200", "1024"),
        1: ("164", "1024"),
    }


@pytest.mark.parametrize("tool", TOOLS)
def test_processes_come_after_the_devices(farm: Farm, paddle: PaddleProcesses, tool: str) -> None:
    child = paddle.start("hold", size=100 * MIB, device=1)
    child.wait_for(1)
    _, processes = run(farm, tool).stdout.split("Processes:")
    (line,) = [line for line in processes.splitlines() if f" {child.pid} " in line]
    assert line.startswith("|    1 ") and "164MiB" in line


def test_ixsmi_names_iluvatar_in_its_device_lines_only(farm: Farm, paddle: PaddleProcesses) -> None:
    paddle.start("hold", size=MIB).wait_for(1)
    lines = [line for line in run(farm, "ixsmi").stdout.splitlines() if "Iluvatar" in line]
    assert len(lines) == 2 and all(_DEVICE.match(line) for line in lines)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_that_fails(farm: Farm, tool: str) -> None:
    farm.inject(Event.TOOL, Action.FAIL, call=tool)
    failed = run(farm, tool)
    assert failed.returncode == 1 and failed.stdout == "" and failed.stderr
    assert run(farm, tool).returncode == 0


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_that_prints_garbage(farm: Farm, tool: str) -> None:
    farm.inject(Event.TOOL, Action.GARBAGE, call=tool)
    printed = run(farm, tool)
    assert printed.returncode == 0 and printed.stdout
    assert not any(_DEVICE.match(line) for line in printed.stdout.splitlines())


def test_a_tool_that_hangs(farm: Farm) -> None:
    fault = farm.inject(Event.TOOL, Action.HANG, call="ixsmi")
    with pytest.raises(subprocess.TimeoutExpired):
        run(farm, "ixsmi", timeout=1)
    assert fault.struck == 1
    assert run(farm, "xpu-smi").returncode == 0
