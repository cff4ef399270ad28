"""Golden results in a folder."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import time
from pathlib import Path

from .errors import DamagedGoldenError, StoreError
from .store import Pieces

#: Seconds after which the part of an upload that was killed is taken away; no single object takes so long.
_STALE = 6 * 3600.0
_MOST_READ = 1 << 30


class LocalStore:
    """A folder. What is made in it is private to the user; symbolic links to objects are not followed."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def read(self, name: str, limit: int) -> memoryview | None:
        """As :meth:`.Store.read`."""
        path = self._folder / name
        try:
            # Not blocking: a FIFO in the place of an object would wait for its other end.
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise StoreError(f"{path} cannot be read: {exc.strerror}", final=True) from None
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            os.close(fd)
            raise StoreError(f"{path} is no file", final=True)
        with open(fd, "rb", buffering=0) as file:
            if found.st_size > limit:
                raise DamagedGoldenError(f"{path} has {found.st_size} bytes, {limit} are the most that are read")
            data = memoryview(bytearray(found.st_size))
            done = 0
            try:
                while done < len(data) and (count := file.readinto(data[done : done + _MOST_READ])):
                    done += count
            except OSError as exc:
                raise StoreError(f"{path} cannot be read: {exc.strerror}", final=True) from None
        return data[:done]

    def write(self, name: str, pieces: Pieces) -> None:
        """As :meth:`.Store.write`: to a file of its own first, which then takes the object's name."""
        path = self._folder / name
        part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _drop_stale(path)
            fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                with open(fd, "wb") as file:
                    for piece in pieces:
                        file.write(piece)
                os.replace(part, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    part.unlink()
                raise
        except OSError as exc:
            raise StoreError(f"{path} cannot be written: {exc.strerror}", final=True) from None


def _drop_stale(path: Path) -> None:
    """Take away what uploads of this object left that were killed."""
    for part in path.parent.glob(f"{path.name}.*.part"):
        with contextlib.suppress(OSError):  # another upload may do the same now
            if time.time() - part.lstat().st_mtime > _STALE:
                part.unlink()
