"""From the crash of a case process to the next verdict on its slot, for crashes of every kind.

The crashes are real calls of Paddle and Torch. "verdict" is the time from the dispatch of the case that crashes
to its verdict, "next" from there to the verdict of a small case in a new process (``paddle.abs`` with its
gradient); both are medians, and what the project promises is that their sum is under 0.3 s. "ratio" is "next"
by the same case in a process that lives on.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from _shared import table

from pytest_paddleapi.process.messages import CaseOptions, Verdict
from pytest_paddleapi.process.supervisor import Attempt, Supervisor

LIMIT = 0.3
NEXT = 'paddle.abs(Tensor([2, 3],"float32"))'
CRASHES = {
    "Paddle, SIGFPE (floor_divide)": "crash floor_divide",
    "Paddle, SIGSEGV (index_put)": "crash index_put",
    "Paddle, SIGABRT (roi_align)": "crash roi_align",
    "Torch, SIGFPE (pdist backward)": "crash pdist",
}


def run(slot: Supervisor, config: str) -> tuple[float, Attempt]:
    """Seconds that a case takes, and what became of it."""
    start = time.perf_counter()
    attempt = slot.run(config, timeout=60)
    return time.perf_counter() - start, attempt


def run_next(slot: Supervisor) -> float:
    """Seconds of the small case, which must pass."""
    seconds, attempt = run(slot, NEXT)
    if attempt.result.verdict is not Verdict.PASS:
        raise SystemExit(f"{NEXT}: {attempt.result.verdict}\n{attempt.result.text}")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    slot = Supervisor(
        CaseOptions(), runner="_crash_runner:CrashRunner", environment={"PYTHONPATH": str(Path(__file__).parent)}
    )
    rows = []
    medians = []
    try:
        start = time.perf_counter()
        slot.ensure_ready()
        print(f"import of the frameworks, once: {time.perf_counter() - start:.1f} s")
        run_next(slot)
        usual = statistics.median(run_next(slot) for _ in range(rounds))
        forks = []
        for _ in range(rounds):
            slot.restart()
            start = time.perf_counter()
            slot.ensure_ready()
            forks.append(time.perf_counter() - start)
        for name, config in CRASHES.items():
            verdicts, nexts, sums = [], [], []
            for _ in range(rounds):
                seconds, attempt = run(slot, config)
                if attempt.result.verdict not in (Verdict.PADDLE_CRASH, Verdict.TORCH_ERROR):
                    raise SystemExit(f"{config}: {attempt.result.verdict}\n{attempt.result.text}")
                verdicts.append(seconds)
                nexts.append(run_next(slot))
                sums.append(verdicts[-1] + nexts[-1])
            medians.append(statistics.median(sums))
            rows.append((name, *map(ms, (verdicts, nexts, sums)), f"{1000 * max(sums):.0f} ms", ratio(nexts, usual)))
    finally:
        slot.close()
    print(f"fork to ready: {ms(forks)}; {NEXT} in a process that lives on: {1000 * usual:.1f} ms\n")
    table(("crash", "verdict", "next", "both", "worst", "ratio"), rows)
    raise SystemExit(1 if max(medians) > LIMIT else 0)


def ms(times: list[float]) -> str:
    """Their median, in milliseconds."""
    return f"{1000 * statistics.median(times):.0f} ms"


def ratio(times: list[float], usual: float) -> str:
    """Their median by the usual time."""
    return f"{statistics.median(times) / usual:.1f}"


if __name__ == "__main__":
    main()
