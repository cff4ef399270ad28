"""Times a case in Paddle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .adapters.registry import PLAIN, find_adapter
from .amp import paddle_autocast
from .clocks import paddle_clock
from .device_memory import paddle_counter
from .paddle_side import PaddleCall
from .prepared import PreparedCase
from .timed import TimedSide, fresh_calls, time_backward
from .timing import FreshCall, Repeated, SameCall, measure


def time_paddle(case: PreparedCase) -> TimedSide:
    """The times of the call and of its backward run, after one run of both that is not timed.

    Raises:
        MissingApiError, ClosedApiError: there is no such API, or it is not for configs.
        Exception: whatever Paddle raises for the call, or for its first backward run.
    """
    side = TimedSide("paddle")
    options = case.options
    clock = paddle_clock(options.device)
    counter = paddle_counter(options.device)
    if counter is not None:
        counter.reset()
    with paddle_autocast(options):
        run = _first_run(case)
        if run is not None:
            time_backward(side, run, clock, options.timing)
            del run  # with the outputs, and all that the graph has saved
        side.times["forward"] = measure(_forward(case), clock, options.timing)
    side.peak_bytes = counter.peak() if counter is not None else None
    return side


def _first_run(case: PreparedCase) -> Callable[[], Any] | None:
    call = PaddleCall(case, backward=case.backward)
    call.forward()
    return call.differentiation(call.own_cotangents(), retain_graph=True)


def _forward(case: PreparedCase) -> Repeated:
    """The call alone. What an adapter makes of the arguments, and of the results, is not timed."""

    def make() -> Callable[[], Any]:
        return PaddleCall(case, backward=case.backward).bound()[0]

    # What an adapter makes may be used up by the call, as a graph is by ``paddle.grad``.
    if case.mutates or find_adapter(case.api) is not PLAIN:
        return FreshCall(make, fresh_calls(case))
    return SameCall(make())
