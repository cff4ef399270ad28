"""Killed processes, lost workers, shared memory: every case still gets one verdict."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from pytest_paddleapi.gpu_admission import LeaseState, read_ledger

from .conftest import PASS, PASS_2, Session

Run = Callable[..., Session]
Configs = Callable[..., Path]

MANY = [f'paddle.abs(Tensor([2, {n}],"float32"))' for n in range(2, 22)]
HANGS = 'paddle.pow(Tensor([2],"int64"), -1)'

#: A conftest that sends SIGKILL to a process of the session when a case begins, a number of times.
KILLER = """
import os, pathlib, signal, psutil, pytest

def victims(kind):
    me = psutil.Process()
    if kind == "worker":
        return [me]
    zygotes = [p for p in me.children() if "process.zygote" in " ".join(p.cmdline())]
    if kind == "zygote":
        return zygotes
    return [c for z in zygotes for c in z.children()]

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logstart(nodeid):
    if "PYTEST_XDIST_WORKER" not in os.environ or {target!r} not in nodeid:
        return
    count = pathlib.Path({count!r})
    done = int(count.read_text()) if count.exists() else 0
    if done < {times}:
        count.write_text(str(done + 1))
        for victim in victims({kind!r}):
            os.kill(victim.pid, signal.SIGKILL)
"""


def killer(pytester: pytest.Pytester, kind: str, target: str, times: int) -> None:
    count = str(pytester.path / "killed")
    pytester.makeconftest(KILLER.format(kind=kind, target=target, times=times, count=count))


def test_a_case_that_kills_its_worker_once_is_rerun_and_nothing_is_lost(
    run: Run, configs: Configs, pytester: pytest.Pytester
) -> None:
    killer(pytester, "worker", "[2, 7]", times=1)
    configs("a.txt", *MANY)
    session = run("--paddleapi-configs=a.txt", "--accuracy", "-n2")
    assert session.verdicts() == dict.fromkeys(MANY, "pass")
    assert len(session.testcases) == len(MANY)


def test_a_case_that_kills_its_worker_twice_is_reported_and_the_rest_runs(
    run: Run, configs: Configs, pytester: pytest.Pytester
) -> None:
    killer(pytester, "worker", "[2, 7]", times=99)
    configs("a.txt", *MANY)
    session = run("--paddleapi-configs=a.txt", "--accuracy", "-n2")
    wanted = dict.fromkeys(MANY, "pass") | {MANY[5]: "paddle_crash"}
    assert session.verdicts() == wanted
    assert len(session.testcases) == len(MANY)
    assert "the xdist worker that ran this case died, twice" in session.out


@pytest.mark.parametrize("kind", ["case", "zygote"])
def test_a_case_or_zygote_that_is_killed_is_rerun(
    run: Run, configs: Configs, pytester: pytest.Pytester, kind: str
) -> None:
    killer(pytester, kind, "[2, 7]", times=1)
    configs("a.txt", *MANY)
    session = run("--paddleapi-configs=a.txt", "--accuracy", "-n2")
    # Killed between two cases the process is replaced unseen; killed with a case it is a rerun.
    assert session.verdicts() == dict.fromkeys(MANY, "pass")
    assert len(session.testcases) == len(MANY)


@pytest.mark.any_version
def test_a_hung_case_is_killed_with_its_stacks_and_the_slot_goes_on(run: Run, configs: Configs, workers: str) -> None:
    configs("a.txt", PASS, HANGS, PASS_2)
    session = run("--paddleapi-configs=a.txt", "--paddle-only", workers, "--paddleapi-timeout=4")
    assert session.verdicts()[HANGS] in ("timeout", "not_supported", "paddle_error")
    assert session.verdicts()[PASS] == session.verdicts()[PASS_2] == "pass"
    if session.verdicts()[HANGS] == "timeout":
        assert "over the time limit of 4 s in Paddle" in session.out
        assert "paddle_side.py" in session.out


@pytest.mark.any_version
def test_killing_the_controller_leaves_no_process_and_no_lease(configs: Configs, pytester: pytest.Pytester) -> None:
    configs("a.txt", *MANY)
    ledger = pytester.path / "ledger"
    session = subprocess.Popen(
        [sys.executable, "-m", "pytest", "--paddleapi-configs=a.txt", "--accuracy", "-n2",
         f"--paddleapi-ledger={ledger}", "-p", "no:hypothesispytest"],
        cwd=pytester.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    controller = psutil.Process(session.pid)
    deadline = time.monotonic() + 120
    children: list[psutil.Process] = []
    while time.monotonic() < deadline and len(children) < 4:  # two workers, two zygotes
        time.sleep(0.1)
        children = controller.children(recursive=True)
    assert len(children) >= 4
    session.kill()
    session.wait()
    _, alive = psutil.wait_procs(children, timeout=20)
    assert alive == []
    assert [lease for state in read_ledger(ledger).sessions for lease in state.leases] == []


@pytest.mark.slow
@pytest.mark.any_version
def test_two_sessions_share_the_memory_of_one_host(configs: Configs, pytester: pytest.Pytester) -> None:
    """Together they ask for more than there is; the ledger lets one case run at a time, and both finish."""
    lines = [f'paddle.abs(Tensor([{n}, 1024, 1024],"float32"))' for n in range(9, 15)]
    configs("a.txt", *lines)
    ledger = pytester.path / "ledger"
    sessions = [
        subprocess.Popen(
            [sys.executable, "-m", "pytest", "--paddleapi-configs=a.txt", "--accuracy", "-n1", "-q",
             f"--junitxml={name}.xml", f"--paddleapi-ledger={ledger}", "--paddleapi-memory-limit=4GiB",
             "-p", "no:hypothesispytest", "-p", "no:cacheprovider"],
            cwd=pytester.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for name in ("one", "two")
    ]  # fmt: skip
    most = 0
    while any(session.poll() is None for session in sessions):
        if ledger.exists():
            leases = [lease for state in read_ledger(ledger).sessions for lease in state.leases]
            most = max(most, sum(lease.bytes for lease in leases if lease.state is LeaseState.ACTIVE))
        time.sleep(0.02)
    outputs = [session.communicate()[0] for session in sessions]
    assert [session.returncode for session in sessions] == [0, 0], outputs
    for name in ("one", "two"):
        found = Session(None, pytester.path / f"{name}.xml")  # type: ignore[arg-type]
        assert found.verdicts() == dict.fromkeys(lines, "pass")
    # 4 GiB less the reserve of 2 GiB; each case is given more than half of the rest.
    assert 2**30 < most <= 2 * 2**30


def test_a_worker_that_dies_while_it_starts_is_started_again(
    run: Run, configs: Configs, pytester: pytest.Pytester
) -> None:
    starts = pytester.path / "starts"
    python = pytester.path / "python.sh"
    python.write_text(
        f'#!/bin/sh\necho >> {starts}\n[ "$(wc -l < {starts})" -eq 1 ] && exit 1\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    configs("a.txt", *MANY[:4])
    session = run("--paddleapi-configs=a.txt", "--accuracy", "--dist=load", f"--tx=2*popen//python={python}")
    assert session.result.ret == 0
    assert list(session.verdicts().values()) == ["pass"] * 4
    assert "died while it started" in session.out
    assert len(starts.read_text().splitlines()) == 3


def test_workers_that_never_come_up_end_the_run_with_the_reason(
    run: Run, configs: Configs, pytester: pytest.Pytester
) -> None:
    pytester.makeconftest(
        """
import pytest

def pytest_configure(config):
    if hasattr(config, "workerinput"):
        raise pytest.UsageError("there is no such device on this worker's host")
"""
    )
    configs("a.txt", PASS)
    session = run("--paddleapi-configs=a.txt", "--accuracy", "-n1")
    assert session.result.ret == 1
    assert "5 workers died one after another before they could run anything" in session.out
    assert "there is no such device on this worker's host" in session.out


def test_a_case_process_that_cannot_be_forked_at_once_is_tried_again(
    run: Run, configs: Configs, pytester: pytest.Pytester
) -> None:
    pytester.makeconftest(
        """
import os, subprocess

real = subprocess.Popen
failed = []

class OnceWithoutProcesses(real):
    def __init__(self, *args, **kwargs):
        if not failed:
            failed.append(True)
            raise BlockingIOError(11, "Resource temporarily unavailable")
        super().__init__(*args, **kwargs)

def pytest_configure(config):
    if os.environ.get("PYTEST_XDIST_WORKER") == "gw0":
        subprocess.Popen = OnceWithoutProcesses
"""
    )
    configs("a.txt", *MANY)
    session = run("--paddleapi-configs=a.txt", "--accuracy", "-n2", "--paddleapi-set=waits=0.1")
    assert session.result.ret == 0, session.out
    assert list(session.verdicts().values()) == ["pass"] * len(MANY)
