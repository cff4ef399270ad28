"""Estimates configs and measures them, one line of JSON each way; the child process of ``estimates_device.py``.

What Paddle allocates is read from its own statistics of the device that it runs on. They count every allocation of
its kernels, on the host's device as on any other.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
from typing import Any

import paddle

from pytest_paddleapi.case.adapters.registry import find_adapter  # noqa: F401 - the rules are loaded with it
from pytest_paddleapi.case.estimate import Way, estimate
from pytest_paddleapi.case.modes.base import judge_exception
from pytest_paddleapi.case.paddle_side import PaddleCall
from pytest_paddleapi.case.prepared import prepare
from pytest_paddleapi.case.runner import CaseRunner
from pytest_paddleapi.config import parse_call
from pytest_paddleapi.process.messages import CaseOptions, Stage

_OPTIONS = CaseOptions(threads=1)


class Meter:
    """The peak of Paddle's allocations on one device, beyond what was there at the start."""

    def __init__(self, device: str) -> None:
        core = paddle.base.core
        kind, _, number = device.partition(":")
        prefix = "host" if kind == "cpu" else "device"
        self._place = int(number or 0)
        self._current = getattr(core, f"{prefix}_memory_stat_current_value")
        self._peak = getattr(core, f"{prefix}_memory_stat_peak_value")
        self._reset = getattr(core, f"{prefix}_memory_stat_reset_peak_value")

    def start(self) -> None:
        """Forget the peak so far."""
        gc.collect()
        self._reset("Allocated", self._place)
        self._base = self._current("Allocated", self._place)

    def peak(self) -> int:
        """Bytes since :meth:`start`."""
        return int(self._peak("Allocated", self._place) - self._base)


def measure(config: str, meter: Meter) -> dict[str, Any]:
    """Estimate and measured peak of one config, or why it does not run."""
    call = parse_call(config)
    started = time.perf_counter()
    found = estimate(call, _OPTIONS, quick=False)
    seconds = time.perf_counter() - started
    case = prepare(call, _OPTIONS)
    meter.start()
    paddle_call = PaddleCall(case, backward=case.backward)
    paddle_call.forward()
    cotangents = paddle_call.own_cotangents()
    chosen = [
        (value, paddle_call._fed(index, value, grad))
        for index, (value, grad) in enumerate(zip(paddle_call.flat_outputs(), cotangents))
        if grad is not None
    ]
    if chosen and paddle_call.inputs:
        # As PaddleCall.gradients does, without the copies on the host, which the statistics of a CPU would count.
        gradients = paddle.grad(
            [value for value, _ in chosen],
            list(paddle_call.inputs.values()),
            grad_outputs=[grad for _, grad in chosen],
            allow_unused=True,
        )
        del gradients
    return {
        "estimate": found.paddle,
        "way": found.way.value,
        "why": found.why if found.way is not Way.OPERATOR else "",
        "parts": [found.inputs, found.outputs, found.gradients, found.forward_extra, found.backward_extra],
        "measured": meter.peak(),
        "seconds": seconds,
    }


def main() -> None:
    """Serve until the input ends. Arguments: the device, and the most bytes that the process may take."""
    device, most = sys.argv[1], int(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Paddle prints is no answer
    CaseRunner.warm_up()
    if device != "cpu":
        paddle.set_device(device)
    meter = Meter(device)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    for line in sys.stdin:
        try:
            answer = measure(json.loads(line), meter)
        except Exception as exc:
            answer = {"refused": judge_exception(exc, Stage.PADDLE, "Paddle").text[:300]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
