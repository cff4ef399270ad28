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
    results = [queue.get() for _ in running]
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


def row(name: str, results: list[Result], first: float | None) -> float:
    """Print one line of the table; gives its transactions per second."""
    times = sorted(value for result in results for value in result.times)
    rate = sum(len(result.times) / result.seconds for result in results)
    median, p99 = statistics.median(times) * 1e6, times[int(len(times) * 0.99)] * 1e6
    print(
        f"| {name:<34} | {rate:>9,.0f} | {median:>9,.0f} | {p99:>9,.0f} | {rate / (first or rate):>5.2f} |", flush=True
    )
    return rate


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="for each line")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--folder", type=Path, help="where to make the ledger (default: where it would be)")
    options = parser.parse_args()
    parent = options.folder or (Path("/dev/shm") if Path("/dev/shm").is_dir() else None)
    folder = Path(tempfile.mkdtemp(prefix="paddleapi-bench-", dir=parent))
    try:
        print(f"| {'ledger in ' + str(folder.parent):<34} | trans./s  | median µs |    p99 µs | ratio |")
        print(f"| {'-' * 34} | {'-' * 9} | {'-' * 9} | {'-' * 9} | {'-' * 5} |")
        first = row("1 process, 1 slot", measure(folder, 1, 1, options.seconds), None)
        row("1 process, 64 slots", measure(folder, 1, 64, options.seconds), first)
        row("1 process, 400 slots", measure(folder, 1, 400, options.seconds), first)
        many = options.processes
        row(f"{many} processes, 1 slot each", measure(folder, many, 1, options.seconds), first)
        row(f"{many} processes, 64 slots each", measure(folder, many, 64, options.seconds), first)
        row("filelock: acquire and release only", [filelock_alone(folder, options.seconds)], first)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
