"""Who a process is, and what it has for itself; with real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_paddleapi.devices.model import Holder
from pytest_paddleapi.devices.processes import identify, is_running, own_namespace, private_bytes

MIB = 1 << 20

#: Says "ready" and waits; with an argument it holds so many MiB.
_PROGRAM = """
import sys, time
kept = bytearray(int(sys.argv[1]) * 1048576)
kept[::4096] = b"x" * len(kept[::4096])
print("ready", flush=True)
time.sleep(600)
"""

#: Starts two of the above, one of them in a session of its own, and holds nothing itself.
_PARENT = """
import subprocess, sys, time
for own_session in (False, True):
    child = subprocess.Popen([sys.executable, "-c", sys.argv[1], "100"], stdout=subprocess.PIPE,
                             start_new_session=own_session)
    child.stdout.readline()
    print(child.pid, flush=True)
time.sleep(600)
"""


def started(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True, start_new_session=True)


@pytest.fixture
def big() -> Iterator[subprocess.Popen[str]]:
    with started("-c", _PROGRAM, "200") as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def known(pid: int) -> Holder:
    found = identify(pid)
    assert found is not None
    return found


def test_this_process_is_found_with_its_start_time() -> None:
    holder = known(os.getpid())
    assert holder.pid == os.getpid()
    assert holder.started > 0
    assert holder.namespace == own_namespace() != 0
    assert is_running(holder)


def test_a_process_that_never_was_is_nobody() -> None:
    assert identify(2**22 + 5) is None


def test_private_memory_is_what_it_took_for_itself(big: subprocess.Popen[str]) -> None:
    size = private_bytes(known(big.pid))
    assert size is not None
    assert 200 * MIB <= size < 230 * MIB


def test_children_in_the_same_session_count_and_others_do_not() -> None:
    with started("-c", _PARENT, _PROGRAM) as parent:
        assert parent.stdout is not None
        children = [int(parent.stdout.readline()) for _ in range(2)]
        size = private_bytes(known(parent.pid))
        for pid in (*children, parent.pid):
            os.kill(pid, 9)
    assert size is not None
    assert 100 * MIB <= size < 150 * MIB


@pytest.mark.parametrize("change", ["started", "namespace"])
def test_memory_of_another_process_with_the_same_id_is_unknown(big: subprocess.Popen[str], change: str) -> None:
    right = known(big.pid)
    other = Holder(
        right.pid,
        right.started - 1 if change == "started" else right.started,
        right.namespace + 1 if change == "namespace" else right.namespace,
    )
    assert private_bytes(other) is None
    assert not is_running(other)
    assert is_running(right)


def test_a_gone_process_is_unknown_and_not_running() -> None:
    with started("-c", _PROGRAM, "0") as process:
        holder = known(process.pid)
        process.kill()
    assert private_bytes(holder) is None
    assert not is_running(holder)


def test_a_zombie_holds_nothing_and_does_not_run() -> None:
    with started("-c", _PROGRAM, "50") as process:
        holder = known(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert private_bytes(holder) == 0
        assert not is_running(holder)


def test_a_command_with_blanks_and_parentheses_does_not_confuse() -> None:
    """The kernel writes the command, whatever it is, into the middle of the line."""
    start = known(os.getpid()).started
    name = Path("/proc/self/comm")
    before = name.read_text()
    name.write_text("a) S 1 (b c)")
    try:
        assert known(os.getpid()).started == start
        assert is_running(known(os.getpid()))
    finally:
        name.write_text(before)
