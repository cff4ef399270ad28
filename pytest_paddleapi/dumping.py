"""``--paddleapi-dump``: pytest's side. The folder is checked before anything runs; the verdict is added at the end."""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from .process.messages import CaseResult

__all__ = ["add_verdict", "make_folder"]

_FLAG = "--paddleapi-dump"
#: As the case process writes them.
_INDEX = "index.json"
_FORMAT = "pytest-paddleapi dump 1"
_INDEX_LIMIT = 64 << 20


def make_folder(path: Path) -> None:
    """Make the folder of a dump, for this user alone, or see that the one that is there may be used.

    Raises:
        pytest.UsageError: it is a symlink, another user's or open to others, or holds something else than a dump.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = _open(path)
    except OSError as exc:
        raise pytest.UsageError(f"{_FLAG}={path}: {exc.strerror}; name a new folder, which is no symlink") from None
    try:
        state = os.fstat(folder)
        if state.st_uid != os.getuid() or stat.S_IMODE(state.st_mode) & 0o022:
            raise pytest.UsageError(f"{_FLAG}={path}: others may write to this folder; name one that is yours alone")
        names = set(os.listdir(folder))
        if names and _read(folder).get("format") != _FORMAT:
            raise pytest.UsageError(
                f"{_FLAG}={path}: it holds {sorted(names)[0]!r} and no earlier dump, which could be replaced; "
                "name a new or empty folder"
            )
    finally:
        os.close(folder)


def add_verdict(path: Path, config: str, result: CaseResult) -> None:
    """Add how the case ended to the index; makes one where the case process came to none.

    Raises:
        OSError: the folder cannot be written.
    """
    folder = _open(path)
    try:
        index = _read(folder)
        if index.get("config") != config:
            index = {"format": _FORMAT, "config": config, "arrays": [], "values": []}
        measured: dict[str, Any] = msgspec.to_builtins(result.measured)
        numbers = {name: repr(value) if isinstance(value, float) else value for name, value in measured.items()}
        index |= {"verdict": result.verdict.value, "text": result.text, "measured": numbers}
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with suppress(FileNotFoundError):
            os.unlink(f"{_INDEX}.new", dir_fd=folder)
        with os.fdopen(os.open(f"{_INDEX}.new", flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(json.dumps(index, indent=1).encode("utf-8", "backslashreplace"))
        os.replace(f"{_INDEX}.new", _INDEX, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _read(folder: int) -> dict[str, Any]:
    """The index; empty where there is none that can be read."""
    try:
        file = os.open(_INDEX, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return {}
    with os.fdopen(file, "rb") as opened:
        try:
            found = json.loads(opened.read(_INDEX_LIMIT))
        except ValueError:
            return {}
    return found if isinstance(found, dict) else {}
