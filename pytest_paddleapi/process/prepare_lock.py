"""One process at a time prepares a device, whichever worker it belongs to."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

from .errors import StartError

#: How often a lock that another process holds is tried again.
_TRY_SECONDS = 0.02
#: Nobody may make us open something else, which is why no symbolic link is followed.
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


class PrepareLock:
    """Exclusive locks of the kernel on small files: they go when their holder dies, however that happens.

    Args:
        paths: each device's lock file. Two who want some of the same ones never wait for each other. Where one is
            missing it is made with its folder's own permissions, so that those who share the folder share the lock; a
            missing folder is made private to the user.
    """

    def __init__(self, *paths: Path) -> None:
        # Everybody takes them in the same order.
        self.paths = tuple(sorted(paths))
        self._fds: list[int] = []

    def acquire(self, deadline: float, check: Callable[[], None] = lambda: None) -> None:
        """Wait for the lock until ``deadline`` (of ``time.monotonic``); does nothing where it is held already.

        ``check`` is called often while it waits, and may raise to end the wait.

        Raises:
            StartError: somebody else held it all the time, or there can be no such file.
        """
        if self._fds:
            return
        try:
            for path in self.paths:
                self._fds.append(fd := _open(path))
                while not _try(fd, path):
                    check()
                    if time.monotonic() > deadline:
                        raise StartError(
                            f"another process has been preparing the same device for too long (lock {path})"
                        )
                    time.sleep(_TRY_SECONDS)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let the next one prepare; does nothing where it is not held."""
        while self._fds:
            fd = self._fds.pop()
            # Closing would do, unless a fork of this process had a copy of the descriptor.
            fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            # Not with one O_CREAT: in a sticky folder the kernel refuses that for another user's file.
            try:
                return os.open(path, _FLAGS)
            except FileNotFoundError:
                pass
            try:
                return _make(path)
            except FileExistsError:
                continue  # another one has made it meanwhile
    except OSError as exc:
        raise StartError(f"the lock file of the device could not be opened: {exc}") from exc


def _make(path: Path) -> int:
    mode = stat.S_IMODE(path.parent.stat().st_mode) & 0o666
    fd = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, mode)
    os.fchmod(fd, mode)  # whatever the umask took away
    return fd


def _try(fd: int, path: Path) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as exc:
        raise StartError(f"{path} cannot be locked, and its folder must be on a file system with locks: {exc}") from exc
    return True
