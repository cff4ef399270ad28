"""Whatever is killed, at whatever instant, nothing is left: no zygote, no case process, nothing that a case started."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from .support import ENVIRONMENT, HERE, LAUNCHERS, tagged, wait_until

TAG = "PROCESS_TEST_RUN"


class Worker:
    """A worker process and everything that descends from it."""

    def __init__(self, folder: Path, made: str, seconds: float = 0.05) -> None:
        self.tag = uuid.uuid4().hex
        self.log = folder / "log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / "worker_program.py"), str(folder), str(seconds), made],
                env={**os.environ, TAG: self.tag},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def lines(self) -> list[str]:
        """Verdicts so far."""
        return self.log.read_text().split("\n")[1:-1]

    def descendants(self) -> list[psutil.Process]:
        return [process for process in tagged(TAG, self.tag) if process.pid != self.process.pid]

    def all(self, kind: str) -> list[psutil.Process]:
        """The zygote or keeper, its sweeper, the spare, the case process, or all that cases started ("grandchild")."""
        return [process for process in self.descendants() if self._kind(process) == kind]

    def find(self, kind: str) -> psutil.Process | None:
        """One of :meth:`all`."""
        return next(iter(self.all(kind)), None)

    def _kind(self, process: psutil.Process) -> str:
        try:
            command, parent = " ".join(process.cmdline()), process.parent()
            if "sweeper" in command:
                return "sweeper"
            if "process.keeper" not in command and "process.zygote" not in command:
                return "grandchild"
            inner = parent is not None and command == " ".join(parent.cmdline())
            if "process.keeper" in command and inner:
                # As long as it waits, its output is its parent's.
                waits = os.path.samefile(f"/proc/{process.pid}/fd/1", f"/proc/{process.ppid()}/fd/1")
                return "spare" if waits else "case"
        except (psutil.NoSuchProcess, FileNotFoundError):
            return "gone"
        return "case" if inner else "zygote"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(params=LAUNCHERS)
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    workers: list[Worker] = []

    def begin(seconds: float = 0.05) -> Worker:
        folder = tmp_path / str(len(workers))
        folder.mkdir()
        workers.append(Worker(folder, request.param, seconds))
        return workers[-1]

    yield begin
    for worker in workers:
        worker.kill()
        for process in worker.descendants():
            process.kill()


def nothing_left(worker: Worker) -> bool:
    return wait_until(lambda: not worker.descendants(), 15.0)


@pytest.mark.parametrize("seed", range(12))
def test_a_worker_that_is_killed_at_a_random_instant_leaves_nothing(start: Callable[..., Worker], seed: int) -> None:
    worker = start()
    time.sleep(random.Random(seed).uniform(0.0, 1.5))
    worker.kill()
    assert nothing_left(worker), worker.descendants()


@pytest.mark.parametrize("kind", ["zygote", "case"])
@pytest.mark.parametrize("seed", range(5))
def test_a_child_that_is_killed_at_a_random_instant_leaves_nothing_and_the_worker_goes_on(
    start: Callable[..., Worker], kind: str, seed: int
) -> None:
    worker = start()
    assert wait_until(lambda: worker.find(kind) is not None, 30.0)
    time.sleep(random.Random(seed).uniform(0.0, 0.5))
    victim = worker.find(kind)
    started_before = worker.all("grandchild")
    if victim is not None:
        victim.kill()
    done = len(worker.lines())
    assert wait_until(lambda: len(worker.lines()) >= done + 3, 30.0), worker.log.read_text()
    assert set(worker.lines()) <= {"pass", "external_kill"}
    if victim is not None:
        assert not [p for p in started_before if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    worker.kill()
    assert nothing_left(worker), worker.descendants()


@pytest.mark.parametrize("start", ["spare"], indirect=True)
@pytest.mark.parametrize("seed", range(5))
def test_a_spare_that_is_killed_at_a_random_instant_costs_no_case_its_verdict(
    start: Callable[..., Worker], seed: int
) -> None:
    worker = start()
    assert wait_until(lambda: worker.find("spare") is not None, 30.0)
    time.sleep(random.Random(seed).uniform(0.0, 0.5))
    victim = worker.find("spare")
    if victim is not None:
        victim.kill()
    done = len(worker.lines())
    case = worker.find("case")
    if case is not None:
        case.kill()  # so that a spare is needed
    assert wait_until(lambda: len(worker.lines()) >= done + 3, 30.0), worker.log.read_text()
    assert set(worker.lines()) <= {"pass", "external_kill"}
    assert worker.lines().count("external_kill") <= 1
    worker.kill()
    assert nothing_left(worker), worker.descendants()


@pytest.mark.parametrize("start", ["spare"], indirect=True)
@pytest.mark.parametrize("order", [("spare", "zygote"), ("zygote", "spare"), ("spare", "worker"), ("case", "spare")])
def test_a_spare_and_another_killed_in_quick_succession_leave_nothing(
    start: Callable[..., Worker], order: tuple[str, str]
) -> None:
    worker = start(seconds=0.2)
    assert wait_until(lambda: all(worker.find(kind) for kind in ("case", "spare", "grandchild")), 30.0)
    victims = [psutil.Process(worker.process.pid) if kind == "worker" else worker.find(kind) for kind in order]
    for victim in victims:
        if victim is not None and victim.is_running():
            victim.kill()
    worker.kill()
    assert nothing_left(worker), worker.descendants()


@pytest.mark.parametrize("order", list(itertools.permutations(["worker", "zygote", "case"], 2)), ids="-".join)
def test_two_kills_in_quick_succession_leave_nothing(start: Callable[..., Worker], order: tuple[str, str]) -> None:
    worker = start(seconds=0.2)
    assert wait_until(lambda: worker.find("case") is not None and worker.find("grandchild") is not None, 30.0)
    victims = [psutil.Process(worker.process.pid) if kind == "worker" else worker.find(kind) for kind in order]
    for victim in victims:
        if victim is not None and victim.is_running():
            victim.kill()
    worker.kill()
    assert nothing_left(worker), worker.descendants()


def test_a_stopped_zygote_dies_with_the_worker_too(start: Callable[..., Worker]) -> None:
    worker = start(seconds=0.2)
    assert wait_until(lambda: worker.find("case") is not None and worker.find("grandchild") is not None, 30.0)
    zygote = worker.find("zygote")
    assert zygote is not None
    zygote.suspend()
    worker.kill()
    assert nothing_left(worker), worker.descendants()


def test_without_its_sweeper_a_zygote_is_still_cleaned_up_behind_by_the_worker(start: Callable[..., Worker]) -> None:
    worker = start(seconds=0.2)
    assert wait_until(lambda: worker.find("grandchild") is not None, 30.0)
    sweeper, zygote, left = worker.find("sweeper"), worker.find("zygote"), worker.all("grandchild")
    assert sweeper is not None
    assert zygote is not None
    sweeper.kill()
    zygote.kill()
    assert wait_until(lambda: not any(process.is_running() for process in left), 15.0)
    done = len(worker.lines())
    assert wait_until(lambda: len(worker.lines()) >= done + 2, 30.0), worker.log.read_text()


def test_a_worker_that_is_terminated_leaves_nothing(start: Callable[..., Worker]) -> None:
    worker = start()
    assert wait_until(lambda: worker.find("grandchild") is not None, 30.0)
    worker.process.terminate()
    worker.process.wait()
    assert nothing_left(worker), worker.descendants()


def test_a_worker_that_dies_while_its_case_hangs_leaves_nothing(start: Callable[..., Worker]) -> None:
    worker = start(seconds=600)
    assert wait_until(lambda: len(worker.lines()) >= 1, 30.0)
    worker.kill()
    assert nothing_left(worker), worker.descendants()


def test_a_worker_whose_pipe_another_process_holds_open_leaves_nothing(tmp_path: Path) -> None:
    """A fork of the worker has its end of every channel, so the zygote sees no end of file, only the signal."""
    code = (
        "import os, sys, time\n"
        "from pytest_paddleapi.process.messages import CaseOptions\n"
        "from pytest_paddleapi.process.supervisor import Supervisor\n"
        "slot = Supervisor(CaseOptions(), runner='light_runner:LightRunner', modules=(),"
        " environment={'PYTHONPATH': sys.argv[1], 'HELD_OPEN': sys.argv[2]})\n"
        "slot.ensure_ready()\n"
        "if os.fork() == 0:\n"
        "    time.sleep(60)\n"
        "    os._exit(0)\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    tag = uuid.uuid4().hex
    worker = subprocess.Popen(
        [sys.executable, "-c", code, ENVIRONMENT["PYTHONPATH"], tag],
        env={**os.environ, "HELD_OPEN_WORKER": tag},
        stdout=subprocess.PIPE,
    )
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"ready\n"
    assert len(tagged("HELD_OPEN", tag)) == 2
    worker.kill()
    worker.wait()
    worker.stdout.close()
    try:
        assert wait_until(lambda: not tagged("HELD_OPEN", tag), 15.0)
    finally:
        for process in tagged("HELD_OPEN_WORKER", tag):
            process.kill()
