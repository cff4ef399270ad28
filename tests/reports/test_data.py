"""What stands in a report, before any browser sees it."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import os
import zlib
from pathlib import Path
from typing import Any

import pytest

from pytest_paddleapi.commands import main
from pytest_paddleapi.reports import Choice, ReportError, check_path, collect, page_data, write_report
from pytest_paddleapi.reports.dtypes import leading_dtype
from pytest_paddleapi.reports.texts import command_of, cut, said, widest
from pytest_paddleapi.reports.tolerance import excess
from pytest_paddleapi.results.verdicts import Verdict

from .stores import attempt, failure, write

ABS = 'paddle.abs(Tensor([2],"float32"))'
TOLERANCE = "atol 0.01, rtol 0.1 (fixed)"


def column(data: dict[str, Any], name: str) -> list[Any]:
    found = data["cases"][name]
    return [found["values"][i] if i >= 0 else None for i in found["index"]] if isinstance(found, dict) else found


@pytest.mark.parametrize(
    ("config", "dtype"),
    [
        (ABS, "float32"),
        ('paddle.where(Tensor([2],"bool"), Tensor([2],"bfloat16"))', "bfloat16"),
        ('paddle.add(Tensor([],"int64"), Tensor([],"int32"))', "int64"),
        ("paddle.ones([2])", "none"),
    ],
)
def test_leading_dtype(config: str, dtype: str) -> None:
    assert leading_dtype(config) == dtype


@pytest.mark.parametrize(
    ("absolute", "relative", "tolerance", "multiple"),
    [
        (0.0, 0.0, TOLERANCE, 0.0),
        (0.02, 0.3, TOLERANCE, 2.0),
        (0.05, 0.1, TOLERANCE, 1.0),
        ("nan", "nan", TOLERANCE, math.inf),
        (1e-9, 1e-9, "atol 0, rtol 0 (bitwise)", math.inf),
        (0.0, 0.0, "atol 0, rtol 0 (bitwise)", 0.0),
        (0.02, None, TOLERANCE, 2.0),
        (None, None, TOLERANCE, None),
        (0.1, 0.1, None, None),
    ],
)
def test_excess(absolute: Any, relative: Any, tolerance: Any, multiple: float | None) -> None:
    found = excess(absolute, relative, tolerance)
    assert found == (None if multiple is None else pytest.approx(multiple))


def test_a_failure_says_what_is_not_said_elsewhere() -> None:
    row = {"text": failure(ABS, Verdict.PADDLE_ERROR, "no kernel\nmore"), "stdout": "out\n", "mode": "accuracy"}
    assert said(row, captured=False) == "paddle_error: no kernel\nmore"
    assert said(row, captured=True).endswith("more\n\n--- captured stdout ---\nout")
    assert said({"text": "Skipped: oversize: 9 GiB"}, captured=False) == "oversize: 9 GiB"


def test_the_command_of_a_case() -> None:
    session = {"command": "pytest --accuracy --paddleapi-seed=3", "mode": "accuracy"}
    told = {"text": failure(ABS, Verdict.OOM)}
    assert command_of(told, session) == (session["command"], True)
    assert command_of(told, {"command": None, "mode": "accuracy"}) == ("pytest --accuracy", True)
    assert command_of({}, {"command": None, "mode": "paddle-only"}) == ("pytest --paddle-only", True)
    unparsed = (
        "config_parse: x\n\nconfig: paddle.abs(\nfrom: a.txt:1\nreproduce: pytest --accuracy 'a.txt::paddle.abs(['\n"
    )
    assert command_of({"text": unparsed}, session) == ("pytest --accuracy 'a.txt::paddle.abs(['", False)


def test_many_long_texts_are_cut_alike_and_short_ones_kept() -> None:
    texts = ["x" * 10, "y" * 100, "z" * 100]
    assert widest(texts, 1000) > 100
    most = widest(texts, 110)
    assert most == 50
    assert [len(text) for text in texts if len(text) <= most] == [10]
    assert cut("abc", 3) == "abc"
    shortened = cut("a" * 600 + "b" * 600, 90)
    assert shortened.startswith("a" * 60 + "\n... 1110 characters left out")
    assert shortened.endswith("b" * 30)


def test_the_last_attempt_stands_and_all_are_drawn(tmp_path: Path) -> None:
    first = attempt(ABS, Verdict.DEFERRED)
    folder = write(tmp_path / "results", first, attempt("paddle.exp()"), attempt(ABS, number=2, started=5.0, ended=6.5))
    data = page_data(collect(folder))
    assert column(data, "config") == [ABS, "paddle.exp()"]
    assert column(data, "verdict") == ["pass", "pass"]
    assert column(data, "attempts") == [2, 1]
    assert len(data["tries"]["start"]) == 3
    assert data["tries"]["end"][2] - data["tries"]["start"][2] == 1500


def test_chosen_sessions_and_configs(tmp_path: Path) -> None:
    folder = write(tmp_path / "results", attempt(ABS), attempt("paddle.exp()"))
    write(folder, attempt(ABS, Verdict.OOM))
    assert column(page_data(collect(folder)), "verdict") == ["oom", "pass"]
    assert column(page_data(collect(folder, Choice(sessions=[2]))), "config") == [ABS]
    assert column(page_data(collect(folder, Choice(configs={"paddle.exp()"}))), "config") == ["paddle.exp()"]


def test_whatever_a_text_holds_the_page_is_ascii_data(tmp_path: Path) -> None:
    text = "</script>\u2028\udc80\x00"
    folder = write(
        tmp_path / "results", attempt(f"paddle.abs({text})", Verdict.OOM, failure=text, extra={"n": math.nan})
    )
    write_report(file := tmp_path / "report.html", page_data(collect(folder)))
    page = file.read_text(encoding="utf-8")
    packed = page.partition('id="data">')[2].partition("<")[0]
    assert json.loads(zlib.decompress(base64.b64decode(packed)))["format"] == 1
    assert page.count("</script>") == 2
    assert file.stat().st_mode & 0o777 == 0o600


class TestCommand:
    def test_it_writes_a_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folder = write(tmp_path / "results", attempt(ABS))
        write(folder, attempt("paddle.exp()"))
        file = tmp_path / "made" / "r.html"
        assert main(["report", str(folder), "-o", str(file), "--compare", str(folder), "--session=latest"]) == 0
        assert capsys.readouterr().out.startswith(f"{file}: 1 cases, 0.")
        assert file.read_text().startswith("<!doctype html>")

    def test_what_is_wrong_is_said(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folder = write(tmp_path / "results", attempt(ABS))
        assert main(["report", str(tmp_path), "-o", str(tmp_path / "r.html")]) == 2
        assert "there is no results.sqlite" in capsys.readouterr().err
        assert main(["report", str(folder), "-o", str(tmp_path)]) == 1
        assert "it is a folder" in capsys.readouterr().err
        assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize("name", ["/proc/none/r.html", "/dev/null", "{tmp}", "{tmp}/file/r.html"])
def test_an_unwritable_path_is_found_at_once(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match="give "):
        check_path(Path(name.format(tmp=tmp_path)))


def test_a_check_leaves_nothing_and_an_old_report_stands(tmp_path: Path) -> None:
    (tmp_path / "r.html").write_text("old")
    check_path(tmp_path / "r.html")
    assert os.listdir(tmp_path) == ["r.html"]
    assert (tmp_path / "r.html").read_text() == "old"


def test_a_file_without_starts_is_drawn_from_the_cases_own_time(tmp_path: Path) -> None:
    old = dataclasses.replace(attempt(ABS), started=None, slot=None, lease_bytes=None, ended=9.0)
    tries = page_data(collect(write(tmp_path / "results", old)))["tries"]
    assert tries["exact"] == [0]
    assert tries["end"][0] - tries["start"][0] == 12
