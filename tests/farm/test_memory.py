"""A device's memory is limited for all processes together, and comes back when it is given back."""

from __future__ import annotations

import time

import pytest

from pytest_paddleapi.process.fatal import is_memory_shortage

from .farm import MIB, Farm, FarmError
from .foreigner import schedule
from .support import PaddleProcesses, wait_until

CONTEXT = 64 * MIB
GIB = 1024 * MIB


def test_what_does_not_fit_raises_paddles_out_of_memory(paddle: PaddleProcesses, farm: Farm) -> None:
    before = farm.refused(0)
    child = paddle.start("allocate", sizes=[2 * GIB, MIB])
    (kind, text), small = child.wait().said
    assert kind == "MemoryError"
    assert "ResourceExhaustedError" in text and "Out of memory error on sim_gpu 0" in text
    # These numbers are what the device says of itself.
    assert "total memory is 1.000000GB, used memory is 64.000000MB, available memory is only 960.000000MB" in text
    assert is_memory_shortage(text)
    assert small == "ok"
    assert farm.refused(0) - before == 1
    refusal = farm.refusals(0)[-1]
    assert (refusal.pid, refusal.free, refusal.injected) == (child.pid, GIB - CONTEXT, False)
    assert 2 * GIB <= refusal.size < 2 * GIB + 512


def test_a_device_is_full_to_the_last_byte_and_not_beyond(paddle: PaddleProcesses, farm: Farm) -> None:
    room = GIB - CONTEXT
    fits, too_much = room - 256, room
    assert paddle.run("allocate", sizes=[fits]) == ["ok"]
    assert farm.peak(0) == GIB
    assert paddle.run("allocate", sizes=[too_much])[0][0] == "MemoryError"


def test_devices_do_not_share_memory(paddle: PaddleProcesses, farm: Farm) -> None:
    paddle.start("hold", size=900 * MIB, device=0).wait_for(1)
    assert paddle.run("allocate", sizes=[900 * MIB], device=1) == ["ok"]


def test_two_processes_share_one_device(paddle: PaddleProcesses, farm: Farm) -> None:
    first = paddle.start("hold", size=600 * MIB)
    first.wait_for(1)
    (answer,) = paddle.run("allocate", sizes=[600 * MIB])
    assert answer[0] == "MemoryError"
    assert farm.by_process(0).keys() == {first.pid}
    first.kill()
    assert paddle.run("allocate", sizes=[600 * MIB]) == ["ok"]
    assert farm.peak(0) <= GIB


def test_a_second_context_that_does_not_fit_is_out_of_memory(paddle: PaddleProcesses) -> None:
    paddle.start("hold", size=GIB - CONTEXT - 10 * MIB).wait_for(1)
    (answer,) = paddle.run("allocate", sizes=[1])
    assert is_memory_shortage(answer[1])


def test_a_killed_process_holds_nothing(paddle: PaddleProcesses, farm: Farm) -> None:
    child = paddle.start("hold", size=100 * MIB)
    child.wait_for(1)
    assert farm.by_process(0)[child.pid] == pytest.approx(CONTEXT + 100 * MIB, abs=512)
    child.kill()
    assert farm.used(0) == 0
    assert farm.by_process(0) == {}


def test_slow_release_of_a_dead_process(paddle: PaddleProcesses, farm: Farm) -> None:
    farm.slow_release(0, 0.4)
    child = paddle.start("hold", size=100 * MIB)
    child.wait_for(1)
    child.kill()
    begun = time.monotonic()
    assert farm.used(0) >= CONTEXT + 100 * MIB
    assert farm.by_process(0) == {}
    assert wait_until(lambda: farm.used(0) == 0, 5)
    assert time.monotonic() - begun >= 0.4


def test_slow_release_of_a_freed_tensor(paddle: PaddleProcesses, farm: Farm) -> None:
    farm.slow_release(0, 0.4)
    child = paddle.start("hold_and_drop", size=100 * MIB)
    child.wait_for(2)
    begun = time.monotonic()
    assert farm.used(0) >= CONTEXT + 100 * MIB
    assert farm.by_process(0) == {child.pid: CONTEXT}
    assert wait_until(lambda: farm.used(0) == CONTEXT, 5)
    assert time.monotonic() - begun >= 0.3  # it was dropped a little before we looked


def test_more_releases_than_places_all_come_back(paddle: PaddleProcesses, farm: Farm) -> None:
    for device in range(2):
        farm.slow_release(device, 2.0)
    assert paddle.start("churn", seed=1, steps=2500, most=1000).wait(60).code == 0
    assert farm.used(0) + farm.used(1) > CONTEXT
    assert wait_until(lambda: farm.used(0) == farm.used(1) == 0, 5)


def test_foreign_use_counts(paddle: PaddleProcesses, farm: Farm) -> None:
    farm.foreign(0, 600 * MIB)
    assert farm.used(0) == 600 * MIB
    assert paddle.run("allocate", sizes=[600 * MIB, 200 * MIB])[1] == "ok"
    with pytest.raises(FarmError, match="bytes for foreign use"):
        farm.foreign(0, 2 * GIB)
    farm.foreign(0, 0)
    assert paddle.run("allocate", sizes=[600 * MIB]) == ["ok"]


def test_a_foreign_process_follows_its_seed(farm: Farm) -> None:
    with farm.foreigner(0, seed=5, most=100 * MIB, step_seconds=0.01) as process:
        assert process.stdout is not None
        held = [int(process.stdout.readline()) for _ in range(6)]
        assert wait_until(lambda: process.pid in farm.by_process(0), 5)
    expected = schedule(5, 100 * MIB)
    assert held == [next(expected) for _ in range(6)]
    assert farm.used(0) == 0


def test_a_foreign_process_leaves_out_what_does_not_fit(farm: Farm) -> None:
    farm.foreign(0, GIB - 50 * MIB)
    with farm.foreigner(0, seed=5, most=100 * MIB, step_seconds=0.001) as process:
        assert process.stdout is not None
        held = [int(process.stdout.readline()) for _ in range(30)]
    assert 0 < max(held) <= 50 * MIB
