"""Runs cases one by one, each in a fork of its own, and prints how far the fork's memory rose; see test_sizes_measured.

Reads config lines; its argument is the mode (``accuracy`` without one). Prints one JSON object
a line: the verdict, the peak in bytes, and the estimate.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pytest_paddleapi.case.runner import CaseRunner
from pytest_paddleapi.config import parse_call
from pytest_paddleapi.config.sizes import estimate_host_bytes
from pytest_paddleapi.process.messages import CaseOptions, Mode, RunCase


def status_bytes(field: str) -> int:
    text = Path("/proc/self/status").read_text()
    line = next(line for line in text.splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024


def run_in_fork(runner: CaseRunner, line: str) -> dict[str, object]:
    runs = runner.options.mode.runs
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = status_bytes("VmRSS")
        result = runner.run(RunCase(1, line), lambda stage: None)
        found = {"verdict": result.verdict.value, "text": result.text[:300], "peak": status_bytes("VmHWM") - before}
        os.write(writer, json.dumps(found).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        content = answer.read()
    os.waitpid(child, 0)
    return {
        **json.loads(content or b"{}"),
        "estimate": estimate_host_bytes(parse_call(line), runs=runs),
        "config": line,
    }


def main() -> None:
    runner = CaseRunner(CaseOptions(mode=Mode(sys.argv[1] if sys.argv[1:] else "accuracy")))
    runner.warm_up()
    for line in sys.stdin:
        print(json.dumps(run_in_fork(runner, line.strip())), flush=True)


if __name__ == "__main__":
    main()
