"""The form of one stored object: a header that can be checked, then raw values. No code can hide in it.

Layout, integers little-endian::

    8 bytes   the mark PDLGOLD and the format's number
    8 bytes   length of the header in bytes
    32 bytes  SHA-256 of the header
              the header: JSON, as :class:`Header`
              the payload: each tensor's values, little-endian in C order, each at a multiple of 64 bytes

A reader checks lengths before it allocates, hashes before it parses, and sizes before it looks at a value.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from .errors import DamagedGoldenError, GoldenFormatError, NotStorableError

__all__ = ["FORMAT", "ITEM_BYTES", "MOST_BYTES", "Header", "Node", "Record", "decode", "encode"]

FORMAT = 1
_MARK = b"PDLGOLD"
_PREFIX = 48
_ALIGNMENT = 64
#: A result of 100,000 tensors has a header of 12 MB; the longest line of a config file has 33,000 characters.
_MOST_HEADER = 16 << 20
#: More than a host has for one case; a reader allocates what the object really holds, and no more than this.
MOST_BYTES = 256 << 30
#: Nesting: results of Paddle are two deep; Python's own limit is far above it.
_DEEPEST = 32
#: Torch's limit.
_MOST_DIMENSIONS = 64

#: Bytes of an element by dtype: what a tensor of the config language can be.
ITEM_BYTES = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "float32": 4,
    "int64": 8,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}

Kind = Literal["tensor", "list", "tuple", "dict", "slice", "none", "bool", "int", "float", "complex", "str", "dtype"]


class Node(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One value of a result: a tensor, a container, or a plain value as text.

    ``items`` are a container's values (``dict``: keys and values in turn; ``slice``: start, stop, step).
    """

    kind: Kind
    text: str = ""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    #: Where a tensor's values begin in the payload, in bytes.
    offset: int = 0
    items: tuple[Node, ...] = ()

    @property
    def size(self) -> int:
        """A tensor's bytes."""
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]

    def leaves(self) -> int:
        """How many values are in it, without None and the keys of dicts."""
        if self.kind in ("list", "tuple", "dict", "slice"):
            items = self.items[1::2] if self.kind == "dict" else self.items
            return sum(item.leaves() for item in items)
        return int(self.kind != "none")

    def walk(self) -> Iterator[Node]:
        """This one and all below it."""
        yield self
        for item in self.items:
            yield from item.walk()


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an object says of itself.

    ``fed`` has, for each output and changed argument that was flattened, the form of the gradient that was fed into it
    (None: it is not differentiable), ``fed_digest`` the hash of their values; both sides make them anew. ``fed`` is
    empty where gradients were not made.
    """

    format: int
    #: The object's own name in the store.
    name: str
    config: str
    seed: int
    options: dict[str, object]
    #: Versions and device of the machine that made it; for people.
    made_by: dict[str, str]
    inputs_digest: str
    fed: tuple[Node | None, ...]
    fed_digest: str
    outputs: Node
    changed: Node
    gradients: Node
    notes: tuple[str, ...]
    payload_bytes: int
    payload_digest: str

    def tensors(self) -> Iterator[Node]:
        """All whose values stand in the payload."""
        for root in (self.outputs, self.changed, self.gradients):
            yield from (node for node in root.walk() if node.kind == "tensor")


@dataclass(frozen=True)
class Record:
    """A header and its payload."""

    header: Header
    payload: memoryview


def aligned(size: int) -> int:
    """The next offset at which a tensor may begin."""
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def encode(header: Header, values: Sequence[memoryview]) -> list[bytes | memoryview]:
    """The object, as pieces one after the other; sizes and hash of the payload are filled in.

    ``values`` are the bytes of :meth:`Header.tensors`, in their order.

    Raises:
        NotStorableError: the header would be longer than a reader takes.
    """
    pieces: list[bytes | memoryview] = []
    size, digest = 0, hashlib.sha256()
    for value in values:
        for piece in (value, bytes(aligned(value.nbytes) - value.nbytes)):
            digest.update(piece)
            pieces.append(piece)
        size += aligned(value.nbytes)
    text = msgspec.json.encode(msgspec.structs.replace(header, payload_bytes=size, payload_digest=digest.hexdigest()))
    if len(text) > _MOST_HEADER:
        raise NotStorableError(f"the description of the result has {len(text)} bytes, {_MOST_HEADER} are the most")
    prefix = _MARK + bytes([FORMAT]) + len(text).to_bytes(8, "little") + hashlib.sha256(text).digest()
    return [prefix, text, *pieces]


def decode(data: memoryview, name: str) -> Record:
    """Check an object, wholly, and give it; ``name`` is the one that it was asked for by.

    Raises:
        GoldenFormatError: a later version of the format.
        DamagedGoldenError: anything else that is wrong with it.
    """
    if len(data) < _PREFIX or data[:7] != _MARK:
        raise DamagedGoldenError(f"{name} is no golden result: it does not begin as one ({len(data)} bytes)")
    _check_format(data[7], name)
    length = int.from_bytes(data[8:16], "little")
    if length > min(_MOST_HEADER, len(data) - _PREFIX):
        raise DamagedGoldenError(f"{name} is cut off or damaged: its header would have {length} bytes")
    text = data[_PREFIX : _PREFIX + length]
    if hashlib.sha256(text).digest() != data[16:_PREFIX]:
        raise DamagedGoldenError(f"{name} is damaged: the hash of its header does not match")
    try:
        header = msgspec.json.decode(text, type=Header)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as exc:
        raise DamagedGoldenError(f"{name} is damaged: its header cannot be read ({exc})") from None
    payload = data[_PREFIX + length :]
    _check(header, payload, name)
    return Record(header, payload)


def _check_format(number: int, name: str) -> None:
    if number > FORMAT:
        raise GoldenFormatError(
            f"{name} has format {number}, this version of pytest-paddleapi reads up to {FORMAT}: install the version "
            "that made the upload"
        )
    if number != FORMAT:
        raise DamagedGoldenError(f"{name} has format {number}, which there never was")


def _check(header: Header, payload: memoryview, name: str) -> None:
    _check_format(header.format, name)
    if header.name != name:
        raise DamagedGoldenError(f"{name} holds another object's content, that of {header.name[:100]!r}")
    if len(payload) != header.payload_bytes:
        raise DamagedGoldenError(
            f"{name} is cut off or damaged: {len(payload)} bytes of values, its header says {header.payload_bytes}"
        )
    offset = 0
    for root in (header.outputs, header.changed, header.gradients):
        _check_node(root, name)
    for node in header.fed:
        if node is not None:
            _check_form(node, name)
    for node in header.tensors():
        if node.offset != offset:
            raise DamagedGoldenError(f"{name} is damaged: its tensors do not stand one after the other")
        offset += aligned(node.size)
    if offset != len(payload):
        raise DamagedGoldenError(f"{name} is damaged: its tensors have {offset} bytes, its payload {len(payload)}")
    if hashlib.sha256(payload).hexdigest() != header.payload_digest:
        raise DamagedGoldenError(f"{name} is damaged: the hash of its values does not match")


def _check_node(node: Node, name: str, depth: int = 0) -> None:
    if depth > _DEEPEST:
        raise DamagedGoldenError(f"{name} is damaged: its result is nested deeper than {_DEEPEST}")
    if node.kind == "tensor":
        _check_form(node, name)
    elif node.dtype or node.shape or node.offset:
        raise DamagedGoldenError(f"{name} is damaged: a {node.kind} with the form of a tensor")
    if node.items and node.kind not in ("list", "tuple", "dict", "slice"):
        raise DamagedGoldenError(f"{name} is damaged: a {node.kind} with values in it")
    if (node.kind == "slice" and len(node.items) != 3) or (node.kind == "dict" and len(node.items) % 2):
        raise DamagedGoldenError(f"{name} is damaged: a {node.kind} of {len(node.items)} values")
    for item in node.items:
        _check_node(item, name, depth + 1)


def _check_form(node: Node, name: str) -> None:
    if node.kind != "tensor" or node.dtype not in ITEM_BYTES:
        raise DamagedGoldenError(f"{name} is damaged: {node.dtype[:40]!r} is no dtype of a tensor")
    if len(node.shape) > _MOST_DIMENSIONS or any(not 0 <= size < 1 << 63 for size in node.shape):
        raise DamagedGoldenError(f"{name} is damaged: no tensor has {len(node.shape)} dimensions of these sizes")
