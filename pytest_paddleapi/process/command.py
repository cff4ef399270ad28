"""The command line that starts one of this package's programs."""

from __future__ import annotations

import sys


def program(name: str, *arguments: int) -> list[str]:
    """Run the module ``pytest_paddleapi.process.NAME`` under this interpreter, with numbers as its arguments."""
    # Not the current folder first on the path: people work in checkouts that hold a folder ``paddle``.
    safe_path = ["-P"] if sys.version_info >= (3, 11) else []
    return [sys.executable, *safe_path, "-m", f"pytest_paddleapi.process.{name}", *map(str, arguments)]
