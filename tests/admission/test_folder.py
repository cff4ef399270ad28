"""Where the ledger may live, who may see it, and what it refuses to follow."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_paddleapi.admission import folder as folder_module
from pytest_paddleapi.admission import mutex as mutex_module
from pytest_paddleapi.gpu_admission import Granted, Ledger, LedgerFolderError, default_folder

from .simulated import SMALL, MemoryDevice, slot

OpenLedger = Callable[..., Ledger]


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture
def as_default(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder stands where the user's own one would be."""
    monkeypatch.setattr(folder_module, "default_folder", lambda: folder)
    return folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


class TestDefaultFolder:
    def test_does_not_depend_on_the_environment(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        before = default_folder()
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        monkeypatch.setattr(tempfile, "tempdir", None)
        assert default_folder() == before
        assert str(os.geteuid()) in before.name

    def test_is_not_put_where_others_could_rename_it(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        tmp_path.chmod(0o777)  # open to all, without the sticky bit
        assert not folder_module._is_safe_base(str(tmp_path))
        tmp_path.chmod(0o1777)
        assert folder_module._is_safe_base(str(tmp_path))

    def test_is_made_private_with_private_files(self, as_default: Path, open_ledger: OpenLedger) -> None:
        open_ledger(folder=None)
        assert mode(as_default) == 0o700
        assert {mode(file) for file in as_default.iterdir()} == {0o600}

    def test_of_another_user_is_refused(
        self, as_default: Path, open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        as_default.mkdir(0o700)
        monkeypatch.setattr(os, "geteuid", lambda: as_default.stat().st_uid + 1)
        with pytest.raises(LedgerFolderError, match="belongs to user"):
            open_ledger(folder=None)

    def test_open_to_others_is_refused(self, as_default: Path, open_ledger: OpenLedger) -> None:
        as_default.mkdir()
        as_default.chmod(0o755)
        with pytest.raises(LedgerFolderError, match=r"0755.*chmod 700"):
            open_ledger(folder=None)

    def test_that_is_a_symlink_is_refused(self, as_default: Path, open_ledger: OpenLedger, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir(0o700)
        as_default.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(LedgerFolderError, match="symlink"):
            open_ledger(folder=None)
        assert list((tmp_path / "elsewhere").iterdir()) == []


class TestGivenFolder:
    def test_shares_its_permissions_with_its_files_whatever_the_umask(
        self, folder: Path, open_ledger: OpenLedger, umask: None
    ) -> None:
        folder.mkdir()
        folder.chmod(0o770)
        open_ledger()
        assert {mode(file) for file in folder.iterdir()} == {0o660}

    def test_that_is_a_symlink_is_refused(self, folder: Path, open_ledger: OpenLedger, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        folder.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(LedgerFolderError, match="symlink"):
            open_ledger(folder=Path(f"{folder}/"))

    def test_that_is_a_file_is_refused(self, folder: Path, open_ledger: OpenLedger) -> None:
        folder.write_text("")
        with pytest.raises(LedgerFolderError, match="Not a directory"):
            open_ledger()

    def test_whose_parent_is_missing_is_refused(self, tmp_path: Path, open_ledger: OpenLedger) -> None:
        with pytest.raises(LedgerFolderError, match="make the folder above it first"):
            open_ledger(folder=tmp_path / "a" / "b")

    def test_that_cannot_be_written_is_refused(self, folder: Path, device: MemoryDevice) -> None:
        folder.mkdir()
        folder.chmod(0o555)
        root = os.geteuid() == 0
        if root:  # permissions do not bind root
            folder.parent.chmod(0o755)
            os.seteuid(65534)
        try:
            with pytest.raises(LedgerFolderError, match="may write to"):
                Ledger([device], folder=folder, rules=SMALL)
        finally:
            if root:
                os.seteuid(0)

    def test_keeps_what_else_is_in_it(self, folder: Path, open_ledger: OpenLedger) -> None:
        folder.mkdir()
        kept = {"poetry.lock", "notes.leases", "old.new", "x.damaged", "paddleapi.lock", "y.pause"}
        for name in kept:
            (folder / name).write_text(name)
        first = open_ledger()
        open_ledger()
        first.settle(0.0)
        assert {name: (folder / name).read_text() for name in kept} == {name: name for name in kept}


class TestPlantedFiles:
    """In a shared folder somebody else can put anything under any name."""

    def test_a_symlinked_mutex_is_refused_and_not_followed(
        self, folder: Path, open_ledger: OpenLedger, tmp_path: Path
    ) -> None:
        folder.mkdir()
        (folder / "ledger.mutex").symlink_to(tmp_path / "victim")
        with pytest.raises(LedgerFolderError, match="mutex"):
            open_ledger()
        assert not (tmp_path / "victim").exists()

    def test_a_fifo_for_a_mutex_is_refused_and_not_waited_for(self, folder: Path, open_ledger: OpenLedger) -> None:
        folder.mkdir()
        os.mkfifo(folder / "ledger.mutex")
        with pytest.raises(LedgerFolderError, match="not a plain file"):
            open_ledger()

    def test_a_symlink_under_our_temporary_name_is_replaced(self, folder: Path, ledger: Ledger, tmp_path: Path) -> None:
        victim = tmp_path / "victim"
        victim.write_text("precious")
        (folder / f"{ledger.session}.new").symlink_to(victim)
        assert isinstance(ledger.reserve(slot(), "c", 10), Granted)
        assert victim.read_text() == "precious"
        assert not (folder / f"{ledger.session}.leases").is_symlink()

    @pytest.mark.parametrize("kind", ["symlink", "fifo", "folder"])
    def test_a_lock_that_is_no_plain_file_is_nobodys(
        self, folder: Path, ledger: Ledger, tmp_path: Path, kind: str
    ) -> None:
        planted = folder / "paddleapi-planted.lock"
        if kind == "symlink":
            (tmp_path / "victim").write_text("precious")
            planted.symlink_to(tmp_path / "victim")
        elif kind == "fifo":
            os.mkfifo(planted)
        else:
            planted.mkdir()
        assert isinstance(ledger.reserve(slot(), "c", 10), Granted)
        assert len(ledger.snapshot().sessions) == 1
        assert kind != "symlink" or (tmp_path / "victim").read_text() == "precious"


class TestRealLocks:
    def test_a_lock_that_keeps_nobody_out_is_found(
        self, open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch, folder: Path
    ) -> None:
        """As on a filesystem where a lock succeeds and means nothing."""
        monkeypatch.setattr("pytest_paddleapi.admission.store.try_lock", lambda folder, fd: True)
        with pytest.raises(LedgerFolderError, match=r"keep nobody out; give a folder on a local disk"):
            open_ledger()

    def test_a_filesystem_without_locks_is_named(
        self, open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(fd: int, operation: int) -> None:
            raise OSError(38, "Function not implemented")

        monkeypatch.setattr(mutex_module.fcntl, "flock", refuse)
        monkeypatch.setattr(mutex_module.Mutex, "release", lambda self: None)
        with pytest.raises(LedgerFolderError, match=r"filesystem \(\w+\) gives no locks .Function not implemented"):
            open_ledger()
