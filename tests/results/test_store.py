"""The results file: what is committed stays, whatever is killed, full, damaged or in the way."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import math
import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import pytest_paddleapi
from pytest_paddleapi.results.errors import ResultsDamagedError, ResultsError, ResultsLockedError
from pytest_paddleapi.results.folder import LOCK_NAME, ResultsFolder
from pytest_paddleapi.results.reading import ResultsReader
from pytest_paddleapi.results.rows import MOST_CHARACTERS, Attempt, Environment
from pytest_paddleapi.results.schema import FILE_NAME, VERSION
from pytest_paddleapi.results.store import ResultsStore
from pytest_paddleapi.results.verdicts import Verdict

ENVIRONMENT = Environment("accuracy", "cpu", ("x86",), "host", "3.3.1", "2.9", "0.1", "9.2", "3.11", {"seed": 0})
CONFIG = 'paddle.abs(Tensor([2],"float32"))'
PROGRAM = Path(__file__).with_name("store_program.py")
#: From <linux/prctl.h>.
_PR_CAPBSET_DROP = 24
ROOT = Path(pytest_paddleapi.__file__).parent.parent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture
def program(folder: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """A session in another process, ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(count: int, growth: int = 0) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(folder), str(count), str(growth)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def attempt(config: str = CONFIG, verdict: Verdict = Verdict.PASS, **values: object) -> Attempt:
    made = Attempt(config, config, config.partition("(")[0], verdict, "passed", 1, 1.0, "a.txt", 3)
    return dataclasses.replace(made, **values)


def session(folder: Path, *attempts: Attempt, environment: Environment = ENVIRONMENT) -> None:
    store = ResultsStore(ResultsFolder(folder))
    store.begin(environment)
    for one in attempts:
        store.record(one)
    assert not store.missing, store.trouble
    store.finish(1)
    store.close()


def rows(folder: Path, **choice: object) -> list[dict[str, object]]:
    with ResultsReader(folder) as reader:
        return list(reader.attempts(**choice))


def last_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_an_attempt_comes_back_as_it_was(folder: Path) -> None:
    full = attempt(
        verdict=Verdict.PADDLE_ACCURACY,
        outcome="failed",
        number=2,
        device="GPU-1",
        config='paddle.abs( Tensor([2],"float32") )',
        measured={
            "seconds": 0.5,
            "peak_bytes": 7,
            "tolerance": "atol 0",
            "max_abs_diff": math.nan,
            "max_rel_diff": 2.0,
        },
        extra={"notes": "x; y"},
        failure="it differs",
        stdout="out",
        stderr="err",
    )
    session(folder, full)
    assert rows(folder) == [
        {
            "config": 'paddle.abs( Tensor([2],"float32") )',
            "verdict": "paddle_accuracy",
            "attempts": 2,
            "api": "paddle.abs",
            "mode": "accuracy",
            "device_kind": "cpu",
            "session": 1,
            "outcome": "failed",
            "ended": 1.0,
            "file": "a.txt",
            "line": 3,
            "device": "GPU-1",
            "seconds": 0.5,
            "peak_bytes": 7,
            "max_abs_diff": "nan",
            "max_rel_diff": 2.0,
            "tolerance": "atol 0",
            "extra": {"notes": "x; y"},
            "text": "it differs",
            "stdout": "out",
            "stderr": "err",
        }
    ]


def test_long_texts_are_cut_in_the_middle(folder: Path) -> None:
    session(folder, attempt(failure="begin" + "x" * 10 * MOST_CHARACTERS + "end"))
    text = str(rows(folder)[0]["text"])
    assert len(text) < MOST_CHARACTERS + 100
    assert text.startswith("begin") and text.endswith("end")
    assert "characters left out" in text


@pytest.mark.parametrize("odd", ["paddle.abs(\udcff", "paddle.abs(\0", "paddle.abs(\U0001f600"])
def test_any_text_is_a_key_and_any_number_is_kept(folder: Path, odd: str) -> None:
    session(folder, attempt(odd, stdout=odd, file=odd, measured={"peak_bytes": 2**70}, extra={odd: odd}), attempt())
    store = ResultsStore(ResultsFolder(folder))
    assert set(store.last_verdicts(ENVIRONMENT.conditions)[1]) == {odd, CONFIG}
    store.close()
    assert rows(folder)[0]["peak_bytes"] == 2.0**70


def test_the_environment_of_each_session_is_kept(folder: Path) -> None:
    session(folder)
    with ResultsReader(folder) as reader:
        (kept,) = reader.sessions()
    assert kept["options"] == '{"seed":0}'
    assert (kept["paddle"], kept["torch"], kept["mode"], kept["device_kind"]) == ("3.3.1", "2.9", "accuracy", "cpu")
    assert kept["exit_status"] == 1
    assert time.time() - 60 < kept["started"] <= kept["ended"]


@pytest.mark.parametrize(
    "change",
    [
        {"mode": "paddle-only"},
        {"device_kind": "nvidia"},
        {"paddle": "3.4"},
        {"torch": "2.10"},
        {"options": {"seed": 1}},
    ],
)
def test_verdicts_under_other_conditions_stand_for_nothing(folder: Path, change: dict[str, object]) -> None:
    session(folder, attempt())
    store = ResultsStore(ResultsFolder(folder))
    assert store.last_verdicts(dataclasses.replace(ENVIRONMENT, **change).conditions) == ({}, {})
    alike = dataclasses.replace(ENVIRONMENT, plugin="9", pytest="8", python="3.12", host="h", devices=())
    assert store.last_verdicts(alike.conditions)[1] == {CONFIG: "pass"}
    store.close()


def test_what_is_not_final_does_not_hide_an_earlier_verdict(folder: Path) -> None:
    session(folder, attempt(verdict=Verdict.DEFERRED), attempt("paddle.exp()", Verdict.EXTERNAL_KILL))
    session(folder, attempt(verdict=Verdict.OOM))
    session(folder, attempt(verdict=Verdict.DEFERRED))
    store = ResultsStore(ResultsFolder(folder))
    last, final = store.last_verdicts(ENVIRONMENT.conditions)
    store.close()
    assert last == {CONFIG: "deferred", "paddle.exp()": "external_kill"}
    assert final == {CONFIG: "oom"}


def test_the_reader_chooses(folder: Path) -> None:
    exp = "paddle.exp()"
    session(folder, attempt(verdict=Verdict.OOM), attempt(exp, Verdict.TIMEOUT), attempt("paddle.nn.f()"))
    session(folder, attempt(verdict=Verdict.DEFERRED), attempt())
    other = dataclasses.replace(ENVIRONMENT, mode="paddle-only")
    session(folder, attempt(verdict=Verdict.PADDLE_ERROR), environment=other)

    def shown(**choice: object) -> list[tuple[object, object]]:
        return [(row["config"], row["verdict"]) for row in rows(folder, **choice)]

    error = (CONFIG, "paddle_error")  # of another mode, so it is another case
    assert shown() == [(exp, "timeout"), ("paddle.nn.f()", "pass"), (CONFIG, "pass"), error]
    assert len(shown(every=True)) == 6
    assert shown(session=2) == [(CONFIG, "pass")]
    assert shown(session=1, verdicts=["oom", "timeout"]) == [(CONFIG, "oom"), (exp, "timeout")]
    assert shown(verdicts=["oom"]) == []  # its last verdict is another one
    assert shown(api="paddle.nn.*") == [("paddle.nn.f()", "pass")]


def test_files_are_private(folder: Path) -> None:
    before = os.umask(0)
    try:
        store = ResultsStore(ResultsFolder(folder))
        store.begin(ENVIRONMENT)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}
        store.close()
    finally:
        os.umask(before)
    assert modes.pop("results") == 0o700
    assert len(modes) >= 4
    assert set(modes.values()) == {0o600}


def test_a_given_folder_keeps_its_mode(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o755)
    session(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


@pytest.mark.parametrize("name", [FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm", f"{FILE_NAME}-journal", LOCK_NAME])
def test_no_link_in_the_place_of_a_file_is_followed(folder: Path, tmp_path: Path, name: str) -> None:
    folder.mkdir()
    target = tmp_path / "precious"
    target.write_text("precious")
    (folder / name).symlink_to(target)
    with pytest.raises(ResultsError, match=name):
        ResultsStore(ResultsFolder(folder))
    assert target.read_text() == "precious"
    (folder / name).unlink()
    session(folder)  # and the failed attempt has let go of the lock


def test_a_link_in_the_place_of_the_folder_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ResultsError, match="symlink"):
        ResultsFolder(folder)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_second_session_is_told_who_has_the_folder_and_a_killed_one_blocks_nobody(
    folder: Path, program: Callable[..., subprocess.Popen[str]]
) -> None:
    holder = program(1)
    assert last_line(holder).startswith("ready 1 0")
    with pytest.raises(ResultsLockedError) as refused:
        ResultsFolder(folder)
    for known in (f"process {holder.pid} of ", " on ", "started 20", "store_program.py"):
        assert known in str(refused.value)
    holder.kill()
    holder.wait()
    session(folder)
    with ResultsReader(folder) as reader:
        assert [row["exit_status"] for row in reader.sessions()] == [None, 1]


def test_whatever_was_said_to_be_kept_survives_kills_at_any_instant(
    folder: Path, program: Callable[..., subprocess.Popen[str]]
) -> None:
    chance = random.Random(5)
    for round_ in range(1, 5):
        process = program(-1)
        assert last_line(process) == "0"
        time.sleep(chance.uniform(0.0, 0.3))
        process.send_signal(signal.SIGKILL)
        shown = process.communicate()[0].split("\n")[:-1]
        assert shown, "it was killed before its second attempt"
        kept = rows(folder, session=round_, every=True)
        # At most the one that was written but not shown yet is more.
        assert int(shown[-1]) + 1 <= len(kept) <= int(shown[-1]) + 2
        assert [row["line"] for row in kept] == list(range(len(kept)))


def test_a_full_disk_loses_nothing_that_was_written_and_is_tried_again(
    folder: Path, program: Callable[..., subprocess.Popen[str]]
) -> None:
    process = program(300, 100_000)
    word, written, missing, *trouble = last_line(process).split(" ", 3)
    assert word == "ready"
    assert int(written) > 5 and int(missing) > 5 and int(written) + int(missing) == 300
    assert trouble[0]
    assert [row["line"] for row in rows(folder)] == list(range(int(written)))
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert last_line(process).startswith("finished 300 0")
    assert [row["line"] for row in rows(folder)] == list(range(300))


def test_a_session_goes_on_where_the_file_is_damaged_under_it(folder: Path) -> None:
    store = ResultsStore(ResultsFolder(folder))
    store.begin(ENVIRONMENT)
    other = sqlite3.connect(folder / FILE_NAME)
    other.execute("drop table attempts")
    other.close()
    store.record(attempt())
    assert store.missing == 1
    assert "attempts" in store.trouble
    store.finish(0)
    store.close()


def damage(folder: Path) -> bytes:
    session(folder, attempt(), *(attempt(f"paddle.exp({n})") for n in range(200)))
    path = folder / FILE_NAME
    content = bytearray(path.read_bytes())
    content[4096:12288] = b"\xff" * 8192
    path.write_bytes(content)
    return bytes(content)


@pytest.mark.parametrize("how", ["pages", "header", "cut"])
def test_a_damaged_file_is_set_aside(folder: Path, how: str) -> None:
    content = damage(folder)
    if how == "header":
        (folder / FILE_NAME).write_bytes(content := b"no database at all" * 1000)
    elif how == "cut":
        (folder / FILE_NAME).write_bytes(content := content[:4096])
    store = ResultsStore(ResultsFolder(folder))
    store.begin(ENVIRONMENT)
    store.record(attempt())
    assert store.set_aside is not None
    assert (folder / store.set_aside).read_bytes() == content
    store.close()
    assert len(rows(folder)) == 1


def test_a_damaged_file_is_left_alone_where_it_is_needed(folder: Path) -> None:
    content = damage(folder)
    with pytest.raises(ResultsDamagedError, match="damaged"):
        ResultsStore(ResultsFolder(folder), set_aside=False)
    assert (folder / FILE_NAME).read_bytes() == content
    with pytest.raises(ResultsError, match="damaged"):
        rows(folder)


def test_a_newer_version_is_refused_and_left_alone(folder: Path) -> None:
    session(folder, attempt())
    connection = sqlite3.connect(folder / FILE_NAME)
    connection.execute(f"pragma user_version = {VERSION + 1}")
    connection.close()
    for use in (lambda: ResultsStore(ResultsFolder(folder)), lambda: ResultsReader(folder)):
        with pytest.raises(ResultsError, match="newer pytest-paddleapi"):
            use()
    assert [path.name for path in folder.iterdir() if "damaged" in path.name] == []


def first_version(folder: Path) -> None:
    """A file as the first version of the tables was, with one case."""
    folder.mkdir()
    connection = sqlite3.connect(folder / FILE_NAME)
    connection.executescript(
        """
        create table sessions (
            id integer primary key, conditions text not null, started real not null, ended real, exit_status integer,
            mode text not null, device_kind text not null, devices text not null, host text not null,
            paddle text not null, torch text not null, plugin text not null, pytest text not null,
            python text not null, options text not null, options_hash text not null
        );
        create table cases (
            id integer primary key, canonical not null unique, config text, api text not null
        );
        create table attempts (
            id integer primary key, session_id integer not null references sessions,
            case_id integer not null references cases, verdict text not null, final integer not null,
            outcome text not null, attempts integer not null, ended real not null, file text not null,
            line integer not null, device text, seconds real, estimated_bytes integer, peak_bytes integer,
            compared_outputs integer, compared_gradients integer, compared_elements integer,
            max_abs_diff real, max_rel_diff real, tolerance text, extra text, failure text, stdout text, stderr text
        );
        insert into sessions values
            (1, 'c', 1, 2, 0, 'accuracy', 'cpu', '[]', 'host', '3', '2', '0', '9', '3', '{}', 'h');
        insert into cases values (1, 'paddle.exp()', null, 'paddle.exp');
        insert into attempts (session_id, case_id, verdict, final, outcome, attempts, ended, file, line)
            values (1, 1, 'pass', 1, 'passed', 1, 1.5, 'a.txt', 1);
        pragma application_id = 1885430892;
        pragma user_version = 1;
        """
    )
    connection.close()


def test_a_file_of_the_first_version_is_read_as_it_is(folder: Path) -> None:
    first_version(folder)
    content = (folder / FILE_NAME).read_bytes()
    assert [(row["config"], row["ended"]) for row in rows(folder)] == [("paddle.exp()", 1.5)]
    with ResultsReader(folder) as reader:
        assert [session["command"] for session in reader.sessions()] == [None]
    assert (folder / FILE_NAME).read_bytes() == content


def test_a_file_of_the_first_version_is_written_on(folder: Path) -> None:
    first_version(folder)
    store = ResultsStore(ResultsFolder(folder))
    assert store.set_aside is None
    store.begin(dataclasses.replace(ENVIRONMENT, command="pytest --accuracy"))
    store.record(attempt(started=0.5, slot="gw1", lease_bytes=2**30))
    store.close()
    old, new = rows(folder)
    assert old["config"] == "paddle.exp()"
    assert "slot" not in old
    assert (new["started"], new["slot"], new["lease_bytes"]) == (0.5, "gw1", 2**30)
    with ResultsReader(folder) as reader:
        assert [session["command"] for session in reader.sessions()] == [None, "pytest --accuracy"]


def test_somebody_elses_database_is_refused(folder: Path) -> None:
    folder.mkdir()
    connection = sqlite3.connect(folder / FILE_NAME)
    connection.execute("create table recipes (name text)")
    connection.close()
    with pytest.raises(ResultsError, match="not of results"):
        ResultsStore(ResultsFolder(folder))


@pytest.mark.parametrize("place", ["/proc/no-such-folder", "{file}/below"])
def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, place: str) -> None:
    file = tmp_path / "file"
    file.write_text("")
    path = Path(place.format(file=file))
    with pytest.raises(ResultsError, match="give a folder that you may write to"):
        ResultsFolder(path)


def test_reading_and_writing_do_not_disturb_each_other(folder: Path) -> None:
    store = ResultsStore(ResultsFolder(folder))
    store.begin(ENVIRONMENT)
    store.record(attempt())
    with ResultsReader(folder) as reader:
        found = reader.attempts(every=True)
        assert next(found)["config"] == CONFIG
        store.record(attempt("paddle.exp()"))
        assert store.written == 2
        assert [row["config"] for row in reader.attempts()] == [CONFIG, "paddle.exp()"]
    store.close()


def _without_roots_privileges() -> None:
    """From the next exec on, root too is bound by permissions; does nothing for anybody else."""
    for dac_override_and_read_search in (1, 2):
        ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, dac_override_and_read_search, 0, 0, 0)


def test_a_copy_in_a_folder_that_may_not_be_written_can_be_read(folder: Path, tmp_path: Path) -> None:
    session(folder, attempt())
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    copy.chmod(0o500)
    done = subprocess.run(
        [sys.executable, "-m", "pytest_paddleapi", "results", str(copy), "--format=jsonl"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=_without_roots_privileges,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["config"] == CONFIG
    assert sorted(path.name for path in copy.iterdir()) == sorted([FILE_NAME, LOCK_NAME])


def test_a_file_that_is_removed_during_the_session_is_noticed(folder: Path) -> None:
    store = ResultsStore(ResultsFolder(folder))
    store.begin(ENVIRONMENT)
    assert not store.replaced
    shutil.rmtree(folder)
    assert store.replaced
    store.record(attempt())  # and nothing is raised, whatever becomes of it
    store.finish(0)
    store.close()
