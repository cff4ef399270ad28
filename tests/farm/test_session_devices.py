"""Which devices a session takes: the options, the outer visibility variable, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

CASE = 'paddle.abs(Tensor([2, 3],"float32"))'
CONFIGS = [f'paddle.abs(Tensor([{size}],"float32"))' for size in range(2, 14)]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-n0"], "on 1 x Simulated GPU (sim_gpu), 1 worker,"),
        (["-nauto"], "on 3 x Simulated GPU (sim_gpu), 3 workers,"),
        (["-nauto", "--paddleapi-workers-per-gpu=2"], "on 3 x Simulated GPU (sim_gpu), 6 workers,"),
        (["-nauto", "--paddleapi-gpu-ids=0,2"], "on 2 x Simulated GPU (sim_gpu), 2 workers,"),
        (["-nauto", "--paddleapi-gpu-ids=-1", "--paddleapi-num-gpus=3"], "on 3 x Simulated GPU (sim_gpu), 3 workers,"),
        (["-nauto", "--paddleapi-num-gpus=1"], "on 1 x Simulated GPU (sim_gpu), 1 worker,"),
        (["-n2", "--paddleapi-gpu-ids=1"], "on 1 x Simulated GPU (sim_gpu), 2 workers,"),
    ],
)
def test_header_counts_devices_and_workers(make_farm: Any, start: Any, arguments: list[str], says: str) -> None:
    done = start(make_farm(devices=3), [CASE], "--collect-only", *arguments).wait()
    assert done.code == 0 and says in done.output, done.output


@pytest.mark.parametrize(
    ("arguments", "option", "says"),
    [
        (["--paddleapi-gpu-ids=7"], "--paddleapi-gpu-ids", "no device has the id 7"),
        (["--paddleapi-gpu-ids=1,1"], "--paddleapi-gpu-ids", "names 1 twice"),
        (["--paddleapi-gpu-ids=1-0"], "--paddleapi-gpu-ids", "runs backwards; write 0-1"),
        (["--paddleapi-gpu-ids=x"], "--paddleapi-gpu-ids", "give ids and ranges such as 0,2,4-7"),
        (["--paddleapi-num-gpus=3"], "--paddleapi-num-gpus", "3 are asked for, but there are 2: 0-1 (Simulated GPU)"),
        (["--paddleapi-num-gpus=0"], "--paddleapi-num-gpus", "give 1 or more"),
        (["--paddleapi-gpu-ids=0", "--paddleapi-num-gpus=2"], "--paddleapi-num-gpus", "does not match"),
        (["--paddleapi-workers-per-gpu=0"], "--paddleapi-workers-per-gpu", "give 1 or more"),
        (["--paddleapi-workers-per-gpu=40"], "--paddleapi-workers-per-gpu", "64 at most are possible"),
        (["--paddleapi-memory-limit=8GiB"], "--paddleapi-memory-limit", "cases run on sim_gpu devices"),
        (["--paddleapi-device=nothing"], "--paddleapi-device", "nothing"),
    ],
)
def test_wrong_options_are_usage_errors(
    make_farm: Any, start: Any, arguments: list[str], option: str, says: str
) -> None:
    done = start(make_farm(devices=2), [CASE], "--collect-only", *arguments).wait()
    assert done.code == 4, done.output
    assert f"ERROR: {option}" in done.output and says in done.output


@pytest.mark.parametrize("by", ["index", "uuid"])
def test_outer_visibility_variable_is_respected(make_farm: Any, start: Any, by: str) -> None:
    farm = make_farm(devices=3)
    visible = {"CUDA_VISIBLE_DEVICES": "1" if by == "index" else farm.uuid(1)}
    done = start(farm, [CASE], "--collect-only", "-nauto", environment=visible).wait()
    assert "on 1 x Simulated GPU (sim_gpu), 1 worker," in done.output


def test_outer_visibility_variable_that_hides_all_leaves_no_device(make_farm: Any, start: Any) -> None:
    hidden = {"CUDA_VISIBLE_DEVICES": ""}
    done = start(make_farm(devices=1), [CASE], "--paddleapi-device=sim_gpu", environment=hidden).wait()
    assert done.code == 4 and "CUDA_VISIBLE_DEVICES" in done.output, done.output


def test_case_runs_on_the_visible_device_and_says_so(make_farm: Any, start: Any) -> None:
    farm = make_farm(devices=3)
    # Device 2 is the only one that is left.
    done = start(farm, CONFIGS, "-n0", "--paddleapi-gpu-ids=2", environment={"CUDA_VISIBLE_DEVICES": "2,1"}).wait()
    assert done.code == 0, done.output
    assert done.devices() == {farm.uuid(2)}
    assert set(done.verdicts().values()) == {"pass"} and len(done.verdicts()) == len(CONFIGS)
    assert farm.peak(2) > 0 and farm.peak(0) == farm.peak(1) == 0


@pytest.mark.slow
def test_workers_are_spread_over_the_devices(make_farm: Any, start: Any) -> None:
    farm = make_farm(devices=2)
    slow = [f'paddle.abs(Tensor([{4 + i}, 1048576],"float32"))' for i in range(8)]
    done = start(farm, [*CONFIGS, *slow], "-nauto").wait()
    assert done.code == 0, done.output
    assert set(done.verdicts().values()) == {"pass"} and len(done.verdicts()) == len(CONFIGS) + len(slow)
    assert done.devices() == {farm.uuid(0), farm.uuid(1)}
    assert farm.refusals(0) == farm.refusals(1) == []
