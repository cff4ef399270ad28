"""The guess of host memory beside the peak of a process that really runs the case."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("paddle")
pytest.importorskip("torch")

PROGRAM = Path(__file__).parent / "measure_program.py"

#: Each needs some tens to some hundreds of MB, so that what a first call loads does not count.
CASES = [
    'paddle.exp(Tensor([4000000],"float32"))',
    'paddle.exp(Tensor([4000000],"float64"))',
    'paddle.add(Tensor([2000, 1],"float32"), Tensor([2000],"float32"))',
    'paddle.add(Tensor([2000, 2000],"int64"), Tensor([2000],"int64"))',
    'paddle.sum(Tensor([4000000],"float32"))',
    'paddle.nn.functional.softmax(Tensor([2000, 2000],"float32"))',
    'paddle.reshape(Tensor([4000000],"float32"), list[2000,2000])',
    'paddle.transpose(Tensor([2000, 2000],"int64"), list[1,0])',
    'paddle.concat(list[Tensor([2000, 1000],"float32"),Tensor([2000, 1000],"float32")])',
    'paddle.tile(Tensor([2000, 100],"float32"), list[1,20])',
    'paddle.expand(Tensor([1, 2000],"float32"), list[2000,2000])',
    'paddle.zeros(list[4000,4000], dtype="float32")',
    'paddle.matmul(Tensor([2000, 500],"float32"), Tensor([500, 2000],"float32"))',
    'paddle.mm(Tensor([2000, 2000],"float64"), Tensor([2000, 2000],"float64"))',
    'paddle.outer(Tensor([2000],"float32"), Tensor([2000],"float32"))',
    'paddle.kron(Tensor([50, 50],"float32"), Tensor([40, 40],"float32"))',
    'paddle.einsum("ij,kj->ik", Tensor([2000, 100],"float32"), Tensor([2000, 100],"float32"))',
    'paddle.cdist(Tensor([2000, 16],"float32"), Tensor([2000, 16],"float32"))',
    'paddle.pdist(Tensor([2000, 16],"float32"))',
    'paddle.nn.functional.conv2d(Tensor([4, 16, 128, 128],"float32"), Tensor([32, 16, 3, 3],"float32"), padding=1)',
    'paddle.nn.functional.conv2d_transpose(Tensor([4, 8, 96, 96],"float32"), Tensor([8, 9, 2, 2],"float32"), stride=2)',
    'paddle.nn.functional.interpolate(Tensor([4, 16, 128, 128],"float32"), scale_factor=2.0)',
    'paddle.nn.functional.one_hot(Tensor([4000],"int64"), 1000)',
    'paddle.nn.functional.pad(Tensor([4, 16, 64, 64],"float32"), list[96,96,96,96])',
]  # fmt: skip
#: How often the peak the guess may be. Too low costs a rerun, too high some parallelism.
LEAST, MOST = 0.5, 5.0


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("mode", ["accuracy", "accuracy-stable"])
def test_the_guess_is_within_a_factor_of_the_measured_peak(mode: str) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), mode],
        input="\n".join(CASES),
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [entry["config"] for entry in found] == CASES
    compared = [entry for entry in found if entry.get("verdict") in ("pass", "paddle_accuracy")]
    assert len(compared) > 0.7 * len(CASES), [entry for entry in found if entry not in compared]
    off = [
        f"{entry['estimate'] / entry['peak']:.2f} {entry['config']}"
        for entry in compared
        if not LEAST < entry["estimate"] / entry["peak"] < MOST
    ]
    assert not off
