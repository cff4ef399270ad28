"""A session in a process of its own: takes the folder, writes attempts, then waits for a line or a kill.

Arguments: the folder, how many attempts (-1: without end), and the bytes by which the file may still grow before each
write fails (0: no limit).
"""

from __future__ import annotations

import itertools
import resource
import signal
import sys
from pathlib import Path

from pytest_paddleapi.results.folder import ResultsFolder
from pytest_paddleapi.results.rows import Attempt, Environment
from pytest_paddleapi.results.store import ResultsStore
from pytest_paddleapi.results.verdicts import Verdict

ENVIRONMENT = Environment("accuracy", "cpu", ("x86",), "host", "3.3.1", "2.9", "0.1", "9.2", "3.11", {"seed": 0})


def attempt(number: int) -> Attempt:
    config = f'paddle.abs(Tensor([{number}],"float32"))'
    return Attempt(config, config, "paddle.abs", Verdict.PASS, "passed", 1, 1.0, "a.txt", number)


def main(folder: str, count: int, growth: int) -> None:
    store = ResultsStore(ResultsFolder(Path(folder)))
    store.begin(ENVIRONMENT)
    if growth:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # write() fails with EFBIG then
        size = max(file.stat().st_size for file in Path(folder).iterdir())
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + growth, resource.RLIM_INFINITY))
    for number in itertools.count() if count < 0 else range(count):
        store.record(attempt(number))
        if count < 0 and not store.missing:
            print(number, flush=True)  # what a user would have seen
    print(f"ready {store.written} {store.missing} {store.trouble}", flush=True)
    sys.stdin.readline()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.finish(0)
    print(f"finished {store.written} {store.missing} {store.trouble}", flush=True)
    store.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
