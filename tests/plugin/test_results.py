"""``--paddleapi-results``, ``--paddleapi-resume`` and ``--paddleapi-retest``, in real sessions."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_paddleapi.config.manifest import build_manifest
from pytest_paddleapi.keeping import Keeping
from pytest_paddleapi.options.model import RunOptions
from pytest_paddleapi.process.messages import CaseOptions
from pytest_paddleapi.results.errors import ResultsError
from pytest_paddleapi.results.folder import ResultsFolder
from pytest_paddleapi.results.reading import ResultsReader
from pytest_paddleapi.results.rows import NOT_FINAL
from pytest_paddleapi.results.schema import FILE_NAME
from pytest_paddleapi.results.verdicts import Verdict

from .conftest import INEXACT, PASS, PASS_2, UNPARSED, UNSUPPORTED, Session

Run = Callable[..., Session]
Configs = Callable[..., Path]

OPTIONS = ("--paddleapi-configs=a.txt", "--accuracy", "--paddleapi-bitwise")
DEFAULT = Path(".pytest_cache", "d", "paddleapi", "results")
ALL = (INEXACT, PASS, PASS_2, UNPARSED, UNSUPPORTED)


def kept(folder: Path, **choice: Any) -> list[dict[str, Any]]:
    with ResultsReader(folder) as reader:
        return list(reader.attempts(**choice))


def configs_run(session: Session) -> set[str]:
    return {case["config"] for case in session.properties()}


@pytest.fixture
def look(pytester: pytest.Pytester) -> Callable[..., list[str]]:
    """The APIs of what a command would run. In this process: nothing is run, and it is quick."""

    def collect(*args: str) -> list[str]:
        options = ("--accuracy", "--paddleapi-bitwise", "--collect-only", "-q", "-p", "no:hypothesispytest")
        lines = pytester.runpytest_inprocess(*options, *args).outlines
        return [line.partition("::")[2].partition("[")[0] for line in lines if "::" in line]

    return collect


def test_what_is_kept_is_left_out_or_run_again(
    run: Run, configs: Configs, workers: str, pytester: pytest.Pytester, look: Callable[..., list[str]]
) -> None:
    configs("a.txt", *ALL)
    first = run(*OPTIONS, workers)
    first.result.assert_outcomes(passed=2, failed=1, errors=1, skipped=1)
    assert f"results in {DEFAULT}" in first.out
    assert f"{DEFAULT / FILE_NAME} (5 attempts)" in first.out
    folder = pytester.path / DEFAULT
    rows = {row["config"]: row for row in kept(folder)}
    assert {config: row["verdict"] for config, row in rows.items()} == first.verdicts()
    assert {config: row["outcome"] for config, row in rows.items()} == dict(
        zip(ALL, ("failed", "passed", "passed", "error", "skipped"))
    )
    assert rows[INEXACT]["text"].startswith("paddle_accuracy: ") and "reproduce: " in rows[INEXACT]["text"]
    assert rows[PASS]["compared_outputs"] == 1 and rows[PASS]["peak_bytes"] > 0 and rows[PASS]["seconds"] > 0
    assert rows[UNPARSED]["line"] == 4 and rows[UNPARSED]["file"].endswith("a.txt")
    with ResultsReader(folder) as reader:
        (session,) = reader.sessions()
    assert session["exit_status"] == pytest.ExitCode.TESTS_FAILED
    assert json.loads(session["options"])["tolerance"]["kind"] == "bitwise"
    assert re.match(r"\d+\.\d+", session["paddle"]) and re.match(r"\d+\.\d+", session["torch"])

    _combinations(look)

    configs("a.txt", 'paddle.neg(Tensor([4],"float32"))', *ALL)
    again = run(*OPTIONS, "--paddleapi-resume", "--paddleapi-retest=paddle_accuracy", workers)
    again.result.assert_outcomes(passed=1, failed=1, deselected=4)
    assert configs_run(again) == {'paddle.neg(Tensor([4],"float32"))', INEXACT}
    assert "6 configs from 1 file, left out: resumed 4" in again.out
    assert Counter(row["session"] for row in kept(folder, every=True)) == {1: 5, 2: 2}


def _combinations(look: Callable[..., list[str]]) -> None:
    """With the verdicts of ALL kept, and the failures known to ``--lf``."""
    file = "--paddleapi-configs=a.txt"
    assert look(file, "--paddleapi-resume") == []
    assert len(look(file, "--paddleapi-resume", "--paddleapi-seed=1")) == 5
    assert len(look(file, "--paddleapi-resume", "--paddleapi-no-backward")) == 5
    # These decide no verdict, or are changed in order to get another one.
    assert look(file, "--paddleapi-resume", "--paddleapi-timeout=5", "--paddleapi-threads=1") == []
    retest = "--paddleapi-retest=paddle_accuracy,not_supported"
    assert look(file, retest) == ["paddle.logsumexp", "paddle.abs"]
    assert look(file, retest, "-k", "float16") == ["paddle.abs"]
    assert look(file, retest, "--lf") == ["paddle.logsumexp"]
    assert look("a.txt::paddle.abs", retest) == ["paddle.abs"]
    assert look(f"a.txt::{PASS.replace('(', '[', 1)[:-1]}]", retest) == []
    assert look(file, "--lf", "--paddleapi-resume") == []
    assert look(file, "--paddleapi-retest=oom") == []


def test_a_folder_that_a_live_session_has(run: Run, configs: Configs, pytester: pytest.Pytester) -> None:
    configs("a.txt", UNPARSED)
    given = ResultsFolder(pytester.path / "given")
    default = ResultsFolder(pytester.path / DEFAULT)
    for refused in (["--paddleapi-results=given"], ["--paddleapi-resume"]):
        session = run(*OPTIONS, *refused, "-n0")
        assert session.result.ret == pytest.ExitCode.USAGE_ERROR
        assert f"another session writes its results here (process {os.getpid()} of " in session.result.stderr.str()
    session = run(*OPTIONS, "-n0")
    session.result.assert_outcomes(errors=1)
    assert f"results in {DEFAULT}-2, because another live session has results" in session.out
    assert len(kept(pytester.path / f"{DEFAULT}-2")) == 1
    given.close()
    default.close()


def test_what_cannot_be_used_is_a_usage_error_where_it_was_asked_for(
    run: Run, configs: Configs, pytester: pytest.Pytester
) -> None:
    configs("a.txt", UNPARSED)
    for options, word in (
        (["--paddleapi-results=a.txt"], "a.txt: Not a directory"),
        (["--paddleapi-results=/proc/none"], "give a folder that you may write to"),
        (["--paddleapi-results="], "is empty"),
        (["--paddleapi-retest=oom,slow"], "'slow' is no verdict"),
        (["--paddleapi-resume", "-p", "no:cacheprovider"], "give --paddleapi-results=DIR"),
    ):
        session = run(*OPTIONS, *options, "-n0")
        assert session.result.ret == pytest.ExitCode.USAGE_ERROR, session.out
        assert word in session.result.stderr.str()
    (pytester.path / "damaged").mkdir()
    (pytester.path / "damaged" / FILE_NAME).write_text("no database" * 1000)
    needed = run(*OPTIONS, "--paddleapi-results=damaged", "--paddleapi-resume", "-n0")
    assert needed.result.ret == pytest.ExitCode.USAGE_ERROR
    assert "without --paddleapi-resume and --paddleapi-retest it is set aside" in needed.result.stderr.str()
    aside = run(*OPTIONS, "--paddleapi-results=damaged", "-n0")
    aside.result.assert_outcomes(errors=1)
    assert "its file was damaged: set aside as results.sqlite.damaged-" in aside.out


def test_without_a_cache_nothing_is_kept_and_the_header_says_so(run: Run, configs: Configs) -> None:
    configs("a.txt", UNPARSED)
    session = run(*OPTIONS, "-n0", "-p", "no:cacheprovider")
    session.result.assert_outcomes(errors=1)
    assert "paddleapi: no results are kept: without pytest's cache" in session.out


def test_a_disk_that_fills_up_costs_rows_and_nothing_else(
    run: Run, configs: Configs, pytester: pytest.Pytester
) -> None:
    pytester.makeconftest(
        """
        import pathlib, resource, signal

        def pytest_runtest_logreport(report):
            # From the first verdict on, no file may grow beyond the size that the results have by now.
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            size = max(file.stat().st_size for file in pathlib.Path("kept").iterdir())
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        """
    )
    configs("a.txt", PASS, PASS_2, UNSUPPORTED)
    session = run(*OPTIONS, "-n0", "--paddleapi-results=kept")
    assert session.result.ret == pytest.ExitCode.OK
    session.result.assert_outcomes(passed=2, skipped=1)
    assert re.search(r"WARNING: 2 attempts are missing there \(.+\); everything before them is kept", session.out)
    assert [row["config"] for row in kept(pytester.path / "kept")] == [PASS]


def test_a_worker_that_reads_other_configs_than_the_controller_says_so(
    pytester: pytest.Pytester, tmp_path: Path
) -> None:
    config = pytester.parseconfig()
    (tmp_path / "a.txt").write_text(f"{PASS}\n{PASS_2}\n")
    manifest = build_manifest([tmp_path / "a.txt"])
    told: dict[str, Any] = {}
    controller = Keeping(config, None, manifest, "cpu", ())
    controller._left_out = frozenset({1})
    controller.tell(told)
    config.workerinput = told
    worker = Keeping(config, None, manifest, "cpu", ())
    worker.start()
    assert worker._left_out == {1}
    with pytest.raises(pytest.UsageError, match="changed while the workers started"):
        Keeping(config, None, build_manifest([], [PASS]), "cpu", ()).start()


@pytest.mark.parametrize(
    ("options", "left_out"),
    [
        ({"resume": True}, {"passed", "deferred again", "oom"}),
        ({"retest": (Verdict.OOM,)}, {"passed", "new", "deferred"}),
        ({"retest": (Verdict.DEFERRED,)}, {"passed", "new", "oom"}),
        ({"resume": True, "retest": (Verdict.OOM,)}, {"passed"}),
    ],
)
def test_a_verdict_that_is_not_final_hides_no_final_one(options: dict[str, Any], left_out: set[str]) -> None:
    names = ["passed", "new", "deferred", "deferred again", "oom"]
    manifest = build_manifest([], names)
    last = {"passed": "pass", "deferred": "deferred", "deferred again": "deferred", "oom": "oom"}
    final = {"passed": "pass", "deferred again": "oom", "oom": "oom"}
    keeping = Keeping(None, RunOptions(CaseOptions(), **options), manifest, "cpu", ())
    assert {names[index] for index in keeping._decided(last, final)} == left_out


# Kills --------------------------------------------------------------------------------------


def final_verdicts(folder: Path) -> Counter[str]:
    """How often each config was decided."""
    try:
        return Counter(row["config"] for row in kept(folder, every=True) if row["verdict"] not in NOT_FINAL)
    except ResultsError:
        return Counter()  # the session has not begun to write


def kill_and_resume(folder: Path, cases: int, kills: int) -> None:
    """Kill the controller after a few more verdicts, ``kills`` times; then let it come to its end."""
    chance = random.Random(kills)
    configs = [f'paddle.abs(Tensor([{n}],"float32"))' for n in range(1, cases + 1)]
    (folder / "a.txt").write_text("\n".join(configs) + "\n")
    results = folder / "results"
    command = [sys.executable, "-m", "pytest", "--accuracy", "--paddleapi-configs=a.txt", "-p", "no:rerunfailures"]
    command += ["--paddleapi-results=results", "--paddleapi-resume", "--paddleapi-ledger=ledger"]
    for kill in range(kills):
        before = sum(final_verdicts(results).values())
        wanted = before + chance.randint(1, (cases - before) // (kills - kill + 1))
        with open(folder / "out", "wb") as out:
            process = subprocess.Popen([*command, f"-n{2 * (kill % 2)}"], cwd=folder, stdout=out, stderr=out)
        try:
            deadline = time.monotonic() + 120
            while sum(final_verdicts(results).values()) < wanted:
                assert process.poll() is None and time.monotonic() < deadline, (folder / "out").read_text()
                time.sleep(0.002)
            time.sleep(chance.uniform(0.0, 0.02))
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(30)
        assert max(final_verdicts(results).values()) == 1
    left = cases - sum(final_verdicts(results).values())
    assert left > 0
    done = subprocess.run([*command, "-n2"], cwd=folder, capture_output=True, text=True, timeout=240)
    assert f"left out: resumed {cases - left}" in done.stdout
    assert f"{left} passed" in done.stdout, done.stdout
    assert final_verdicts(results) == Counter(configs)


@pytest.mark.slow
def test_a_run_that_is_killed_and_resumed_decides_each_case_once(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, 60, 2)


@pytest.mark.slow
def test_a_run_that_is_killed_ten_times_decides_each_case_once(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, 500, 10)
