"""Faults on demand: each strikes where and as often as it was asked to, and nowhere else."""

from __future__ import annotations

import signal
import time

import pytest

from pytest_paddleapi.process.fatal import is_device_lost, is_memory_shortage

from .farm import MIB, Action, Event, Farm, FarmError
from .support import PaddleProcesses, wait_until


def failures(said: list[object]) -> list[int]:
    return [number for number, answer in enumerate(said, 1) if answer != "ok"]


def test_the_nth_allocation_is_refused(paddle: PaddleProcesses, farm: Farm) -> None:
    fault = farm.inject(Event.ALLOCATE, Action.REFUSE, nth=3)
    said = paddle.run("allocate", sizes=[MIB] * 5)
    assert failures(said) == [3]
    assert is_memory_shortage(said[2][1])
    assert (fault.seen, fault.struck) == (5, 1)
    assert farm.refusals(0)[-1].injected


def test_a_fault_strikes_as_often_as_asked(paddle: PaddleProcesses, farm: Farm) -> None:
    farm.inject(Event.ALLOCATE, Action.REFUSE, nth=2, times=2)
    assert failures(paddle.run("allocate", sizes=[MIB] * 6)) == [2, 3]


def test_a_share_of_allocations_is_refused_and_the_seed_decides_which(paddle: PaddleProcesses, farm: Farm) -> None:
    runs = []
    for seed in (1, 1, 2):
        fault = farm.inject(Event.ALLOCATE, Action.REFUSE, probability=0.3, times=0, seed=seed)
        runs.append(failures(paddle.run("allocate", sizes=[256] * 200)))
        fault.remove()
    assert runs[0] == runs[1] != runs[2]
    assert 30 <= len(runs[0]) <= 90


def test_each_process_can_count_for_itself(paddle: PaddleProcesses, farm: Farm) -> None:
    farm.inject(Event.ALLOCATE, Action.REFUSE, nth=2, per_process=True)
    for _ in range(2):
        assert failures(paddle.run("allocate", sizes=[MIB] * 4)) == [2]


def test_a_fault_by_chance_strikes_as_often_as_asked_in_each_process(paddle: PaddleProcesses, farm: Farm) -> None:
    farm.inject(Event.ALLOCATE, Action.REFUSE, probability=0.3, times=2, seed=1, nth=4, per_process=True)
    runs = [failures(paddle.run("allocate", sizes=[256] * 60)) for _ in range(2)]
    assert runs[0] == runs[1]
    assert len(runs[0]) == 2 and runs[0][0] >= 4


def test_a_fault_of_one_device_leaves_the_others_alone(paddle: PaddleProcesses, farm: Farm) -> None:
    farm.inject(Event.ALLOCATE, Action.REFUSE, device=1, times=0)
    assert failures(paddle.run("allocate", sizes=[MIB] * 2, device=0)) == []
    assert failures(paddle.run("allocate", sizes=[MIB] * 2, device=1)) == [1, 2]


def test_a_fault_of_one_process_leaves_the_others_alone(paddle: PaddleProcesses, farm: Farm) -> None:
    child = paddle.start("hold", size=MIB)
    child.wait_for(1)
    fault = farm.inject(Event.ALLOCATE, Action.REFUSE, pid=child.pid, times=0)
    assert paddle.run("allocate", sizes=[MIB] * 2) == ["ok", "ok"]
    assert fault.seen == 0


def test_abort_at_the_nth_allocation(paddle: PaddleProcesses, farm: Farm) -> None:
    farm.inject(Event.ALLOCATE, Action.ABORT, nth=3)
    ended = paddle.start("allocate", sizes=[MIB] * 5).wait()
    assert (ended.code, ended.said) == (-signal.SIGABRT, ["ok", "ok"])
    assert farm.used(0) == 0


def test_segmentation_fault_at_the_nth_copy(paddle: PaddleProcesses, farm: Farm) -> None:
    fault = farm.inject(Event.COPY, Action.SEGFAULT, nth=4)
    ended = paddle.start("copy", count=20).wait()
    # Paddle's own handler may turn it into SIGABRT.
    assert ended.code in (-signal.SIGSEGV, -signal.SIGABRT)
    assert fault.struck == 1
    assert ended.said == [float(number) for number in range(len(ended.said))] and len(ended.said) < 20


def test_a_corrupted_copy_arrives_wrong(paddle: PaddleProcesses, farm: Farm) -> None:
    right = paddle.run("copy_all", values=[1.0, 2.0])
    assert right == [1.0, 2.0]
    fault = farm.inject(Event.COPY, Action.CORRUPT, times=0)
    found = paddle.run("copy_all", values=[1.0, 2.0])
    # The last element only: a quarter is left by each copy.
    assert fault.struck >= 2 and found == [1.0, 2.0 / 4**fault.struck]


def test_hang_in_a_copy(paddle: PaddleProcesses, farm: Farm) -> None:
    fault = farm.inject(Event.COPY, Action.HANG, nth=3)
    child = paddle.start("copy", count=20)
    assert wait_until(lambda: fault.struck == 1)
    before = child.said
    time.sleep(0.3)
    assert child.said == before and len(before) < 20
    assert child.kill().code == -signal.SIGKILL
    assert farm.used(0) == 0


def test_a_hang_of_limited_length_ends(paddle: PaddleProcesses, farm: Farm) -> None:
    farm.inject(Event.SYNCHRONIZE, Action.HANG, milliseconds=400)
    child = paddle.start("synchronize")
    begun = time.monotonic()
    assert child.wait().said == ["used", "synchronised"]
    assert time.monotonic() - begun >= 0.35


def test_hang_in_a_synchronisation(paddle: PaddleProcesses, farm: Farm) -> None:
    fault = farm.inject(Event.SYNCHRONIZE, Action.HANG)
    child = paddle.start("synchronize")
    assert wait_until(lambda: fault.struck == 1)
    time.sleep(0.2)
    assert child.said == ["used"]
    assert child.kill().code == -signal.SIGKILL


@pytest.mark.parametrize(
    ("code", "name"), [(45, "cudaErrorDeviceLost"), (46, "cudaErrorDevicesUnavailable")], ids=["lost", "unavailable"]
)
def test_a_device_that_is_lost_at_start_up(paddle: PaddleProcesses, farm: Farm, code: int, name: str) -> None:
    farm.inject(Event.INIT, Action.FAIL, device=0, code=code, times=0)
    ((kind, text),) = paddle.run("allocate", sizes=[1])
    assert kind == "OSError"  # as for an error of real CUDA
    assert f"CUDA error({code}), {name}" in text and f"CUDA error {code}" in text
    assert is_device_lost(text)
    assert paddle.run("allocate", sizes=[1], device=1) == ["ok"]
    assert farm.used(0) == 0


def test_a_device_that_comes_back(paddle: PaddleProcesses, farm: Farm) -> None:
    farm.inject(Event.INIT, Action.FAIL, code=46, times=1)
    assert failures(paddle.run("allocate", sizes=[1, 1])) == [1]


def test_a_fatal_cuda_error_in_a_copy(paddle: PaddleProcesses, farm: Farm) -> None:
    farm.inject(Event.COPY, Action.FAIL, code=700)
    ended = paddle.start("copy", count=2).wait()
    assert ended.code == 1
    assert "CUDA error(700), cudaErrorIllegalAddress: an illegal memory access was encountered" in ended.output


def test_clear_takes_every_fault_away(paddle: PaddleProcesses, farm: Farm) -> None:
    farm.inject(Event.ALLOCATE, Action.REFUSE, times=0)
    fault = farm.inject(Event.ALLOCATE, Action.ABORT, times=0)
    farm.clear()
    assert paddle.run("allocate", sizes=[MIB] * 2) == ["ok", "ok"]
    with pytest.raises(FarmError, match="was removed"):
        _ = fault.struck


def test_the_first_injected_fault_strikes(paddle: PaddleProcesses, farm: Farm) -> None:
    first = farm.inject(Event.ALLOCATE, Action.REFUSE, times=1)
    second = farm.inject(Event.ALLOCATE, Action.REFUSE, times=1)
    assert failures(paddle.run("allocate", sizes=[MIB] * 4)) == [1, 2]
    assert (first.struck, second.struck) == (1, 1)
