"""The case process's side: take a request, run it, answer. Runs after the fork."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Protocol

import msgspec

from . import kernel
from .errors import ChannelClosedError
from .fatal import FATAL_EXIT_CODE
from .framing import Channel
from .messages import CaseNotReady, CaseOptions, CaseReady, CaseResult, RunCase, Stage, StageEntered, Verdict

#: Address space that a case may take beyond its lease: thread stacks, allocator arenas and libraries'
#: buffers, which are reserved but hardly touched (measured: 120 MiB for Torch and Paddle with 2 threads).
LEASE_SLACK = 512 << 20
#: Seconds; with everything frozen that was there before, a collection takes a tenth of a millisecond.
_SLOW_COLLECTION = 0.005
#: Longer texts are cut, so that a result always fits a frame.
_LONGEST_TEXT = 200_000


class Runner(Protocol):
    """What runs a case: :class:`pytest_paddleapi.case.runner.CaseRunner`, or a test's own."""

    def run(self, request: RunCase, enter: Callable[[Stage], None]) -> CaseResult: ...


def serve(sock: socket.socket, make_runner: Callable[[CaseOptions], Runner], options: CaseOptions) -> NoReturn:
    """Answer requests until the other side closes the channel; ends the process."""
    channel = Channel(sock, msgspec.msgpack.Decoder(RunCase))
    try:
        runner = make_runner(options)
    except Exception:  # noqa: BLE001 - whatever the runner's own start-up raises is told to the worker
        channel.send(CaseNotReady(traceback.format_exc()[-4000:]))
        os._exit(1)
    channel.send(CaseReady(os.getpid()))
    flush = ctypes.CDLL(None).fflush
    while True:
        try:
            request = channel.receive()
        except ChannelClosedError:
            os._exit(0)
        result = _run(runner, request, channel)
        _flush(flush)
        channel.send(result)
        if result.fatal:
            # No clean-up: the device context is lost, and destructors would hang on it.
            os._exit(FATAL_EXIT_CODE)
        del result, request
        _collect()


def _run(runner: Runner, request: RunCase, channel: Channel[RunCase]) -> CaseResult:
    def enter(stage: Stage) -> None:
        channel.send(StageEntered(request.token, stage))

    measures = kernel.reset_peak()
    before = kernel.data_and_resident_bytes()[1]
    with _lease(request.lease_bytes):
        try:
            result = runner.run(request, enter)
        except MemoryError as exc:
            # The lease is a limit on everything, the runner's own few bytes too.
            result = CaseResult(request.token, Verdict.OOM, f"MemoryError: {exc}")
    changes: dict[str, Any] = {}
    if measures:
        peak = max(0, kernel.peak_resident_bytes() - before)
        changes["measured"] = msgspec.structs.replace(result.measured, peak_bytes=peak)
    if result.verdict is Verdict.OOM and not request.whole_device and request.lease_bytes:
        changes["verdict"] = Verdict.DEFERRED
        changes["needed_bytes"] = 2 * request.lease_bytes
        changes["text"] = f"ran out of its lease of {request.lease_bytes / 2**20:.0f} MiB\n{result.text}"
    text = changes.get("text", result.text)
    if len(text) > _LONGEST_TEXT:
        changes["text"] = f"{text[: _LONGEST_TEXT // 2]}\n... cut ...\n{text[-_LONGEST_TEXT // 2 :]}"
    return msgspec.structs.replace(result, **changes) if changes else result


@contextlib.contextmanager
def _lease(size: int) -> Iterator[None]:
    """Let allocations beyond ``size`` bytes (0: no limit) fail, instead of waking the kernel's OOM killer."""
    if not size:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = kernel.data_and_resident_bytes()[0] + size + LEASE_SLACK
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _collect() -> None:
    """Free what the case left. What survives a slow collection is some library's that was imported by the
    case, and will survive the next ones: it is not looked at again."""
    start = time.perf_counter()
    gc.collect()
    if time.perf_counter() - start > _SLOW_COLLECTION:
        gc.freeze()


def _flush(fflush: Any) -> None:
    for stream in (sys.stdout, sys.stderr):
        # A case may have closed or replaced a stream; its text is then lost, the verdict is not.
        with contextlib.suppress(ValueError, OSError, AttributeError):
            stream.flush()
    fflush(None)
