"""The tables of a results file, and how its versions are told apart."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

from .errors import ResultsDamagedError, ResultsError

__all__ = ["FILE_NAME", "SIDE_FILES", "VERSION", "check_version", "create", "is_damage", "key", "migrate", "text_of"]

FILE_NAME = "results.sqlite"
#: What SQLite keeps beside the file while it is in use, and after a kill.
SIDE_FILES = tuple(f"{FILE_NAME}{suffix}" for suffix in ("-wal", "-shm", "-journal"))
#: Of the tables below; stands in the file as ``user_version``.
VERSION = 2
#: "padl" in ASCII: tells our files from other people's databases.
_APPLICATION = 0x7061646C

#: ``canonical`` has no type, so that what is no UTF-8 stands there as bytes. Whoever reads attempts reads most of
#: them, so an index on them would only make writing dearer.
_TABLES = (
    """
create table sessions (
    id integer primary key, conditions text not null, started real not null, ended real, exit_status integer,
    mode text not null, device_kind text not null, devices text not null, host text not null,
    paddle text not null, torch text not null, plugin text not null, pytest text not null, python text not null,
    options text not null, options_hash text not null, command text
)
""",
    "create table cases (id integer primary key, canonical not null unique, config text, api text not null)",
    """
create table attempts (
    id integer primary key, session_id integer not null references sessions, case_id integer not null references cases,
    verdict text not null, final integer not null, outcome text not null, attempts integer not null,
    ended real not null, file text not null, line integer not null, device text,
    seconds real, estimated_bytes integer, peak_bytes integer,
    compared_outputs integer, compared_gradients integer, compared_elements integer,
    max_abs_diff real, max_rel_diff real, tolerance text, extra text, failure text, stdout text, stderr text,
    started real, slot text, lease_bytes integer
)
""",
)


#: By version, what makes the tables of the next one of them. New columns stand at the end, in new files too.
_STEPS = {
    1: (
        "alter table sessions add column command text",
        "alter table attempts add column started real",
        "alter table attempts add column slot text",
        "alter table attempts add column lease_bytes integer",
    ),
}


def check_version(connection: sqlite3.Connection, folder: Path) -> int:
    """The version of the file's tables, at most :data:`VERSION`; 0 for an empty file.

    Raises:
        ResultsError: a newer version of the plugin wrote it, or it is somebody else's database.
        sqlite3.DatabaseError: it cannot be read.
    """
    version = connection.execute("pragma user_version").fetchone()[0]
    application = connection.execute("pragma application_id").fetchone()[0]
    if application == _APPLICATION and 0 < version <= VERSION:
        return int(version)
    if application == _APPLICATION and version > VERSION:
        raise ResultsError(
            folder,
            f"{FILE_NAME} has version {version}, which a newer pytest-paddleapi wrote; this one knows version "
            f"{VERSION}: upgrade, or give another folder",
        )
    tables = connection.execute("select count(*) from sqlite_master").fetchone()[0]
    if tables or application or version:
        raise ResultsError(folder, f"{FILE_NAME} is a database, but not of results; give another folder")
    return 0


def create(connection: sqlite3.Connection) -> None:
    """Make the tables, all or none. The connection must be in autocommit mode."""
    _execute(connection, (*_TABLES, f"pragma application_id = {_APPLICATION}", f"pragma user_version = {VERSION}"))


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Bring the tables of an older ``version`` up to date, wholly or not at all; nothing that they hold is lost."""
    steps = [step for number in range(version, VERSION) for step in _STEPS[number]]
    if steps:
        _execute(connection, (*steps, f"pragma user_version = {VERSION}"))


def _execute(connection: sqlite3.Connection, statements: Iterable[str]) -> None:
    connection.execute("begin immediate")
    try:
        for statement in statements:
            connection.execute(statement)
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def is_damage(exc: sqlite3.Error) -> bool:
    """The file's content is wrong, as opposed to a full disk, a lock or a missing right."""
    return type(exc) is sqlite3.DatabaseError


def damaged(folder: Path, exc: object) -> ResultsDamagedError:
    """The error that says so."""
    return ResultsDamagedError(folder, f"{FILE_NAME} is damaged ({exc})")


def key(canonical: str) -> str | bytes:
    """What stands for a case: its canonical text, as bytes where that is no UTF-8."""
    try:
        canonical.encode("utf-8")
    except UnicodeEncodeError:
        return canonical.encode("utf-8", "surrogatepass")
    return canonical


def text_of(found: str | bytes) -> str:
    """The canonical text of a :func:`key`."""
    return found if isinstance(found, str) else found.decode("utf-8", "surrogatepass")
