"""The places that keep objects: whole or not at all, private, and clear about what is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_paddleapi.golden.bos import BosStore
from pytest_paddleapi.golden.child import Request, check
from pytest_paddleapi.golden.errors import DamagedGoldenError, GoldenFormatError, StoreError
from pytest_paddleapi.golden.local import LocalStore
from pytest_paddleapi.golden.names import MARK
from pytest_paddleapi.golden.store import Patient, Pieces, Store, open_store
from pytest_paddleapi.process.messages import GoldenOptions

NAME = "v1/ab/abcd.golden"
PIECES = [b"head", memoryview(bytes(range(256)) * 5000)]
WHOLE = b"".join(PIECES)
LIMIT = 1 << 30


def options(url: str, *, upload: bool = True) -> GoldenOptions:
    return GoldenOptions(url, upload, url)


@pytest.fixture(params=["folder", "file", "fsspec", "s3", "bos"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Every kind of store, empty."""
    folder = tmp_path / "results"
    if request.param == "s3":
        return open_store(options(request.getfixturevalue("s3")))
    if request.param == "bos":
        request.getfixturevalue("bos")
        return BosStore("bos://bucket/results", str(tmp_path / "bcecmd"), str(tmp_path / "conf"))
    if request.param == "fsspec":
        pytest.importorskip("fsspec", reason="fsspec is not installed: pip install 'pytest-paddleapi[golden]'")
        return open_store(options(f"local://{folder}"))  # a filesystem that puts nothing atomically
    return open_store(options(f"file://{folder}" if request.param == "file" else str(folder)))


def test_an_object_is_kept_and_replaced(store: Store) -> None:
    assert store.read(NAME, LIMIT) is None
    store.write(NAME, PIECES)
    found = store.read(NAME, LIMIT)
    assert found is not None and found == WHOLE and not found.readonly
    store.write(NAME, [b"less"])
    assert store.read(NAME, LIMIT) == b"less"
    store.write(NAME, [b""])
    assert store.read(NAME, LIMIT) == b""


def test_an_object_over_the_limit_is_not_read(store: Store) -> None:
    store.write(NAME, PIECES)
    with pytest.raises(DamagedGoldenError, match=f"{len(WHOLE)} bytes, 100 are the most"):
        store.read(NAME, 100)


def test_a_mark_is_made_by_the_first_upload_and_asked_for_by_a_download(store: Store) -> None:
    with pytest.raises(StoreError, match="holds no golden results"):
        check(store, Request(options("x", upload=False)))
    check(store, Request(options("x"), "v1/manifests/a.json", b"{}"))
    assert store.read("v1/manifests/a.json", LIMIT) == b"{}"
    check(store, Request(options("x", upload=False)))
    store.write(MARK, [b'{"format":2}'])
    with pytest.raises(GoldenFormatError, match="has format 2, this version reads up to 1"):
        check(store, Request(options("x")))
    store.write(MARK, [b"<html>"])
    with pytest.raises(StoreError, match="is not what this plugin writes"):
        check(store, Request(options("x")))


def test_files_are_private(tmp_path: Path) -> None:
    LocalStore(str(tmp_path / "new")).write(NAME, PIECES)
    path = tmp_path / "new" / NAME
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_links_and_fifos_are_not_followed(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.parent.mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    path.symlink_to(tmp_path / "secret")
    with pytest.raises(StoreError, match="cannot be read"):
        LocalStore(str(tmp_path)).read(NAME, LIMIT)
    LocalStore(str(tmp_path)).write(NAME, [b"own"])
    assert (tmp_path / "secret").read_text() == "secret"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(StoreError, match="is no file"):
        LocalStore(str(tmp_path)).read(NAME, LIMIT)


def test_a_writer_that_is_killed_leaves_what_was_there(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.write(NAME, [b"before"])
    code = (
        "import os, sys, time; from pytest_paddleapi.golden.local import LocalStore\n"
        "class Slow(list):\n"
        "    def __iter__(self):\n"
        "        yield b'x' * 100000; print('half', flush=True); time.sleep(60)\n"
        f"LocalStore({str(tmp_path)!r}).write({NAME!r}, Slow())"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"half\n"
        process.kill()
    assert store.read(NAME, LIMIT) == b"before"
    (part,) = (tmp_path / NAME).parent.glob("*.part")
    store.write(NAME, [b"after"])
    assert part.exists(), "another upload may be writing it"
    os.utime(part, (old := time.time() - 7 * 3600, old))
    store.write(NAME, [b"later"])
    assert not part.exists()
    assert store.read(NAME, LIMIT) == b"later"


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    class Failing(list):  # type: ignore[type-arg]
        def __iter__(self):  # type: ignore[no-untyped-def]
            yield b"some"
            raise OSError(28, "No space left on device")

    with pytest.raises(StoreError, match="cannot be written: No space left on device"):
        LocalStore(str(tmp_path)).write(NAME, Failing())
    assert list((tmp_path / NAME).parent.iterdir()) == []


class Flaky:
    """Fails so many times."""

    def __init__(self, fails: int, *, final: bool = False) -> None:
        self.fails, self.final, self.calls = fails, final, 0

    def read(self, name: str, limit: int) -> memoryview | None:
        self.calls += 1
        if self.calls <= self.fails:
            raise StoreError("the connection was reset", final=self.final)
        return memoryview(b"x")

    def write(self, name: str, pieces: Pieces) -> None:
        self.read(name, 0)


@pytest.mark.parametrize(("fails", "waits"), [(0, []), (1, [0.5]), (2, [0.5, 2.0])])
def test_what_fails_is_tried_again(fails: int, waits: list[float]) -> None:
    waited: list[float] = []
    assert Patient(Flaky(fails), waited.append).read(NAME, LIMIT) == b"x"
    assert waited == waits


def test_what_keeps_failing_is_told_and_what_is_final_at_once() -> None:
    waited: list[float] = []
    with pytest.raises(StoreError, match=r"the connection was reset \(tried 3 times\)"):
        Patient(Flaky(9), waited.append).write(NAME, [])
    with pytest.raises(StoreError, match=r"reset$"):
        Patient(final := Flaky(9, final=True), waited.append).write(NAME, [])
    assert len(waited) == 2 and final.calls == 1


def test_s3_tells_what_is_wrong(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match=r"s3://nosuch/x/v1/.* cannot be written: .*bucket does not exist") as found:
        open_store(options("s3://nosuch/x")).write(NAME, PIECES)
    assert found.value.final
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    store = open_store(options(s3))
    assert isinstance(store, Patient)
    with pytest.raises(StoreError, match="cannot be read: EndpointConnectionError") as found:
        store._store.read(NAME, LIMIT)
    assert not found.value.final


def test_bcecmd_failures_are_told(bos: Path) -> None:
    store = BosStore("bos://bucket/results", str(bos.parent / "bcecmd"), str(bos.parent / "conf"))
    (bos.parent / "service" / "broken").touch()
    with pytest.raises(StoreError, match="bcecmd exited with code 3: Error: the credentials are wrong"):
        store.read(NAME, LIMIT)
    (bos.parent / "bcecmd").chmod(0o600)
    with pytest.raises(StoreError, match="bcecmd cannot be run: Permission denied"):
        store.write(NAME, PIECES)


@pytest.mark.parametrize(
    ("url", "says"), [("nonsense://x", "cannot be opened: .*[Pp]rotocol"), ("gs://b/x", "gs://b/x")]
)
def test_a_url_that_nothing_installed_knows(url: str, says: str) -> None:
    pytest.importorskip("fsspec", reason="fsspec is not installed: pip install 'pytest-paddleapi[golden]'")
    with pytest.raises(StoreError, match=says):
        open_store(options(url))
