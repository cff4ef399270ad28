"""The options on the command line, and whole sessions on the CPU under the stand-in."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from pytest_paddleapi.options.sanitizer import check_sanitizer_device, read_sanitizer, sanitizer_words
from pytest_paddleapi.process.sanitizer import Sanitizer

STAND_IN = Path(__file__).parent / "compute_sanitizer.py"
COMMAND = f"{sys.executable} -S {STAND_IN}"
CONFIGS = ['paddle.abs(Tensor([2],"float32"))', 'paddle.exp(Tensor([2],"float32"))']


def options(command: str | None = None, code: int | None = None, *, on: bool = True) -> Namespace:
    return Namespace(paddleapi_sanitizer=on, paddleapi_sanitizer_command=command, paddleapi_sanitizer_exitcode=code)


@pytest.fixture
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No compute-sanitizer anywhere but where the test puts it."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in ("CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pytest_paddleapi.options.sanitizer._USUAL_HOME", tmp_path / "none")


def program(folder: Path, mode: int = 0o755) -> Path:
    folder.mkdir(parents=True)
    file = folder / "compute-sanitizer"
    file.write_text("#!/bin/sh\n")
    file.chmod(mode)
    return file


@pytest.mark.usefixtures("_bare")
def test_a_sanitizer_that_is_not_there_is_a_usage_error() -> None:
    with pytest.raises(pytest.UsageError, match=r"neither on PATH .* install it with the CUDA toolkit, or with 'pip"):
        read_sanitizer(options())
    with pytest.raises(pytest.UsageError, match="nothing-here is no program that can be run"):
        read_sanitizer(options("nothing-here --tool racecheck"))


@pytest.mark.usefixtures("_bare")
def test_it_is_found_on_path_and_in_the_toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = program(tmp_path / "cuda" / "bin")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    assert read_sanitizer(options()) == Sanitizer((str(home),), 86)
    on_path = program(tmp_path / "bin")
    assert read_sanitizer(options(code=5)) == Sanitizer((str(on_path),), 5)
    assert read_sanitizer(options("compute-sanitizer --tool 'race check'")) == Sanitizer(
        (str(on_path), "--tool", "race check")
    )


@pytest.mark.usefixtures("_bare")
@pytest.mark.parametrize("runs", [True, False])
def test_it_is_found_in_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: bool) -> None:
    inner = "nvidia/cu13/compute-sanitizer"
    file = program(tmp_path / "site" / inner, 0o755 if runs else 0o644)
    information = tmp_path / "site" / "nvidia_cuda_sanitizer_api-13.5.25.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: nvidia-cuda-sanitizer-api\nVersion: 13.5.25\n")
    (information / "RECORD").write_text(f"nvidia/cu13/bin/compute-sanitizer,,\n{inner}/compute-sanitizer,,\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    if runs:
        assert read_sanitizer(options()) == Sanitizer((str(file),))
    elif os.access(file, os.X_OK):
        pytest.skip("this user may run what has no run bit")
    else:
        with pytest.raises(pytest.UsageError, match="may not be run: 'chmod \\+x"):
            read_sanitizer(options())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (options(COMMAND, on=False), "--paddleapi-sanitizer-command says how the sanitizer runs"),
        (options(code=3, on=False), "give --paddleapi-sanitizer too"),
        (options(COMMAND, 0), "out of range"),
        (options(COMMAND, 256), "out of range"),
        (options(""), "is empty"),
        (options("'"), "is no command: No closing quotation"),
        (options(f"{sys.executable} --log-file=x"), "leave out --log-file"),
    ],
)
def test_wrong_options_say_what_to_do(given: Namespace, words: str) -> None:
    with pytest.raises(pytest.UsageError, match=words):
        read_sanitizer(given)


def test_the_cpu_wants_a_command() -> None:
    assert read_sanitizer(options(on=False)) is None
    check_sanitizer_device(options(on=False), "cpu")
    check_sanitizer_device(options(), "nvidia")
    check_sanitizer_device(options(COMMAND), "cpu")
    with pytest.raises(pytest.UsageError, match="looks at GPUs, and cases would run on the CPU"):
        check_sanitizer_device(options(), "cpu")


def test_what_was_given_can_be_typed_again() -> None:
    assert sanitizer_words(options(on=False)) == []
    assert sanitizer_words(options("a b", 7)) == [
        "--paddleapi-sanitizer",
        "--paddleapi-sanitizer-command=a b",
        "--paddleapi-sanitizer-exitcode=7",
    ]


def run(folder: Path, *arguments: str, **environment: str) -> tuple[int, str, list[dict[str, str]]]:
    """A session's exit code, output, and the properties of its cases."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    plugins = ["-p", "no:rerunfailures", "-p", "no:hypothesispytest", "-p", "no:cacheprovider"]
    common = ["--paddle-only", "--paddleapi-device=cpu", f"--paddleapi-ledger={folder / 'ledger'}", "--junitxml=x.xml"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *common, *arguments],
        cwd=folder,
        env={**os.environ, "PYTEST_ADDOPTS": "", **environment},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    cases: Any = ElementTree.parse(folder / "x.xml").iter("testcase") if (folder / "x.xml").exists() else ()
    properties = [{p.get("name", ""): p.get("value", "") for p in case.iter("property")} for case in cases]
    return done.returncode, done.stdout + done.stderr, properties


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_it_is_checked_before_anything_runs(tmp_path: Path, workers: str) -> None:
    command = "--paddleapi-sanitizer-command=/nothing/here"
    code, output, _ = run(tmp_path, "--paddleapi-sanitizer", command, workers, f"--paddleapi-config={CONFIGS[0]}")
    assert code == 4, output
    assert "ERROR: --paddleapi-sanitizer-command: /nothing/here is no program that can be run" in output


def test_a_worker_s_leaks_stand_in_the_summary(tmp_path: Path) -> None:
    arguments = [f"--paddleapi-config={config}" for config in CONFIGS]
    arguments += ["-n1", "--paddleapi-sanitizer", f"--paddleapi-sanitizer-command={COMMAND}"]
    code, output, cases = run(tmp_path, *arguments, STANDIN_LEAK="1")
    assert code == 0, output
    assert [case["verdict"] for case in cases] == ["pass", "pass"]
    section = output.split("Paddle API sanitizer: what belongs to no case")[1]
    assert "a process that ran 2 cases, the last paddle." in section
    assert "Leaked 4,194,304 bytes" in section


def test_the_leak_of_a_single_case_is_its_own(tmp_path: Path) -> None:
    arguments = [f"--paddleapi-config={CONFIGS[0]}", "--paddleapi-sanitizer", "--paddleapi-sanitizer-exitcode=99"]
    code, output, cases = run(tmp_path, *arguments, f"--paddleapi-sanitizer-command={COMMAND}", STANDIN_LEAK="1")
    assert code == 1, output
    assert [case["verdict"] for case in cases] == ["paddle_cuda"]
    assert "Leaked 4,194,304 bytes" in output and "belongs to no case" not in output
