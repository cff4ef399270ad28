"""The results file as others read it, while a session may be writing to it."""

from __future__ import annotations

import fnmatch
import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .errors import ResultsError
from .rows import MEASURED
from .schema import FILE_NAME, VERSION, check_version, damaged, is_damage, text_of
from .store import last_verdicts

__all__ = ["ResultsReader"]

#: A checkpoint of a writer waits for no reader, but a reader that opens in that very moment waits for it.
_BUSY_SECONDS = 10.0
#: Rows of one look. Between looks no lock is held, however slowly the rows are used: a reader that stays in one
#: transaction would let the log of a running session grow.
_CHUNK = 500

_SESSION = (
    "id",
    "started",
    "ended",
    "exit_status",
    "mode",
    "device_kind",
    "devices",
    "host",
    "paddle",
    "torch",
    "plugin",
    "pytest",
    "python",
    "options",
    "options_hash",
    "conditions",
    "command",
)
_OF_ATTEMPT = (
    "verdict",
    "outcome",
    "attempts",
    "started",
    "ended",
    "file",
    "line",
    "device",
    "slot",
    "lease_bytes",
    *MEASURED,
)
#: Columns of this version that files of the one before lack.
_ADDED = frozenset({"started", "slot", "lease_bytes", "command"})
_ROWS = """
select attempts.case_id, cases.canonical, cases.config, cases.api, sessions.mode, sessions.device_kind,
    attempts.session_id, attempts.extra, attempts.failure, attempts.stdout, attempts.stderr,
    {columns}
from attempts join cases on cases.id = attempts.case_id join sessions on sessions.id = attempts.session_id
where attempts.id in ({marks}) order by attempts.id
"""
_SECONDS = """
select cases.canonical, attempts.seconds
from attempts join cases on cases.id = attempts.case_id join sessions on sessions.id = attempts.session_id
where sessions.mode = ? and sessions.id is not ? and attempts.final and attempts.seconds is not null
order by attempts.id
"""
_CHOSEN = """
select {which}, attempts.verdict, cases.api
from attempts join cases on cases.id = attempts.case_id join sessions on sessions.id = attempts.session_id
where ? is null or attempts.session_id = ?
{group} order by 1
"""


class ResultsReader:
    """A read-only connection; use it as a context manager.

    Raises:
        ResultsError: there is no results file, or it cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / FILE_NAME
        if not path.is_file():
            raise ResultsError(folder, f"there is no {FILE_NAME}, so it is no folder of results")
        self._version = 0
        self._connection = self._open(path)

    def __enter__(self) -> ResultsReader:
        return self

    def __exit__(self, *exception: object) -> None:
        self._connection.close()

    def sessions(self) -> list[dict[str, Any]]:
        """Every session, the oldest first; ``ended`` and ``exit_status`` are None of one that runs or was killed."""
        rows = self._all(f"select {self._columns(_SESSION, 'sessions')} from sessions order by id", ())
        return [dict(zip(_SESSION, row)) for row in rows]

    def check(self) -> None:
        """Read the whole file through.

        Raises:
            ResultsDamagedError: its content is wrong.
            ResultsError: it cannot be read.
        """
        told = self._all("pragma quick_check(1)", ())[0][0]
        if told != "ok":
            raise damaged(self.folder, told)

    def last_verdicts(self, conditions: str) -> tuple[dict[str, str], dict[str, str]]:
        """As :func:`.store.last_verdicts`.

        Raises:
            ResultsError: the file cannot be read.
        """
        try:
            last, final = last_verdicts(self._connection, conditions)
        except sqlite3.Error as exc:
            raise self._error(exc) from None
        return dict(last), dict(final)

    def seconds(self, mode: str, *, without: int | None = None) -> dict[str, float]:
        """How long the last final attempt of each case of this mode took, by canonical config.

        ``without`` leaves out a session.

        Raises:
            ResultsError: the file cannot be read.
        """
        return {text_of(canonical): float(seconds) for canonical, seconds in self._all(_SECONDS, (mode, without))}

    def attempts(
        self,
        *,
        session: int | None = None,
        every: bool = False,
        verdicts: Collection[str] = (),
        api: str | None = None,
        numbered: bool = False,
    ) -> Iterator[dict[str, Any]]:
        """One dict an attempt, in the order in which they ended: the last one of each case, or with ``every`` all.

        ``session`` restricts them to one, before the last is looked for; ``verdicts`` and ``api``, a pattern as of a
        shell, choose among what is then left. A case is a config under one mode. Keys whose value is None are left out.
        ``numbered`` adds ``case``, a number for each config, and ``canonical``.

        Raises:
            ResultsError: the file cannot be read.
        """
        query = _CHOSEN.format(
            which="attempts.id" if every else "max(attempts.id)",
            group="" if every else "group by attempts.case_id, sessions.mode",
        )
        chosen = [
            number
            for number, verdict, name in self._all(query, (session, session))
            if (not verdicts or verdict in verdicts) and (api is None or fnmatch.fnmatchcase(name, api))
        ]
        for start in range(0, len(chosen), _CHUNK):
            part = chosen[start : start + _CHUNK]
            query = _ROWS.format(columns=self._columns(_OF_ATTEMPT, "attempts"), marks=", ".join("?" * len(part)))
            for row in self._all(query, part):
                found = _as_dict(row)
                yield {**found, "case": row[0], "canonical": text_of(row[1])} if numbered else found

    # ----------------------------------------------------------------------------------------

    def _open(self, path: Path) -> sqlite3.Connection:
        address = f"file:{quote(str(path.absolute()))}?mode=ro"
        try:
            return self._connect(address)
        except sqlite3.OperationalError as exc:
            # In a folder that this user may not write to, SQLite can make no shared memory for its log. Without a
            # log there is nothing to share, because nobody writes.
            log = path.with_name(f"{FILE_NAME}-wal")
            if log.exists() and log.stat().st_size:
                raise self._error(exc) from None
        except sqlite3.Error as exc:
            raise self._error(exc) from None
        try:
            return self._connect(f"{address}&immutable=1")
        except sqlite3.Error as exc:
            raise self._error(exc) from None

    def _connect(self, address: str) -> sqlite3.Connection:
        connection = sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            self._version = check_version(connection, self.folder)
            if not self._version:
                raise ResultsError(self.folder, f"{FILE_NAME} is empty: no session has begun to write it")
        except BaseException:
            connection.close()
            raise
        return connection

    def _columns(self, names: Iterable[str], table: str) -> str:
        """Their names for a query; null stands for those that an older file lacks. Reading changes no file."""
        missing = _ADDED if self._version < VERSION else frozenset()
        return ", ".join("null" if name in missing else f"{table}.{name}" for name in names)

    def _all(self, query: str, values: Any) -> list[Any]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as exc:
            raise self._error(exc) from None

    def _error(self, exc: sqlite3.Error) -> ResultsError:
        return damaged(self.folder, exc) if is_damage(exc) else ResultsError(self.folder, f"{FILE_NAME}: {exc}")


def _as_dict(row: Any) -> dict[str, Any]:
    _, canonical, config, api, mode, kind, session, extra, failure, stdout, stderr, *rest = row
    of_attempt = dict(zip(_OF_ATTEMPT, rest))
    found = {
        "config": config if config is not None else text_of(canonical),
        "verdict": of_attempt.pop("verdict"),
        "attempts": of_attempt.pop("attempts"),
        "api": api,
        "mode": mode,
        "device_kind": kind,
        "session": session,
        **of_attempt,
        **({"extra": json.loads(extra)} if extra else {}),
        "text": failure,
        "stdout": stdout,
        "stderr": stderr,
    }
    return {name: value for name, value in found.items() if value is not None}
