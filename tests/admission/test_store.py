"""One folder, several sessions: who is alive, what is read again, and what happens to broken files."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_paddleapi.admission import store as store_module
from pytest_paddleapi.gpu_admission import (
    Granted,
    Ledger,
    LedgerBusyError,
    LedgerError,
    LedgerWarning,
    LedgerWriteError,
    Refusal,
    Refused,
    pause_session,
    read_ledger,
    resume_session,
)

from .conftest import Programs
from .simulated import SMALL, MemoryDevice, slot

OpenLedger = Callable[..., Ledger]


def granted(answer: object) -> Granted:
    assert isinstance(answer, Granted), answer
    return answer


def crash(ledger: Ledger) -> None:
    """What the kernel does to a session that is killed: its descriptors are closed, and nothing else."""
    ledger._store._drop_descriptors()


def lease_file(ledger: Ledger) -> Path:
    return Path(ledger.folder, f"{ledger.session}.leases")


def fill(file: Path) -> None:
    """Take all that the filesystem has left."""
    with open(file, "wb", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(b"x" * 4096)


class TestDeadSessions:
    def test_are_dropped_by_the_next_reader_with_all_their_files(self, open_ledger: OpenLedger, folder: Path) -> None:
        dead, alive = open_ledger(), open_ledger()
        granted(dead.reserve(slot(), "c", 60))
        crash(dead)
        assert [state.name for state in read_ledger(folder).sessions] == [alive.session]
        assert not list(folder.glob(f"{dead.session}*"))

    def test_make_room(self, open_ledger: OpenLedger) -> None:
        dead, alive = open_ledger(), open_ledger()
        granted(dead.reserve(slot(), "c", 60))
        assert isinstance(alive.reserve(slot(), "c", 60), Refused)
        crash(dead)
        granted(alive.reserve(slot(), "c", 60))

    def test_with_damaged_files_are_dropped_without_a_word(self, open_ledger: OpenLedger) -> None:
        dead, alive = open_ledger(), open_ledger()
        lease_file(dead).write_text("garbage")
        crash(dead)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            granted(alive.reserve(slot(), "c", 90))

    def test_leave_nothing_when_they_end_in_order(self, open_ledger: OpenLedger, folder: Path) -> None:
        open_ledger().close()
        assert [file.name for file in folder.iterdir()] == ["ledger.mutex"]


class TestReadingAgain:
    def test_a_file_that_did_not_change_is_not_read_again(
        self, open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        writer, reader = open_ledger(), open_ledger()
        reader.snapshot()
        read = []
        real = store_module.decode_file
        monkeypatch.setattr(store_module, "decode_file", lambda text: read.append(text) or real(text))
        for _ in range(5):
            reader.snapshot()
        assert not read
        granted(writer.reserve(slot(), "c", 10))
        read.clear()  # the writer looked at the reader's file too
        for _ in range(5):
            reader.snapshot()
        assert len(read) == 1

    def test_every_one_of_a_thousand_quick_changes_is_seen(self, open_ledger: OpenLedger) -> None:
        """Files of one size, several in one tick of the clock, with inode numbers used again and again."""
        writer, reader = open_ledger(clock=lambda: 1.0), open_ledger()
        inodes = set()
        for number in range(1000):
            answer = granted(writer.reserve(slot(), f"{number:04}", 10))
            inodes.add(lease_file(writer).stat().st_ino)
            (seen,) = [state for state in reader.snapshot().sessions if state.name == writer.session]
            assert seen.leases == (answer.lease,)
            writer.release("s0")

    def test_nothing_is_kept_where_the_filesystem_does_not_keep_the_version(
        self, open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With times of whole seconds, two versions of a file can look the same; contents must still be seen."""
        real = os.utime
        monkeypatch.setattr(os, "utime", lambda fd, ns: real(fd, ns=(0, 10**18)))
        writer, reader = open_ledger(clock=lambda: 1.0), open_ledger()
        for number in range(100):
            answer = granted(writer.reserve(slot(), f"{number:04}", 10))
            (seen,) = [state for state in reader.snapshot().sessions if state.name == writer.session]
            assert seen.leases == (answer.lease,)
            writer.release("s0")

    def test_the_version_grows_when_the_clock_goes_back(
        self, open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        writer, reader = open_ledger(), open_ledger()
        granted(writer.reserve(slot(), "c", 10))
        before = lease_file(writer).stat().st_mtime_ns
        monkeypatch.setattr(store_module.time, "time_ns", lambda: 5)
        writer.release("s0")
        assert lease_file(writer).stat().st_mtime_ns == before + 1
        assert all(not state.leases for state in reader.snapshot().sessions)


class TestDamage:
    @pytest.fixture(params=["garbage", "cut", "empty", "symlink", "fifo", "missing"])
    def damage(self, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Path], None]:
        def apply(file: Path) -> None:
            text = file.read_bytes()
            file.unlink()
            match request.param:
                case "garbage":
                    file.write_bytes(b"\x00" * len(text))
                case "cut":
                    file.write_bytes(text[:-10])
                case "empty":
                    file.write_bytes(b"")
                case "symlink":
                    (tmp_path / "victim").write_bytes(text)
                    file.symlink_to(tmp_path / "victim")
                case "fifo":
                    os.mkfifo(file)

        return apply

    @pytest.mark.filterwarnings("ignore::pytest_paddleapi.gpu_admission.LedgerWarning")
    def test_of_a_live_sessions_file_stops_every_promise_until_its_owner_wrote_it_again(
        self, open_ledger: OpenLedger, damage: Callable[[Path], None]
    ) -> None:
        owner, other = open_ledger(), open_ledger()
        lease = granted(owner.reserve(slot(), "c", 60)).lease
        damage(lease_file(owner))
        for _ in range(2):
            answer = other.reserve(slot(), "c", 1)
            assert isinstance(answer, Refused)
            assert answer.reason is Refusal.UNKNOWN_LEASES
            assert owner.session in answer.text
        owner.settle(0.0)
        assert owner.leases == (lease,)
        answer = other.reserve(slot(), "c", 31)
        assert isinstance(answer, Refused)
        assert (answer.reason, answer.available) == (Refusal.MEMORY, 30)
        granted(other.reserve(slot(), "c", 30))

    def test_is_set_aside_with_a_warning_that_names_the_file(self, open_ledger: OpenLedger, folder: Path) -> None:
        owner, other = open_ledger(), open_ledger()
        lease_file(owner).write_text("garbage")
        with pytest.warns(LedgerWarning, match=rf"{owner.session}.*set aside as {owner.session}\.damaged"):
            other.snapshot()
        assert (folder / f"{owner.session}.damaged").read_text() == "garbage"

    def test_that_a_warning_filter_makes_an_error_leaves_the_ledger_usable(self, open_ledger: OpenLedger) -> None:
        owner, other = open_ledger(), open_ledger()
        lease_file(owner).write_text("garbage")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(LedgerWarning):
                other.snapshot()
            owner.settle(0.0)
            granted(other.reserve(slot(), "c", 90))

    def test_a_file_of_another_version_is_left_alone_and_stops_promises(self, open_ledger: OpenLedger) -> None:
        owner, other = open_ledger(), open_ledger()
        lease_file(owner).write_text("pytest-paddleapi-ledger 99 of the future\n")
        answer = other.reserve(slot(), "c", 1)
        assert isinstance(answer, Refused)
        assert "format 99" in answer.text
        assert lease_file(owner).read_text().startswith("pytest-paddleapi-ledger 99")


class TestCleanedAway:
    """Cleaners of temporary folders remove files, and whole folders, under living processes."""

    def remove(self, folder: Path, what: str) -> None:
        if what == "folder":
            shutil.rmtree(folder)
        else:
            for file in folder.glob(what):
                file.unlink()

    @pytest.mark.parametrize("what", ["folder", "ledger.mutex", "*.lock", "*"])
    @pytest.mark.filterwarnings("ignore::pytest_paddleapi.gpu_admission.LedgerWarning")
    def test_sessions_meet_again_with_their_leases(self, open_ledger: OpenLedger, folder: Path, what: str) -> None:
        first, second = open_ledger(), open_ledger()
        kept = granted(first.reserve(slot(), "first", 30)).lease
        granted(second.reserve(slot(), "second", 30))
        self.remove(folder, what)
        first.settle(0.0)
        second.settle(0.0)
        answer = first.reserve(slot("s1"), "c", 31)
        assert isinstance(answer, Refused)
        assert (answer.reason, answer.available) == (Refusal.MEMORY, 30)
        assert kept in first.leases
        crash(second)
        granted(first.reserve(slot("s1"), "c", 60))

    def test_a_removed_folder_is_warned_of(self, open_ledger: OpenLedger, folder: Path) -> None:
        ledger = open_ledger()
        shutil.rmtree(folder)
        with pytest.warns(LedgerWarning, match="removed or replaced"):
            ledger.settle(0.0)

    @pytest.mark.filterwarnings("ignore::pytest_paddleapi.gpu_admission.LedgerWarning")
    def test_removing_the_mutex_does_not_let_go_of_the_sessions_lock(
        self, open_ledger: OpenLedger, folder: Path
    ) -> None:
        session = open_ledger()
        before = (folder / f"{session.session}.lock").stat().st_ino
        (folder / "ledger.mutex").unlink()
        session.settle(0.0)
        assert (folder / f"{session.session}.lock").stat().st_ino == before
        assert [state.name for state in read_ledger(folder).sessions] == [session.session]

    def test_leftovers_without_a_lock_are_cleared(self, folder: Path, ledger: Ledger) -> None:
        for suffix in ("leases", "new", "pause", "damaged"):
            (folder / f"paddleapi-gone.{suffix}").write_text("x")
        ledger.settle(0.0)
        assert not list(folder.glob("paddleapi-gone*"))


class TestJoining:
    def test_others_know_a_session_from_its_first_moment(
        self, open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also while it is still trying out whether its lock is real, which takes a while."""
        other = open_ledger()
        answers = []
        monkeypatch.setattr(
            store_module, "check_lock", lambda folder, name: answers.append(other.reserve(slot(), "c", 90))
        )
        open_ledger()
        assert [type(answer) for answer in answers] == [Granted]

    def test_a_session_that_fails_to_join_leaves_nothing(
        self, open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch, folder: Path
    ) -> None:
        def fail(folder: object, name: str) -> None:
            raise LedgerError("x", "no real locks")

        monkeypatch.setattr(store_module, "check_lock", fail)
        with pytest.raises(LedgerError, match="no real locks"):
            open_ledger()
        assert [file.name for file in folder.iterdir()] == ["ledger.mutex"]


class TestWriting:
    def test_a_full_disk_is_an_error_and_changes_nothing(
        self, open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch, folder: Path
    ) -> None:
        ledger = open_ledger()
        kept = granted(ledger.reserve(slot(), "kept", 20)).lease
        before = lease_file(ledger).read_bytes()
        real = os.write

        def half(fd: int, data: bytes) -> int:
            if len(data) < 40:
                raise OSError(28, "No space left on device")
            return real(fd, data[: len(data) // 2])

        monkeypatch.setattr(os, "write", half)
        with pytest.raises(LedgerWriteError, match=r"No space left.*still holds; make room"):
            ledger.reserve(slot("s1"), "c", 20)
        with pytest.raises(LedgerWriteError):
            ledger.finish(kept)
        monkeypatch.undo()
        assert lease_file(ledger).read_bytes() == before
        assert ledger.leases == (kept,)
        assert not list(folder.glob("*.new"))
        granted(ledger.reserve(slot("s1"), "c", 70))

    def test_a_really_full_filesystem(self, tmp_path: Path, device: MemoryDevice) -> None:
        mount = tmp_path / "small"
        mount.mkdir()
        if os.geteuid() != 0 or os.system(f"mount -t tmpfs -o size=32k tmpfs {mount} 2>/dev/null") != 0:
            pytest.skip("needs the right to mount")
        try:
            with Ledger([device], folder=mount, rules=SMALL) as ledger:
                kept = granted(ledger.reserve(slot(), "kept", 20)).lease
                before = lease_file(ledger).read_bytes()
                fill(mount / "filler")
                with pytest.raises(LedgerWriteError, match="make room"):
                    ledger.reserve(slot("s1"), "c", 20)
                assert lease_file(ledger).read_bytes() == before
                assert ledger.leases == (kept,)
                (mount / "filler").unlink()
                granted(ledger.reserve(slot("s1"), "c", 20))
        finally:
            os.system(f"umount {mount}")

    def test_nothing_is_written_when_nothing_changed(self, open_ledger: OpenLedger) -> None:
        ledger = open_ledger()
        before = lease_file(ledger).stat()
        ledger.settle(0.0)
        ledger.snapshot()
        ledger.reserve(slot(), "c", 1000)
        assert lease_file(ledger).stat() == before


class TestMutex:
    def test_held_by_another_process_ends_in_an_error_that_names_it(
        self, open_ledger: OpenLedger, programs: Programs
    ) -> None:
        from dataclasses import replace

        ledger = open_ledger(rules=replace(SMALL, mutex_seconds=0.2))
        process, _ = programs.start("mutex")
        with pytest.raises(LedgerBusyError, match=rf"0\.2 s; process {process.pid} holds it"):
            ledger.settle(0.0)
        process.kill()
        process.wait()
        granted(ledger.reserve(slot(), "c", 1))

    def test_is_free_again_after_an_error_inside(self, open_ledger: OpenLedger, device: MemoryDevice) -> None:
        first, second = open_ledger(), open_ledger()
        device.error = ZeroDivisionError()
        with pytest.raises(ZeroDivisionError):
            first.reserve(slot(), "c", 1)
        device.error = None
        granted(second.reserve(slot(), "c", 1))


class TestPausing:
    def test_is_seen_by_the_session_and_in_snapshots(self, open_ledger: OpenLedger, folder: Path) -> None:
        session, other = open_ledger(), open_ledger()
        pause_session(session.session, folder)
        session.settle(0.0)
        other.settle(0.0)
        assert session.paused
        assert not other.paused
        assert {state.name for state in other.snapshot().sessions if state.paused} == {session.session}
        resume_session(session.session, folder)
        session.settle(0.0)
        assert not session.paused

    def test_resuming_what_is_not_paused_is_no_error(self, ledger: Ledger, folder: Path) -> None:
        resume_session(ledger.session, folder)

    @pytest.mark.parametrize("name", ["paddleapi-nobody", "../../etc/passwd", ""])
    def test_needs_a_live_session(self, ledger: Ledger, folder: Path, name: str) -> None:
        with pytest.raises(LedgerError, match="session"):
            pause_session(name, folder)

    def test_ends_with_the_session(self, open_ledger: OpenLedger, folder: Path) -> None:
        session = open_ledger()
        pause_session(session.session, folder)
        session.close()
        assert [file.name for file in folder.iterdir()] == ["ledger.mutex"]
