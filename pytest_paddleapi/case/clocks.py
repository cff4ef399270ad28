"""Clocks: a device's own events, or the host's steady clock with the device brought to a halt before and after.

An event is a mark in a GPU's queue of work, with the time at which the GPU passes it. Between two of them lies what the
GPU did, and waited, while the host gave it the call; the host's way to the first kernel is left out. Other devices, and
the CPU, have the steady clock.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

import paddle
import torch

from .core_gauge import CoreGauge
from .timing import Clock

#: Runs of nothing, of which the median is taken.
_EMPTY_RUNS = 21


class _Event(Protocol):
    def record(self) -> object: ...

    def synchronize(self) -> object: ...

    def elapsed_time(self, end: Any, /) -> float: ...


def _nothing() -> None:
    """What measuring costs by itself is measured with this."""


class SteadyClock:
    """The host's clock, which nobody sets. ``synchronise`` waits for the device; None where the host does the work."""

    def __init__(self, synchronise: Callable[[], object] | None = None) -> None:
        self._synchronise = synchronise or _nothing
        self.gauge = _gauge() if synchronise is None else None
        self.resolution = _resolution(self)

    def seconds(self, run: Callable[[], object]) -> float:
        """From the moment when the device rests until it rests again."""
        synchronise, now = self._synchronise, time.perf_counter
        synchronise()
        start = now()
        run()
        synchronise()
        return now() - start


class EventClock:
    """Two events of a device, made by ``make_event``, which must give ones that tell the time in milliseconds."""

    gauge: CoreGauge | None = None

    def __init__(self, make_event: Callable[[], _Event], synchronise: Callable[[], object]) -> None:
        self._start, self._end = make_event(), make_event()
        self._synchronise = synchronise
        self.seconds(_nothing)  # an event's first use is slow
        self.resolution = _resolution(self)

    def seconds(self, run: Callable[[], object]) -> float:
        """Between the two events, the first of which meets an idle device."""
        start, end = self._start, self._end
        self._synchronise()
        start.record()
        run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3


@cache
def _gauge() -> CoreGauge:
    """One in a process: the longer it is used, the better it knows the core's best."""
    return CoreGauge()


def _resolution(clock: Clock) -> float:
    return statistics.median(clock.seconds(_nothing) for _ in range(_EMPTY_RUNS))


def torch_clock(device: str) -> Clock:
    """The clock for a Torch device such as ``cuda:0``."""
    kind = device.partition(":")[0]
    if kind == "cpu":
        return SteadyClock()
    if kind == "cuda":
        return EventClock(lambda: torch.cuda.Event(enable_timing=True), lambda: torch.cuda.synchronize(device))
    return SteadyClock(torch.get_device_module(device).synchronize)


def paddle_clock(device: str) -> Clock:
    """The clock for a Paddle device such as ``gpu:0``, which must be the current one."""
    kind = device.partition(":")[0]
    if kind == "cpu":
        return SteadyClock()
    if kind == "gpu":
        return EventClock(lambda: paddle.device.Event(enable_timing=True), lambda: paddle.device.synchronize(device))
    return SteadyClock(lambda: paddle.device.synchronize(device))
