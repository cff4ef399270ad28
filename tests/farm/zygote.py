"""Imports Paddle once and forks a child for each program that is asked for: a start takes milliseconds, not seconds.

One JSON object a line on stdin, one answer a line on what was stdout: ``start`` a function of :mod:`programs`, or
``wait`` for a child. A child's output goes to a file, and what it says, one JSON value a line, to another.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from typing import Any

sys.path.insert(0, os.path.dirname(__file__))

#: From linux/prctl.h.
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve until stdin ends; children that are left are killed by whoever started them."""
    import programs  # imports Paddle

    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever Paddle prints must not look like an answer
    print(json.dumps("ready"), file=answers)
    for line in sys.stdin:
        request = json.loads(line)
        answer = _start(programs, request) if "start" in request else _wait(request["wait"], request["seconds"])
        print(json.dumps(answer), file=answers)


def _start(programs: Any, request: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # it may sleep for minutes
        output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        with open(request["said"], "w", encoding="utf-8", buffering=1) as said:
            getattr(programs, request["start"])(lambda value: print(json.dumps(value), file=said), **request["with"])
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(pid: int, seconds: float) -> int | None:
    """The wait status of a child; None if it still runs after ``seconds``."""
    end = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        if time.monotonic() > end:
            return None
        time.sleep(0.002)


if __name__ == "__main__":
    main()
