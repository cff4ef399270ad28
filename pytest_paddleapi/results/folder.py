"""The folder of a session's results: private files, and one writer at a time."""

from __future__ import annotations

import fcntl
import os
import pwd
import shlex
import socket
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from .errors import ResultsError, ResultsLockedError
from .rows import clean

__all__ = ["LOCK_NAME", "Holder", "ResultsFolder"]

LOCK_NAME = "session.lock"

#: ``O_NONBLOCK`` so that a FIFO in the file's place cannot make us wait for its other end.
_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
#: A command line that names thousands of node ids says as much by its beginning.
_LONGEST_COMMAND = 2000


class Holder(msgspec.Struct, frozen=True):
    """Who writes to a folder; ``started`` in seconds since 1970."""

    pid: int
    host: str
    user: str
    started: float
    command: str

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.started))
        return f"process {self.pid} of {self.user} on {self.host}, started {since}: {self.command}"


class ResultsFolder:
    """An open folder, locked by this process as long as it lives or until :meth:`close`.

    The lock is the kernel's (``flock``), so a process that is killed leaves nothing locked. What stands in the lock
    file only tells others who holds it.

    Args:
        path: made where it is missing, for this user alone; one that is there keeps its mode.
        own: it must belong to this user.

    Raises:
        ResultsLockedError: another live session has it; the text names that session.
        ResultsError: no such folder can be made or written to, or it, or a file of ours in it, is a symlink.
    """

    def __init__(self, path: Path, *, own: bool = False) -> None:
        self.path = Path(os.path.abspath(path))
        self._fd = self._open_folder(own)
        try:
            self._lock_fd = self._lock()
        except BaseException:
            os.close(self._fd)
            raise

    def file(self, name: str) -> Path:
        """The path of a file of ours, which is there afterwards, readable by this user alone if it is new.

        Raises:
            ResultsError: it is a symlink or no plain file, or it cannot be made.
        """
        os.close(self._open_file(name))
        return self.path / name

    def check_plain(self, name: str) -> None:
        """Make sure that a file of ours, if it is there, is a plain file.

        Raises:
            ResultsError: it is something else.
        """
        try:
            found = os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            return
        if not stat.S_ISREG(found.st_mode):
            raise ResultsError(self.path, f"{name} is a link, or no plain file; remove it")

    def close(self) -> None:
        """Let the next session in."""
        with suppress(OSError):  # a full disk or a removed file: the lock matters, not what it says
            os.ftruncate(self._lock_fd, 0)
        # Closing alone would not do if a fork had a copy of the descriptor.
        fcntl.flock(self._lock_fd, fcntl.LOCK_UN)
        os.close(self._lock_fd)
        os.close(self._fd)

    def _open_folder(self, own: bool) -> int:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                self.path.mkdir(0o700)
            fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as exc:
            why = "it is a symlink; give the real folder" if self.path.is_symlink() else _why(exc)
            raise ResultsError(self.path, why) from None
        if own and os.fstat(fd).st_uid != os.geteuid():
            os.close(fd)
            raise ResultsError(self.path, "the folder belongs to another user; give another one")
        return fd

    def _open_file(self, name: str) -> int:
        try:
            fd = os.open(name, os.O_RDWR | os.O_CREAT | _SAFE, 0o600, dir_fd=self._fd)
        except OSError as exc:
            self.check_plain(name)
            raise ResultsError(self.path, f"{name}: {_why(exc)}") from None
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise ResultsError(self.path, f"{name} is no plain file; remove it")
        return fd

    def _lock(self) -> int:
        fd = self._open_file(LOCK_NAME)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(fd, 0)
            os.pwrite(fd, msgspec.json.encode(_this_process()), 0)
        except BlockingIOError:
            text = _named_holder(fd)
            os.close(fd)
            raise ResultsLockedError(
                self.path, f"another session writes its results here ({text}); wait for it, or give another folder"
            ) from None
        except OSError as exc:
            os.close(fd)
            raise ResultsError(self.path, f"{LOCK_NAME}: {_why(exc)}") from None
        return fd


def _this_process() -> Holder:
    command = clean(shlex.join(sys.orig_argv)[:_LONGEST_COMMAND])
    return Holder(os.getpid(), socket.gethostname(), _user_name(), time.time(), command)


def _user_name() -> str:
    """The name of this process's user, or the number where there is no name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _named_holder(fd: int) -> str:
    try:
        return str(msgspec.json.decode(os.pread(fd, 65536, 0), type=Holder))
    except (msgspec.DecodeError, OSError, OverflowError, ValueError):
        return "it has just begun, or ends just now"


def _why(exc: OSError) -> str:
    return f"{exc.strerror}; give a folder that you may write to, on a disk with room"
