"""What is kept of an attempt and of a session, as plain data."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .verdicts import Verdict

__all__ = ["MEASURED", "NOT_FINAL", "Attempt", "Environment", "bounded", "clean", "storable"]

#: These send a case back to the queue; every other verdict ends it.
NOT_FINAL = frozenset({Verdict.DEFERRED, Verdict.EXTERNAL_KILL})

#: Properties of an attempt that have a column of their own.
MEASURED = (
    "seconds",
    "estimated_bytes",
    "peak_bytes",
    "compared_outputs",
    "compared_gradients",
    "compared_elements",
    "max_abs_diff",
    "max_rel_diff",
    "tolerance",
)

#: Characters that are kept of a failure's text, and of each captured stream: what matters stands at the beginning and
#: at the end, and a million cases that print much must not fill a disk.
MOST_CHARACTERS = 64_000


@dataclass(frozen=True)
class Environment:
    """The conditions of a session. ``options`` are those that decide verdicts, as plain data; ``devices`` the models.

    ``paddle`` and ``torch`` are versions with the commit, where the installation tells it; ``command`` is what, with a
    config behind it, runs a case again in the same way.
    """

    mode: str
    device_kind: str
    devices: tuple[str, ...]
    host: str
    paddle: str
    torch: str
    plugin: str
    pytest: str
    python: str
    options: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""

    @property
    def options_text(self) -> str:
        """One spelling of the options that decide verdicts."""
        return json.dumps(self.options, sort_keys=True, separators=(",", ":"))

    @property
    def options_hash(self) -> str:
        """SHA-256 of :attr:`options_text`, in hex."""
        return hashlib.sha256(self.options_text.encode()).hexdigest()

    @property
    def conditions(self) -> str:
        """Equal in two sessions whose verdicts stand for each other."""
        parts = (self.mode, self.device_kind, self.paddle, self.torch, self.options_text)
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True)
class Attempt:
    """One attempt at a case.

    ``canonical`` is the case's key, ``config`` its text as written, printable; ``number`` the property ``attempts``;
    ``ended`` in seconds since 1970; ``measured`` has the properties of :data:`MEASURED` that apply, ``extra`` all
    others; ``failure``, ``stdout`` and ``stderr`` are cut where they are long. ``started`` has the same unit, ``slot``
    the name of the worker, ``lease_bytes`` what the ledger promised the attempt; None of one that never ran.
    """

    canonical: str
    config: str
    api: str
    verdict: Verdict
    outcome: str
    number: int
    ended: float
    file: str
    line: int
    device: str | None = None
    measured: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    failure: str = ""
    stdout: str = ""
    stderr: str = ""
    started: float | None = None
    slot: str | None = None
    lease_bytes: int | None = None


def clean(text: str) -> str:
    """With an escape for what UTF-8 cannot hold: lone surrogates, from bytes that were no UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def bounded(text: str) -> str | None:
    """At most :data:`MOST_CHARACTERS`, from both ends; None for an empty text."""
    if not text:
        return None
    left_out = len(text) - MOST_CHARACTERS
    if left_out > 0:
        half = MOST_CHARACTERS // 2
        text = f"{text[:half]}\n... {left_out} characters left out ...\n{text[-half:]}"
    return clean(text)


def storable(value: Any) -> Any:
    """As SQLite and JSON can hold it: ``nan`` and infinities become text; so do integers of over 64 bits, of which
    a numeric column makes floats."""
    if value is None or isinstance(value, (bool, int, float)):
        fits = math.isfinite(value) if isinstance(value, float) else value is None or -(2**63) <= value < 2**63
        return value if fits else str(value)
    return clean(str(value))
