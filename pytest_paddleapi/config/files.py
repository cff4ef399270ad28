"""Config files: which ones a pattern names, and the lines of one."""

from __future__ import annotations

import codecs
import enum
import fnmatch
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from .errors import ConfigFileError
from .parse import MAX_LINE

_MAGIC = re.compile(r"[*?[]")
_SUFFIX = ".txt"
#: (device, inode): what makes two paths one file.
_Identity = tuple[int, int]


class LineKind(enum.Enum):
    """What a line that is neither blank nor a comment is."""

    CONFIG = "config"
    SKIPPED = "skipped"


class Line(NamedTuple):
    """One line, without the blanks around it; ``number`` counts from 1."""

    number: int
    text: str
    kind: LineKind


def find_files(patterns: Sequence[str], cwd: Path) -> list[Path]:
    """The files that ``patterns`` name, as absolute paths in the order named, each file once.

    A pattern is a file (with any suffix), a folder (every ``*.txt`` below it, sorted) or a glob, in which ``**`` stands
    for any number of folders. What a glob matches is sorted; a folder among it counts as one that was named, hidden
    names need a dot in the pattern. Symbolic links are followed; a folder that links lead to again is entered once.

    Args:
        patterns: as written by the user, relative to ``cwd`` or absolute, ``~`` for the home folder.
        cwd: the folder where relative patterns begin.

    Raises:
        ConfigFileError: a pattern matches nothing, or something that it names cannot be read; names it.
    """
    found: dict[_Identity, Path] = {}
    for pattern in patterns:
        for path in _matches(pattern, cwd):
            found.setdefault(_identity(path), path)
    return list(found.values())


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a file, one at a time; blank lines and ``#`` comments are passed over.

    The text is UTF-8, with or without a byte order mark; bytes that are not UTF-8 become lone surrogates
    (``surrogateescape``). Of a line longer than any config may be, only as much is kept as shows that it is too long.

    Raises:
        ConfigFileError: the file cannot be read, or is not the kind of text that a config file is.
    """
    number = 0
    try:
        _refuse_utf16(path)
        with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
            while line := file.readline(MAX_LINE + 1):
                number += 1
                if not line.endswith("\n"):
                    _pass_rest_of_line(file.readline)
                text = line.strip()
                if text.startswith("paddle."):
                    yield Line(number, text, LineKind.CONFIG)
                elif text and not text.startswith("#"):
                    yield Line(number, text, LineKind.SKIPPED)
    except OSError as exc:
        where = f" after line {number}" if number else ""
        raise ConfigFileError(f"cannot read the config file {printable(path)}{where}: {exc.strerror}") from exc


def printable(text: object) -> str:
    """``text`` with every character that does not print, lone surrogates included, written as an escape."""
    shown = str(text)
    return shown if shown.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in shown)


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def _refuse_utf16(path: Path) -> None:
    with open(path, "rb") as file:
        head = file.read(2)
    if head in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise ConfigFileError(
            f"the config file {printable(path)} is UTF-16; config files are UTF-8: iconv -f UTF-16 -t UTF-8 converts it"
        )


def _pass_rest_of_line(readline: Callable[[int], str]) -> None:
    while (rest := readline(MAX_LINE)) and not rest.endswith("\n"):
        pass


def _matches(pattern: str, cwd: Path) -> list[Path]:
    if not pattern.strip() or "\0" in pattern:
        raise ConfigFileError(f"'{printable(pattern)}' is no path of a config file, folder or glob")
    path = Path(os.path.abspath(cwd / os.path.expanduser(pattern)))
    if _stat(path) is not None:
        files = _take(path)
        if not files:
            raise ConfigFileError(f"the config folder {printable(path)} holds no *{_SUFFIX} file")
    elif _MAGIC.search(pattern):
        base, parts = _split_glob(path)
        if _stat(base) is None:
            raise _missing(pattern, base)
        files = [file for match in _glob(base, parts) for file in _take(match)] if parts else []
        if not files:
            raise ConfigFileError(f"the config glob '{printable(pattern)}' matches no file ({printable(path)})")
    else:
        raise _missing(pattern, path)
    return files


def _stat(path: Path) -> os.stat_result | None:
    """None where nothing has this name."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise ConfigFileError(f"the symbolic link {printable(path)} leads nowhere") from None
        return None
    except OSError as exc:
        raise ConfigFileError(f"cannot read the config path {printable(path)}: {exc.strerror}") from exc


def _identity(path: Path) -> _Identity:
    status = _stat(path)
    if status is None:
        raise ConfigFileError(f"the config path {printable(path)} has vanished")
    return status.st_dev, status.st_ino


def _is_folder(path: Path) -> bool:
    """False for what does not exist, and for a link that leads nowhere or in a circle."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except PermissionError as exc:
        raise ConfigFileError(f"cannot read the config path {printable(path)}: {exc.strerror}") from exc
    except OSError:
        return False


def _take(path: Path) -> list[Path]:
    """A file itself, or the text files below a folder."""
    if _is_folder(path):
        return _text_files(path)
    status = _stat(path)
    if status is None or not stat.S_ISREG(status.st_mode):
        raise ConfigFileError(f"the config path {printable(path)} is neither a file nor a folder")
    return [path]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as exc:
        raise ConfigFileError(f"cannot read the folder {printable(folder)}: {exc.strerror}") from exc


def _text_files(top: Path) -> list[Path]:
    files: list[Path] = []
    seen: set[_Identity] = set()
    folders = [top]
    while folders:
        folder = folders.pop()
        if _identity(folder) in seen:
            continue
        seen.add(_identity(folder))
        below: list[Path] = []
        for name in _names(folder):
            path = folder / name
            if _is_folder(path):
                below.append(path)
            elif name.endswith(_SUFFIX):
                files += _take(path)
        folders += reversed(below)
    return sorted(files)


def _split_glob(pattern: Path) -> tuple[Path, tuple[str, ...]]:
    """The folder where matching begins, and the parts to match. A folder that has just this name is meant itself."""
    base = Path(pattern.anchor)
    for index, part in enumerate(pattern.parts[1:], 1):
        if _MAGIC.search(part) and not os.path.lexists(base / part):
            return base, pattern.parts[index:]
        base /= part
    return base, ()


def _glob(base: Path, parts: tuple[str, ...]) -> list[Path]:
    found: set[Path] = set()
    seen: set[tuple[_Identity, int]] = set()
    pending = [(base, 0)]
    while pending:
        folder, index = pending.pop()
        if not _is_folder(folder) or (state := (_identity(folder), index)) in seen:
            continue
        seen.add(state)
        last = index == len(parts) - 1
        if parts[index] == "**":
            if last:
                found.add(folder)
                continue
            pending += [(folder / name, index) for name in reversed(_names(folder)) if not name.startswith(".")]
            pending.append((folder, index + 1))
            continue
        matching = [folder / name for name in _names(folder) if _name_matches(name, parts[index])]
        if last:
            found.update(matching)
        else:
            pending += [(path, index + 1) for path in reversed(matching)]
    return sorted(found)


def _name_matches(name: str, part: str) -> bool:
    hidden = name.startswith(".") and not part.startswith(".")
    return not hidden and fnmatch.fnmatchcase(name, part)


def _missing(pattern: str, path: Path) -> ConfigFileError:
    """Names the path and, of the first part of it that does not exist, its likely spelling."""
    import difflib

    absent = path
    while not absent.parent.exists():
        absent = absent.parent
    near = difflib.get_close_matches(absent.name, _names(absent.parent), n=3)
    guess = f"; did you mean {' or '.join(repr(printable(name)) for name in near)}?" if near else ""
    shown = f"the config path '{printable(pattern)}' does not exist"
    where = f": there is no '{printable(absent.name)}' in {printable(absent.parent)}"
    return ConfigFileError(f"{shown}{where}{guess}")
