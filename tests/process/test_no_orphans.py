"""Whatever is killed, at whatever instant, nothing is left: no zygote, no case process, nothing that a case started."""

from __future__ import annotations

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

from .support import HERE, tagged, wait_until

TAG = "PROCESS_TEST_RUN"


class Worker:
    """A worker process and everything that descends from it."""

    def __init__(self, folder: Path, seconds: float = 0.05) -> None:
        self.tag = uuid.uuid4().hex
        self.log = folder / "log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / "worker_program.py"), str(folder), str(seconds)],
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

    def find(self, kind: str) -> psutil.Process | None:
        """The zygote, the case process, or something that a case started."""
        for process in self.descendants():
            try:
                depth = len([p for p in process.parents() if p.pid != self.process.pid and self._is_ours(p)])
                is_program = "process.zygote" not in " ".join(process.cmdline())
            except psutil.NoSuchProcess:
                continue
            if kind == ("grandchild" if is_program else "zygote" if depth == 0 else "case"):
                return process
        return None

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get(TAG) == self.tag
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    workers: list[Worker] = []

    def begin(seconds: float = 0.05) -> Worker:
        folder = tmp_path / str(len(workers))
        folder.mkdir()
        workers.append(Worker(folder, seconds))
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
    started_before = [p for p in worker.descendants() if "process.zygote" not in " ".join(p.cmdline())]
    if victim is not None:
        victim.kill()
    done = len(worker.lines())
    assert wait_until(lambda: len(worker.lines()) >= done + 3, 30.0), worker.log.read_text()
    assert set(worker.lines()) <= {"pass", "external_kill"}
    if victim is not None:
        assert not [p for p in started_before if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    worker.kill()
    assert nothing_left(worker), worker.descendants()


@pytest.mark.parametrize("first", ["zygote", "case", "worker"])
@pytest.mark.parametrize("second", ["zygote", "case"])
def test_two_kills_in_quick_succession_leave_no_process_of_ours(
    start: Callable[..., Worker], first: str, second: str
) -> None:
    worker = start(seconds=0.2)
    assert wait_until(lambda: worker.find("case") is not None, 30.0)
    victims = [psutil.Process(worker.process.pid) if first == "worker" else worker.find(first), worker.find(second)]
    for victim in victims:
        if victim is not None and victim.is_running():
            victim.kill()
    worker.kill()
    assert wait_until(lambda: worker.find("zygote") is None and worker.find("case") is None, 15.0)


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
        [sys.executable, "-c", code, str(HERE), tag],
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
