"""How many workers a session has, and what each may use."""

from __future__ import annotations

import os

import pytest

__all__ = ["cores", "threads_per_worker", "worker_count"]


def threads_per_worker(config: pytest.Config) -> int:
    """CPU threads of a case process: the cores divided by the workers."""
    return max(1, cores() // max(1, worker_count(config)))


def worker_count(config: pytest.Config) -> int:
    """How many workers run in this session, 1 without xdist; in a worker, how many of them on its host."""
    workerinput = getattr(config, "workerinput", None)
    if workerinput:
        return int(workerinput.get("paddleapi_neighbours") or workerinput["workercount"])
    specs = [str(spec) for spec in getattr(config.option, "tx", None) or []]
    # xdist's own spelling of many equal workers: 4*popen
    counts = [spec.partition("*")[0] if "*" in spec else "1" for spec in specs]
    return max(1, sum(int(count) for count in counts if count.isdigit()))


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))
