"""Peaks of device memory that were measured, kept from run to run in one SQLite file."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

#: A measured peak is exact for its run. The next one may choose another algorithm or meet a more fragmented device;
#: runs of one case were seen to differ by a few per cent.
SAFETY_FACTOR = 1.1
#: Other sessions hold the file for milliseconds; one that holds it longer is stuck, and a peak is not worth waiting.
_BUSY_SECONDS = 5.0
#: Of the table below. A file of another version is a cache that nobody can read any more.
_VERSION = 1

_TABLE = """
create table if not exists peaks (
    config text not null, mode text not null, kind text not null, bytes integer not null, runs integer not null,
    primary key (config, mode, kind)
) without rowid
"""
_RECORD = """
insert into peaks values (?, ?, ?, ?, 1)
on conflict (config, mode, kind) do update set bytes = max(bytes, excluded.bytes), runs = runs + 1
"""

T = TypeVar("T")


class LearnedPeaks:
    """The largest peak seen of each (canonical config, mode, kind of device). Several sessions may write at once.

    A damaged file is set aside with a warning, and a new one begun. Where the file cannot be used at all (no such
    folder, no right to write, a full disk) a warning says so once, and nothing is known or kept from then on: estimates
    go on without it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._given_up = False

    def peak(self, config: str, mode: str, kind: str) -> int | None:
        """Bytes of the largest peak recorded, None if there is none."""

        def look(connection: sqlite3.Connection) -> int | None:
            row = connection.execute(
                "select bytes from peaks where config = ? and mode = ? and kind = ?", (config, mode, kind)
            ).fetchone()
            return int(row[0]) if row else None

        return self._with_file(look, None)

    def estimate(self, config: str, mode: str, kind: str) -> int | None:
        """What to use in place of an estimate: the peak with :data:`SAFETY_FACTOR`, rounded up."""
        found = self.peak(config, mode, kind)
        return None if found is None else int(found * SAFETY_FACTOR) + 1

    def record(self, config: str, mode: str, kind: str, size: int) -> None:
        """Keep a measured peak of ``size`` bytes; a smaller one than before changes nothing.

        Raises:
            ValueError: ``size`` is negative.
        """
        if size < 0:
            raise ValueError(f"a peak of {size} bytes")

        def write(connection: sqlite3.Connection) -> None:
            with connection:
                connection.execute(_RECORD, (config, mode, kind, size))

        self._with_file(write, None)

    def close(self) -> None:
        """Close the file; it opens again with the next question."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _with_file(self, act: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        for last in (False, True):
            if self._given_up:
                return otherwise
            try:
                return act(self._open())
            except sqlite3.OperationalError as exc:
                if "locked" in str(exc) or "busy" in str(exc):
                    return otherwise  # somebody else writes for long; this one peak is not worth it
                self._give_up(exc)
            except sqlite3.DatabaseError as exc:
                if last or not self._set_aside(exc):
                    self._give_up(exc)
            except OSError as exc:
                self._give_up(exc)
        return otherwise

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            # Made before SQLite does it, so that only this user can read it.
            try:
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
            except FileExistsError:
                if not stat.S_ISREG(os.lstat(self.path).st_mode):
                    raise OSError("it is a link, or no file at all") from None
            connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS)
            try:
                connection.execute("pragma journal_mode = wal")
                # A peak lost with the power is measured again.
                connection.execute("pragma synchronous = normal")
                version = connection.execute("pragma user_version").fetchone()[0]
                if version not in (0, _VERSION):
                    raise sqlite3.DatabaseError(f"it has version {version}, this program writes version {_VERSION}")
                connection.execute(_TABLE)
                connection.execute(f"pragma user_version = {_VERSION}")
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _set_aside(self, exc: sqlite3.DatabaseError) -> bool:
        """Rename the damaged file, with its log, which would otherwise be replayed into the new one."""
        self.close()
        aside = self.path.with_name(f"{self.path.name}.damaged-{time.time_ns()}")
        try:
            os.replace(self.path, aside)
        except FileNotFoundError:
            return True  # another session has done it
        except OSError:
            return False
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{self.path}{suffix}", f"{aside}{suffix}")
        warnings.warn(
            f"{self.path}: the file of measured peaks is damaged ({exc}); it is set aside as {aside.name} "
            "and a new one begun",
            stacklevel=5,
        )
        return True

    def _give_up(self, exc: Exception) -> None:
        self.close()
        self._given_up = True
        warnings.warn(
            f"{self.path}: the file of measured peaks cannot be used ({exc}); estimates are made without it",
            stacklevel=5,
        )
