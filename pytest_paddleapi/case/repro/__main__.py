"""``python -m pytest_paddleapi.case.repro``: the child of the command ``repro``; it alone imports the frameworks.

Reads a request as JSON from stdin and writes the script, and the file beside it, into the paths that it names.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np

from ...config import ConfigSyntaxError
from ...process.messages import CaseOptions
from .script import ScriptError, write_script


class Request(msgspec.Struct, frozen=True):
    """What is to be written, and where to."""

    config: str
    options: CaseOptions
    output: str


def main() -> int:
    """0: written; 1: it cannot be, and stderr ends with why."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    path = Path(request.output)
    archive = path.with_suffix(".npz")
    archive.unlink(missing_ok=True)
    try:
        script = write_script(request.config, request.options, archive.name)
    except (ConfigSyntaxError, ScriptError) as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 1
    try:
        if script.arrays:
            with _private(archive) as file:
                np.savez_compressed(file, **script.arrays)
        with _private(path) as file:
            file.write(script.text.encode("utf-8", "surrogatepass"))
    except OSError as exc:
        print(f"error: {path}: {exc.strerror}", file=sys.stderr)
        return 1
    return 0


def _private(path: Path) -> BinaryIO:
    """A new file of this user's alone; it takes the place of one of that name, and follows no symlink."""
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb")


if __name__ == "__main__":
    sys.exit(main())
