"""``--paddleapi-report``, in real sessions."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import INEXACT, PASS, UNPARSED, Session
from .test_stopping import SLOW
from .test_stopping import Session as Running

Run = Callable[..., Session]
Configs = Callable[..., Path]
OPTIONS = ("--paddleapi-configs=a.txt", "--accuracy", "--paddleapi-bitwise", "--paddleapi-report=out/r.html")


def shown(file: Path) -> dict[str, Any]:
    packed = file.read_text().partition('id="data">')[2].partition("<")[0]
    return dict(json.loads(zlib.decompress(base64.b64decode(packed))))


def test_a_session_leaves_its_report(run: Run, configs: Configs, workers: str, pytester: pytest.Pytester) -> None:
    configs("a.txt", PASS, INEXACT, UNPARSED)
    session = run(*OPTIONS, workers)
    file = pytester.path / "out" / "r.html"
    assert f"report: {file} (" in session.out
    data = shown(file)
    cases, tries = data["cases"], data["tries"]
    verdicts = [cases["verdict"]["values"][code] for code in cases["verdict"]["index"]]
    assert dict(zip(cases["config"], verdicts)) == session.verdicts()
    assert data["sessions"][0]["ended"] is not None
    assert data["sessions"][0]["command"] == "pytest --accuracy --paddleapi-bitwise"
    place = cases["config"].index(PASS)
    assert cases["lease_bytes"][place] >= 2**30
    assert set(tries["slot"]["values"]) <= {"main"} if workers == "-n0" else {"gw0", "gw1"}
    assert all(0 <= start <= end for start, end in zip(tries["start"], tries["end"]))
    assert set(tries["exact"]) == {1}


@pytest.mark.slow
def test_a_resumed_session_shows_what_it_left_out(run: Run, configs: Configs, pytester: pytest.Pytester) -> None:
    configs("a.txt", PASS)
    run(*OPTIONS)
    configs("a.txt", PASS, INEXACT)
    run(*OPTIONS)
    run(*OPTIONS, "--paddleapi-resume")
    assert shown(pytester.path / "out" / "r.html")["cases"]["config"] == [PASS, INEXACT]


def test_ctrl_c_leaves_a_report_of_what_ran(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(SLOW.format(number) for number in range(1000, 1012)))
    options = ("--paddleapi-results=kept", f"--paddleapi-ledger={tmp_path / 'ledger'}", "--paddleapi-report=r.html")
    session = Running(tmp_path, "--paddleapi-configs=a.txt", "-n0", *options)
    session.await_text("PASSED")
    session.interrupt()
    out = session.end()
    assert session.process.returncode == pytest.ExitCode.INTERRUPTED, out
    assert f"report: {tmp_path / 'r.html'} (" in out
    data = shown(tmp_path / "r.html")
    assert 1 <= len(data["cases"]["config"]) < 12
    assert data["sessions"][0]["exit_status"] == pytest.ExitCode.INTERRUPTED


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--paddleapi-report=a.txt/r.html",), "--paddleapi-report: *a.txt/r.html: "),
        (("--paddleapi-report=",), "--paddleapi-report is empty"),
        (("--paddleapi-report=r.html", "-p", "no:cacheprovider"), "give --paddleapi-results=DIR"),
    ],
)
def test_what_cannot_be_is_a_usage_error(
    configs: Configs, pytester: pytest.Pytester, options: tuple[str, ...], told: str
) -> None:
    configs("a.txt", PASS)
    result = pytester.runpytest_inprocess(
        "--paddleapi-configs=a.txt", "--accuracy", *options, "-p", "no:hypothesispytest"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{told}*"])
