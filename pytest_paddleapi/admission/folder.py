"""The ledger's folder: where it is, who may own it, and whether locks in it are real.

Everything inside is reached through the folder's descriptor and never through a symlink, so nobody can move
the folder, or a file in it, out from under us between a check and its use.
"""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .errors import LedgerFolderError

__all__ = [
    "Folder",
    "advice",
    "check_folder",
    "check_lock",
    "default_folder",
    "filesystem_of",
    "open_file",
    "open_folder",
]

#: ``O_NONBLOCK`` so that a FIFO planted in a shared folder cannot make us wait for its other end.
_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

_PRIVATE_MODE = 0o700

_GOT_IT = 3

# What the second process of the lock test runs: 0 if the lock is held against it, as it must be.
_LOCK_TEST = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(0)
sys.exit(3)
"""


def default_folder() -> Path:
    """This user's ledger on this host.

    All sessions must find the same folder, so it does not depend on the environment: ``XDG_RUNTIME_DIR`` is not
    set in a cron job, ``TMPDIR`` differs between batch jobs, and a service may have a private ``/tmp``. In
    ``/dev/shm`` it is also gone after a reboot, like the processes it tells about, and writes cost no disk.
    """
    name = f"pytest-paddleapi-ledger-{os.geteuid()}"
    for base in ("/dev/shm", "/tmp"):
        if _is_safe_base(base):
            return Path(base, name)
    return Path(tempfile.gettempdir(), name)


def _is_safe_base(base: str) -> bool:
    try:
        found = os.lstat(base)
    except OSError:
        return False
    # Where everybody may write, only the sticky bit keeps others from renaming our folder away.
    open_to_all = bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    safe = stat.S_ISDIR(found.st_mode) and (bool(found.st_mode & stat.S_ISVTX) or not open_to_all)
    return safe and os.access(base, os.W_OK | os.X_OK)


@dataclass(frozen=True, slots=True)
class Folder:
    """An open folder. ``file_mode`` is the mode of every file in it; ``private`` says it is only this user's."""

    path: str
    fd: int
    file_mode: int
    private: bool


def open_folder(path: Path | None) -> Folder:
    """Open, or make, the ledger's folder: the user's own for None, else a given one, which others may share.

    The default one must be the user's own and closed to others. A given one may belong to somebody else; its files
    get the folder's own permissions, so a folder of mode 0770 is shared with its group.

    Raises:
        LedgerFolderError: a symlink, another user's, open to others, not a folder, or not writable.
    """
    private = path is None
    text = os.path.abspath(path if path is not None else default_folder())
    try:
        with suppress(FileExistsError):  # ours from before, or whatever the checks below find out
            os.mkdir(text, _PRIVATE_MODE)
    except OSError as exc:
        raise LedgerFolderError(text, f"cannot be made: {exc.strerror}; {advice(exc)}") from exc
    try:
        fd = os.open(text, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as exc:
        why = "is a symlink; give the real folder" if os.path.islink(text) else f"{exc.strerror}; {advice(exc)}"
        raise LedgerFolderError(text, why) from exc
    try:
        return Folder(text, fd, _file_mode(text, os.fstat(fd), private), private)
    except BaseException:
        os.close(fd)
        raise


def check_folder(path: Path | None) -> None:
    """Open the folder as a session would, and let go of it.

    Raises:
        LedgerFolderError: as :func:`open_folder`.
    """
    os.close(open_folder(path).fd)


def advice(exc: OSError) -> str:
    """What to do about a folder that gives this error."""
    if exc.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return "give a folder that you may write to (--paddleapi-ledger)"
    if exc.errno == errno.ENOENT:
        return "make the folder above it first"
    return "give another folder (--paddleapi-ledger)"


def _file_mode(path: str, found: os.stat_result, private: bool) -> int:
    if private and found.st_uid != os.geteuid():
        raise LedgerFolderError(
            path,
            f"belongs to user {found.st_uid}, not to {os.geteuid()}; "
            "remove it, or give another folder (--paddleapi-ledger)",
        )
    if private and stat.S_IMODE(found.st_mode) & 0o077:
        raise LedgerFolderError(path, f"is open to others (mode {stat.S_IMODE(found.st_mode):04o}); chmod 700 it")
    return stat.S_IMODE(found.st_mode) & 0o666


def open_file(folder: Folder, name: str, flags: int) -> int:
    """Open a file of the folder, following no symlink and waiting for nobody. A new one gets the folder's mode.

    Raises:
        OSError: as ``os.open``; ELOOP for a symlink.
        LedgerFolderError: ``name`` is something else than a plain file.
    """
    fd = os.open(name, flags | _SAFE, folder.file_mode, dir_fd=folder.fd)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise LedgerFolderError(folder.path, f"{name} is not a plain file; remove it")
        if flags & os.O_CREAT and not folder.private:
            os.fchmod(fd, folder.file_mode)  # whatever the umask took away: the folder says who may share
    except BaseException:
        os.close(fd)
        raise
    return fd


def check_lock(folder: Folder, name: str) -> None:
    """Make sure that the lock which this process holds on ``name`` keeps another process out. Takes about 20 ms.

    The other process is executed afresh rather than forked: this one may have threads, and a fork would inherit
    the very descriptor that is being tested.

    Raises:
        LedgerFolderError: the other one got the lock too, or could not try.
    """
    command = [sys.executable, "-I", "-S", "-c", _LOCK_TEST, os.path.join(folder.path, name)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError) as exc:
        raise LedgerFolderError(folder.path, f"the lock test could not run {sys.executable!r}: {exc}") from exc
    if done.returncode == _GOT_IT:
        why = (
            f"locks on its filesystem{filesystem_of(folder)} keep nobody out; "
            "give a folder on a local disk (--paddleapi-ledger)"
        )
        raise LedgerFolderError(folder.path, why)
    if done.returncode != 0:
        raise LedgerFolderError(folder.path, f"the lock test failed: {done.stderr.decode(errors='replace').strip()}")


def filesystem_of(folder: Folder) -> str:
    """`` (nfs4)`` and the like for a message, or nothing where it cannot be told."""
    device = os.fstat(folder.fd).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            kinds = [line.partition(" - ")[2].split()[0] for line in file if line.split()[2] == wanted]
    except OSError:
        return ""
    return f" ({kinds[0]})" if kinds else ""
