"""What the other processes of these tests run: ``program.py COMMAND FOLDER [ARGUMENTS]``.

They say ``ready`` on stdout when they have done what they are for, and then do as they are told by signals.
"""

from __future__ import annotations

import fcntl
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

from pytest_paddleapi.devices.model import Holder, MemoryReading
from pytest_paddleapi.gpu_admission import AdmissionRules, Granted, Group, Ledger, Slot, read_ledger

RULES = AdmissionRules(reserve_bytes=10, reserve_fraction=0.0, settle_bytes=5)
SLOT = Slot("s0", Group("g0", ("GPU-0",)))


class EmptyDevice:
    """100 bytes that nobody uses."""

    uuid, index, model, free_needs_holders = "GPU-0", 0, "simulated", False

    def read(self, holders: Sequence[Holder] = ()) -> MemoryReading:
        return MemoryReading(100, 100, dict.fromkeys(holders, 0))


def ready(*words: object) -> None:
    print("ready", *words, flush=True)


def hold(folder: Path, size: str) -> None:
    """Lease ``size`` bytes and wait."""
    ledger = Ledger([EmptyDevice()], folder=folder, rules=RULES)
    answer = ledger.reserve(SLOT, "held", int(size))
    assert isinstance(answer, Granted), answer
    ready(ledger.session)
    time.sleep(600)


def churn(folder: Path) -> None:
    """Reserve and release as fast as possible until killed."""
    ledger = Ledger([EmptyDevice()], folder=folder, rules=RULES)
    (folder.parent / "joined").touch()
    while True:
        answer = ledger.reserve(SLOT, "c" * 100, 50)
        if isinstance(answer, Granted):
            ledger.finish(answer.lease)
            ledger.release("s0")


def kill_at_random(folder: Path, times: str, seed: str) -> None:
    """Kill a churning session at any instant, again and again, and look at what it leaves."""
    warnings.simplefilter("error")
    chance = random.Random(int(seed))
    joined = folder.parent / "joined"
    read_ledger(folder)
    for _ in range(int(times)):
        joined.unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            churn(folder)
        while not joined.exists():
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert read_ledger(folder).sessions == ()
        assert [file.name for file in folder.iterdir()] == ["ledger.mutex"]
    ready()


def kill_while_joining(folder: Path, times: str, seed: str) -> None:
    """The same while it joins. A program that it has just forked keeps the lock until it executes, for an instant."""
    chance = random.Random(int(seed))
    read_ledger(folder)
    for _ in range(int(times)):
        child = os.fork()
        if child == 0:
            churn(folder)
        time.sleep(chance.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        deadline = time.monotonic() + 20
        while read_ledger(folder).sessions and time.monotonic() < deadline:
            time.sleep(0.001)
        assert [file.name for file in folder.iterdir()] == ["ledger.mutex"]
    ready()


def race(folder: Path, rounds: str) -> None:
    """Make ``rounds`` attempts at 60 of 90 bytes; whoever has them is alone, or this fails."""
    ledger = Ledger([EmptyDevice()], folder=folder, rules=RULES)
    marker = folder.parent / "only-one"
    ready(ledger.session)
    won = 0
    for _ in range(int(rounds)):
        answer = ledger.reserve(SLOT, "race", 60)
        if isinstance(answer, Granted):
            won += 1
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            os.unlink(marker)
            assert ledger.release("s0")
        else:
            time.sleep(0)
    ledger.close()
    print("won", won, flush=True)


def fork(folder: Path) -> None:
    """Hold a lease and fork a child that lives on without executing anything; the child says what it can do."""
    ledger = Ledger([EmptyDevice()], folder=folder, rules=RULES)
    ledger.reserve(SLOT, "held", 60)
    if os.fork() == 0:
        try:
            ledger.settle(0.0)
        except Exception as exc:
            ready(os.getpid(), type(exc).__name__, exc)
        time.sleep(600)
    time.sleep(600)


def execute(folder: Path) -> None:
    """Hold a lease and start a program that gets every descriptor that is not close-on-exec."""
    ledger = Ledger([EmptyDevice()], folder=folder, rules=RULES)
    ledger.reserve(SLOT, "held", 60)
    child = subprocess.Popen(["sleep", "600"], close_fds=False)
    ready(child.pid)
    time.sleep(600)


def mutex(folder: Path) -> None:
    """Hold the ledger's mutex."""
    with open(folder / "ledger.mutex", "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        ready()
        time.sleep(600)


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
