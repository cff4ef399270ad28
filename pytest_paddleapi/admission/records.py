"""What the ledger keeps: leases, and the file that holds those of one session.

A lease file is text: a line with format, version and checksum, a line about the session, and a line of JSON for
each lease, so that a change of one lease encodes one line. It is data from a file that, in a shared folder,
another user wrote: it is checked against these types and nothing in it is ever run.
"""

from __future__ import annotations

import enum
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from ..devices.model import Holder

__all__ = [
    "DamagedFileError",
    "Group",
    "Lease",
    "LeaseFile",
    "LeaseState",
    "OtherVersionError",
    "SessionHeader",
    "Slot",
    "case_label",
    "decode_file",
    "encode_file",
    "encode_line",
]

#: Changes with every change that an older reader would misunderstand.
FORMAT_VERSION = 1

_MAGIC = b"pytest-paddleapi-ledger"
_ANY_VERSION = re.compile(_MAGIC + rb" (\d{1,9})\b.*")
_THIS_VERSION = re.compile(_MAGIC + rb" %d (\d{1,20}) ([0-9a-f]{8})" % FORMAT_VERSION)

#: A config may be 33,000 characters long; the label in the ledger is for people.
_LABEL_LENGTH = 160


class DamagedFileError(ValueError):
    """The text is not a lease file, or not all of one."""


class OtherVersionError(ValueError):
    """A sound lease file of another version of this package, which we cannot read."""


class LeaseState(str, enum.Enum):
    """``active`` while the case runs; ``release_pending`` from its end until its memory is seen back."""

    ACTIVE = "active"
    RELEASE_PENDING = "release_pending"


@dataclass(frozen=True, slots=True)
class Group:
    """One device, or a pair that is never split, by UUID; admission happens per group."""

    name: str
    devices: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.devices or len(set(self.devices)) != len(self.devices):
            raise ValueError(f"group {self.name!r} needs one or more different devices, not {self.devices!r}")


@dataclass(frozen=True, slots=True)
class Slot:
    """Where one case at a time runs. Its name is unique within a session."""

    name: str
    group: Group


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """``bytes`` promised to a slot on *each* of its devices.

    ``holder`` and ``baseline`` (what the holder held on each device before the case began; None: unknown) say
    how much of the promise is in use already. They never say whether the lease is alive: the session's lock does.
    ``created`` and ``updated`` are wall-clock seconds for people; nothing is decided by them.
    """

    #: ``<session>/<number>``; never used again.
    id: str
    slot: str
    group: str
    devices: tuple[str, ...]
    bytes: int
    state: LeaseState
    case: str
    created: float
    updated: float
    holder: Holder | None = None
    baseline: tuple[int | None, ...] = ()
    #: What the case process says it holds beyond the baseline; used only where the device cannot tell.
    reported: int | None = None


class SessionHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Who a session is, for people who look into the ledger."""

    session: str
    pid: int
    host: str
    user: str
    started: float
    label: str = ""


@dataclass(frozen=True, slots=True)
class LeaseFile:
    """A lease file as it was read. No two versions of one session's file have the same ``version``."""

    version: int
    header: SessionHeader
    leases: tuple[Lease, ...]


_encoder = msgspec.json.Encoder()
_lease_decoder = msgspec.json.Decoder(Lease)
_header_decoder = msgspec.json.Decoder(SessionHeader)


def case_label(case: str) -> str:
    """``case`` short and safe enough for a line of the ledger."""
    short = case if len(case) <= _LABEL_LENGTH else case[: _LABEL_LENGTH - 1] + "…"
    return short.encode("utf-8", "backslashreplace").decode("utf-8")


def encode_line(record: Lease | SessionHeader) -> bytes:
    """One line, with its end. JSON escapes line ends, so there is exactly one."""
    return _encoder.encode(record) + b"\n"


def encode_file(version: int, header: bytes, leases: Iterable[bytes]) -> bytes:
    """The whole file, from lines of :func:`encode_line`. ``version`` tells it from every other of its session."""
    body = b"".join((header, *leases))
    return b"%s %d %d %08x\n%s" % (_MAGIC, FORMAT_VERSION, version, zlib.crc32(body), body)


def decode_file(text: bytes) -> LeaseFile:
    """What :func:`encode_file` made.

    Raises:
        DamagedFileError: cut off, altered, or something else altogether.
        OtherVersionError: written by another version of this package.
    """
    first, _, body = text.partition(b"\n")
    match = _THIS_VERSION.fullmatch(first)
    if match is None:
        other = _ANY_VERSION.fullmatch(first)
        if other is not None and int(other[1]) != FORMAT_VERSION:
            raise OtherVersionError(f"its lease file has format {int(other[1])}, and we read {FORMAT_VERSION}")
        raise DamagedFileError("its first line is not that of a lease file")
    if int(match[2], 16) != zlib.crc32(body):
        raise DamagedFileError("its checksum is wrong")
    lines = body.split(b"\n")
    try:
        leases = tuple(_lease_decoder.decode(line) for line in lines[1:-1])
        header = _header_decoder.decode(lines[0])
    except msgspec.DecodeError as exc:
        raise DamagedFileError(f"{exc}") from exc
    for lease in leases:
        # A checksum keeps accidents out, not another user's lies.
        if lease.bytes < 0 or not lease.devices or len(lease.baseline) not in (0, len(lease.devices)):
            raise DamagedFileError(f"lease {lease.id} contradicts itself")
    return LeaseFile(int(match[1]), header, leases)
