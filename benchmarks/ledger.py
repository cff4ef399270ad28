"""How many ledger transactions a second, with one session and with several at once.

    python benchmarks/ledger.py [--seconds 3] [--processes 8] [--folder DIR]

Each process is a session with its own lock and lease file. It goes through the life of leases on the host's memory
(reserve, confirm, finish, replace, settle, release), so half of the transactions read the memory and most write the
lease file. The ratio is that of transactions per second to the first line's.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path

from _shared import table
from filelock import FileLock

from pytest_paddleapi.devices.host import HostDevice
from pytest_paddleapi.gpu_admission import MIB, AdmissionRules, Granted, Group, Ledger, Slot

#: So small that everything fits, whatever the machine: what is measured is the ledger.
RULES = AdmissionRules(reserve_bytes=0, reserve_fraction=0.0, minimum_bytes=1)


@dataclass(frozen=True)
class Result:
    """Of one process: how many transactions, and the time of each in seconds."""

    seconds: float
    times: list[float]


def life(ledger: Ledger, slot: Slot, times: list[float]) -> None:
    """Six transactions on one slot, timed one by one."""
    clock = time.perf_counter

    def timed(start: float) -> float:
        now = clock()
        times.append(now - start)
        return now

    now = clock()
    first = ledger.reserve(slot, "paddle.abs(Tensor([2],float32))", MIB)
    now = timed(now)
    assert isinstance(first, Granted), first
    assert ledger.confirm(first.lease)
    now = timed(now)
    ledger.finish(first.lease)
    now = timed(now)
    assert isinstance(ledger.replace(slot, "paddle.add(...)", MIB), Granted)
    now = timed(now)
    ledger.settle(now)
    now = timed(now)
    assert ledger.release(slot.name)
    timed(now)


def session(folder: Path, slots: int, seconds: float, barrier: Barrier, results: multiprocessing.Queue[Result]) -> None:
    """One process: hold ``slots`` - 1 leases and turn the last slot over until the time is up."""
    device = HostDevice()
    group = Group("host", (device.uuid,))
    with Ledger([device], folder=folder, rules=RULES) as ledger:
        for number in range(slots - 1):
            assert isinstance(ledger.reserve(Slot(f"s{number}", group), "held", 1), Granted)
        busy = Slot("busy", group)
        times: list[float] = []
        life(ledger, busy, [])
        barrier.wait()
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            life(ledger, busy, times)
        spent = time.perf_counter() - start
        barrier.wait()
    results.put(Result(spent, times))


def measure(folder: Path, processes: int, slots: int, seconds: float) -> list[Result]:
    """Run ``processes`` sessions at once."""
    context = multiprocessing.get_context("fork")
    barrier, queue = context.Barrier(processes), context.Queue()
    running = [context.Process(target=session, args=(folder, slots, seconds, barrier, queue)) for _ in range(processes)]
    for process in running:
        process.start()
    results = [queue.get(timeout=seconds + 60) for _ in running]
    for process in running:
        process.join()
    return results


def filelock_alone(folder: Path, seconds: float) -> Result:
    """For comparison: taking and releasing one ``filelock.FileLock``, with nothing done under it."""
    lock = FileLock(folder / "compare.lock")
    times = []
    start = time.perf_counter()
    while (now := time.perf_counter()) - start < seconds:
        with lock:
            pass
        times.append(time.perf_counter() - now)
    return Result(time.perf_counter() - start, times)


def line(name: str, results: list[Result], first: float | None) -> tuple[float, list[str]]:
    """The transactions per second, and the line of the table."""
    times = sorted(value for result in results for value in result.times)
    rate = sum(len(result.times) / result.seconds for result in results)
    median, p99 = statistics.median(times) * 1e6, times[int(len(times) * 0.99)] * 1e6
    return rate, [name, f"{rate:,.0f}", f"{median:,.0f}", f"{p99:,.0f}", f"{rate / (first or rate):.2f}"]


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="for each line")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--folder", type=Path, help="where to make the ledger (default: where it would be)")
    options = parser.parse_args()
    parent = options.folder or (Path("/dev/shm") if Path("/dev/shm").is_dir() else None)
    folder = Path(tempfile.mkdtemp(prefix="paddleapi-bench-", dir=parent))
    many = options.processes
    try:
        first, row = line("1 process, 1 slot", measure(folder, 1, 1, options.seconds), None)
        rows = [row]
        for processes, slots in ((1, 64), (1, 400), (many, 1), (many, 64)):
            results = measure(folder, processes, slots, options.seconds)
            rows.append(line(f"{processes} processes, {slots} slots each", results, first)[1])
        rows.append(line("filelock, nothing under it", [filelock_alone(folder, options.seconds)], first)[1])
    finally:
        shutil.rmtree(folder)
    table([f"ledger in {folder.parent}", "transactions/s", "median µs", "p99 µs", "ratio"], rows)


if __name__ == "__main__":
    main()
