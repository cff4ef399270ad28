"""What the benchmarks share: configs, sessions of pytest, tables."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

#: Twenty APIs of different families, all quick, with a gradient where there is one.
TEMPLATES = (
    'paddle.abs(Tensor([{a}, {b}],"float32"))',
    'paddle.exp(Tensor([{a}, {b}],"float32"))',
    'paddle.add(Tensor([{a}, {b}],"float32"), Tensor([{b}],"float32"))',
    'paddle.multiply(Tensor([{a}, {b}],"float32"), Tensor([{a}, {b}],"float32"))',
    'paddle.Tensor.__sub__(Tensor([{a}, {b}],"float32"), 1.5)',
    'paddle.sum(Tensor([{a}, {b}],"float32"), axis=1)',
    'paddle.mean(Tensor([{a}, {b}],"float32"), axis=0, keepdim=True)',
    'paddle.max(Tensor([{a}, {b}],"float32"), axis=1)',
    'paddle.matmul(Tensor([{a}, {b}],"float32"), Tensor([{b}, {a}],"float32"))',
    'paddle.reshape(Tensor([{a}, {b}],"float32"), list[{b}, {a}])',
    'paddle.transpose(Tensor([{a}, {b}],"float32"), perm=list[1, 0])',
    'paddle.concat(list[Tensor([{a}, {b}],"float32"), Tensor([{a}, {b}],"float32")], axis=1)',
    'paddle.stack(list[Tensor([{a}, {b}],"float32"), Tensor([{a}, {b}],"float32")], axis=0)',
    'paddle.squeeze(Tensor([{a}, 1, {b}],"float32"), axis=1)',
    'paddle.cast(Tensor([{a}, {b}],"float32"), "float64")',
    'paddle.clip(Tensor([{a}, {b}],"float32"), min=-0.5, max=0.5)',
    'paddle.tanh(Tensor([{a}, {b}],"float32"))',
    'paddle.nn.functional.relu(Tensor([{a}, {b}],"float32"))',
    'paddle.nn.functional.softmax(Tensor([{a}, {b}],"float32"), axis=-1)',
    'paddle.nn.functional.linear(Tensor([{a}, {b}],"float32"), Tensor([{b}, {a}],"float32"))',
)


def small_configs(count: int) -> list[str]:
    """``count`` different small calls, the APIs of :data:`TEMPLATES` in turn."""
    found = []
    size = 0
    while len(found) < count:
        a, b = 2 + size % 12, 2 + size // 12
        found += [template.format(a=a, b=b) for template in TEMPLATES]
        size += 1
    return found[:count]


@dataclass(frozen=True)
class Run:
    """One session of pytest: seconds from its start to the first verdict, and to the last."""

    code: int
    cases: int
    first: float
    last: float
    total: float
    output: str

    @property
    def per_case(self) -> float:
        """Seconds from the first to the last verdict, by case."""
        return (self.last - self.first) / max(self.cases - 1, 1)


_CLOCK = """
import os, time
def pytest_runtest_logreport(report):
    if "PYTEST_XDIST_WORKER" not in os.environ:
        with open(os.environ["BENCH_CLOCK"], "a") as file:
            print(time.time(), file=file)
"""


def run_pytest(lines: Iterable[str], *options: str, ledger: str | None = None) -> Run:
    """Run a file of these configs with ``--accuracy`` and the options given."""
    with tempfile.TemporaryDirectory() as folder:
        config, clock = Path(folder, "bench.txt"), Path(folder, "clock")
        config.write_text("\n".join(lines) + "\n")
        Path(folder, "bench_clock.py").write_text(_CLOCK)
        clock.touch()
        environment = {**os.environ, "BENCH_CLOCK": str(clock), "PYTHONPATH": folder}
        started = time.time()
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-p",
                "bench_clock",
                "-p",
                "no:cacheprovider",
                "-q",
                "--accuracy",
                f"--paddleapi-configs={config}",
                f"--paddleapi-ledger={ledger or Path(folder, 'ledger')}",
                *options,
            ],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        total = time.time() - started
        times = [float(line) - started for line in clock.read_text().split()]
    if not times:
        raise SystemExit(f"no verdict came:\n{done.stdout}\n{done.stderr}")
    return Run(done.returncode, len(times), times[0], times[-1], total, done.stdout)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print aligned columns."""
    cells = [list(map(str, header)), *[list(map(str, row)) for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for number, row in enumerate(cells):
        print(
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))
            )
        )
        if number == 0:
            print("  ".join("-" * width for width in widths))


#: The plugin's own programs, each a module of its package or the path of one.
_PROGRAM = re.compile(r"pytest_paddleapi[./]process[./](\w+)")


def kind_of(process: psutil.Process, controller: int) -> str:
    """What a process of a session is, whose controller has this process id.

    One of ``controller``, ``worker``, ``zygote``, ``keeper``, ``spare``, ``case``, ``estimator``, ``sweeper``,
    ``other``, and ``gone`` for one that has ended meanwhile.
    """
    if process.pid == controller:
        return "controller"
    try:
        program, parent = _program(process), process.parent()
        launcher = "" if parent is None else _program(parent)
        if program == "spare" or (program and program == launcher):
            # As long as a spare waits, its output is its keeper's.
            waits = launcher == "keeper" and os.path.samefile(_output(process.pid), _output(process.ppid()))
            return "spare" if waits else "case"
        if program:
            return program.removesuffix("_child")
        return "worker" if parent is not None and parent.pid == controller else "other"
    except (psutil.NoSuchProcess, FileNotFoundError, PermissionError):
        return "gone"


def _program(process: psutil.Process) -> str:
    match = _PROGRAM.search(" ".join(process.cmdline()))
    return match[1] if match else ""


def _output(pid: int) -> str:
    return f"/proc/{pid}/fd/1"
