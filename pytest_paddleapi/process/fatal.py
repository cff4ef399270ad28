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
#: NumPy and the C++ library write them.
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
)
_CUDA = (
    "cuda error",
    "illegal memory access",
    "memory corruption",
    "invalid configuration argument",
    "invalid resource handle",
)

_DTYPE_WORDS = r"(?:data ?types?|dtypes?|float16|bfloat16|float8\w*|int8|int16|complex\d+)"
_UNSUPPORTED = re.compile(
    r"kernel[^\n]{0,200} is not registered"
    r"|no kernel registered"
    r"|(?:unimplemented|not implemented|unsupported|not supported|not support|doesn't support|does not support)"
    rf"[^\n]{{0,120}}(?:{_DTYPE_WORDS}|\bcpu\b|\blayout\b)"
    rf"|{_DTYPE_WORDS}[^\n]{{0,160}}(?:is|are) (?:not supported|unsupported)"
    rf"|(?:\bcpu\b|{_DTYPE_WORDS})[^\n]{{0,80}}(?:not (?:supported|implemented)|unimplemented)"
    rf"|only supports?[^\n]{{0,60}}(?:{_DTYPE_WORDS}|\bgpu\b|\bcuda\b|\bxpu\b)"
    rf"|{_DTYPE_WORDS}[^\n]{{0,120}}(?:must be|should be|expected to be|expects?)[^\n]{{0,200}}"
    r"(?:but (?:got|now|received)|received)"
    r"|(?:only|not) (?:available|compiled|supported|built)[^\n]{0,40}(?:gpu|cuda|xpu)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Finding:
    """A verdict that the text of an error decides; ``fatal``: the process must not go on."""

    verdict: Verdict
    fatal: bool


def classify(text: str, stage: Stage) -> Finding | None:
    """Out of memory, or a lost device, by the text of an exception; None for anything else."""
    lowered = text.lower()
    if any(marker in lowered for marker in _OUT_OF_MEMORY):
        return Finding(Verdict.OOM, fatal=False)
    if any(marker in lowered for marker in _CUDA):
        verdict = Verdict.PADDLE_CUDA if stage in (Stage.PADDLE, Stage.COMPARISON) else Verdict.TORCH_ERROR
        return Finding(verdict, fatal=True)
    return None


def is_unsupported(text: str) -> bool:
    """True where Paddle says that it has no kernel for this dtype or layout on this device."""
    return _UNSUPPORTED.search(text) is not None


@dataclass(frozen=True)
class Death:
    """How a process ended, from its wait status."""

    status: int

    @property
    def signal(self) -> int | None:
        """The signal that killed it; None if it exited."""
        return os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else None

    @property
    def from_outside(self) -> bool:
        """Killed by a signal that no fault of its own code sends."""
        return self.signal in (signal.SIGKILL, signal.SIGTERM)

    def __str__(self) -> str:
        number = self.signal
        if number is None:
            return f"exited with code {os.waitstatus_to_exitcode(self.status)}"
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
}


def verdict_for_death(stage: Stage, death: Death) -> tuple[Verdict, str]:
    """Charge a death that we did not cause to the side whose stage it was."""
    verdict, where = _SIDE[stage]
    text = f"the case process {death} {where} (stage: {stage.value})"
    return (Verdict.EXTERNAL_KILL if death.from_outside else verdict), text


def where(stage: Stage) -> str:
    """The stage in words, for the text of a timeout."""
    return f"{_SIDE[stage][1]} (stage: {stage.value})"
