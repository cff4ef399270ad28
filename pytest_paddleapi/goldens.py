"""Golden results as a session sees them: the store is looked at first, and an upload leaves a manifest there."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import pytest

from . import __version__
from .golden.child import Request
from .golden.names import deciding_options, manifest_name
from .golden.record import FORMAT
from .golden.redact import scrub
from .options.model import RunOptions

__all__ = ["Goldens"]

#: Seconds. Loading a client takes 2 s of a core; three tries at a host that does not answer take 75 s.
_LIMIT = 120.0
_WORDS = {
    "uploaded": "golden results stored",
    "kept": "golden results were there already",
    "compared": "compared with golden results",
    "missing": "without a golden result",
}


class Goldens:
    """The store of one session, in the controller or the only process; does nothing in any other mode."""

    def __init__(self, options: RunOptions) -> None:
        self._options = options
        self._golden = options.case.golden
        self._counts: Counter[str] = Counter()
        self._bytes = 0
        self._manifest: dict[str, Any] = {}
        self._name = ""
        self._trouble = ""

    def start(self, kind: str, devices: Iterable[str], versions: Mapping[str, str]) -> None:
        """Look at the store, and begin the manifest of an upload; before anything runs.

        Raises:
            pytest.UsageError: it cannot be reached or used.
        """
        if self._golden is None:
            return
        if self._golden.upload:
            began = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
            self._name = manifest_name(began, secrets.token_hex(4))
            self._manifest = {
                "format": FORMAT,
                "began": began,
                "plugin": __version__,
                "versions": dict(versions),
                "device_kind": kind,
                "devices": dict(Counter(devices)),
                "seed": self._options.case.seed,
                "options": deciding_options(self._options.case),
            }
        if text := self._ask():
            raise pytest.UsageError(f"--paddleapi-golden: {text}")

    def header(self) -> list[str]:
        """What the header says."""
        if self._golden is None:
            return []
        return [f"golden results {'go to' if self._golden.upload else 'come from'} {self._golden.shown}"]

    def count(self, report: pytest.TestReport) -> None:
        """Count what a final report says."""
        if self._golden is not None:
            found: dict[str, Any] = dict(report.user_properties)
            self._counts[str(found.get("golden", "without one"))] += 1
            self._bytes += int(found.get("golden_bytes", 0))

    def finish(self) -> None:
        """Complete the manifest."""
        if self._manifest:
            ended = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
            self._manifest |= {"ended": ended, "counts": dict(self._counts), "bytes": self._bytes}
            self._trouble = self._ask()

    def lines(self) -> Iterator[str]:
        """What the summary says."""
        for name, words in _WORDS.items():
            if self._counts[name]:
                size = f", {self._bytes / 1e6:.1f} MB" if name == "uploaded" else ""
                yield f"{self._counts[name]:8}  {words}{size}"
        if self._trouble:
            yield f"WARNING: the manifest of this upload could not be completed: {self._trouble}"

    def _ask(self) -> str:
        """Let a child do it, which may load what it wants and hang; what is wrong, or nothing."""
        assert self._golden is not None
        manifest = msgspec.json.format(msgspec.json.encode(self._manifest)) if self._manifest else b""
        request = msgspec.msgpack.encode(Request(self._golden, self._name, manifest))
        safe_path = ["-P"] if sys.version_info >= (3, 11) else []
        command = [sys.executable, *safe_path, "-m", "pytest_paddleapi.golden.child"]
        # Text of its libraries in the user's terminal could hold secrets.
        environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
        try:
            done = subprocess.run(command, input=request, capture_output=True, timeout=_LIMIT, env=environment)
        except subprocess.TimeoutExpired:
            return f"{self._golden.shown} gave no answer within {_LIMIT:g} s"
        lines = done.stdout.splitlines()
        if done.returncode == 0 and lines:
            return msgspec.json.decode(lines[-1], type=str)
        said = done.stderr.decode(errors="replace")[-1000:].strip()
        return scrub(
            f"{self._golden.shown} cannot be looked at (exit code {done.returncode}): {said}", [self._golden.url]
        )
