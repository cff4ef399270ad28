"""The form of a stored object: what is written is read, and nothing else is."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_paddleapi.golden.errors import DamagedGoldenError, GoldenFormatError, NotStorableError
from pytest_paddleapi.golden.record import Header, Node, decode, encode

NAME = "v1/ab/abcd.golden"
TENSOR = Node("tensor", dtype="bfloat16", shape=(3,))
HEADER = Header(
    format=1,
    name=NAME,
    config="paddle.abs(...)",
    seed=0,
    options={},
    made_by={"paddle": "3"},
    inputs_digest="0",
    fed=(TENSOR, None),
    fed_digest="1",
    outputs=Node("tuple", items=(TENSOR, Node("int", "7"))),
    changed=Node("dict"),
    gradients=Node("dict", items=(Node("str", "x"), Node("tensor", dtype="float64", shape=(), offset=64))),
    notes=("a note",),
    payload_bytes=0,
    payload_digest="",
)
VALUES = [memoryview(b"abcdef"), memoryview(b"12345678")]


def written(header: Header = HEADER, values: list[memoryview] = VALUES) -> memoryview:
    return memoryview(b"".join(encode(header, values)))


def sealed(text: bytes, payload: bytes = b"") -> memoryview:
    """Anything as a header, with the right mark, length and hash."""
    prefix = bytes(written()[:8]) + len(text).to_bytes(8, "little") + hashlib.sha256(text).digest()
    return memoryview(prefix + text + payload)


def forged(change: Any, payload: bytes | None = None) -> memoryview:
    """An object with right hashes whose header an attacker wrote; ``change`` edits it as plain data."""
    whole = written()
    length = int.from_bytes(whole[8:16], "little")
    header = msgspec.json.decode(whole[48 : 48 + length])
    values = bytes(whole[48 + length :]) if payload is None else payload
    if payload is not None:
        header |= {"payload_bytes": len(values), "payload_digest": hashlib.sha256(values).hexdigest()}
    header = change(header) or header
    text = msgspec.json.encode(header)
    return sealed(text, values)


def test_what_is_written_is_read() -> None:
    record = decode(written(), NAME)
    assert msgspec.structs.replace(record.header, payload_bytes=0, payload_digest="") == HEADER
    first, second = record.header.tensors()
    assert bytes(record.payload[first.offset :][: first.size]) == b"abcdef"
    assert bytes(record.payload[second.offset :][: second.size]) == b"12345678"


def test_every_truncation_is_found() -> None:
    whole = written()
    for length in range(len(whole)):
        with pytest.raises(DamagedGoldenError):
            decode(whole[:length], NAME)
    with pytest.raises(DamagedGoldenError, match="cut off or damaged"):
        decode(memoryview(bytes(whole) + b"\0"), NAME)


@given(data=st.data())
def test_every_flipped_bit_is_found(data: st.DataObject) -> None:
    whole = bytearray(written())
    position = data.draw(st.integers(0, len(whole) - 1))
    whole[position] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(DamagedGoldenError):
        decode(memoryview(whole), NAME)


def test_a_later_format_is_told_apart_from_damage() -> None:
    whole = bytearray(written())
    whole[7] = 2
    with pytest.raises(GoldenFormatError, match="has format 2, this version of pytest-paddleapi reads up to 1"):
        decode(memoryview(whole), NAME)


def test_an_object_under_another_name_is_refused() -> None:
    with pytest.raises(DamagedGoldenError, match="holds another object's content"):
        decode(written(), "v1/cd/cdef.golden")


def _nested(depth: int) -> dict[str, Any]:
    node: dict[str, Any] = {"kind": "none"}
    for _ in range(depth):
        node = {"kind": "list", "items": [node]}
    return node


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda h: {**h, "payload_bytes": 1 << 62}, "cut off or damaged"),
        (lambda h: {**h, "outputs": {"kind": "tensor", "dtype": "float32", "shape": [1 << 40]}}, "one after the other"),
        (lambda h: {**h, "gradients": {"kind": "dict"}, "changed": {"kind": "dict"}}, "its payload"),
        (
            lambda h: {**h, "outputs": {"kind": "tensor", "dtype": "float32", "shape": [-1]}},
            "dimensions of these sizes",
        ),
        (lambda h: {**h, "outputs": {"kind": "tensor", "dtype": "object", "shape": [1]}}, "no dtype of a tensor"),
        (lambda h: {**h, "outputs": {"kind": "tensor", "dtype": "int8", "shape": [1] * 65}}, "65 dimensions"),
        (lambda h: {**h, "outputs": {"kind": "int", "text": "1", "items": [_nested(0)]}}, "a int with values in it"),
        (lambda h: {**h, "outputs": {"kind": "int", "text": "1", "offset": 8}}, "the form of a tensor"),
        (lambda h: {**h, "changed": {"kind": "dict", "items": [_nested(0)]}}, "a dict of 1 values"),
        (lambda h: {**h, "outputs": {"kind": "slice"}}, "a slice of 0 values"),
        (lambda h: {**h, "outputs": {"kind": "pickle"}}, "cannot be read"),
        (lambda h: {**h, "outputs": _nested(40)}, "nested deeper than 32"),
        (lambda h: {**h, "fed": [{"kind": "str"}]}, "no dtype of a tensor"),
        (lambda h: {**h, "more": 1}, "cannot be read"),
        (lambda h: {"format": 1}, "cannot be read"),
        (lambda h: {**h, "format": 9}, "has format 9"),
    ],
)
def test_a_hostile_header_is_refused_before_anything_is_allocated(change: Any, says: str) -> None:
    with pytest.raises(DamagedGoldenError, match=says):
        decode(forged(change), NAME)


def test_a_header_that_would_exhaust_the_stack_is_refused() -> None:
    text = b'{"outputs":' + b'{"kind":"list","items":[' * 100_000 + b"]}" * 100_000 + b"}"
    with pytest.raises(DamagedGoldenError, match="cannot be read"):
        decode(sealed(text), NAME)


def test_tensors_may_not_share_memory() -> None:
    def overlap(header: dict[str, Any]) -> None:
        header["gradients"]["items"][1]["offset"] = 0

    with pytest.raises(DamagedGoldenError, match="one after the other"):
        decode(forged(overlap), NAME)


def test_a_description_that_no_reader_would_take_is_not_written() -> None:
    many = Node("list", items=tuple(Node("str", "x" * 1000) for _ in range(17_000)))
    with pytest.raises(NotStorableError, match="are the most"):
        encode(msgspec.structs.replace(HEADER, outputs=many), VALUES)
