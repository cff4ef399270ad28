"""The report's file: one page of markup, style, script and data, written at once or not at all."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any

from ..errors import PaddleApiError
from .packing import pack

__all__ = ["ReportError", "check_path", "render", "write_report"]

#: In this order: each may use what stands before it.
SCRIPTS = (
    "format.js",
    "data.js",
    "elements.js",
    "filters.js",
    "totals.js",
    "comparison.js",
    "map.js",
    "histogram.js",
    "largest.js",
    "timing.js",
    "timeline.js",
    "table.js",
    "details.js",
    "main.js",
)


class ReportError(PaddleApiError):
    """A report that cannot be written; ``path`` is where, ``why`` says what is wrong and what to do."""

    def __init__(self, path: object, why: str) -> None:
        super().__init__(path, why)
        self.path = str(path)
        self.why = why

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


def render(data: Mapping[str, Any]) -> str:
    """The page. Its policy lets a browser run this script and this style, and ask nobody for anything."""
    style = _part("style.css")
    # In a function of its own, so that no name of ours meets one of the browser's.
    script = '"use strict";\n(() => {\n' + "\n".join(_part(name) for name in SCRIPTS) + "})();\n"
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {"policy": policy, "style": style, "script": script, "data": pack(data)}
    page = _part("page.html")
    for name, part in parts.items():
        before, marker, after = page.partition(f"<!--{name}-->")
        assert marker, f"page.html has no place for {name}"
        page = f"{before}{part}{after}"
    return page


def check_path(path: Path) -> None:
    """Make sure, before a long run, that a report can be written; makes its folder where that is missing.

    Raises:
        ReportError: it cannot.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            kind = "a folder" if path.is_dir() else "no plain file"
            raise ReportError(path, f"it is {kind}; give the name of an HTML file")
    except FileNotFoundError:
        pass  # as it mostly is
    except OSError as exc:
        raise _cannot(path, exc) from None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.unlink(_beside(path, b""))
    except OSError as exc:
        raise _cannot(path, exc) from None


def write_report(path: Path, data: Mapping[str, Any]) -> int:
    """Write the page of :func:`..packing.page_data`; how many bytes it has. Only its user can read it.

    Raises:
        ReportError: it cannot be written; a file that was there stands as it was.
    """
    check_path(path)
    content = render(data).encode("utf-8")
    try:
        partial = _beside(path, content)
        try:
            os.replace(partial, path)
        except OSError:
            with suppress(OSError):
                os.unlink(partial)
            raise
    except OSError as exc:
        raise _cannot(path, exc) from None
    return len(content)


def _beside(path: Path, content: bytes) -> str:
    """A new private file in the same folder, under a name of its own."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".partial", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
    except OSError:
        os.unlink(name)
        raise
    return name


def _cannot(path: Path, exc: OSError) -> ReportError:
    return ReportError(path, f"{exc.strerror}; give a file in a folder that you may write to, on a disk with room")


def _part(name: str) -> str:
    return resources.files(__package__).joinpath("page", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
