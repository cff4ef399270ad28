"""Paddle on simulated devices: they are there, they compute, and the account of their memory is exact."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .farm import MIB, Farm
from .support import PaddleProcesses

CONTEXT = 64 * MIB
#: What Paddle's buddy allocator adds to a tensor for its own book-keeping, before it rounds up to 256 bytes.
OVERHEAD = 64
CALLS = ["matmul", "conv2d", "softmax", "layer_norm", "broadcast_add", "gelu", "concat", "max_pool2d", "cumsum"]
CALLS += ["index_select"]


def rounded(size: int) -> int:
    return -(-(size + OVERHEAD) // 256) * 256


def test_devices_appear_in_paddle(paddle: PaddleProcesses) -> None:
    assert paddle.run("names") == [["sim_gpu"], ["sim_gpu:0", "sim_gpu:1"]]


def test_the_first_device_is_paddles_default(paddle: PaddleProcesses) -> None:
    assert paddle.run("default_place") == ["Place(sim_gpu:0)"]


@pytest.mark.parametrize("call", CALLS)
def test_forward_and_backward_give_the_values_of_the_cpu(paddle: PaddleProcesses, call: str) -> None:
    on_cpu, on_device, near = paddle.run("compute", call=call)
    assert set(on_cpu) == {"Place(cpu)"}
    assert set(on_device) == {"Place(sim_gpu:0)"}
    assert len(near) == len(on_device) >= 2 and all(near)


def test_import_and_set_device_take_nothing(paddle: PaddleProcesses) -> None:
    assert paddle.run("one_tensor", size=1)[:2] == [0, 0]


@pytest.mark.parametrize("size", [1, 192, 193, 1000, 4096, 12_345_678])
def test_one_tensor_is_accounted_exactly_until_it_goes(paddle: PaddleProcesses, size: int) -> None:
    *_, prepared, with_tensor, without = paddle.run("one_tensor", size=size)
    assert (prepared, without) == (CONTEXT, CONTEXT)
    assert with_tensor - CONTEXT == rounded(size)


def test_a_step_of_training_leaves_only_the_context(paddle: PaddleProcesses, farm: Farm) -> None:
    before = farm.allocations(0)
    during, after = paddle.run("backward_and_forget")
    assert during > after == CONTEXT
    granted, freed = (now - earlier for now, earlier in zip(farm.allocations(0), before))
    assert granted == freed > 5


def test_a_process_that_exits_holds_nothing(paddle: PaddleProcesses, farm: Farm) -> None:
    paddle.run("allocate", sizes=[MIB])
    assert farm.used(0) == 0


def test_paddles_own_statistics_say_nothing_with_the_system_allocator(paddle: PaddleProcesses) -> None:
    during, after = paddle.run("statistics", size=4096)
    assert during[:2] == after[:2] == [0, 0]


def test_paddles_own_statistics_are_right_with_its_own_allocator(make_farm: Any, tmp_path: Path) -> None:
    farm = make_farm(devices=1, mib=256)
    processes = PaddleProcesses(farm, tmp_path / "processes", FLAGS_use_system_allocator="0")
    try:
        during, after = processes.run("statistics", size=4096)
    finally:
        processes.close()
    assert during == [4096, 4096, 4096]
    assert after == [0, 4096, 4096]  # it keeps what it has


LARGE_CASE = 'paddle.abs(Tensor([16, 262144],"float32"))'


def test_the_peak_of_a_case_is_measured_where_paddle_counts_right(make_farm: Any, tmp_path: Path) -> None:
    farm = make_farm(devices=1, mib=512, context_mib=16)
    # The same allocations of the device as with the system's allocator, and a counter that sees them come and go.
    flags = {"FLAGS_use_system_allocator": "0", "FLAGS_allocator_strategy": "naive_best_fit"}
    processes = PaddleProcesses(farm, tmp_path / "processes", **flags)
    try:
        ((verdict, measured, taken),) = processes.run("case_peak", config=LARGE_CASE)
    finally:
        processes.close()
    assert verdict == "pass"
    assert taken >= 3 * 16 * MIB
    # The device rounds each tensor up by some hundred bytes.
    assert 0 <= taken - measured < 64 * 1024


def test_no_peak_is_told_where_paddle_counts_wrong(paddle: PaddleProcesses) -> None:
    ((verdict, measured, taken),) = paddle.run("case_peak", config=LARGE_CASE)
    assert verdict == "pass" and measured is None and taken >= 3 * 16 * MIB


def test_a_child_forked_after_use_cannot_use_the_device(paddle: PaddleProcesses) -> None:
    text, held_before, held_after = paddle.run("fork_after_use")
    assert "CUDA error(3)" in text and "initialization error" in text
    # And the child's end takes nothing from its parent.
    assert held_before == CONTEXT + rounded(MIB)
    assert held_after == CONTEXT


@pytest.mark.parametrize(
    ("visible", "seen"),
    [
        ("1,{uuid}", [1, 0]),
        ("GPU-b,7,0", [1]),
        ("0,0", []),
    ],
    ids=["index and UUID", "up to the first unknown", "none where one stands twice"],
)
def test_the_visibility_variable_is_read_as_cuda_does(make_farm: Any, visible: str, seen: list[int]) -> None:
    farm = make_farm(devices=2, uuids=["GPU-aaaa", "GPU-bbbb"])
    code = (
        "import paddle\n"
        "n = paddle.device.get_available_custom_device()\n"
        "if n: paddle.set_device('sim_gpu:0'); t = paddle.empty([1 << 20], 'uint8')\n"
        "print(len(n))"
    )
    environment = farm.environment(CUDA_VISIBLE_DEVICES=visible.format(uuid=farm.uuid(0)))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) == len(seen)
    # Paddle's device 0 is the first visible one.
    assert [farm.allocations(i)[0] for i in range(2)] == [int(bool(seen) and seen[0] == i) for i in range(2)]
