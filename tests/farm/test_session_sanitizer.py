"""Sessions under a stand-in for compute-sanitizer, with real Paddle on simulated devices."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from .farm import MIB, Action, Event

STAND_IN = Path(__file__).parents[1] / "sanitizer" / "compute_sanitizer.py"
SMALL = [f'paddle.abs(Tensor([{size}, 30000],"float32"))' for size in (1, 2)]
LARGE = 'paddle.abs(Tensor([6, 1048576],"float32"))'


@pytest.mark.slow
def test_a_crash_then_a_finding_then_a_pass(make_farm: Any, start: Any) -> None:
    farm = make_farm(devices=1, mib=512, context_mib=16)
    # In the first case of the first process, and not while it gets ready.
    crash = farm.inject(Event.ALLOCATE, Action.ABORT, nth=4)
    configs = [SMALL[0], SMALL[1], LARGE]
    done = start(
        farm,
        configs,
        "-n0",
        "--paddleapi-sanitizer",
        f"--paddleapi-sanitizer-command={sys.executable} -S {STAND_IN}",
        environment={"STANDIN_REPORT_ABOVE": str(64 * MIB)},
    ).wait()
    assert done.code == 1, done.output
    assert crash.struck == 1
    # Nothing is charged to a neighbour: the large case alone takes so much of the device.
    expected = {SMALL[0]: "paddle_crash", SMALL[1]: "pass", LARGE: "paddle_cuda"}
    assert done.verdicts() == expected, done.output
    assert "SIGABRT" in done.output
    assert "the sanitizer found 1 error in Paddle (stage: paddle): Invalid __global__ write of size 4" in done.output
    assert "--paddleapi-sanitizer '--paddleapi-sanitizer-command=" in done.output.split("reproduce: ")[-1]
    assert "belongs to no case" not in done.output
    assert farm.used(0) == 0
