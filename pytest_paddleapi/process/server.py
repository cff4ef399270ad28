"""The case process's side: take a request, run it, answer. Runs once there is a case process, forked or not."""

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
from .fatal import FATAL_EXIT_CODE, classify, is_memory_shortage
from .framing import Channel
from .messages import CaseNotReady, CaseOptions, CaseReady, CaseResult, RunCase, Stage, Verdict
from .progress import Progress
from .sanitizer_marks import Marks

#: Address space that a case may take beyond its lease: thread stacks, allocator arenas and libraries' buffers,
#: which are reserved but hardly touched. Measured on first use of matmul, convolution, SVD and backward in both
#: frameworks: 7 MiB with one thread, 22 MiB more with a second one; and for a moment 125 MiB while Paddle loads MKL,
#: which has to be relocated as a whole.
_SLACK, _SLACK_PER_THREAD = 192 << 20, 32 << 20
#: Seconds; with everything frozen that was there before, a collection takes 20 µs. Paddle 3.3.1 leaks a list for each
#: tensor that is made of an array, so it gets slower with every case.
_SLOW_COLLECTION = 0.0001
#: C's ``setvbuf`` mode for line buffering, in glibc and musl.
_IOLBF = 1
#: Longer texts are cut, so that a result always fits a frame.
_LONGEST_TEXT = 200_000


class Runner(Protocol):
    """What runs a case: :class:`pytest_paddleapi.case.runner.CaseRunner`, or a test's own.

    It may have a method ``synchronize()``, called under a sanitizer when a stage or a case ends: it waits until the
    devices have done all that was asked of them, and raises what went wrong there.

    Its class may have a static method ``warm_up()``, called before there is a case process. It must touch no device
    but the CPU: a fork would break it, and a spare process that waits must hold none of its memory. The device is
    for the constructor.
    """

    def run(self, request: RunCase, enter: Callable[[Stage], None]) -> CaseResult: ...


def serve(
    sock: socket.socket,
    progress: Progress,
    make_runner: Callable[[CaseOptions], Runner],
    options: CaseOptions,
    marks: Marks | None = None,
) -> NoReturn:
    """Answer requests until the other side closes the channel; ends the process.

    ``marks`` tells a sanitizer's reader which case runs.
    """
    channel = Channel(sock, msgspec.msgpack.Decoder(RunCase))
    flush = _prepare_output()
    # On another device the lease is memory of that device, and the host's is not limited.
    slack = lease_slack(options.threads) if options.device == "cpu" else None
    try:
        runner = make_runner(options)
    except Exception:  # noqa: BLE001 - whatever the runner's own start-up raises is told to the worker
        channel.send(CaseNotReady(traceback.format_exc()[-4000:]))
        os._exit(1)
    channel.send(CaseReady(os.getpid()))
    following: RunCase | None = None
    while True:
        request = following or _next(channel)
        result = _run(runner, request, progress, slack, marks)
        _flush(flush)
        following = _following(channel, request, result)
        channel.send(msgspec.structs.replace(result, goes_on=following is not None))
        if result.fatal:
            # No clean-up: the device context is lost, and destructors would hang on it.
            os._exit(FATAL_EXIT_CODE)
        del result, request
        _collect()


def _next(channel: Channel[RunCase]) -> RunCase:
    """Wait for a request; ends the process where there will be none."""
    try:
        # One that names an attempt came after that one had ended, and is sent again.
        while (request := channel.receive()).after:
            pass
    except ChannelClosedError:
        os._exit(0)
    return request


def _following(channel: Channel[RunCase], request: RunCase, result: CaseResult) -> RunCase | None:
    """The request to go on with at once. Never after output: the worker could not tell whose it is."""
    came = [later for later in channel.receive_available() if later.after == request.token]
    if came and result.verdict is Verdict.PASS and not result.fatal and _is_silent():
        return came[0]
    return None


def _is_silent() -> bool:
    try:
        return not any(os.fstat(fd).st_size for fd in (1, 2))
    except OSError:  # the case closed one
        return False


def _run(
    runner: Runner, request: RunCase, progress: Progress, slack: int | None, marks: Marks | None = None
) -> CaseResult:
    """One case; ``slack`` is None where the lease is not one of host memory."""
    stage = Stage.STARTING
    synchronize: Callable[[], None] | None = getattr(runner, "synchronize", None) if marks is not None else None

    def enter(entered: Stage) -> None:
        nonlocal stage
        if synchronize is not None and entered is not Stage.STARTING:
            synchronize()  # what it raises is the fault of the stage that ends
        if marks is not None:
            marks.stage(request.token, entered.value)
        progress.enter(request.token, entered)
        stage = entered

    # Says that the request has come: a process that dies before was dead already, whatever the case does.
    enter(Stage.STARTING)
    measures = slack is not None and kernel.reset_peak()
    data, before = kernel.data_and_resident_bytes()
    with _lease(data, request.lease_bytes if slack is not None else 0, slack or 0):
        try:
            result = runner.run(request, enter)
            if synchronize is not None and not result.fatal:
                synchronize()
        except KeyboardInterrupt:
            raise  # the worker wants us gone
        except BaseException as exc:  # noqa: BLE001 - SystemExit too: one case must not end the process for the next
            result = _from_exception(exc, request, stage)
    if marks is not None:
        marks.end(request.token)
    changes: dict[str, Any] = {}
    if measures:
        peak = max(0, kernel.peak_resident_bytes() - before)
        changes["measured"] = msgspec.structs.replace(result.measured, peak_bytes=peak)
    if not request.whole_device and request.lease_bytes and _is_shortage(result):
        changes["verdict"] = Verdict.DEFERRED
        changes["needed_bytes"] = max(result.needed_bytes or 0, 2 * request.lease_bytes)
        changes["text"] = f"ran out of its lease of {request.lease_bytes / 2**20:.0f} MiB\n{result.text}"
    text = changes.get("text", result.text)
    if len(text) > _LONGEST_TEXT:
        text = f"{text[: _LONGEST_TEXT // 2]}\n... cut ...\n{text[-_LONGEST_TEXT // 2 :]}"
    # Undecodable bytes of a C++ message may stand in it as surrogates, which no message can carry.
    changes["text"] = text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
    return msgspec.structs.replace(result, **changes)


_RAISED = {
    Stage.STARTING: Verdict.CONFIG_INPUT,
    Stage.INPUTS: Verdict.CONFIG_INPUT,
    Stage.REFERENCE: Verdict.TORCH_ERROR,
    Stage.PADDLE: Verdict.PADDLE_ERROR,
    Stage.COMPARISON: Verdict.PADDLE_ERROR,
    Stage.GOLDEN: Verdict.CONFIG_INPUT,
}


def _from_exception(exc: BaseException, request: RunCase, stage: Stage) -> CaseResult:
    """A runner turns exceptions into verdicts itself; this is for those it had no memory left for, and its bugs."""
    found = classify(f"{type(exc).__name__}: {exc}", stage)
    text = f"the runner let an exception through in stage {stage.value}\n{''.join(traceback.format_exception(exc))}"
    if found is not None:
        return CaseResult(request.token, found.verdict, text, fatal=found.fatal)
    return CaseResult(request.token, _RAISED[stage], text)


def _is_shortage(result: CaseResult) -> bool:
    """Out of memory, by its verdict or by a text that means it under a limit."""
    if result.verdict is Verdict.OOM:
        return True
    failed = result.verdict in (Verdict.PADDLE_ERROR, Verdict.TORCH_ERROR, Verdict.CONFIG_INPUT)
    return failed and is_memory_shortage(result.text, limited=True)


def lease_slack(threads: int) -> int:
    """Bytes of address space that a case gets beyond its lease; ``threads`` as in the options (0: one)."""
    return _SLACK + _SLACK_PER_THREAD * (threads or 1)


@contextlib.contextmanager
def _lease(data: int, size: int, slack: int) -> Iterator[None]:
    """Let allocations of ``size`` bytes (0: no limit) beyond the present ``data`` fail, instead of waking the
    kernel's OOM killer."""
    if not size:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = data + size + slack
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


def _prepare_output() -> Any:
    """Let go of every line at once, so that a crash loses none; returns C's ``fflush``."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]
    libc = ctypes.CDLL(None)
    with contextlib.suppress(ValueError):  # a C library that has its stdout under another name
        libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, _IOLBF, 0)
    return libc.fflush


def _flush(fflush: Any) -> None:
    for stream in (sys.stdout, sys.stderr):
        # A case may have closed or replaced a stream; its text is then lost, the verdict is not.
        with contextlib.suppress(ValueError, OSError, AttributeError):
            stream.flush()
    fflush(None)
