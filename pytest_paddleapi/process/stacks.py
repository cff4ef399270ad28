"""The stacks of a hung process: Python's by its own signal handler, C++'s by py-spy where that is installed.

Without py-spy, ``/proc`` at least says of each thread whether it computes, sleeps, or hangs in the kernel, and where.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from .output import OutputFile

#: The handler answers in milliseconds unless the process is stopped or in the kernel's hands.
HANDLER_SECONDS = 2.0
#: Reading the symbols of the frameworks takes py-spy 2.5 s.
PY_SPY_SECONDS = 10.0
_LOOK_SECONDS = 0.02
#: A framework may have hundreds, and all but a few say the same.
_MOST_THREADS = 32
_SERVER = str(Path("pytest_paddleapi", "process", "server.py"))


def collect_stacks(
    pid: int, file: OutputFile, ask: Callable[[], None], meanwhile: Callable[[], None] = lambda: None
) -> str:
    """All stacks that can be had, as text that says what it is; takes at most some 12 s.

    Args:
        pid: the hung process.
        file: what its signal handler writes into.
        ask: sends it the signal.
        meanwhile: called often; the process runs on, and may go on printing.
    """
    before = file.size()
    ask()
    deadline = time.monotonic() + HANDLER_SECONDS
    size = before
    while time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        meanwhile()
        if file.size() > before and file.size() == size:
            break
        size = file.size()
    python = case_stack(file.since(before))
    parts = [f"Python's stacks:\n{python}" if python else "(the process gave no Python stack)"]
    native = py_spy_dump(pid, meanwhile)
    if native:
        parts.append(f"py-spy's, with C++:\n{native}")
    elif kernel_view := thread_states(pid):
        parts.append(f"its threads, as the kernel sees them:\n{kernel_view}")
    return "\n".join(parts)


def py_spy_dump(pid: int, meanwhile: Callable[[], None] = lambda: None) -> str:
    """What ``py-spy dump`` prints; empty where it is not installed or may not look."""
    program = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if program is None:
        return ""
    deadline = time.monotonic() + PY_SPY_SECONDS
    try:
        process = subprocess.Popen(
            [program, "dump", "--native", "--pid", str(pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:  # optional: a py-spy for another machine is as good as none
        return ""
    with process:
        while True:
            try:
                output, _ = process.communicate(timeout=_LOOK_SECONDS)
                break
            except subprocess.TimeoutExpired:
                meanwhile()
                if time.monotonic() > deadline:
                    process.kill()
    return output.decode("utf-8", "replace").strip() if process.returncode == 0 else ""


def thread_states(pid: int) -> str:
    """A line for each thread: id, name, state (R runs, S sleeps, D is in the kernel's hands, ...), kernel function."""
    lines = []
    with contextlib.suppress(OSError):  # it, or the thread, has ended meanwhile
        for task in sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda path: int(path.name))[:_MOST_THREADS]:
            name, _, rest = (task / "stat").read_text(errors="replace").partition("(")[2].rpartition(")")
            lines.append(f"  {task.name} {name}: {rest.split()[0]} {_wait_channel(task)}".rstrip())
    return "\n".join(lines)


def _wait_channel(task: Path) -> str:
    """The function of the kernel that a thread sleeps in; empty where it does not, or we may not know."""
    try:
        function = (task / "wchan").read_text().strip()
    except OSError:
        return ""
    return "" if function == "0" else function


def case_stack(dump: str) -> str:
    """A dump of faulthandler without what says nothing about a case.

    That is the list of extension modules, and in each thread the frames below the one that runs cases.
    """
    kept = []
    below = False
    for line in dump.strip().splitlines():
        if not line.startswith("  File "):
            below = False
        below = below or f'{_SERVER}"' in line
        if not below and not line.startswith("Extension modules:"):
            kept.append(line)
    return "\n".join(kept).strip()
