"""A place that keeps objects by name, and how one is opened."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from ..process.messages import GoldenOptions
from .errors import StoreError
from .redact import redact

__all__ = ["Pieces", "Store", "open_store", "path_of", "scheme_of"]

#: An object in pieces, one after the other.
Pieces = Sequence[bytes | memoryview]
_T = TypeVar("_T")
#: Seconds before the second and the third try: long enough for a dropped connection, short beside a case.
_WAITS = (0.5, 2.0)


class Store(Protocol):
    """Objects by name; names are relative, with ``/``. One that is being written is not seen before it is whole."""

    def read(self, name: str, limit: int) -> memoryview | None:
        """The whole object, in memory that may be written to; None where there is none.

        Raises:
            StoreError: it cannot be read.
            DamagedGoldenError: it has more than ``limit`` bytes.
        """

    def write(self, name: str, pieces: Pieces) -> None:
        """Put an object in the place of what is there.

        Raises:
            StoreError: it cannot be written; what was there is there still.
        """


def scheme_of(url: str) -> str:
    """``s3`` of ``s3://bucket/prefix``; ``file`` of a path."""
    return url.partition("://")[0].lower() if "://" in url else "file"


def path_of(url: str) -> str:
    """The path of a ``file`` URL, or of a path."""
    return url.partition("://")[2] if "://" in url else url


def open_store(options: GoldenOptions) -> Store:
    """The store that the options name; nothing of it is looked at.

    Raises:
        StoreError: the library for it is not installed, or does not take the URL.
    """
    if options.bcecmd:
        from .bos import BosStore

        return Patient(BosStore(options.url, options.bcecmd, options.bos_conf))
    if scheme_of(options.url) == "file":
        from .local import LocalStore

        return LocalStore(path_of(options.url))
    from .remote import RemoteStore

    return Patient(RemoteStore(options.url))


class Patient:
    """A store behind a network: what fails is tried twice more."""

    def __init__(self, store: Store, sleep: Callable[[float], None] = time.sleep) -> None:
        self._store = store
        self._sleep = sleep

    def read(self, name: str, limit: int) -> memoryview | None:
        """As :meth:`Store.read`."""
        return self._tried(lambda: self._store.read(name, limit))

    def write(self, name: str, pieces: Pieces) -> None:
        """As :meth:`Store.write`."""
        self._tried(lambda: self._store.write(name, pieces))

    def _tried(self, do: Callable[[], _T]) -> _T:
        for wait in _WAITS:
            try:
                return do()
            except StoreError as exc:
                if exc.final:
                    raise
                self._sleep(wait)
        try:
            return do()
        except StoreError as exc:
            raise StoreError(f"{exc} (tried {len(_WAITS) + 1} times)") from None


def place(url: str, name: str) -> str:
    """An object's place, as it is shown."""
    return f"{redact(url).rstrip('/')}/{name}"
