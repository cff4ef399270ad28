"""The process that looks at a store for pytest: it loads what the store needs, and may hang.

It reads one :class:`Request` as MessagePack from stdin, and writes one line of JSON to stdout, the last: the text of
what is wrong, or an empty one.
"""

from __future__ import annotations

import sys

import msgspec

from ..process.messages import GoldenOptions
from .errors import GoldenError, GoldenFormatError, StoreError
from .names import MARK
from .record import FORMAT
from .redact import redact
from .store import Store, open_store

#: A mark has some dozen bytes.
_MOST_MARK = 1 << 16


class Request(msgspec.Struct, frozen=True):
    """What to do: look at the mark, make it where an upload begins, and write ``manifest`` under ``name``."""

    golden: GoldenOptions
    name: str = ""
    manifest: bytes = b""


class Mark(msgspec.Struct, frozen=True):
    """What says that a place is a store of golden results, and of which format."""

    format: int


def check(store: Store, request: Request) -> None:
    """Do what the request says.

    Raises:
        GoldenError: the store cannot be used for it.
    """
    shown = redact(request.golden.url)
    data = store.read(MARK, _MOST_MARK)
    if data is not None:
        try:
            found = msgspec.json.decode(data, type=Mark).format
        except msgspec.DecodeError as exc:
            raise StoreError(f"{shown}/{MARK} is not what this plugin writes ({exc}): give another place") from None
        if found > FORMAT:
            raise GoldenFormatError(
                f"{shown} has format {found}, this version reads up to {FORMAT}: install a later pytest-paddleapi"
            )
    elif request.golden.upload:
        store.write(MARK, [msgspec.json.encode(Mark(FORMAT))])
    else:
        raise StoreError(
            f"{shown} holds no golden results (there is no {MARK}): run --paddleapi-golden-mode=upload on the other "
            "machine first, or mend the URL"
        )
    if request.manifest:
        store.write(request.name, [request.manifest])


def main() -> None:
    """Serve one request."""
    request = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Request)
    text = ""
    try:
        check(open_store(request.golden), request)
    except GoldenError as exc:
        text = str(exc)
    # A line of its own: a library may have printed without one.
    print("\n" + msgspec.json.encode(text).decode(), flush=True)


if __name__ == "__main__":
    main()
