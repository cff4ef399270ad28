"""Golden results in Baidu's object storage, through its own program ``bcecmd``."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from .errors import StoreError
from .local import LocalStore
from .redact import scrub
from .store import Pieces, place

#: Seconds; a case's own limit is mostly shorter than what a large object may take here.
_LIMIT = 3600.0
_PREFIX = "paddleapi-golden-"
#: Seconds after which a folder that a killed process left is taken away.
_STALE = 24 * 3600.0
_MISSING = re.compile(r"NoSuchKey|Not ?Found|not exist|no such (?:object|key|file)|\b404\b", re.IGNORECASE)


class BosStore:
    """Objects below a path such as ``bos://bucket/prefix``. ``conf`` is what ``bcecmd --conf-path`` takes."""

    def __init__(self, path: str, bcecmd: str, conf: str) -> None:
        self._path = path.rstrip("/")
        self._bcecmd = bcecmd
        self._conf = conf
        _drop_stale()

    def read(self, name: str, limit: int) -> memoryview | None:
        """As :meth:`.Store.read`."""
        with _folder() as folder:
            if self._copy(f"{self._path}/{name}", str(folder / "object"), name):
                return LocalStore(str(folder)).read("object", limit)
        return None

    def write(self, name: str, pieces: Pieces) -> None:
        """As :meth:`.Store.write`; one upload puts the whole object or nothing."""
        with _folder() as folder:
            LocalStore(str(folder)).write("object", pieces)
            if not self._copy(str(folder / "object"), f"{self._path}/{name}", name):
                raise StoreError(f"{place(self._path, name)} cannot be written: no such bucket", final=True)

    def _copy(self, source: str, target: str, name: str) -> bool:
        """Run ``bcecmd``; False where the source, or the bucket, is not there."""
        command = [self._bcecmd, "--conf-path", self._conf, "bos", "cp", source, target]
        try:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace"
            )
        except OSError as exc:
            raise StoreError(f"{self._bcecmd} cannot be run: {exc.strerror}", final=True) from None
        with child:
            _free_of_lease(child.pid)
            try:
                said, _ = child.communicate(timeout=_LIMIT)
            except BaseException as exc:
                child.kill()
                if isinstance(exc, subprocess.TimeoutExpired):
                    raise StoreError(f"{place(self._path, name)}: bcecmd took over {_LIMIT:g} s") from None
                raise
        if child.returncode == 0:
            return True
        text = " ".join(scrub(said).split())[-500:]
        if _MISSING.search(text):
            return False
        raise StoreError(
            f"{place(self._path, name)} cannot be copied: bcecmd exited with code {child.returncode}: {text}"
        )


def _free_of_lease(pid: int) -> None:
    """A case process limits its own memory to its lease; the program is no part of the case."""
    with contextlib.suppress(OSError):  # it has ended already
        _, hard = resource.prlimit(pid, resource.RLIMIT_DATA)
        resource.prlimit(pid, resource.RLIMIT_DATA, (hard, hard))


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A private folder for one object."""
    try:
        with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
            yield Path(folder)
    except OSError as exc:
        raise StoreError(f"no temporary file for an object: {exc}", final=True) from None


def _drop_stale() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            found = folder.lstat()
            if found.st_uid == os.getuid() and time.time() - found.st_mtime > _STALE:
                shutil.rmtree(folder, ignore_errors=True)
