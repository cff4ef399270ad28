"""The line of progress in real sessions, beside pytest's own output and that of other reporters."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Session

Run = Callable[..., Session]
Configs = Callable[..., Path]

#: Judged without a case process, so that hundreds take a second.
LINES = tuple(f"paddle.abs(Tensor([{n}," for n in range(600))
OPTIONS = ("--paddleapi-configs=a.txt", "--accuracy", "--paddleapi-device=cpu", "--tb=no", "-rN")
LINE = re.compile(
    # At none there is no pace yet.
    r"paddleapi: (0 of 600 cases done, 0 failed|"
    r"[1-9]\d* of 600 cases done, \d+ failed, [\d.]+ a second, about \d+ (s|min) left); "
    r"memory in use: host \d+\.\d of \d+\.\d GiB"
)


@pytest.mark.parametrize("verbosity", [(), ("-q",), ("-v",)])
def test_it_stands_on_lines_of_its_own(run: Run, configs: Configs, workers: str, verbosity: tuple[str, ...]) -> None:
    configs("a.txt", *LINES)
    session = run(*OPTIONS, "--paddleapi-progress=0.05", workers, *verbosity)
    session.result.assert_outcomes(errors=600)
    lines = [line for line in session.result.outlines if " cases done, " in line]
    assert all(LINE.fullmatch(line) for line in lines), lines[:5]
    assert any(" a second, about " in line for line in lines)
    done = [int(line.split()[1]) for line in lines]
    assert done == sorted(done)
    # Nothing of pytest's own went missing around them.
    if verbosity == ("-v",):
        results = [line for line in session.result.outlines if "a.txt::paddle.abs" in line and "ERROR" in line]
        assert len(results) == 600
    else:
        # Each case is one E; so many stand on a line, with pytest's percentage behind them.
        shown = [re.sub(r" *\[ *\d+%\]$|^a\.txt ", "", line) for line in session.result.outlines]
        assert sum(len(line) for line in shown if re.fullmatch(r"E+", line)) == 600
    assert any(line.startswith("JUnit XML: ") for line in session.result.outlines)
    assert any(line == "     600  of 600  paddle.abs (600 config_parse)" for line in session.result.outlines)


@pytest.mark.parametrize("options", [("--paddleapi-progress=0.05", "-qq"), ("--paddleapi-progress=0",), ()])
def test_there_is_none_where_it_is_not_wanted_or_not_due(run: Run, configs: Configs, options: tuple[str, ...]) -> None:
    configs("a.txt", *LINES)
    session = run(*OPTIONS, "-n0", *options)
    assert session.result.ret == pytest.ExitCode.TESTS_FAILED
    assert " cases done, " not in session.out
    assert ("Paddle API verdicts" in session.out) == ("-qq" not in options)
    assert ("JUnit XML: " in session.out) == ("-qq" not in options)


@pytest.mark.parametrize(
    ("module", "options"), [("pytest", ()), ("pytest_sugar", ()), ("pytest_rich", ("--rich",))], ids=lambda x: str(x)
)
def test_on_a_terminal_it_stands_between_what_reporters_draw(
    configs: Configs, pytester: pytest.Pytester, workers: str, module: str, options: tuple[str, ...]
) -> None:
    pytest.importorskip(module)
    if module == "pytest_rich" and workers != "-n0":
        pytest.skip("pytest-rich 0.3 does not work with xdist: it divides by the number of collected tests, 0")
    configs("a.txt", *LINES)
    pytester.makeini("[pytest]\n")
    ours = {"pytest_sugar": "sugar", "pytest_rich": "rich"}
    off = [f"-pno:{name}" for other, name in ours.items() if other != module]
    shown = on_a_terminal(*OPTIONS, "--paddleapi-progress=0.05", workers, *options, *off, "--paddleapi-ledger=ledger")
    assert LINE.search(shown), shown[-2000:]
    # What is before it on its line was overwritten, or is nothing.
    for line in shown.splitlines():
        if " cases done, " in line:
            assert LINE.fullmatch(line.rpartition("\r")[2].strip()), repr(line)
    if module != "pytest_rich":  # which asks nobody for a summary
        assert re.search(r"600 {2}config_parse", shown)


def on_a_terminal(*arguments: str) -> str:
    """What a terminal of 200 columns is sent, without colours and movements of the cursor."""
    master, slave = pty.openpty()
    environment = {**os.environ, "COLUMNS": "200", "LINES": "50", "TERM": "xterm", "XDG_RUNTIME_DIR": ""}
    command = [sys.executable, "-m", "pytest", *arguments, "-p", "no:hypothesispytest", "-p", "no:rerunfailures"]
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    chunks = []
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:  # the last one that had the terminal is gone
            break
        if not chunk:
            break
        chunks.append(chunk)
    os.close(master)
    assert process.wait(60) in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(chunks).decode("utf-8", "replace"))
