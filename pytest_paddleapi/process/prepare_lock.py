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
    """An exclusive lock of the kernel on a small file: it goes when its holder dies, however that happens.

    Args:
        path: the device's lock file. Where it is missing it is made with its folder's own permissions, so that those
            who share the folder share the lock; a missing folder is made private to the user.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def acquire(self, deadline: float, check: Callable[[], None] = lambda: None) -> None:
        """Wait for the lock until ``deadline`` (of ``time.monotonic``); does nothing where it is held already.

        ``check`` is called often while it waits, and may raise to end the wait.

        Raises:
            StartError: somebody else held it all the time, or there can be no such file.
        """
        if self._fd is not None:
            return
        fd = self._open()
        try:
            while not _try(fd, self.path):
                check()
                if time.monotonic() > deadline:
                    raise StartError(
                        f"another process has been preparing the same device for too long (lock {self.path})"
                    )
                time.sleep(_TRY_SECONDS)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd

    def release(self) -> None:
        """Let the next one prepare; does nothing where it is not held."""
        fd, self._fd = self._fd, None
        if fd is not None:
            # Closing would do, unless a fork of this process had a copy of the descriptor.
            fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)

    def _open(self) -> int:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            while True:
                # Not with one O_CREAT: in a sticky folder the kernel refuses that for another user's file.
                try:
                    return os.open(self.path, _FLAGS)
                except FileNotFoundError:
                    pass
                try:
                    return self._make()
                except FileExistsError:
                    continue  # another one has made it meanwhile
        except OSError as exc:
            raise StartError(f"the lock file of the device could not be opened: {exc}") from exc

    def _make(self) -> int:
        mode = stat.S_IMODE(self.path.parent.stat().st_mode) & 0o666
        fd = os.open(self.path, _FLAGS | os.O_CREAT | os.O_EXCL, mode)
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
