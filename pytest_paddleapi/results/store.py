"""The results file as a session writes it: a row per attempt, committed as its verdict arrives.

With SQLite's write-ahead log and ``synchronous = normal``, what is committed survives a kill of any process at any
instant, because it is the kernel that has it. A power failure may take the last commits, but damages nothing.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from .errors import ResultsDamagedError, ResultsError
from .folder import ResultsFolder
from .rows import MEASURED, NOT_FINAL, Attempt, Environment, bounded, clean, storable
from .schema import FILE_NAME, SIDE_FILES, check_version, create, damaged, is_damage, key, migrate, text_of

__all__ = ["ResultsStore", "last_verdicts"]

#: Nobody else of us writes; a person with an SQLite shell may, and the session must not wait for them.
_BUSY_SECONDS = 0.2
#: Larger files are not read through when they are opened: it would take over a quarter of a second.
_MOST_CHECKED_BYTES = 64 << 20
#: Every so many pages (16 MiB) the log is moved into the file, which waits for the disk: SQLite's own 1000 pages are
#: no more than some 300 cases.
_CHECKPOINT_PAGES = 4000
#: A disk that was full is tried again this often, not with every case.
_RETRY_SECONDS = 5.0
#: Attempts that wait for the file to be writable again.
_MOST_WAITING = 1000

_COLUMNS = (
    "session_id",
    "verdict",
    "final",
    "outcome",
    "attempts",
    "ended",
    "file",
    "line",
    "device",
    *MEASURED,
    "extra",
    "failure",
    "stdout",
    "stderr",
    "started",
    "slot",
    "lease_bytes",
)
_INSERT_CASE = "insert or ignore into cases (canonical, config, api) values (?, ?, ?)"
_INSERT = (
    f"insert into attempts (case_id, {', '.join(_COLUMNS)}) "
    f"values ((select id from cases where canonical = ?), {', '.join('?' * len(_COLUMNS))})"
)

_VERDICTS = """
select case_id, verdict, final from attempts
where session_id in (select id from sessions where conditions = ?) order by id
"""


class ResultsStore:
    """The file of one locked folder, and the row of one session in it.

    :meth:`record` never raises: what cannot be written waits, and is written once that works again; :attr:`trouble`
    and :attr:`missing` say how it stands.

    Args:
        folder: is closed with the store, also where this raises.
        set_aside: rename a damaged file and begin a new one. :attr:`set_aside` has the old one's new name then.

    Raises:
        ResultsDamagedError: the file is damaged, and ``set_aside`` is false.
        ResultsError: it cannot be opened or written, or is of a newer version.
    """

    def __init__(self, folder: ResultsFolder, *, set_aside: bool = True) -> None:
        self.folder = folder
        self.path = folder.path / FILE_NAME
        #: The new name of a damaged file.
        self.set_aside: str | None = None
        #: Why the last write failed; empty while all is well.
        self.trouble = ""
        #: Attempts that are committed.
        self.written = 0
        self._lost = 0
        self._waiting: deque[Attempt] = deque()
        self._retry_at = 0.0
        self._session: int | None = None
        try:
            try:
                self._connection = self._open()
            except ResultsDamagedError:
                if not set_aside:
                    raise
                self._move_away()
                self._connection = self._open()
            self._identity = _identity(self.path)
        except BaseException:
            folder.close()
            raise

    @property
    def session(self) -> int | None:
        """The number of the session that :meth:`begin` wrote."""
        return self._session

    @property
    def missing(self) -> int:
        """Attempts that are not in the file."""
        return self._lost + len(self._waiting)

    @property
    def replaced(self) -> bool:
        """Somebody removed or replaced the file since it was opened, so that nobody will find what is written."""
        return _identity(self.path) != self._identity

    def last_verdicts(self, conditions: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """As the function :func:`last_verdicts`.

        Raises:
            ResultsError: the file cannot be read.
        """
        try:
            return last_verdicts(self._connection, conditions)
        except sqlite3.Error as exc:
            raise self._error(exc) from None

    def begin(self, environment: Environment) -> None:
        """Write the session's row.

        Raises:
            ResultsError: it cannot be written.
        """
        row = {
            "conditions": environment.conditions,
            "started": time.time(),
            "mode": environment.mode,
            "device_kind": environment.device_kind,
            "devices": json.dumps(environment.devices),
            "host": environment.host,
            "paddle": environment.paddle,
            "torch": environment.torch,
            "plugin": environment.plugin,
            "pytest": environment.pytest,
            "python": environment.python,
            "options": environment.options_text,
            "options_hash": environment.options_hash,
            "command": clean(environment.command) or None,
        }
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        try:
            cursor = self._connection.execute(f"insert into sessions ({names}) values ({marks})", tuple(row.values()))
        except sqlite3.Error as exc:
            raise self._error(exc) from None
        self._session = cursor.lastrowid

    def record(self, attempt: Attempt) -> None:
        """Keep an attempt; it is committed when this returns, unless there is :attr:`trouble`."""
        self._waiting.append(attempt)
        if not self.trouble or time.monotonic() >= self._retry_at:
            self._write_waiting()
        while len(self._waiting) > _MOST_WAITING:
            self._waiting.popleft()
            self._lost += 1

    def finish(self, exit_status: int) -> None:
        """Try once more what could not be written, and complete the session's row."""
        if self._waiting:
            self._write_waiting()
        try:
            self._connection.execute(
                "update sessions set ended = ?, exit_status = ? where id = ?",
                (time.time(), exit_status, self._session),
            )
        except sqlite3.Error as exc:
            self.trouble = str(exc)

    def close(self) -> None:
        """Close the file and let the next session in."""
        with suppress(sqlite3.Error):  # a full disk again: the log stays beside the file, and is read with it
            self._connection.close()
        self.folder.close()

    # ----------------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        for name in SIDE_FILES:  # SQLite itself would follow a link
            self.folder.check_plain(name)
        # Made before SQLite does it, so that only this user can read it; the files beside it get its mode.
        self.folder.file(FILE_NAME)
        try:
            connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
        except sqlite3.Error as exc:
            raise self._error(exc) from None
        try:
            version = check_version(connection, self.folder.path)
            # Filesystems without shared memory keep to SQLite's older log, which survives a kill as well.
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = normal")
            connection.execute(f"pragma wal_autocheckpoint = {_CHECKPOINT_PAGES}")
            if not version:
                create(connection)
            elif self.path.stat().st_size <= _MOST_CHECKED_BYTES:
                told = connection.execute("pragma quick_check(1)").fetchone()[0]
                if told != "ok":
                    raise damaged(self.folder.path, told)
            if version:
                migrate(connection, version)
        except sqlite3.Error as exc:
            connection.close()
            raise self._error(exc) from None
        except BaseException:
            connection.close()
            raise
        return connection

    def _error(self, exc: sqlite3.Error) -> ResultsError:
        if is_damage(exc):
            return damaged(self.folder.path, exc)
        return ResultsError(
            self.folder.path, f"{FILE_NAME} cannot be used: {exc}; give a folder that you may write to, with room"
        )

    def _move_away(self) -> None:
        """Rename the damaged file, with its log, which would otherwise be replayed into the new one."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        self.set_aside = next(
            name
            for number in range(1, 1_000_000)
            if not os.path.lexists(self.folder.path / (name := f"{FILE_NAME}.damaged-{stamp}-{number}"))
        )
        try:
            for name in SIDE_FILES:
                with suppress(FileNotFoundError):
                    beside = name.removeprefix(FILE_NAME)
                    os.rename(self.folder.path / name, self.folder.path / f"{self.set_aside}{beside}")
            os.rename(self.path, self.folder.path / self.set_aside)
        except OSError as exc:
            raise ResultsError(
                self.folder.path, f"{FILE_NAME} is damaged and cannot be set aside: {exc.strerror}"
            ) from None

    def _write_waiting(self) -> None:
        try:
            while self._waiting:
                self._write(self._waiting[0])
                self._waiting.popleft()
                self.written += 1
            self.trouble = ""
        except sqlite3.Error as exc:
            self.trouble = str(exc)
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            if self._connection.in_transaction:
                with suppress(sqlite3.Error):  # SQLite has rolled back by itself where this fails
                    self._connection.execute("rollback")

    def _write(self, attempt: Attempt) -> None:
        execute = self._connection.execute
        canonical, config = key(attempt.canonical), clean(attempt.config)
        measured = attempt.measured
        execute("begin immediate")
        execute(_INSERT_CASE, (canonical, None if config == canonical else config, clean(attempt.api)))
        execute(
            _INSERT,
            (
                canonical,
                self._session,
                attempt.verdict.value,
                attempt.verdict not in NOT_FINAL,
                attempt.outcome,
                attempt.number,
                attempt.ended,
                clean(attempt.file),
                attempt.line,
                storable(attempt.device),
                *[storable(measured.get(name)) for name in MEASURED],
                json.dumps(attempt.extra, default=str) if attempt.extra else None,
                bounded(attempt.failure),
                bounded(attempt.stdout),
                bounded(attempt.stderr),
                attempt.started,
                storable(attempt.slot),
                storable(attempt.lease_bytes),
            ),
        )
        execute("commit")


def last_verdicts(connection: sqlite3.Connection, conditions: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """By canonical config, of the sessions under the same conditions: the last verdict, and the last final one.

    Raises:
        sqlite3.Error: the file cannot be read.
    """

    last: dict[int, str] = {}
    final: dict[int, str] = {}
    for case, verdict, is_final in connection.execute(_VERDICTS, (conditions,)):
        last[case] = verdict
        if is_final:
            final[case] = verdict
    names = {case: text_of(found) for case, found in connection.execute("select id, canonical from cases")}
    return {names[case]: verdict for case, verdict in last.items()}, {
        names[case]: verdict for case, verdict in final.items()
    }


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found.st_dev, found.st_ino
