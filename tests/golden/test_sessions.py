"""Sessions whose store is behind a network: S3 on the loopback interface, and Baidu's program."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CASE = 'paddle.exp(Tensor([4],"float32"))'
Session = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Run ``pytest --custom-device-vs-gpu`` over one config; stdout and stderr are one text."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def run(direction: str, url: str, *more: str) -> subprocess.CompletedProcess[str]:
        options = ["--custom-device-vs-gpu", "--paddleapi-device=cpu", f"--paddleapi-config={CASE}"]
        options += [f"--paddleapi-golden={url}", f"--paddleapi-golden-mode={direction}", *more]
        plugins = ["-p", "no:rerunfailures", "-p", "no:hypothesispytest", "-n0"]
        return subprocess.run(
            [sys.executable, "-m", "pytest", *plugins, *options, f"--paddleapi-ledger={tmp_path / 'ledger'}"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
        )

    return run


def test_s3(session: Session, s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = session("upload", s3)
    assert first.returncode == 0 and "1  golden results stored" in first.stdout, first.stdout
    second = session("download", s3)
    assert second.returncode == 0 and "1  compared with golden results" in second.stdout, second.stdout
    assert "a-secret-of-the-test" not in first.stdout + second.stdout
    # A store that cannot be used is an error before anything runs.
    nothing = session("upload", "s3://no-such-bucket-here/x")
    assert nothing.returncode == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: --paddleapi-golden: s3://no-such-bucket-here/x/v1/store.json cannot be written" in nothing.stdout
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    unreachable = session("download", s3)
    assert unreachable.returncode == pytest.ExitCode.USAGE_ERROR
    assert "(tried 3 times)" in unreachable.stdout


def test_bcecmd(session: Session, bos: Path) -> None:
    first = session("upload", "bos_config.yaml")
    assert first.returncode == 0 and "1  golden results stored" in first.stdout, first.stdout
    assert len(list((bos.parent / "service/bucket/results/v1").rglob("*.golden"))) == 1
    (bos.parent / "service" / "broken").touch()
    refused = session("download", "bos_config.yaml")
    assert refused.returncode == pytest.ExitCode.USAGE_ERROR
    assert "bcecmd exited with code 3: Error: the credentials are wrong (tried 3 times)" in refused.stdout
