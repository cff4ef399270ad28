"""Golden results at any URL that fsspec knows."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .errors import DamagedGoldenError, StoreError
from .redact import redact, scrub
from .store import Pieces, place, scheme_of

#: Where one request puts a whole object or none of it. Elsewhere it is put beside its place and moved there.
_ATOMIC = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "oci", "r2"})
_S3 = frozenset({"s3", "s3a"})
#: Seconds. botocore's own 60 and 60 with retries of its own would keep a case for many minutes. The checksums that it
#: adds by itself are refused by other services that speak S3 (objects carry their own hash).
_S3_CLIENT: dict[str, Any] = {
    "connect_timeout": 10,
    "read_timeout": 60,
    "retries": {"mode": "standard", "total_max_attempts": 2},
    "request_checksum_calculation": "when_required",
    "response_checksum_validation": "when_required",
}


class RemoteStore:
    """Objects below a URL. Credentials are those that fsspec's library finds by itself: environment, files, roles."""

    def __init__(self, url: str) -> None:
        """Raises StoreError where fsspec, or its library for the URL, is missing or does not take it."""
        try:
            import fsspec
        except ImportError as exc:
            raise StoreError(
                f"fsspec cannot be imported ({exc}): pip install 'pytest-paddleapi[golden]'", final=True
            ) from None
        self._url = url
        self._scheme = scheme_of(url)
        # A listing that was kept would not show what the other machine stores meanwhile.
        options: dict[str, Any] = {"skip_instance_cache": True, "use_listings_cache": False}
        if self._scheme in _S3:
            options |= {"config_kwargs": _S3_CLIENT}
        try:
            self._system, path = fsspec.core.url_to_fs(url, **options)
        except ImportError as exc:
            raise StoreError(f"{redact(url)} needs a package that is not installed: {exc}", final=True) from None
        except Exception as exc:  # noqa: BLE001 - every library behind fsspec has errors of its own
            raise StoreError(f"{redact(url)} cannot be opened: {self._said(exc)}", final=True) from None
        self._root = str(path).rstrip("/")
        if self._scheme in _S3:
            # Its own retries, five of them, would be multiplied with botocore's and ours.
            self._system.retries = 1

    def read(self, name: str, limit: int) -> memoryview | None:
        """As :meth:`.Store.read`."""
        path = f"{self._root}/{name}"
        with self._words("read", name):
            try:
                size = int(self._system.info(path)["size"] or 0)
                if size > limit:
                    where = place(self._url, name)
                    raise DamagedGoldenError(f"{where} has {size} bytes, {limit} are the most that are read")
                # With the size given, so that one that grows meanwhile is not read to its end.
                data = bytearray(self._system.cat_file(path, start=0, end=size)) if size else bytearray()
            except FileNotFoundError:
                return None
        return memoryview(data)

    def write(self, name: str, pieces: Pieces) -> None:
        """As :meth:`.Store.write`."""
        path, data = f"{self._root}/{name}", b"".join(pieces)
        with self._words("written", name):
            if self._scheme in _ATOMIC:
                self._system.pipe_file(path, data)
                return
            part = f"{path}.{secrets.token_hex(8)}.part"
            self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
            try:
                self._system.pipe_file(part, data)
                self._system.mv(part, path)
            except BaseException:
                with suppress(Exception):  # the first error is the one to tell
                    self._system.rm_file(part)
                raise

    @contextmanager
    def _words(self, done: str, name: str) -> Iterator[None]:
        """Turn what the library raises into one error, without secrets."""
        try:
            yield
        except (DamagedGoldenError, MemoryError):
            raise
        except Exception as exc:  # noqa: BLE001 - as above
            final = isinstance(exc, (PermissionError, FileNotFoundError, NotImplementedError))
            raise StoreError(f"{place(self._url, name)} cannot be {done}: {self._said(exc)}", final=final) from None

    def _said(self, exc: Exception) -> str:
        # One line: a library may quote a whole response.
        text = " ".join(str(exc).split())[:500] or "no message"
        return scrub(f"{type(exc).__name__}: {text}", [self._url])
