"""``python -m pytest_paddleapi shrink``, on real failures: a difference, a crash, a timeout."""

from __future__ import annotations

import pytest

from pytest_paddleapi.commands import main
from pytest_paddleapi.config import canonical_text

EIGH = 'paddle.linalg.eigh(Tensor([4, 5, 5],"float32"), UPLO="L")'
DIES = 'paddle.linalg.qr(Tensor([0, 5, 3, 5],"complex128"), mode="complete")'
#: Half a minute of work in the reference, over small inputs.
SLOW = 'paddle.cdist(Tensor([3000, 300],"float32"), Tensor([3000, 300],"float32"), 3.5)'


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


@pytest.mark.slow
def test_what_takes_too_long_is_told_by_its_stage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shrink", SLOW, "--timeout=3", "--max-runs=2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("fails: torch_error, reference, over the time limit")
    # The two runs are of small matrices, which take no time: they do not fail alike.
    assert lines[1:] == ["1800000 elements became 1800000 in 2 runs; stopped at a limit", SLOW]


def test_what_passes_is_not_shrunk(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shrink", 'paddle.abs(Tensor([2],"float32"))']) == 1
    assert "the verdict is pass" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [["paddle.abs("], ['paddle.abs(Tensor([2],"float32"))', "--max-runs=0"]])
def test_wrong_usage(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shrink", *wrong]) == 2
    assert capsys.readouterr().err.startswith("error: ")
