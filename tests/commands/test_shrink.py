"""``python -m pytest_paddleapi shrink``, on real failures: a difference, a crash, a timeout."""

from __future__ import annotations

import pytest

from pytest_paddleapi.commands import main
from pytest_paddleapi.config import canonical_text

EIGH = 'paddle.linalg.eigh(Tensor([4, 5, 5],"float32"), UPLO="L")'
DIES = 'paddle.linalg.qr(Tensor([0, 5, 3, 5],"complex128"), mode="complete")'
#: Seconds of work in the reference.
SLOW = 'paddle.linalg.svd(Tensor([1500, 1500],"float64"), full_matrices=False)'


@pytest.mark.parametrize(
    ("config", "first", "last"),
    [
        (EIGH, "fails: paddle_accuracy, gradient of x, values", 'paddle.linalg.eigh(Tensor([2, 2, 2],"float32"))'),
        (DIES, "fails: paddle_crash, paddle, SIGSEGV", None),
    ],
)
def test_a_failure_becomes_small(config: str, first: str, last: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shrink", config]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == first
    assert last is None or lines[-1] == last
    assert lines[-1] == canonical_text(lines[-1])
    assert len(lines[-1]) < len(config)
    assert lines[-3].startswith("  run ")
    assert lines[-3].endswith(lines[-1])


def test_what_hangs_is_shrunk_by_its_stage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shrink", SLOW, "--timeout=1", "--max-runs=8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("fails: torch_error, reference, over the time limit")
    assert lines[-1] == 'paddle.linalg.svd(Tensor([1500, 1500],"float64"))'
    assert lines[-2].endswith("in 8 runs; stopped at a limit")


def test_what_passes_is_not_shrunk(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shrink", 'paddle.abs(Tensor([2],"float32"))']) == 1
    assert "the verdict is pass" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [["paddle.abs("], ['paddle.abs(Tensor([2],"float32"))', "--max-runs=0"]])
def test_wrong_usage(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shrink", *wrong]) == 2
    assert capsys.readouterr().err.startswith("error: ")
