"""The ledger's files: for every session a lock that is its life, and a file of leases.

    ledger.mutex          held (flock) for one transaction, by whoever reads or writes anything here
    <session>.lock        held (flock) by its session from its first moment to its last
    <session>.leases      what that session promises; only its session writes it
    <session>.pause       asks that session to pause (made from outside)
    <session>.damaged     a lease file of that session that could not be read, set aside

The lock is a file of its own because a lease file is replaced with every change, and a lock stays with the file that
it was taken on.

A flock belongs to an open file description, and every process that inherits a descriptor of it keeps the lock
alive. All descriptors are close-on-exec, and a child made by a bare ``os.fork`` closes them at once, so neither can
outlive the session for more than the instant between fork and exec. A process forked from C that never executes
anything, and lives on, would.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
import time
import warnings
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from .errors import LedgerError, LedgerFolderError, LedgerWarning, LedgerWriteError
from .folder import advice, check_lock, open_file, open_folder
from .mutex import Identity, Mutex, identity, is_in_place, open_existing_or_new, try_lock
from .records import DamagedFileError, Lease, OtherVersionError, SessionHeader, decode_file, encode_file

__all__ = ["SESSION_PREFIX", "LedgerStore", "SessionState"]

_LOCK, _LEASES, _NEW, _PAUSE, _DAMAGED = ".lock", ".leases", ".new", ".pause", ".damaged"

#: Every file that we ever delete begins like this: a given folder may hold other things.
SESSION_PREFIX = "paddleapi-"
_SESSION_NAME = re.compile(re.escape(SESSION_PREFIX) + r"[a-z0-9-]{1,64}")

#: Far more than thousands of leases take. In a shared folder somebody else could write without end.
_LARGEST_FILE = 16 << 20

#: Tells one version of a lease file from another: modification time, inode, size.
_Signature = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class SessionState:
    """A live session. ``unknown`` is empty, or says why its leases cannot be known; then anything may be promised."""

    name: str
    header: SessionHeader | None = None
    leases: tuple[Lease, ...] = ()
    unknown: str = ""
    paused: bool = False


class LedgerStore:
    """Access to one ledger folder; with ``session``, as a member that has a lock and a lease file of its own.

    Nothing here knows what memory is. Threads may share one; a forked child cannot use it. ``header`` is the line
    about the session at the head of its lease file (``encode_line``).

    Raises:
        LedgerFolderError: the folder cannot hold a ledger.
        LedgerBusyError: the mutex could not be had within ``wait`` seconds.
    """

    def __init__(self, path: Path | None, *, wait: float, session: str | None = None, header: bytes = b"") -> None:
        if session is not None and not _SESSION_NAME.fullmatch(session):
            raise ValueError(f"{session!r} is no name of a session ({_SESSION_NAME.pattern})")
        self.session = session
        self._header = header
        #: True when this session's file is not what it last wrote; the transaction must publish again.
        self.stale = False
        #: True while somebody asks this session to pause; as of the last transaction.
        self.paused = False
        self._path = path
        self._wait = wait
        self._threads = threading.Lock()
        self._owner = os.getpid()
        self._closed = False
        self._lock = -1
        self._lock_id: Identity = (0, 0)
        self._signature: _Signature | None = None
        self._version = 0
        self._locks: dict[str, int] = {}
        self._known: dict[str, tuple[_Signature, SessionState]] = {}
        self._notes: list[str] = []
        self._folder = open_folder(path)
        try:
            self._mutex = Mutex(self._folder)
        except BaseException:
            os.close(self._folder.fd)
            raise
        _open_stores.add(self)
        if session is not None:
            try:
                # In one step with the lock: a live session without a lease file is one that nobody can reckon with.
                with self.transaction():
                    self.publish(())
                check_lock(self._folder, session + _LOCK)
            except BaseException:
                self.close()
                raise

    @property
    def path(self) -> str:
        """The folder, absolute."""
        return self._folder.path

    # -- transactions

    @contextmanager
    def transaction(self) -> Iterator[tuple[SessionState, ...]]:
        """Hold the mutex; gives the other live sessions. The dead are gone when this begins.

        Raises:
            LedgerBusyError: the mutex could not be had in time.
            LedgerError: this store is closed, or another process's.
        """
        with self._threads:
            self._check_usable()
            try:
                while not self._mutex.take(self._wait):
                    self._reopen()
                yield self._scan()
            finally:
                # Here, so that an interrupt right after taking it cannot leave it taken.
                if not self._closed:
                    self._mutex.release()
        notes, self._notes = self._notes, []
        for note in notes:  # a filter may turn a warning into an error: not while the ledger is held
            warnings.warn(f"ledger {self.path}: {note}", LedgerWarning, stacklevel=4)

    def publish(self, leases: Iterable[bytes]) -> None:
        """Replace this session's lease file (lines as of ``encode_line``). Only inside a transaction.

        The new text is complete in a file of its own before the old file goes, so a full disk changes nothing.
        The old name is unlinked before the rename, not by it: ext4 writes a file through when it is renamed onto
        another, which takes 360 µs instead of 70. Nobody looks in between without the mutex, and if we die there,
        we no longer hold anything anyhow.

        Readers keep what they read for as long as the file's modification time, inode and size stay. An inode
        number is soon used again and two writes can fall into one tick of the clock, so the time is set to a
        number that only grows: no two versions of this file have the same. The number stands in the file too;
        where the filesystem does not keep it exactly, readers see that and keep nothing.

        Raises:
            LedgerWriteError: it could not be written; what it said before still holds.
        """
        name = self._own_name()
        version = max(self._version + 1, time.time_ns())
        try:
            signature = self._write_new(name + _NEW, encode_file(version, self._header, leases), version)
            with suppress(FileNotFoundError):
                os.unlink(name + _LEASES, dir_fd=self._folder.fd)
            os.rename(name + _NEW, name + _LEASES, src_dir_fd=self._folder.fd, dst_dir_fd=self._folder.fd)
        except OSError as exc:
            with suppress(OSError):
                os.unlink(name + _NEW, dir_fd=self._folder.fd)
            why = f"cannot write {name + _LEASES} ({exc.strerror}); what it said before still holds"
            raise LedgerWriteError(self.path, why + ("; make room there" if exc.errno == errno.ENOSPC else "")) from exc
        self._version, self._signature, self.stale = version, signature, False

    def _write_new(self, name: str, payload: bytes, version: int) -> _Signature:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            fd = open_file(self._folder, name, flags)
        except FileExistsError:  # left by a write that failed, or planted
            os.unlink(name, dir_fd=self._folder.fd)
            fd = open_file(self._folder, name, flags)
        try:
            view = memoryview(payload)
            while view:
                view = view[os.write(fd, view) :]
            os.utime(fd, ns=(version, version))
            return _signature(os.fstat(fd))
        finally:
            os.close(fd)

    # -- the life of a session

    def _make_lock(self, name: str) -> None:
        """Only under the mutex: a lock file that nobody holds is a dead session to everyone else."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        try:
            with suppress(FileNotFoundError):  # one that is not ours: names are random, so it was planted
                os.unlink(name + _LOCK, dir_fd=self._folder.fd)
            fd = open_file(self._folder, name + _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except OSError as exc:
            raise LedgerFolderError(self.path, f"cannot be written: {exc.strerror}; {advice(exc)}") from exc
        self._lock, self._lock_id = fd, identity(os.fstat(fd))
        if not try_lock(self._folder, fd):
            raise LedgerFolderError(
                self.path, f"another process took the lock {name + _LOCK} in the moment it was made"
            )

    def close(self) -> None:
        """Leave the ledger: this session holds nothing afterwards. Can be called again."""
        if self._lock >= 0 and not self._closed:
            # Where this fails the lock goes all the same, and the next reader clears away the files.
            with suppress(LedgerError), self.transaction():
                self._remove(self._own_name())
        self._drop_descriptors()

    def _drop_descriptors(self) -> None:
        """Close, not unlock: in a forked child an unlock would take the parent's locks away."""
        if not self._closed:
            self._drop_folder()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _drop_folder(self) -> None:
        self._closed = True
        self._mutex.close()
        os.close(self._folder.fd)
        for fd in self._locks.values():
            os.close(fd)
        self._locks.clear()
        self._known.clear()

    def _own_name(self) -> str:
        if self.session is None:
            raise LedgerError(self.path, "only a session can write leases; this is an observer")
        return self.session

    def _check_usable(self) -> None:
        if self._owner != os.getpid():
            raise LedgerError(self.path, f"was opened by process {self._owner}; a forked child must open its own")
        if self._closed:
            raise LedgerError(self.path, "is closed")

    def _reopen(self) -> None:
        """Somebody cleaned the folder away under us (tmp cleaners do). Go where the others will go.

        This session's own lock stays held until it is found out of place: perhaps only the mutex was removed.
        """
        self._notes.append("was removed or replaced while in use; made anew, with this session's leases")
        self._drop_folder()
        self._folder = open_folder(self._path)
        try:
            self._mutex = Mutex(self._folder)
        except BaseException:
            os.close(self._folder.fd)
            raise
        self._closed = False

    # -- looking around

    def _scan(self) -> tuple[SessionState, ...]:
        sessions: set[str] = set()
        companions: list[tuple[str, str]] = []
        names = os.listdir(self._folder.fd)
        for name in names:
            if name.startswith(SESSION_PREFIX):
                stem, dot, suffix = name.rpartition(".")
                if dot + suffix == _LOCK:
                    sessions.add(stem)
                else:
                    companions.append((stem, dot + suffix))
        paused = {stem for stem, suffix in companions if suffix == _PAUSE}
        if self.session is not None:
            self._look_after_own(self.session)
            self.paused = self.session in paused
            sessions.discard(self.session)
        for gone in self._locks.keys() - sessions:
            self._forget(gone)
        for stem, suffix in companions:
            if stem not in sessions and stem != self.session:
                self._clear_orphan(stem, suffix)
        found = (self._look_at(name, name in paused) for name in sorted(sessions))
        return tuple(state for state in found if state is not None)

    def _look_after_own(self, name: str) -> None:
        if self._lock < 0 or not is_in_place(name + _LOCK, self._lock_id, self._folder.fd):
            self._make_lock(name)
        try:
            found = os.stat(name + _LEASES, dir_fd=self._folder.fd, follow_symlinks=False)
        except OSError:
            self.stale = True
        else:
            self.stale = _signature(found) != self._signature

    def _clear_orphan(self, stem: str, suffix: str) -> None:
        if suffix in (_LEASES, _NEW, _PAUSE, _DAMAGED) and _SESSION_NAME.fullmatch(stem):
            with suppress(OSError):  # another user's in a sticky folder: it says nothing, leave it
                os.unlink(stem + suffix, dir_fd=self._folder.fd)

    def _look_at(self, name: str, paused: bool) -> SessionState | None:
        """The session called ``name``; None if it is dead (and now gone), or no session."""
        if not _SESSION_NAME.fullmatch(name):
            return None
        try:
            if not self._is_alive(name):
                self._remove(name)
                self._forget(name)  # the last: whoever sees the files must see them locked
                return None
            return self._read(name, paused)
        except FileNotFoundError:
            return None  # a cleaner took its lock away; its owner will make it anew
        except LedgerFolderError:
            return None  # not a plain file, so nobody's lock
        except OSError as exc:
            if exc.errno in (errno.ELOOP, errno.EISDIR):
                return None  # nor is a symlink or a folder
            return SessionState(name, unknown=f"its files cannot be read ({exc.strerror})", paused=paused)

    def _is_alive(self, name: str) -> bool:
        while True:
            fd = self._locks.get(name)
            if fd is None:
                fd = self._locks[name] = open_file(self._folder, name + _LOCK, os.O_RDWR)
            if not try_lock(self._folder, fd):
                return True
            # Dead, if this is still the file of that name: its owner may have made the lock anew.
            if is_in_place(name + _LOCK, identity(os.fstat(fd)), self._folder.fd):
                return False
            self._forget(name)

    def _forget(self, name: str) -> None:
        os.close(self._locks.pop(name))
        self._known.pop(name, None)

    def _remove(self, name: str) -> None:
        # The lock last: a lease file without a lock is nobody's, a lock without a lease file is a live unknown.
        for suffix in (_LEASES, _NEW, _PAUSE, _DAMAGED, _LOCK):
            with suppress(OSError):  # not there, or another user's in a sticky folder, who will clear it himself
                os.unlink(name + suffix, dir_fd=self._folder.fd)

    def _read(self, name: str, paused: bool) -> SessionState:
        try:
            found = os.stat(name + _LEASES, dir_fd=self._folder.fd, follow_symlinks=False)
        except FileNotFoundError:
            return SessionState(name, unknown="its lease file is gone", paused=paused)
        known = self._known.get(name)
        if known is not None and known[0] == _signature(found) and known[1].paused == paused:
            return known[1]
        self._known.pop(name, None)
        try:
            file = decode_file(self._read_leases(name))
        except OtherVersionError as exc:
            return SessionState(name, unknown=f"{exc}; use one version of pytest-paddleapi on a host", paused=paused)
        except DamagedFileError as exc:
            self._set_aside(name, str(exc))
            return SessionState(name, unknown=f"its lease file was damaged ({exc})", paused=paused)
        state = SessionState(name, file.header, file.leases, paused=paused)
        if file.version == found.st_mtime_ns:
            self._known[name] = (_signature(found), state)
        return state

    def _read_leases(self, name: str) -> bytes:
        try:
            fd = open_file(self._folder, name + _LEASES, os.O_RDONLY)
        except LedgerFolderError as exc:
            raise DamagedFileError(exc.why) from exc
        except OSError as exc:
            if exc.errno == errno.ELOOP:
                raise DamagedFileError("it is a symlink") from exc
            raise
        try:
            found = os.fstat(fd)
            if found.st_size > _LARGEST_FILE:
                raise DamagedFileError(f"it has {found.st_size} bytes")
            if found.st_uid != os.fstat(self._locks[name]).st_uid:
                raise DamagedFileError(f"it belongs to user {found.st_uid}, its lock to another")
            chunks = []
            while chunk := os.read(fd, 1 << 20):
                chunks.append(chunk)
            return b"".join(chunks)
        finally:
            os.close(fd)

    def _set_aside(self, name: str, why: str) -> None:
        with suppress(OSError):  # another user's in a sticky folder: it stays where it is, and as unknown as before
            os.rename(name + _LEASES, name + _DAMAGED, src_dir_fd=self._folder.fd, dst_dir_fd=self._folder.fd)
        self._notes.append(
            f"the lease file of the live session {name} was damaged ({why}); set aside as {name + _DAMAGED}. "
            "Nothing new is promised until that session has written it again"
        )

    # -- pausing

    def set_paused(self, name: str, paused: bool) -> None:
        """Ask a session to pause, or to go on. Only inside a transaction.

        Raises:
            LedgerError: no such session is alive, or its flag cannot be written.
        """
        if not _SESSION_NAME.fullmatch(name):
            raise LedgerError(self.path, f"has no session {name!r}")
        try:
            os.stat(name + _LOCK, dir_fd=self._folder.fd, follow_symlinks=False)
            if paused:
                os.close(open_existing_or_new(self._folder, name + _PAUSE))
            else:
                with suppress(FileNotFoundError):
                    os.unlink(name + _PAUSE, dir_fd=self._folder.fd)
        except FileNotFoundError as exc:
            raise LedgerError(self.path, f"has no live session {name!r}") from exc
        except OSError as exc:
            raise LedgerError(self.path, f"cannot set the pause flag of {name}: {exc.strerror}") from exc


def _signature(found: os.stat_result) -> _Signature:
    # A link or a device in its place is as good as a change.
    return (found.st_mtime_ns, found.st_ino, found.st_size) if stat.S_ISREG(found.st_mode) else (-1, -1, -1)


_open_stores: weakref.WeakSet[LedgerStore] = weakref.WeakSet()


def _close_in_child() -> None:
    for store in tuple(_open_stores):
        store._drop_descriptors()


os.register_at_fork(after_in_child=_close_in_child)
