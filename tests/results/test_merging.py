"""Several stores made into one."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_paddleapi.results.errors import ResultsDamagedError, ResultsError, ResultsLockedError
from pytest_paddleapi.results.folder import ResultsFolder
from pytest_paddleapi.results.merging import MixedConditionsError, merge_stores
from pytest_paddleapi.results.reading import ResultsReader
from pytest_paddleapi.results.rows import Attempt, Environment
from pytest_paddleapi.results.schema import FILE_NAME
from pytest_paddleapi.results.store import ResultsStore
from pytest_paddleapi.results.verdicts import Verdict

ENVIRONMENT = Environment("accuracy", "cpu", ("x",), "host", "3.3", "2.9", "0", "9", "3.11", {"seed": 0})
Make = Callable[..., Path]


def attempt(name: str, ended: float, verdict: Verdict = Verdict.PASS, number: int = 1) -> Attempt:
    canonical = f'paddle.{name}(Tensor([2],"float32"))'
    outcome = "rerun" if verdict is Verdict.DEFERRED else "passed"
    return Attempt(
        canonical, canonical, f"paddle.{name}", verdict, outcome, number, ended, "a.txt", 1, extra={"notes": name}
    )


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A folder with one more session of these attempts; it is ended unless told otherwise."""

    def build(name: str, *attempts: Attempt, environment: Environment = ENVIRONMENT, ends: bool = True) -> Path:
        store = ResultsStore(ResultsFolder(tmp_path / name))
        store.begin(environment)
        for one in attempts:
            store.record(one)
        if ends:
            store.finish(1)
        store.close()
        return tmp_path / name

    return build


def rows(folder: Path) -> list[tuple[str, str, int]]:
    """API, verdict and number of every attempt, in the file's order."""
    with ResultsReader(folder) as reader:
        return [(row["api"][7:], row["verdict"], row["attempts"]) for row in reader.attempts(every=True)]


def test_what_three_sessions_ran_is_as_if_one_had(make: Make, tmp_path: Path) -> None:
    every = [attempt(f"f{i}", float(i), Verdict.DEFERRED if i % 7 == 0 else Verdict.PASS) for i in range(20)] + [
        attempt(f"f{i}", 30.0 + i, Verdict.OOM, 2) for i in range(0, 20, 7)
    ]
    whole = make("whole", *every)
    parts = [make(f"part{k}", *(one for one in every if int(one.api[8:]) % 3 == k)) for k in range(3)]
    merged = merge_stores(tmp_path / "all", parts)
    assert (merged.cases, merged.attempts, merged.sessions, merged.shared) == (20, 23, 3, 0)

    def content(folder: Path) -> list[dict[str, Any]]:
        with ResultsReader(folder) as reader:
            return [{**row, "session": None} for row in reader.attempts(every=True)]

    assert content(tmp_path / "all") == content(whole)
    assert os.stat(tmp_path / "all" / FILE_NAME).st_mode & 0o777 == 0o600
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == [FILE_NAME, "session.lock"]
    with ResultsReader(tmp_path / "all") as one, ResultsReader(whole) as other:
        assert one.last_verdicts(ENVIRONMENT.conditions) == other.last_verdicts(ENVIRONMENT.conditions)
        assert [session["exit_status"] for session in one.sessions()] == [1, 1, 1]
    # And a session goes on in it.
    make("all", attempt("f0", 99.0, Verdict.TIMEOUT))
    assert rows(tmp_path / "all")[-1] == ("f0", "timeout", 1)


def test_of_a_case_in_two_stores_the_last_attempt_counts_and_all_are_numbered_anew(make: Make, tmp_path: Path) -> None:
    late = make("late", attempt("f", 5.0, Verdict.DEFERRED), attempt("f", 9.0, Verdict.OOM, 2), attempt("g", 1.0))
    early = make(
        "early",
        attempt("f", 4.0, Verdict.DEFERRED),
        attempt("f", 6.0, Verdict.PASS, 2),
        attempt("h", 2.0, Verdict.OVERSIZE, 0),
    )
    merged = merge_stores(tmp_path / "all", [late, early])
    assert merged.shared == 1
    assert rows(tmp_path / "all") == [
        ("g", "pass", 1),
        ("h", "oversize", 0),
        ("f", "deferred", 1),
        ("f", "deferred", 2),
        ("f", "pass", 3),
        ("f", "oom", 4),
    ]
    with ResultsReader(tmp_path / "all") as reader:
        assert {row["api"]: row["verdict"] for row in reader.attempts()}["paddle.f"] == "oom"
        # In the order in which they began, whatever the order of the arguments.
        assert [s["started"] for s in reader.sessions()] == sorted(s["started"] for s in reader.sessions())


def test_what_was_merged_before_is_taken_once(make: Make, tmp_path: Path) -> None:
    one = make("one", attempt("f", 1.0), attempt("g", 2.0))
    two = make("two", attempt("h", 3.0))
    merge_stores(tmp_path / "all", [one, two, one])
    again = merge_stores(tmp_path / "again", [tmp_path / "all", two, one])
    assert (again.cases, again.attempts, again.sessions, again.shared) == (3, 3, 2, 0)
    assert rows(tmp_path / "again") == rows(tmp_path / "all")


def test_a_copy_made_while_a_session_ran_is_completed(make: Make, tmp_path: Path) -> None:
    running = make("running", attempt("f", 1.0), ends=False)
    shutil.copytree(running, tmp_path / "later")
    connection = sqlite3.connect(tmp_path / "later" / FILE_NAME)
    connection.execute("update sessions set ended = 7.0, exit_status = 0")
    connection.commit()
    connection.close()
    merged = merge_stores(tmp_path / "all", [running, tmp_path / "later"])
    assert len(merged.warnings) == 1 and "session 1 runs, or was killed: cases may be missing" in merged.warnings[0]
    with ResultsReader(tmp_path / "all") as reader:
        assert [(s["ended"], s["exit_status"]) for s in reader.sessions()] == [(7.0, 0)]


def test_other_conditions_are_refused_by_name_or_kept_apart(make: Make, tmp_path: Path) -> None:
    one = make("one", attempt("f", 1.0))
    other = make(
        "other", attempt("f", 2.0, Verdict.OOM), environment=replace(ENVIRONMENT, paddle="3.4", device_kind="nvidia")
    )
    with pytest.raises(MixedConditionsError) as raised:
        merge_stores(tmp_path / "all", [one, other])
    text = str(raised.value)
    assert f"Paddle: 3.3 in {one}" in text and f"Paddle: 3.4 in {other}" in text and "kind of device: nvidia" in text
    assert "Torch" not in text and "--mixed" in text
    assert not (tmp_path / "all").exists()
    merge_stores(tmp_path / "all", [one, other], mixed=True)
    with ResultsReader(tmp_path / "all") as reader:
        assert {(row["session"], row["device_kind"]) for row in reader.attempts(every=True)} == {
            (1, "cpu"),
            (2, "nvidia"),
        }
        assert reader.last_verdicts(ENVIRONMENT.conditions)[0] == {attempt("f", 0).canonical: "pass"}
    # Another mode is another case; nothing is mixed.
    third = make("third", attempt("f", 3.0, Verdict.TIMEOUT), environment=replace(ENVIRONMENT, mode="paddle_only"))
    merged = merge_stores(tmp_path / "modes", [one, third])
    assert merged.shared == 0 and len(rows(tmp_path / "modes")) == 2


def _newer(folder: Path) -> None:
    connection = sqlite3.connect(folder / FILE_NAME)
    connection.execute("pragma user_version = 9")
    connection.close()


def _garbled(folder: Path) -> None:
    path = folder / FILE_NAME
    data = bytearray(path.read_bytes())
    data[4096:] = b"\x07" * (len(data) - 4096)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("harm", "error", "word"),
    [
        (_newer, ResultsError, "a newer pytest-paddleapi wrote"),
        (_garbled, ResultsDamagedError, "is damaged"),
        (lambda folder: (folder / FILE_NAME).write_text("no database at all " * 99), ResultsDamagedError, "is damaged"),
        (lambda folder: (folder / FILE_NAME).write_bytes(b""), ResultsError, "no session has begun"),
        (shutil.rmtree, ResultsError, "no folder of results"),
    ],
)
def test_a_source_that_cannot_be_read_is_named_and_nothing_is_made(
    make: Make, tmp_path: Path, harm: Callable[[Path], Any], error: type[Exception], word: str
) -> None:
    good = make("good", attempt("f", 1.0))
    bad = make("bad", *(attempt(f"g{i}", 1.0) for i in range(40)))
    harm(bad)
    with pytest.raises(error) as raised:
        merge_stores(tmp_path / "all", [good, bad])
    assert word in str(raised.value) and str(raised.value).startswith(str(bad))
    assert not (tmp_path / "all").exists()


def test_what_is_there_is_replaced_only_by_force_and_never_under_a_session(make: Make, tmp_path: Path) -> None:
    one, old = make("one", attempt("f", 1.0)), make("old", attempt("g", 1.0))
    with pytest.raises(ResultsError, match="--force"):
        merge_stores(old, [one])
    live = ResultsStore(ResultsFolder(old))
    live.begin(ENVIRONMENT)
    live.record(attempt("h", 2.0))
    with pytest.raises(ResultsLockedError):
        merge_stores(old, [one], force=True)
    live.close()
    assert [name for name, _, _ in rows(old)] == ["g", "h"]
    # It may be one of its own sources.
    merge_stores(old, [one, old], force=True)
    assert [name for name, _, _ in rows(old)] == ["f", "g", "h"]
    merge_stores(old, [one], force=True)
    assert [name for name, _, _ in rows(old)] == ["f"]


def test_a_log_that_was_left_by_a_kill_is_not_replayed_into_the_merged_file(make: Make, tmp_path: Path) -> None:
    one, old = make("one", attempt("f", 1.0)), tmp_path / "old"
    live = ResultsStore(ResultsFolder(old))
    live.begin(ENVIRONMENT)
    live.record(attempt("g", 1.0))
    shutil.copytree(old, tmp_path / "killed")  # with its log
    live.close()
    assert (tmp_path / "killed" / f"{FILE_NAME}-wal").stat().st_size > 0
    merge_stores(tmp_path / "killed", [one], force=True)
    assert rows(tmp_path / "killed") == [("f", "pass", 1)]
    assert not (tmp_path / "killed" / f"{FILE_NAME}-wal").exists()


def test_a_full_disk_leaves_the_old_results(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, old = make("one", attempt("f", 1.0)), make("old", attempt("g", 1.0))

    def full(*names: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ResultsError, match="No space left"):
        merge_stores(old, [one], force=True)
    with pytest.raises(ResultsError, match="No space left"):
        merge_stores(tmp_path / "new", [one])
    assert rows(old) == [("g", "pass", 1)]
    assert sorted(path.name for path in old.iterdir()) == [FILE_NAME, "session.lock"]
    assert not (tmp_path / "new").exists()


def test_texts_that_are_no_utf8_and_read_only_sources_are_merged(make: Make, tmp_path: Path) -> None:
    odd = replace(attempt("f", 1.0), canonical="paddle.f('\udcff')", config="paddle.f('\\udcff')")
    one = make("one", odd)
    os.chmod(one, 0o500)
    try:
        merge_stores(tmp_path / "all", [one])
    finally:
        os.chmod(one, 0o700)
    with ResultsReader(tmp_path / "all") as reader:
        assert list(reader.last_verdicts(ENVIRONMENT.conditions)[0]) == [odd.canonical]


def test_the_times_of_cases_are_those_of_their_last_final_attempt(make: Make, tmp_path: Path) -> None:
    def took(seconds: float, verdict: Verdict = Verdict.PASS) -> Attempt:
        return replace(attempt("f", 1.0, verdict), measured={"seconds": seconds})

    folder = make("one", took(3.0), took(9.0, Verdict.DEFERRED))
    make("one", took(5.0))
    make("one", took(7.0), environment=replace(ENVIRONMENT, mode="paddle_only"))
    with ResultsReader(folder) as reader:
        assert list(reader.seconds("accuracy").values()) == [5.0]
        assert list(reader.seconds("accuracy", without=2).values()) == [3.0]
        assert list(reader.seconds("paddle_only").values()) == [7.0]
