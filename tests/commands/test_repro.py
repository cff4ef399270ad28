"""``python -m pytest_paddleapi repro``."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_paddleapi.commands import main

CONFIG = 'paddle.linalg.eigh(Tensor([2, 5, 5],"float32"), )'


def test_a_script_is_written_and_runs_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "r.py").symlink_to(victim)
    assert main(["repro", CONFIG, "-o", "r.py"]) == 0
    assert "r.py" in capsys.readouterr().out
    assert victim.read_text() == "mine"
    assert stat.S_IMODE(os.lstat("r.py").st_mode) == 0o600
    done = subprocess.run([sys.executable, "-I", "r.py"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "gradient of x" in done.stdout
    assert done.stdout.endswith("verdict: paddle_accuracy\n")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["paddle.abs("], 2, "CONFIG: "),
        ([CONFIG, "--bitwise", "--atol=1"], 2, "leave out --atol"),
        ([CONFIG, "-o", "."], 2, "name a file"),
        (['paddle.no_such_function(Tensor([2],"float32"))', "-o", "no.py"], 1, "nothing to be compared with"),
    ],
)
def test_errors(
    arguments: list[str],
    code: int,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["repro", *arguments]) == code
    assert text in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
