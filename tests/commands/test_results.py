"""``results``: lists, filters, exports; its exit code tells scripts whether something failed."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from pathlib import Path

import pytest

from pytest_paddleapi.commands import main
from pytest_paddleapi.results.folder import ResultsFolder
from pytest_paddleapi.results.rows import Attempt, Environment
from pytest_paddleapi.results.store import ResultsStore
from pytest_paddleapi.results.verdicts import Verdict

from .conftest import run

ENVIRONMENT = Environment("accuracy", "cpu", ("x86",), "host", "3.3.1", "2.9", "0.1", "9.2", "3.11", {"seed": 0})
ABS = Attempt('paddle.abs(x="|")', 'paddle.abs(x="|")', "paddle.abs", Verdict.PASS, "passed", 1, 1.0, "a.txt", 1)
EXP = Attempt("paddle.exp()", "paddle.exp()", "paddle.exp", Verdict.DEFERRED, "rerun", 1, 2.0, "a.txt", 2)
EXP_FAILED = dataclasses.replace(
    EXP,
    verdict=Verdict.TIMEOUT,
    outcome="failed",
    number=2,
    failure="timeout: *1800 s*\nmore",
    measured={"seconds": 2.5},
)
GELU = Attempt("paddle.nn.gelu()", "paddle.nn.gelu()", "paddle.nn.gelu", Verdict.OOM, "xfailed", 1, 3.0, "a.txt", 3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two sessions; the second runs still."""
    made = tmp_path / "results"
    for attempts in ((ABS, EXP, EXP_FAILED), (GELU,)):
        store = ResultsStore(ResultsFolder(made))
        store.begin(ENVIRONMENT)
        for attempt in attempts:
            store.record(attempt)
        if attempts[0] is ABS:
            store.finish(1)
        store.close()
    return made


def test_text_lists_counts_and_names_the_sessions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", str(folder)]) == 1
    told = capsys.readouterr().out
    assert "timeout             2.500 s  paddle.exp()  (2 attempts)\n                *1800 s*\n" in told
    assert "3 shown: 1 pass, 1 timeout, 1 oom" in told
    assert "accuracy on x86 (cpu) of host, paddle 3.3.1, torch 2.9, exit status 1\n" in told
    assert told.endswith("runs, or was killed\n")


def test_jsonl_has_one_object_a_case_its_last_attempt(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", str(folder), "--format=jsonl"]) == 1
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["config"], row["verdict"], row["attempts"]) for row in found] == [
        (ABS.config, "pass", 1),
        ("paddle.exp()", "timeout", 2),
        ("paddle.nn.gelu()", "oom", 1),
    ]
    assert found[1]["text"] == "timeout: *1800 s*\nmore"


def test_csv_and_markdown_keep_their_columns(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["results", str(folder), "--format=csv"])
    found = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["config"] for row in found] == [ABS.config, "paddle.exp()", "paddle.nn.gelu()"]
    assert found[1]["text"] == "timeout: *1800 s*\nmore"
    main(["results", str(folder), "--format=markdown"])
    head, _, first, second, _ = capsys.readouterr().out.splitlines()
    assert head == "| verdict | attempts | seconds | config | text |"
    assert first == '| pass | 1 | 0.000 | `paddle.abs(x="\\|")` |  |'
    assert second == "| timeout | 2 | 2.500 | `paddle.exp()` | \\*1800 s\\* |"


@pytest.mark.parametrize(
    ("options", "configs", "code"),
    [
        (["--verdict=pass,oom"], [ABS.config, "paddle.nn.gelu()"], 0),
        (["--verdict=paddle_error"], [], 0),
        (["--api=paddle.nn.*"], ["paddle.nn.gelu()"], 0),
        (["--api=*exp"], ["paddle.exp()"], 1),
        (["--api=*exp", "--all-attempts"], ["paddle.exp()", "paddle.exp()"], 1),
        (["--all-attempts", "--verdict=deferred"], ["paddle.exp()"], 0),
        (["--session=latest"], ["paddle.nn.gelu()"], 0),
    ],
)
def test_filters_decide_what_is_shown_and_so_the_exit_code(
    folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], configs: list[str], code: int
) -> None:
    assert main(["results", str(folder), "--format=jsonl", *options]) == code
    assert [json.loads(line)["config"] for line in capsys.readouterr().out.splitlines()] == configs


def test_a_running_session_is_not_disturbed(folder: Path) -> None:
    store = ResultsStore(ResultsFolder(folder))
    store.begin(ENVIRONMENT)
    store.record(ABS)
    done = run("results", str(folder), "--session=latest", "--format=jsonl")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["session"] == 3
    store.record(GELU)
    assert not store.missing
    store.close()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["{folder}", "--verdict=pas"], "'pas' is no verdict; they are pass,"),
        (["{folder}/absent"], "no folder of results"),
        (["{folder}", "--format=xml"], "--format"),
        ([], "DIR"),
    ],
)
def test_wrong_usage_ends_with_2(folder: Path, arguments: list[str], word: str) -> None:
    done = run("results", *(argument.format(folder=folder) for argument in arguments))
    assert done.returncode == 2
    assert word in done.stderr


def test_a_damaged_file_ends_with_2(folder: Path) -> None:
    (folder / "results.sqlite").write_bytes(b"no database" * 1000)
    done = run("results", str(folder))
    assert done.returncode == 2
    assert "damaged" in done.stderr
