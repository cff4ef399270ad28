"""The file of known verdicts: reading, its errors, and its next form."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_paddleapi.results.baseline import Baseline, BaselineError, Known, read_baseline, write_baseline
from pytest_paddleapi.results.verdicts import Verdict

ABS = 'paddle.abs(Tensor([2, 3],"float32"), )'
ABS_CANONICAL = 'paddle.abs(Tensor([2, 3],"float32"))'


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "known.baseline"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path


def test_entries_are_found_by_their_canonical_text(tmp_path: Path) -> None:
    found = read_baseline(written(tmp_path, f"# head\n\n{ABS}\tpaddle_accuracy\tit is wrong\r\n# later\n"))
    assert found.entries == {ABS_CANONICAL: Known(ABS, Verdict.PADDLE_ACCURACY, "it is wrong")}
    assert found.head == ("# head",)


def test_a_line_that_is_no_config_can_be_listed(tmp_path: Path) -> None:
    found = read_baseline(written(tmp_path, "paddle.abs(Tensor([2,\tconfig_parse\n"))
    assert found.entries["paddle.abs(Tensor([2,"].verdict is Verdict.CONFIG_PARSE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{ABS}\n", ":1: a tab and a verdict must stand"),
        (f"# x\n{ABS}\twrong\n", ":2: 'wrong' is no verdict; it is one of paddle_accuracy"),
        (f"{ABS}\tpass\n", "take this line out"),
        (f"{ABS}\toom\n{ABS_CANONICAL}\toom\n", ":2: this config is listed twice"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BaselineError, match=r"known\.baseline") as caught:
        read_baseline(written(tmp_path, text))
    assert message in str(caught.value)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match="No such file"):
        read_baseline(tmp_path / "none")


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    odd = "paddle.abs(\udcff"
    baseline = Baseline(
        {ABS_CANONICAL: Known(ABS, Verdict.OOM, "why"), odd: Known(odd, Verdict.CONFIG_PARSE)}, ("# h",)
    )
    path = tmp_path / "out"
    write_baseline(path, baseline)
    assert read_baseline(path) == baseline
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "out"
    with pytest.raises(OSError, match="No such file"):
        write_baseline(path, Baseline({}))
    (tmp_path / "target").mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        write_baseline(tmp_path / "target", Baseline({}))
    assert [entry.name for entry in tmp_path.iterdir()] == ["target"]


def test_an_update_adds_keeps_changes_and_takes_out() -> None:
    old = Baseline(
        {
            "fixed": Known("fixed", Verdict.OOM),
            "same": Known("same", Verdict.OOM, "why"),
            "other": Known("other", Verdict.OOM, "why"),
            "not run": Known("not run", Verdict.TIMEOUT),
        }
    )
    new = old.updated(
        {
            "fixed": None,
            "same": Known("same", Verdict.OOM),
            "other": Known("other", Verdict.TIMEOUT),
            "added": Known("added", Verdict.PADDLE_ERROR),
            "passed": None,
        }
    )
    assert list(new.entries.values()) == [
        Known("same", Verdict.OOM, "why"),
        Known("other", Verdict.TIMEOUT, "why"),
        Known("not run", Verdict.TIMEOUT),
        Known("added", Verdict.PADDLE_ERROR),
    ]
