"""``python -m pytest_paddleapi merge``."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_paddleapi.commands import main
from pytest_paddleapi.results.folder import ResultsFolder
from pytest_paddleapi.results.rows import Attempt, Environment
from pytest_paddleapi.results.store import ResultsStore
from pytest_paddleapi.results.verdicts import Verdict

from .conftest import run


def make(folder: Path, *names: str, paddle: str = "3", ends: bool = True) -> str:
    store = ResultsStore(ResultsFolder(folder))
    store.begin(Environment("accuracy", "cpu", ("x",), "host", paddle, "2", "0", "9", "3.11"))
    for name in names:
        config = f"paddle.{name}()"
        store.record(Attempt(config, config, f"paddle.{name}", Verdict.PASS, "passed", 1, 1.0, "a.txt", 1))
    if ends:
        store.finish(0)
    store.close()
    return str(folder)


def xml(path: Path) -> str:
    path.write_text('<testsuites><testsuite name="pytest" tests="1"><testcase name="a"/></testsuite></testsuites>')
    return str(path)


def test_folders_are_merged_and_the_outcome_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = make(tmp_path / "one", "f", "g"), make(tmp_path / "two", "g", ends=False)
    out = str(tmp_path / "all")
    assert main(["merge", out, one, two]) == 0
    said = capsys.readouterr()
    assert said.out == f"{out}: 2 cases, 3 attempts of 2 sessions; 1 stood in several, the last one counts\n"
    assert said.err == f"warning: {two}: its session 1 runs, or was killed: cases may be missing\n"
    assert main(["merge", out, one]) == 1
    assert f"error: {out}: it is there already" in capsys.readouterr().err
    assert main(["merge", "--force", out, one]) == 0
    assert main(["results", out, "--format=jsonl"]) == 0
    assert capsys.readouterr().out.count('"verdict": "pass"') == 2


def test_other_conditions_need_a_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = make(tmp_path / "one", "f"), make(tmp_path / "two", "g", paddle="4")
    assert main(["merge", str(tmp_path / "all"), one, two]) == 1
    assert f"  Paddle: 4 in {two}" in capsys.readouterr().err
    assert main(["merge", str(tmp_path / "all"), one, two, "--mixed"]) == 0


def test_junit_files_are_told_by_their_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two, out = xml(tmp_path / "1.xml"), xml(tmp_path / "2.XML"), str(tmp_path / "all.xml")
    assert main(["merge", out, one, two]) == 0
    assert capsys.readouterr().out == f"{out}: 1 testcase of 2 files; 1 stood in several, the last one counts\n"


def test_wrong_usage_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, file = make(tmp_path / "one", "f"), xml(tmp_path / "1.xml")
    for arguments, word in (
        (["all", folder, file], "into all, each source must be a folder of results"),
        (["all.xml", file, folder], "into all.xml, each source must be a JUnit file"),
        (["all.xml", file, "--mixed"], "--mixed is about folders"),
    ):
        assert main(["merge", *arguments]) == 2
        assert word in capsys.readouterr().err
    done = run("merge", "all")
    assert done.returncode == 2 and "SOURCE" in done.stderr
