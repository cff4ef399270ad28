"""What an error text, an exit code or a signal means. Pure functions; imported in both processes."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass

from ..results.verdicts import Verdict
from .messages import Stage

#: The case process exits with this after a fatal error that it has reported: its device context is lost.
FATAL_EXIT_CODE = 86

#: Looked for first, because an out-of-memory error may also speak of CUDA. Texts as Torch, Paddle,
#: NumPy, the C++ library and the dynamic loader write them when an allocation fails.
_OUT_OF_MEMORY = (
    "out of memory",
    "resourceexhausted",
    "cannot allocate memory",
    "can't allocate memory",
    "unable to allocate",
    "not enough memory",
    "failed to allocate",
    "bad_alloc",
    "cublas_status_alloc_failed",
    "memoryerror",
    "cannot map zero-fill pages",
    "failed to map segment from shared object",
)
#: On stderr, when the process ended itself for want of memory: OpenMP runtimes that get no thread stack.
_OUT_OF_MEMORY_DEATH = (
    "libgomp: thread creation failed",
    "system unable to allocate necessary resources for omp thread",
)
#: oneDNN says no more than this when an allocation fails, but it says so too of other failures.
_OUT_OF_MEMORY_MAYBE = ("could not execute a primitive", "could not create a primitive", "could not create a memory")
_CUDA = (
    "cuda error",
    "illegal memory access",
    "memory corruption",
    "invalid configuration argument",
    "invalid resource handle",
)
_DEVICE_LOST = (
    "cudaerrordevicesunavailable",
    "cudaerrordevicelost",
    "cuda error 46",
    "cuda error(46)",
    "cuda error 45",
    "cuda error(45)",
    "busy or unavailable",
)

_DTYPE_WORDS = r"(?:data ?types?|dtypes?|float16|bfloat16|float8\w*|int8|int16|complex\d+)"
_UNSUPPORTED = re.compile(
    r"kernel[^\n]{0,200} is not registered"
    r"|no kernel registered"
    r"|kernel of \(\w+\) for input (?:tensors|value) is unimplemented"
    r"|'paddle\.base\.libpaddle\.eager\.ops[.\w]*' has no attribute"
    rf"|{_DTYPE_WORDS} of input (?:variable )?must be '\w+'"
    r"|(?:unimplemented|not implemented|unsupported|not supported|not support|doesn't support|does not support)"
    rf"[^\n]{{0,120}}(?:{_DTYPE_WORDS}|\bcpu\b|\blayout\b)"
    rf"|{_DTYPE_WORDS}[^\n]{{0,160}}(?:is|are) (?:not supported|unsupported)"
    rf"|(?:\bcpu\b|{_DTYPE_WORDS})[^\n]{{0,80}}(?:not (?:supported|implemented)|unimplemented)"
    rf"|only supports?[^\n]{{0,60}}(?:{_DTYPE_WORDS}|\bgpu\b|\bcuda\b|\bxpu\b)"
    rf"|{_DTYPE_WORDS}[^\n]{{0,120}}(?:must be|should be|expected to be|expects?)[^\n]{{0,200}}"
    r"(?:but (?:got|now|received)|received)"
    r"|(?:only|not) (?:available|compiled|supported|built)[^\n]{0,40}(?:gpu|cuda|xpu)"
    r"|no available device found"
    r"|cannot use CUDA\w+ in CPU only version"
    # Flash attention asks for flags that only a build with CUDA has.
    r"|flag FLAGS_(?:cudnn|flash_attn)\w* cannot get its value",
    re.IGNORECASE,
)
#: Where in Paddle's source an error was raised; a path such as ``kernels/cpu/`` must not be read as a reason.
_SOURCE = re.compile(r"\(at [^)\n]*\)")


@dataclass(frozen=True)
class Finding:
    """A verdict that the text of an error decides; ``fatal``: the process must not go on."""

    verdict: Verdict
    fatal: bool


_LOST_DEVICE = {
    Stage.STARTING: Verdict.CONFIG_INPUT,
    Stage.INPUTS: Verdict.CONFIG_INPUT,
    Stage.REFERENCE: Verdict.TORCH_ERROR,
    Stage.PADDLE: Verdict.PADDLE_CUDA,
    # A kernel runs after the call that started it, so Paddle's may fail while its result is read.
    Stage.COMPARISON: Verdict.PADDLE_CUDA,
    Stage.GOLDEN: Verdict.CONFIG_INPUT,
}


def classify(text: str, stage: Stage) -> Finding | None:
    """Out of memory, or a lost device, by the text of an exception; None for anything else."""
    if is_memory_shortage(text):
        return Finding(Verdict.OOM, fatal=False)
    lowered = text.lower()
    if any(marker in lowered for marker in _CUDA):
        return Finding(_LOST_DEVICE[stage], fatal=True)
    return None


def is_unsupported(text: str) -> bool:
    """True where Paddle says that it has no kernel for this dtype or layout on this device."""
    return _UNSUPPORTED.search(_SOURCE.sub("", text)) is not None


def is_device_lost(text: str) -> bool:
    """True where a start failed because its device is unavailable (CUDA error 46) or lost (45)."""
    lowered = text.lower()
    return any(marker in lowered for marker in _DEVICE_LOST)


def is_memory_shortage(text: str, *, limited: bool = False, death: bool = False) -> bool:
    """True where a text speaks of an allocation that failed.

    ``limited``: the process ran under a memory limit, so texts that often mean it count too;
    ``death``: the text is what a process wrote before it died.
    """
    markers = [*_OUT_OF_MEMORY, *(_OUT_OF_MEMORY_DEATH if death else ()), *(_OUT_OF_MEMORY_MAYBE if limited else ())]
    lowered = text.lower()
    return any(marker in lowered for marker in markers)


@dataclass(frozen=True)
class Death:
    """How a process ended, from its wait status."""

    status: int

    @property
    def signal(self) -> int | None:
        """The signal that killed it; None if it exited."""
        return os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else None

    @property
    def exit_code(self) -> int | None:
        """The code that it exited with; None if a signal killed it."""
        return None if self.signal is not None else os.waitstatus_to_exitcode(self.status)

    @property
    def from_outside(self) -> bool:
        """Killed by a signal that no fault of its own code sends."""
        return self.signal in (signal.SIGKILL, signal.SIGTERM)

    def __str__(self) -> str:
        number = self.signal
        if number is None:
            return f"exited with code {self.exit_code}"
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = "an unnamed signal"
        return f"was killed by {name} (signal {number})"


_SIDE = {
    Stage.STARTING: (Verdict.CONFIG_INPUT, "before the case began"),
    Stage.INPUTS: (Verdict.CONFIG_INPUT, "while the inputs were made"),
    Stage.REFERENCE: (Verdict.TORCH_ERROR, "in the Torch reference"),
    Stage.PADDLE: (Verdict.PADDLE_CRASH, "in Paddle"),
    Stage.COMPARISON: (Verdict.PADDLE_CRASH, "while the results were compared"),
    # What is stored is an input of the comparison, and no kernel runs while it travels.
    Stage.GOLDEN: (Verdict.CONFIG_INPUT, "while golden results were read or stored"),
}


def verdict_for_death(stage: Stage, death: Death, *, output: str = "", limited: bool = False) -> tuple[Verdict, str]:
    """The verdict on a death that we did not cause, and its text.

    It is charged to the side whose stage it was, unless somebody else killed the process, or (``limited``)
    it had less memory than its device can give and wrote to its stderr (``output``) that it got none.
    """
    verdict, place = _SIDE[stage]
    text = f"the case process {death} {place} (stage: {stage.value})"
    if death.from_outside:
        return Verdict.EXTERNAL_KILL, f"{text}; it was not this program that killed it, but the kernel's OOM killer may"
    if is_memory_shortage(output, death=True):
        if limited:
            return Verdict.DEFERRED, f"{text}, because memory beyond its lease was refused"
        return verdict, f"{text}; before, it wrote that it could not get memory"
    if death.exit_code == FATAL_EXIT_CODE:
        return _LOST_DEVICE[stage], f"{text}, which means a lost device; its own report did not arrive"
    return verdict, text


def lost_device_verdict(stage: Stage) -> Verdict:
    """The verdict when something fatal for the device happens in ``stage``."""
    return _LOST_DEVICE[stage]


def side_verdict(stage: Stage) -> Verdict:
    """The verdict when a process goes wrong in ``stage`` in a way of its own."""
    return _SIDE[stage][0]


def where(stage: Stage) -> str:
    """The stage in words, for the text of a timeout."""
    return f"{_SIDE[stage][1]} (stage: {stage.value})"
