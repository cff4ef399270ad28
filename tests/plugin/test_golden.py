"""``--custom-device-vs-gpu`` as a user types it: two sessions, one store, and what is wrong before anything runs."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # here, because a run in this process forgets what it imports

from .conftest import PASS, PASS_2, UNSUPPORTED, Session

pytestmark = pytest.mark.any_version

Run = Callable[..., Session]
Configs = Callable[..., Path]

UPLOAD = ("--custom-device-vs-gpu", "--paddleapi-device=cpu", "--paddleapi-golden-mode=upload")
DOWNLOAD = ("--custom-device-vs-gpu", "--paddleapi-device=cpu", "--paddleapi-golden-mode=download")
INT = 'paddle.add(Tensor([2],"int64"), Tensor([2],"int64"))'


def stored(store: Path) -> list[Path]:
    return sorted(store.rglob("*.golden"))


def test_upload_and_download(run: Run, configs: Configs, pytester: pytest.Pytester) -> None:
    configs("a.txt", PASS, PASS_2, UNSUPPORTED)
    first = run("--paddleapi-configs=a.txt", *UPLOAD, "--paddleapi-golden=store", "-n2")
    first.result.assert_outcomes(passed=2, skipped=1)
    first.result.stdout.fnmatch_lines(["paddleapi: golden results go to */store", "*2  golden results stored, *MB"])
    (manifest,) = (pytester.path / "store/v1/manifests").iterdir()
    found = json.loads(manifest.read_text())
    assert found["counts"] == {"uploaded": 2, "without one": 1}
    assert found["device_kind"] == "cpu" and found["versions"]["paddle"] != "unknown" and found["bytes"] > 0
    # One of the two is damaged on its way.
    damaged = next(path for path in stored(pytester.path / "store") if b"paddle.exp" in path.read_bytes())
    damaged.write_bytes(damaged.read_bytes()[:-10])
    configs("a.txt", PASS, PASS_2, UNSUPPORTED, INT)
    second = run("--paddleapi-configs=a.txt", *DOWNLOAD, "--paddleapi-golden=store", "-n0", "-rs")
    second.result.assert_outcomes(passed=1, skipped=2, errors=1)
    second.result.stdout.fnmatch_lines(
        [
            "config_input: the golden result cannot be used: v1/*cut off or damaged*--paddleapi-golden-overwrite",
            "reproduce: pytest --custom-device-vs-gpu --paddleapi-golden=*/store --paddleapi-golden-mode=download *",
            "*1  compared with golden results",
            "*2  without a golden result",
        ]
    )
    verdicts = {PASS: "pass", PASS_2: "config_input", UNSUPPORTED: "not_comparable", INT: "not_comparable"}
    assert second.verdicts() == verdicts
    assert "no golden result is stored" in second.out
    by_config = {found["config"]: found for found in second.properties()}
    assert (by_config[PASS]["compared_outputs"], by_config[PASS]["compared_gradients"]) == ("1", "1")
    assert (by_config[PASS]["golden"], by_config[PASS]["mode"]) == ("compared", "custom-device-vs-gpu")


@pytest.mark.any_version
def test_an_upload_that_was_killed_goes_on(run: Run, configs: Configs, pytester: pytest.Pytester) -> None:
    many = [f'paddle.abs(Tensor([{size}],"float32"))' for size in range(1, 200)]
    configs("a.txt", *many)
    store = pytester.path / "store"
    command = [sys.executable, "-m", "pytest", "-n0", "-p", "no:rerunfailures", "--paddleapi-configs=a.txt", *UPLOAD]
    command += ["--paddleapi-golden=store", f"--paddleapi-ledger={pytester.path / 'ledger'}"]
    with subprocess.Popen(command, cwd=pytester.path, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        end = time.monotonic() + 120
        while len(stored(store)) < 5 and time.monotonic() < end and process.poll() is None:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
    before = len(stored(store))
    assert 5 <= before < len(many)
    session = run("--paddleapi-configs=a.txt", *UPLOAD, "--paddleapi-golden=store", "-n0")
    session.result.assert_outcomes(passed=len(many))
    counts = {found["golden"] for found in session.properties()}
    assert counts == {"kept", "uploaded"}
    assert sum(found["golden"] == "kept" for found in session.properties()) >= before
    assert len(stored(store)) == len(many)


@pytest.mark.any_version
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--custom-device-vs-gpu",), "needs --paddleapi-golden=URL and --paddleapi-golden-mode=upload"),
        (("--custom-device-vs-gpu", "--paddleapi-golden=x"), "needs --paddleapi-golden=URL and"),
        (("--accuracy", "--paddleapi-golden=x"), "--paddleapi-golden: only --custom-device-vs-gpu takes it"),
        ((*DOWNLOAD, "--paddleapi-golden=x", "--paddleapi-golden-overwrite"), "a download stores nothing"),
        ((*DOWNLOAD, "--paddleapi-golden=memory://x"), "nothing is left of memory://"),
        ((*DOWNLOAD, "--paddleapi-golden=a.txt"), "is a file"),
        ((*DOWNLOAD, "--paddleapi-golden=none.yaml"), "cannot be read"),
        ((*DOWNLOAD, "--paddleapi-golden=empty.yaml"), "bos_path is missing"),
        ((*DOWNLOAD, "--paddleapi-golden=no_conf.yaml"), "no_conf_here does not exist"),
        ((*DOWNLOAD, "--paddleapi-golden=no_program.yaml"), "no_program_here is no program that can be run"),
        ((*DOWNLOAD, "--paddleapi-golden=empty"), "holds no golden results"),
        ((*UPLOAD, "--paddleapi-golden=a.txt/below"), "cannot be"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(
    pytester: pytest.Pytester, configs: Configs, arguments: tuple[str, ...], says: str
) -> None:
    configs("a.txt", PASS)
    (pytester.path / "empty").mkdir()
    (pytester.path / "empty.yaml").write_text("{}")
    for name, conf, program in (("no_conf", "no_conf_here", "/bin/true"), ("no_program", "empty", "./no_program_here")):
        fields = {"bos_path": "bos://b/x", "bos_conf_path": conf, "bcecmd_path": program}
        (pytester.path / f"{name}.yaml").write_text(yaml.safe_dump(fields))
    result = pytester.runpytest_inprocess("--paddleapi-configs=a.txt", *arguments, "-p", "no:rerunfailures")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert says in "".join(result.errlines), result.errlines


@pytest.mark.any_version
def test_packages_that_are_missing_are_named(
    pytester: pytest.Pytester, configs: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs("a.txt", PASS)
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in ("fsspec", "s3fs") else real(name))
    arguments = (*DOWNLOAD, "--paddleapi-golden=s3://me:hunter2hunter2@bucket/x", "-p", "no:rerunfailures")
    result = pytester.runpytest_inprocess("--paddleapi-configs=a.txt", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = "".join(result.errlines)
    assert "s3://***@bucket/x needs fsspec and s3fs: pip install 'pytest-paddleapi[golden]'" in text
    assert "hunter2" not in text
