"""The typed messages between a worker and its case process, and how they travel.

A message is length-prefixed MessagePack over an inherited pipe. Stdout belongs to the frameworks.
Both sides of the pipe, and nothing else, are described here; this module imports no framework.
"""

from __future__ import annotations

import enum
from typing import Union

import msgspec

from ..results.verdicts import Verdict

__all__ = [
    "CaseDied",
    "CaseLaunched",
    "CaseNotLaunched",
    "CaseNotReady",
    "CaseOptions",
    "CaseReady",
    "CaseResult",
    "FromCase",
    "FromLauncher",
    "FromSpare",
    "GoldenOptions",
    "LaunchCase",
    "Load",
    "LoadFailed",
    "Loaded",
    "MakeSpare",
    "Measured",
    "Mode",
    "RunCase",
    "SignalCase",
    "SignalSpare",
    "SpareDied",
    "SpareStarted",
    "Stage",
    "TimingOptions",
    "ToCase",
    "ToLauncher",
    "ToleranceOptions",
    "Verdict",
]


class Mode(str, enum.Enum):
    """What a case compares (one per session)."""

    ACCURACY = "accuracy"
    ACCURACY_STABLE = "accuracy-stable"
    ACCURACY_DUAL_GPU = "accuracy-dual-gpu"
    ACCURACY_STABLE_DUAL_GPU = "accuracy-stable-dual-gpu"
    PADDLE_ONLY = "paddle-only"
    PADDLE_CINN = "paddle-cinn"
    PADDLE_CUSTOM_DEVICE = "paddle-custom-device"
    PADDLE_PERFORMANCE = "paddle-gpu-performance"
    TORCH_PERFORMANCE = "torch-gpu-performance"
    PADDLE_TORCH_PERFORMANCE = "paddle-torch-gpu-performance"
    CUSTOM_DEVICE_VS_GPU = "custom-device-vs-gpu"

    @property
    def computes_in_torch(self) -> bool:
        """A reference is computed in Torch, beside Paddle."""
        return self not in _IN_PADDLE_ALONE

    @property
    def runs(self) -> int:
        """How often each framework runs a call, with all results kept until the last one is there."""
        return 2 if self in (Mode.ACCURACY_STABLE, Mode.ACCURACY_STABLE_DUAL_GPU) else 1

    @property
    def pairs(self) -> bool:
        """It computes on one device and compares on a second one."""
        return self in (Mode.ACCURACY_DUAL_GPU, Mode.ACCURACY_STABLE_DUAL_GPU)

    @property
    def is_performance(self) -> bool:
        """Times calls, so that nothing else of ours may be at work beside a case."""
        return self in (Mode.PADDLE_PERFORMANCE, Mode.TORCH_PERFORMANCE, Mode.PADDLE_TORCH_PERFORMANCE)


_IN_PADDLE_ALONE = frozenset(
    {
        Mode.PADDLE_ONLY,
        Mode.PADDLE_CINN,
        Mode.PADDLE_CUSTOM_DEVICE,
        Mode.PADDLE_PERFORMANCE,
        Mode.CUSTOM_DEVICE_VS_GPU,
    }
)


class Stage(str, enum.Enum):
    """What the case process is doing; a death or a timeout is charged by it."""

    STARTING = "starting"
    INPUTS = "inputs"
    REFERENCE = "reference"
    PADDLE = "paddle"
    COMPARISON = "comparison"
    GOLDEN = "golden"


class ToleranceOptions(msgspec.Struct, frozen=True):
    """How close is equal. ``kind`` is ``dtype`` (ten times Torch's table), ``fixed`` or ``bitwise``.

    ``per_api`` maps an API name, or ``API:dtype``, to ``(atol, rtol)`` and wins over the rest.
    """

    kind: str = "dtype"
    atol: float = 1e-2
    rtol: float = 1e-2
    per_api: dict[str, tuple[float, float]] = {}


class TimingOptions(msgspec.Struct, frozen=True):
    """When a time is known well enough: see :mod:`pytest_paddleapi.case.timing`."""

    #: Seconds that one measurement, a forward or a backward run in one framework, takes at most (two or three slow
    #: calls may take longer).
    seconds: float = 0.5
    #: It ends earlier once the 95 % confidence interval of the median is narrower than this share of the median.
    precision: float = 0.02


class GoldenOptions(msgspec.Struct, frozen=True):
    """Where golden results are kept, and which of the two machines this is.

    ``url`` is a path, or a URL, which may hold secrets; with ``bcecmd`` (a program) it is that program's path and
    ``bos_conf`` its configuration. ``shown`` is how the user names it again, without secrets. ``overwrite``: upload
    also what is there.
    """

    url: str
    upload: bool
    shown: str
    overwrite: bool = False
    bcecmd: str = ""
    bos_conf: str = ""


class CaseOptions(msgspec.Struct, frozen=True):
    """What holds for every case of a session; sent once, when the case process starts."""

    mode: Mode = Mode.ACCURACY
    seed: int = 0
    tolerance: ToleranceOptions = ToleranceOptions()
    record_tolerance: bool = False
    cache_inputs: bool = False
    test_backward: bool = True
    threads: int = 0
    #: The process runs under a sanitizer: it must say there which case runs.
    sanitize: bool = False
    #: ``CINN`` compiles the static graph, ``none`` only builds it; for the mode that has one.
    static_backend: str = "none"
    #: Paddle's kernels run on the CPU, whatever ``device`` says.
    test_cpu: bool = False
    #: Random numbers are drawn and results compared where Torch computes, and its cache is kept between cases.
    gpu_mode: bool = False
    #: Both sides run under automatic mixed precision.
    amp: bool = False
    #: What draws the random numbers of inputs: ``numpy``, ``torch`` or ``paddle``.
    input_backend: str = "numpy"
    #: What Paddle and Torch call the device that the case runs on.
    device: str = "cpu"
    torch_device: str = "cpu"
    #: For the dual modes, what they call the device that holds results: nothing in Paddle where there is no second
    #: one, and the CPU in Torch where it knows no such device.
    second_device: str = ""
    second_torch_device: str = "cpu"
    #: Folder that keeps what the case works on ("": none does).
    dump: str = ""
    timing: TimingOptions = TimingOptions()
    golden: Union[GoldenOptions, None] = None


class RunCase(msgspec.Struct, frozen=True, tag="run"):
    """Worker to case process: run this config. ``token`` names the attempt; answers repeat it.

    ``lease_bytes`` is what the ledger promised (0: no limit); ``whole_device`` says that it is all
    that the device can give, so that running out of it is final. ``after`` names an attempt that still runs
    when this is sent: the process begins at once if that one passes without printing anything, and says so
    in its result (``goes_on``); otherwise it forgets this request. ``packed`` is the config as
    :func:`.wire.pack_call` gives it, which spares the case process the parsing.
    """

    token: int
    config: str
    lease_bytes: int = 0
    whole_device: bool = True
    after: int = 0
    packed: bytes = b""


class Measured(msgspec.Struct, frozen=True, omit_defaults=True):
    """Numbers about one case; what does not apply stays None and is left out of the report."""

    compared_outputs: int | None = None
    compared_gradients: int | None = None
    compared_elements: int | None = None
    max_abs_diff: float | None = None
    max_rel_diff: float | None = None
    tolerance: str | None = None
    peak_bytes: int | None = None
    #: Why gradients were not compared, a reference in higher precision, a statistical check, ...
    notes: tuple[str, ...] = ()
    #: What only one mode has, as properties of the item: name and value.
    more: dict[str, Union[int, float, str]] = {}


class CaseResult(msgspec.Struct, frozen=True, tag="result"):
    """The verdict on one attempt, from the case process or made by the supervisor after a death.

    ``fatal`` says that the process exits right after sending this, because its device is lost.
    """

    token: int
    verdict: Verdict
    text: str = ""
    measured: Measured = Measured()
    seconds: float = 0.0
    fatal: bool = False
    #: For ``deferred``: what the case turned out to need, when known.
    needed_bytes: int | None = None
    #: The process has begun with the request that named this attempt in ``after``.
    goes_on: bool = False


class CaseReady(msgspec.Struct, frozen=True, tag="ready"):
    """Case process to worker: the options are taken, the device is prepared, requests are welcome."""

    pid: int


class CaseNotReady(msgspec.Struct, frozen=True, tag="not_ready"):
    """Case process to worker, in place of :class:`CaseReady`: the reason; the process exits after it."""

    text: str


class Load(msgspec.Struct, frozen=True, tag="load"):
    """Worker to launcher, first of all: import these modules, then the runner.

    ``runner`` is ``package.module:Class``. ``modules`` are imported in their order, before it; the first ``shared``
    of them touch no device when they are imported, and so survive a fork. ``wrapper`` is the beginning of the command
    that a spare is started with, where it is to run under another program.
    """

    runner: str
    modules: tuple[str, ...]
    wrapper: tuple[str, ...] = ()
    shared: int = 0


class LaunchCase(msgspec.Struct, frozen=True, tag="launch"):
    """Worker to launcher: make a case process.

    Its channel, stdout, stderr, stack file and progress travel beside this message, in this order.
    """

    token: int
    options: CaseOptions


class SignalCase(msgspec.Struct, frozen=True, tag="signal"):
    """Worker to launcher: signal the case process, or its whole process group.

    The launcher is the parent: as long as it has not reaped the process, its id cannot be another's.
    """

    token: int
    signal: int
    group: bool = False


class MakeSpare(msgspec.Struct, frozen=True, tag="make_spare"):
    """Worker to keeper: the case process ``token`` is ready; in ``delay`` seconds the next spare may load behind it."""

    token: int
    delay: float = 0.0


class SignalSpare(msgspec.Struct, frozen=True, tag="signal_spare"):
    """Worker to keeper: signal the spare, where there is one."""

    signal: int


class Loaded(msgspec.Struct, frozen=True, tag="loaded"):
    """Launcher to worker: everything is imported, here or in the spare.

    ``threads`` counts those of the process ``pid`` (1, or a fork is not safe); ``versions`` is by module name.
    """

    pid: int
    seconds: float
    threads: int
    versions: dict[str, str]


class LoadFailed(msgspec.Struct, frozen=True, tag="load_failed"):
    """Launcher to worker: ``module`` could not be imported; the process that tried exits after it.

    ``missing`` says that it is not installed at all, ``text`` is the end of the traceback.
    """

    module: str
    text: str
    missing: bool


class SpareStarted(msgspec.Struct, frozen=True, tag="spare_started"):
    """Keeper to worker: this process loads now; Loaded, LoadFailed or SpareDied follows.

    ``wrapped``: it runs under another program, whose process this is; the reading end of that one's output travels
    beside this message.
    """

    pid: int
    wrapped: bool = False


class SpareDied(msgspec.Struct, frozen=True, tag="spare_died"):
    """Keeper to worker: a spare died unused. ``status`` is as from ``wait``.

    ``failed``: it died while it loaded, or one too many died while they waited; no other is made.
    """

    pid: int
    status: int
    failed: bool


class CaseLaunched(msgspec.Struct, frozen=True, tag="launched"):
    """Launcher to worker: the process exists. ``start_time`` is field 22 of ``/proc/PID/stat``."""

    token: int
    pid: int
    start_time: int


class CaseNotLaunched(msgspec.Struct, frozen=True, tag="not_launched"):
    """Launcher to worker: no process could be made."""

    token: int
    text: str


class CaseDied(msgspec.Struct, frozen=True, tag="died"):
    """Launcher to worker: the process is reaped and its group is gone. ``status`` is as from ``wait``.

    Where it ran under another program, ``pid`` and ``wrapper_status`` are that one's, and ``status`` is the process's
    own, or that one's too where nobody could say it any more.
    """

    token: int
    pid: int
    status: int
    wrapper_status: Union[int, None] = None


FromCase = Union[CaseResult, CaseReady, CaseNotReady]
ToCase = Union[RunCase]
ToLauncher = Union[Load, LaunchCase, SignalCase, MakeSpare, SignalSpare]
FromLauncher = Union[Loaded, LoadFailed, SpareStarted, SpareDied, CaseLaunched, CaseNotLaunched, CaseDied]
FromSpare = Union[Loaded, LoadFailed, CaseLaunched]
