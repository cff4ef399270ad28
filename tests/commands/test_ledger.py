"""``python -m pytest_paddleapi ledger`` beside real sessions in other processes."""

from __future__ import annotations

import getpass
import json
import os
import pty
import random
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_paddleapi.devices.host import HostDevice
from pytest_paddleapi.gpu_admission import MIB, pause_session, read_ledger

from .conftest import ROOT, Session, command_line, run

Start = Callable[..., Session]


def as_json(folder: Path, *arguments: str, **environ: str) -> dict[str, Any]:
    """One look; on the CPU, so that it says the same wherever it runs."""
    done = run("ledger", f"--ledger={folder}", "--format=json", "--device=cpu", *arguments, **environ)
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = done.stdout.splitlines()
    view: dict[str, Any] = json.loads(line)
    return view


def as_text(folder: Path, *arguments: str) -> str:
    done = run("ledger", f"--ledger={folder}", "--device=cpu", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


class TestLook:
    def test_an_empty_ledger(self, folder: Path) -> None:
        view = as_json(folder)
        assert (view["folder"], view["kind"], view["sessions"], view["notes"]) == (str(folder), "cpu", [], [])
        (device,) = view["devices"]
        assert (device["uuid"], device["promised"], device["error"]) == (HostDevice().uuid, 0, "")
        assert "sessions\n  none\n" in as_text(folder)

    def test_tells_who_a_session_is(self, folder: Path, start: Start) -> None:
        before = time.time()
        session = start("--accuracy --paddleapi-configs=x")
        (told,) = as_json(folder)["sessions"]
        assert told["name"] == session.name
        assert told["pid"] == session.pid
        assert told["user"] == getpass.getuser()
        assert told["host"] == os.uname().nodename
        assert told["label"] == "--accuracy --paddleapi-configs=x"
        assert before - 1 <= told["started"] <= time.time()
        assert (told["paused"], told["unknown"], told["leases"]) == (False, "", [])

    def test_tells_every_lease(self, folder: Path, start: Start) -> None:
        session = start("label", "s0:64!", "s1:32", "s2:16?")
        (told,) = as_json(folder)["sessions"]
        leases = {lease["slot"]: lease for lease in told["leases"]}
        assert {slot: (lease["state"], lease["bytes"], lease["pid"]) for slot, lease in leases.items()} == {
            "s0": ("active", 64 * MIB, session.pid),
            "s1": ("active", 32 * MIB, None),
            "s2": ("release_pending", 16 * MIB, None),
        }
        for lease in leases.values():
            assert lease["devices"] == [HostDevice().uuid]
            assert lease["id"].startswith(f"{session.name}/")
            assert lease["case"].startswith("cases.txt::paddle.abs[Tensor([")
            assert 0 <= lease["age"] < 60

    def test_sums_the_leases_of_all_sessions_by_device(self, folder: Path, start: Start) -> None:
        start("one", "s0:64!")
        start("two", "s0:32")
        (device,) = as_json(folder)["devices"]
        assert device["promised"] == 96 * MIB
        # Nobody has taken anything since its baseline; a few pages come and go.
        assert 90 * MIB <= device["unrealised"] <= 96 * MIB
        # The one process that can be measured is a Python that has imported this package.
        assert 2 * MIB < device["held"] < 200 * MIB
        assert 0 < device["free"] <= device["total"]
        assert device["available"] == device["free"] - device["reserve"] - device["unrealised"]

    def test_text_has_it_all(self, folder: Path, start: Start) -> None:
        session = start("my label", "s0:64!")
        text = as_text(folder)
        assert text.startswith(f"ledger {folder} at ")
        assert HostDevice().uuid in text
        assert re.search(rf"\n  {session.name}\n", text)
        assert f"{getpass.getuser()}@{os.uname().nodename}, process {session.pid}, started " in text
        assert "\n    my label\n" in text
        assert re.search(rf"s0 +active +64 MiB +{session.pid} +\d+ s +0 +cases\.txt::paddle\.abs\[Tensor\(\[64\]", text)

    def test_a_device_that_was_not_read_is_named_too(self, folder: Path, start: Start, tmp_path: Path) -> None:
        start("label", "s0:64")
        xpu_smi = tmp_path / "bin" / "xpu-smi"
        xpu_smi.parent.mkdir()
        xpu_smi.write_text("#!/bin/sh\nexit 1\n")
        xpu_smi.chmod(0o700)
        done = run("ledger", f"--ledger={folder}", "--device=xpu", "--format=json", PATH=str(xpu_smi.parent))
        view = json.loads(done.stdout)
        assert "xpu-smi ended with exit code 1" in view["notes"][0]
        (device,) = view["devices"]
        assert (device["uuid"], device["promised"], device["free"]) == (HostDevice().uuid, 64 * MIB, None)
        assert "not among the devices that were read" in device["error"]

    def test_auto_reads_the_host_too_where_it_has_leases(self, folder: Path, start: Start) -> None:
        start("label", "s0:64")
        done = run("ledger", f"--ledger={folder}", "--format=json")
        host = next(device for device in json.loads(done.stdout)["devices"] if device["uuid"] == HostDevice().uuid)
        assert host["free"] > 0

    def test_what_does_not_print_is_escaped(self, folder: Path, start: Start) -> None:
        start("evil \x1b[2J\x07 label")
        assert "evil \\x1b[2J\\x07 label" in as_text(folder)
        assert as_json(folder)["sessions"][0]["label"] == "evil \x1b[2J\x07 label"

    def test_without_a_folder_it_is_the_users_own(self) -> None:
        done = run("ledger", "--format=json", "--device=cpu")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["folder"].endswith(f"pytest-paddleapi-ledger-{os.geteuid()}")


class TestDamage:
    def test_is_shown_with_what_is_known(self, folder: Path, start: Start) -> None:
        session, sound = start("label", "s0:64"), start("sound", "s0:32")
        (folder / f"{session.name}.leases").write_text("garbage")
        done = run("ledger", f"--ledger={folder}", "--device=cpu")
        assert done.returncode == 0
        assert f"warning: ledger {folder}: the lease file of the live session {session.name} was damaged" in done.stderr
        assert f"{session.name}\n    leases UNKNOWN: its lease file was damaged" in done.stdout
        assert "Nothing new is promised" in done.stdout
        assert f"{sound.name}\n" in done.stdout
        assert "32 MiB" in done.stdout

    def test_json_says_so_too(self, folder: Path, start: Start) -> None:
        session = start("label", "s0:64")
        (folder / f"{session.name}.leases").write_text("garbage")
        done = run("ledger", f"--ledger={folder}", "--device=cpu", "--format=json")
        view = json.loads(done.stdout)
        assert "was damaged" in view["notes"][0]
        (told,) = view["sessions"]
        assert "was damaged" in told["unknown"]
        assert (told["user"], told["pid"], told["started"], told["leases"]) == (None, None, None, [])

    def test_is_over_when_the_session_has_written_again(self, folder: Path, start: Start) -> None:
        session = start("label", "s0:64")
        (folder / f"{session.name}.leases").write_text("garbage")
        run("ledger", f"--ledger={folder}", "--device=cpu")
        session.look()
        (told,) = as_json(folder)["sessions"]
        assert (told["unknown"], len(told["leases"])) == ("", 1)

    def test_a_file_of_another_version_is_an_unknown_session(self, folder: Path, start: Start) -> None:
        session = start("label", "s0:64")
        (folder / f"{session.name}.leases").write_text("pytest-paddleapi-ledger 99 of the future\n")
        assert "leases UNKNOWN: its lease file has format 99" in as_text(folder)


class TestErrors:
    def test_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        done = run("ledger", f"--ledger={tmp_path / 'typo'}")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"error: ledger {tmp_path / 'typo'}: does not exist")
        assert not (tmp_path / "typo").exists()

    def test_a_file_in_place_of_the_folder(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        done = run("ledger", f"--ledger={tmp_path / 'file'}")
        assert done.returncode == 1
        assert done.stderr.startswith(f"error: ledger {tmp_path / 'file'}: ")

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (["--device=gpuu"], "--device: no kind is called 'gpuu'; there are: auto, nvidia"),
            (["--watch=0"], "argument --watch: '0' is not a positive number of seconds"),
            (["--watch=soon"], "argument --watch: 'soon' is not a positive number of seconds"),
            (["--limit=nan"], "argument --limit: 'nan' is not a positive number of seconds"),
            (["--format=xml"], "argument --format: invalid choice: 'xml'"),
            (["pause"], "the following arguments are required: session"),
            (["stop", "x"], "invalid choice: 'stop'"),
        ],
    )
    def test_wrong_usage(self, folder: Path, arguments: list[str], told: str) -> None:
        done = run("ledger", f"--ledger={folder}", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert told in done.stderr

    def test_a_mutex_that_somebody_keeps_ends_in_an_error_that_names_him(self, folder: Path) -> None:
        read_ledger(folder)
        code = f"import fcntl, time; f = open({str(folder / 'ledger.mutex')!r}, 'r+b'); fcntl.flock(f, fcntl.LOCK_EX)"
        keeper = subprocess.Popen(
            [command_line()[0], "-c", f"{code}; print('ready', flush=True); time.sleep(60)"],
            stdout=subprocess.PIPE,
        )
        try:
            assert keeper.stdout is not None
            assert keeper.stdout.readline() == b"ready\n"
            done = run("ledger", f"--ledger={folder}", "--limit=0.3")
        finally:
            keeper.kill()
            keeper.communicate()
        assert (done.returncode, done.stdout) == (1, "")
        assert f"not to be had within 0.3 s; process {keeper.pid} holds it" in done.stderr

    def test_a_reader_that_has_seen_enough_is_no_accident(self, folder: Path) -> None:
        process = subprocess.Popen(
            command_line("ledger", f"--ledger={folder}", "--device=cpu", "--watch=0.05"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert process.stdout is not None
        assert process.stderr is not None
        with process:
            process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == ""
        assert process.returncode == 1


class TestHangingDevices:
    def test_the_look_ends_in_time_and_says_so(self, folder: Path, start: Start, tmp_path: Path) -> None:
        start("label", "s0:64")
        tool = tmp_path / "bin" / "xpu-smi"
        tool.parent.mkdir()
        tool.write_text("#!/bin/sh\nexec sleep 30\n")
        tool.chmod(0o700)
        began = time.monotonic()
        path = f"{tool.parent}:/usr/bin:/bin"
        done = run("ledger", f"--ledger={folder}", "--device=xpu", "--limit=2", PATH=path)
        assert time.monotonic() - began < 8
        assert done.returncode == 0
        assert "the devices could not be listed: no answer within" in done.stderr or "did not answer" in done.stderr
        assert "64 MiB" in done.stdout


class TestWatching:
    def test_appends_blocks_where_there_is_no_terminal(self, folder: Path, start: Start) -> None:
        start("first")
        with watching(folder, "--watch=0.05") as process:
            assert process.stdout is not None
            seen = read_until(process.stdout.fileno(), lambda text: text.count("ledger ") >= 3)
        assert "\x1b" not in seen
        assert re.search(r"\n\nledger ", seen)

    def test_sees_what_changes(self, folder: Path, start: Start) -> None:
        with watching(folder, "--watch=0.05", "--format=json") as process:
            assert process.stdout is not None
            fd = process.stdout.fileno()
            read_until(fd, lambda text: '"sessions":[]' in text)
            session = start("comes", "s0:64")
            read_until(fd, lambda text: session.name in text)
            session.end()
            read_until(fd, lambda text: text.rpartition("\n")[0].endswith('"sessions":[],"notes":[]}'))

    def test_json_is_one_object_a_line(self, folder: Path) -> None:
        with watching(folder, "--watch=0.05", "--format=json") as process:
            assert process.stdout is not None
            text = read_until(process.stdout.fileno(), lambda text: text.count("\n") >= 3)
        for line in text.splitlines()[:3]:
            assert json.loads(line)["folder"] == str(folder)

    def test_clears_a_terminal(self, folder: Path) -> None:
        ours, theirs = pty.openpty()
        try:
            with watching(folder, "--watch=0.05", stdout=theirs):
                seen = read_until(ours, lambda text: text.count("\x1b[H\x1b[2J") >= 3)
        finally:
            os.close(ours)
            os.close(theirs)
        assert seen.startswith("\x1b[H\x1b[2J")

    def test_ends_with_0_when_it_is_interrupted(self, folder: Path) -> None:
        with watching(folder, "--watch=0.05") as process:
            assert process.stdout is not None
            read_until(process.stdout.fileno(), lambda text: "sessions" in text)
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
            assert process.stderr is not None
            assert process.stderr.read() == b""


def test_killed_at_any_moment_it_leaves_nothing_locked(folder: Path, start: Start) -> None:
    session = start("label", "s0:64")
    chance = random.Random(7)
    for _ in range(12):
        with watching(folder, "--watch=0.0001") as process:
            assert process.stdout is not None
            os.read(process.stdout.fileno(), 1)  # it is in its loop
            time.sleep(chance.uniform(0, 0.02))
            process.kill()
            process.wait()
            assert session.look() == "going"
            (told,) = read_ledger(folder, wait=1.0).sessions
            assert [lease.slot for lease in told.leases] == ["s0"]
    assert {path.name.rpartition(".")[2] for path in folder.iterdir()} == {"mutex", "lock", "leases"}


class TestPausing:
    def test_pause_and_resume_one_session(self, folder: Path, start: Start) -> None:
        one, two = start("one"), start("two")
        done = run("ledger", "pause", one.name, f"--ledger={folder}")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"{one.name}: is asked to pause")
        assert (one.look(), two.look()) == ("paused", "going")
        assert {told["name"]: told["paused"] for told in as_json(folder)["sessions"]} == {
            one.name: True,
            two.name: False,
        }
        assert f"{one.name}  PAUSED" in as_text(folder)
        done = run("ledger", "resume", one.name, f"--ledger={folder}")
        assert (done.returncode, done.stdout) == (0, f"{one.name}: may go on\n")
        assert one.look() == "going"

    def test_all(self, folder: Path, start: Start) -> None:
        sessions = [start("one"), start("two")]
        assert run("ledger", f"--ledger={folder}", "pause", "all").returncode == 0
        assert [session.look() for session in sessions] == ["paused", "paused"]
        done = run("ledger", f"--ledger={folder}", "resume", "all")
        assert sorted(done.stdout.splitlines()) == sorted(f"{session.name}: may go on" for session in sessions)
        assert [session.look() for session in sessions] == ["going", "going"]

    def test_all_of_none_is_no_error(self, folder: Path) -> None:
        done = run("ledger", "pause", "all", f"--ledger={folder}")
        assert (done.returncode, done.stdout) == (0, f"no session is alive in {folder}: nothing to pause\n")

    @pytest.mark.parametrize("shorten", [lambda name: name[:-3], lambda name: name.removeprefix("paddleapi-")])
    def test_a_beginning_of_the_name_will_do(self, folder: Path, start: Start, shorten: Callable[[str], str]) -> None:
        session = start("one")
        start("two")
        assert run("ledger", "pause", shorten(session.name), f"--ledger={folder}").returncode == 0
        assert session.look() == "paused"

    def test_a_beginning_of_several_names_is_an_error_that_lists_them(self, folder: Path, start: Start) -> None:
        one, two = start("one"), start("two")
        done = run("ledger", "pause", "paddleapi-", f"--ledger={folder}")
        assert (done.returncode, done.stdout) == (1, "")
        assert "'paddleapi-' could mean 2 sessions: " in done.stderr
        assert one.name in done.stderr
        assert two.name in done.stderr
        assert (one.look(), two.look()) == ("going", "going")

    @pytest.mark.parametrize("wanted", ["nobody", "", "../x"])
    def test_an_unknown_name_is_an_error_that_lists_the_known(self, folder: Path, start: Start, wanted: str) -> None:
        session = start("one")
        done = run("ledger", "resume", wanted, f"--ledger={folder}")
        assert (done.returncode, done.stdout) == (1, "")
        assert f"no live session is called {wanted!r}; there are: {session.name}" in done.stderr

    def test_what_was_so_already_is_said(self, folder: Path, start: Start) -> None:
        session = start("one")
        done = run("ledger", "resume", session.name, f"--ledger={folder}")
        assert (done.returncode, done.stdout) == (0, f"{session.name}: was not paused\n")
        pause_session(session.name, folder)
        done = run("ledger", "pause", session.name, f"--ledger={folder}")
        assert (done.returncode, done.stdout) == (0, f"{session.name}: was paused already\n")

    def test_a_session_whose_leases_are_unknown_can_be_paused(self, folder: Path, start: Start) -> None:
        session = start("one", "s0:64")
        (folder / f"{session.name}.leases").write_text("garbage")
        done = run("ledger", "pause", session.name, f"--ledger={folder}")
        assert done.returncode == 0
        assert "was damaged" in done.stderr
        assert session.look() == "paused"


def watching(folder: Path, *arguments: str, stdout: int = subprocess.PIPE) -> KilledAtTheEnd:
    return KilledAtTheEnd(
        command_line("ledger", f"--ledger={folder}", "--device=cpu", *arguments),
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        # Whoever runs the tests in the background may ignore it, and children would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


class KilledAtTheEnd(subprocess.Popen[bytes]):
    """A process that does not end by itself."""

    def __exit__(self, *exc: Any) -> None:
        self.kill()
        super().__exit__(*exc)


def read_until(fd: int, enough: Callable[[str], bool], seconds: float = 30.0) -> str:
    """What comes from ``fd`` until it is enough."""
    deadline = time.monotonic() + seconds
    text = ""
    while not enough(text):
        ready, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing came for {seconds:g} s after {text[-2000:]!r}"
        chunk = os.read(fd, 65536)
        assert chunk, f"it ended after {text[-2000:]!r}"
        text += chunk.decode()
    return text
