"""Processes that allocate at random and are killed at random: the account is right at every moment and at the end."""

from __future__ import annotations

import random
import signal
import time

import pytest

from .farm import MIB, Farm
from .support import Child, PaddleProcesses

GIB = 1024 * MIB
#: Leaves so little of each device that four processes get in each other's way, but have room for their contexts.
FOREIGN = 600 * MIB
KILLS = 40
SECONDS = 40.0


def refused(farm: Farm) -> int:
    return sum(farm.refused(device) for device in range(2))


@pytest.mark.slow
def test_four_processes_that_are_killed_at_random(paddle: PaddleProcesses, farm: Farm) -> None:
    chance = random.Random(11)
    running: list[Child] = []
    killed = started = 0
    for device in range(2):
        farm.foreign(device, FOREIGN)
    refused_before = refused(farm)
    end = time.monotonic() + SECONDS
    while killed < KILLS or refused(farm) == refused_before:
        assert time.monotonic() < end, f"{killed} killed, {refused(farm) - refused_before} refused"
        while len(running) < 4:
            running.append(paddle.start("churn", seed=started, steps=1_000_000, most=64 * MIB))
            started += 1
        time.sleep(chance.uniform(0.01, 0.2))
        victim = running.pop(chance.randrange(len(running)))
        assert victim.kill().code == -signal.SIGKILL, victim.wait().output
        killed += 1
        for device in range(2):
            assert set(farm.by_process(device)) <= {child.pid for child in running}
            assert farm.used(device) <= GIB
    for child in running:
        child.kill()
    for device in range(2):
        assert farm.used(device) == FOREIGN
        assert FOREIGN < farm.peak(device) <= GIB


def test_holders_of_the_lock_that_are_killed(paddle: PaddleProcesses, farm: Farm) -> None:
    chance = random.Random(12)
    running: list[Child] = []
    for number in range(60):
        while len(running) < 4:
            running.append(paddle.start("hammer", seed=number))
            running[-1].wait_for(1)
        time.sleep(chance.uniform(0, 0.01))
        assert running.pop(chance.randrange(len(running))).kill().code == -signal.SIGKILL
        by_process = farm.by_process(0)
        assert set(by_process) <= {child.pid for child in running}
        assert farm.used(0) <= GIB
    for child in running:
        child.kill()
    assert farm.used(0) == 0


def test_four_processes_that_end_by_themselves_leave_just_their_context(paddle: PaddleProcesses, farm: Farm) -> None:
    children = [paddle.start("churn", seed=seed, steps=300, most=16 * MIB) for seed in range(4)]
    for child in children:
        ended = child.wait(60)
        assert ended.code == 0, ended.output
        assert ended.said[-1] == [300, ended.said[-1][1], 64 * MIB]
    assert farm.used(0) == farm.used(1) == 0
