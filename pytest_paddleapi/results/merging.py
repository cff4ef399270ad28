"""Several results files made into one, as if one session had run what several did."""

from __future__ import annotations

import os
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from .errors import ResultsError
from .folder import LOCK_NAME, ResultsFolder
from .reading import ResultsReader
from .schema import FILE_NAME, SIDE_FILES, create, damaged, is_damage

__all__ = ["Merged", "MixedConditionsError", "merge_stores"]

#: What a session's verdicts depend on beside its mode; the column, and what people call it.
_CONDITIONS = {
    "device_kind": "kind of device",
    "paddle": "Paddle",
    "torch": "Torch",
    "options": "options that decide verdicts",
}
_STAGE = """
create temp table staged as select *, 0 as source, '' as mode from main.attempts limit 0;
create unique index temp.once on staged (session_id, case_id, ended, verdict);
create temp table session_ids (source integer, old integer, new integer, primary key (source, old));
"""
#: Attempts in the order in which they ended. Where a case's stand in several sources they are numbered anew; an
#: oversize one, which was never started, keeps its 0.
_RENUMBER = """
update staged set attempts = (
    select count(*) from staged as before
    where before.case_id = staged.case_id and before.mode = staged.mode and before.attempts > 0
        and (before.ended, before.rowid) <= (staged.ended, staged.rowid)
)
where attempts > 0 and (case_id, mode) in (
    select case_id, mode from staged group by case_id, mode having count(distinct source) > 1
)
"""


class MixedConditionsError(ResultsError):
    """Cases of one mode ran under conditions under which they cannot stand for each other."""


@dataclass
class Merged:
    """What came of it."""

    sessions: int = 0
    cases: int = 0
    attempts: int = 0
    #: Cases that stood in several stores.
    shared: int = 0
    #: Text about sessions that are not finished.
    warnings: list[str] = field(default_factory=list)


def merge_stores(out: Path, sources: Sequence[Path], *, force: bool = False, mixed: bool = False) -> Merged:
    """Make the folder ``out`` of the folders ``sources``; it is written whole or not at all.

    ``force`` replaces results that are there; ``mixed`` takes sessions under different conditions too.

    Raises:
        MixedConditionsError: there are some, without ``mixed``.
        ResultsError: a source cannot be read or is damaged; ``out`` is there without ``force``, belongs to a live
            session, or cannot be written.
    """
    merged = Merged()
    numbers = _check_sources(sources, merged, mixed)
    if not force and os.path.lexists(out) and (not out.is_dir() or any(out.iterdir())):
        raise ResultsError(out, "it is there already; give another name, or --force to replace its results")
    fresh = not out.exists()
    folder = ResultsFolder(out)
    done = False
    try:
        _write(folder, sources, numbers, merged)
        done = True
    finally:
        folder.close()
        if fresh and not done:
            with suppress(OSError):
                (folder.path / LOCK_NAME).unlink()
                folder.path.rmdir()
    return merged


#: The new number of each session by its source's place and its number there.
_Numbers = dict[tuple[int, int], int]


def _check_sources(sources: Sequence[Path], merged: Merged, mixed: bool) -> _Numbers:
    """Read every source through; the sessions in the order in which they began."""
    began: list[tuple[float, int, int]] = []
    conditions: dict[str, dict[tuple[str, ...], Path]] = defaultdict(dict)
    for place, source in enumerate(sources):
        with ResultsReader(source) as reader:
            reader.check()
            for session in reader.sessions():
                began.append((session["started"], place, session["id"]))
                if session["ended"] is None:
                    merged.warnings.append(
                        f"{source}: its session {session['id']} runs, or was killed: cases may be missing"
                    )
                conditions[session["mode"]].setdefault(tuple(session[name] for name in _CONDITIONS), source)
    for mode, found in conditions.items():
        if len(found) > 1 and not mixed:
            raise MixedConditionsError(sources[0], _differences(mode, found))
    return {(place, old): new for new, (_, place, old) in enumerate(sorted(began), 1)}


def _differences(mode: str, found: dict[tuple[str, ...], Path]) -> str:
    lines = [
        f"the sessions of the mode {mode} ran under different conditions, so their verdicts cannot stand together:"
    ]
    for place, name in enumerate(_CONDITIONS.values()):
        values: dict[str, Path] = {}
        for condition, source in found.items():
            values.setdefault(condition[place], source)
        if len(values) > 1:
            lines += [f"  {name}: {value} in {source}" for value, source in values.items()]
    return "\n".join([*lines, "leave some out, or give --mixed to keep all, each attempt with its own session"])


def _write(folder: ResultsFolder, sources: Sequence[Path], numbers: _Numbers, merged: Merged) -> None:
    partial = folder.path / f"{FILE_NAME}.{os.getpid()}.partial"
    try:
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(f"file:{quote(str(partial))}", uri=True, isolation_level=None)
        try:
            _fill(connection, sources, numbers, merged)
        finally:
            connection.close()
        _sync(partial)
        _clear_log(folder)
        os.replace(partial, folder.path / FILE_NAME)
        _sync(folder.path)
    except sqlite3.Error as exc:
        raise ResultsError(folder.path, f"the merged file cannot be written: {exc}") from None
    except OSError as exc:
        raise ResultsError(folder.path, f"the merged file cannot be written: {exc.strerror}") from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _fill(connection: sqlite3.Connection, sources: Sequence[Path], numbers: _Numbers, merged: Merged) -> None:
    # Nobody else sees the file before it is whole, so a journal would protect nothing.
    connection.execute("pragma journal_mode = off")
    connection.execute("pragma synchronous = off")
    create(connection)
    connection.executescript(_STAGE)
    for number, source in enumerate(sources):
        try:
            _attach(connection, source)
            connection.execute("begin")
            _take(connection, number, numbers)
            connection.execute("commit")
            connection.execute("detach source")
        except sqlite3.Error as exc:
            raise damaged(source, exc) if is_damage(exc) else ResultsError(source, f"{FILE_NAME}: {exc}") from None
    columns = ", ".join(_columns(connection, "attempts", without="id"))
    ordered = f"select {columns} from staged order by ended, rowid"
    merged.shared = _number(
        connection,
        "select count(*) from (select 1 from staged group by case_id, mode having count(distinct source) > 1)",
    )
    if merged.shared:
        connection.execute("create index temp.by_case on staged (case_id, mode)")
        connection.execute(_RENUMBER)
    connection.execute("begin")
    connection.execute(f"insert into main.attempts ({columns}) {ordered}")
    connection.execute("commit")
    for table in ("sessions", "cases", "attempts"):
        setattr(merged, table, _number(connection, f"select count(*) from main.{table}"))


def _attach(connection: sqlite3.Connection, source: Path) -> None:
    path = source / FILE_NAME
    address = f"file:{quote(str(path.absolute()))}?mode=ro"
    try:
        connection.execute("attach database ? as source", (address,))
        connection.execute("select count(*) from source.sessions")
    except sqlite3.OperationalError:
        # As in ResultsReader: a folder that this user may not write to, without a log.
        with suppress(sqlite3.Error):
            connection.execute("detach source")
        connection.execute("attach database ? as source", (f"{address}&immutable=1",))


def _take(connection: sqlite3.Connection, number: int, numbers: _Numbers) -> None:
    """Stage what the attached file has and none before it had."""
    _take_sessions(connection, number, numbers)
    connection.execute(
        "insert or ignore into main.cases (canonical, config, api) "
        "select canonical, config, api from source.cases order by id"
    )
    taken = [name for name in _shared(connection, "attempts") if name not in ("session_id", "case_id")]
    connection.execute(
        f"insert or ignore into staged (session_id, case_id, {', '.join(taken)}, source, mode) "
        f"select session_ids.new, known.id, {', '.join(f'attempt.{name}' for name in taken)}, ?, session.mode "
        "from source.attempts as attempt join source.cases as old on old.id = attempt.case_id "
        "join main.cases as known on known.canonical = old.canonical "
        "join source.sessions as session on session.id = attempt.session_id "
        "join session_ids on session_ids.source = ? and session_ids.old = attempt.session_id "
        "order by attempt.id",
        (number, number),
    )


def _take_sessions(connection: sqlite3.Connection, number: int, numbers: _Numbers) -> None:
    names = _shared(connection, "sessions")
    lasting = [name for name in names if name not in ("ended", "exit_status")]
    for row in connection.execute(f"select id, {', '.join(names)} from source.sessions order by id").fetchall():
        values = dict(zip(names, row[1:]))
        same = " and ".join(f"{name} is ?" for name in lasting)
        known = connection.execute(
            f"select id from main.sessions where {same}", [values[name] for name in lasting]
        ).fetchone()
        new = numbers[number, row[0]] if known is None else known[0]
        if known is None:
            connection.execute(
                f"insert into main.sessions (id, {', '.join(names)}) values (?, {', '.join('?' * len(names))})",
                (new, *values.values()),
            )
        else:
            # One of the copies may have been made before the session ended.
            connection.execute(
                "update main.sessions set ended = coalesce(ended, ?), exit_status = coalesce(exit_status, ?) "
                "where id = ?",
                (values["ended"], values["exit_status"], new),
            )
        connection.execute("insert into session_ids values (?, ?, ?)", (number, row[0], new))


def _columns(connection: sqlite3.Connection, table: str, *, without: str, schema: str = "main") -> list[str]:
    return [row[1] for row in connection.execute(f"pragma {schema}.table_info({table})") if row[1] != without]


def _shared(connection: sqlite3.Connection, table: str) -> list[str]:
    """Columns that the attached file has too; one of an older version has fewer."""
    source = _columns(connection, table, without="id", schema="source")
    return [name for name in _columns(connection, table, without="id") if name in source]


def _number(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])


def _clear_log(folder: ResultsFolder) -> None:
    """Move the log of the file that is replaced into it: SQLite would replay it into the new one."""
    path = folder.path / FILE_NAME
    for name in (FILE_NAME, *SIDE_FILES):
        folder.check_plain(name)
    if path.exists():
        with suppress(sqlite3.Error):  # a damaged file has no use for its log
            old = sqlite3.connect(path, isolation_level=None)
            try:
                old.execute("pragma journal_mode = delete")
            finally:
                old.close()
    for name in SIDE_FILES:
        (folder.path / name).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
