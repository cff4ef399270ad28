from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_paddleapi.admission.records import (
    DamagedFileError,
    OtherVersionError,
    SessionHeader,
    case_label,
    decode_file,
    encode_file,
    encode_line,
)
from pytest_paddleapi.devices.model import Holder
from pytest_paddleapi.gpu_admission import Group, Lease, LeaseState

HEADER = SessionHeader(session="paddleapi-a", pid=1, host="h", user="u", started=1.5)

leases = st.builds(
    Lease,
    id=st.text(max_size=8),
    slot=st.text(max_size=8),
    group=st.text(max_size=8),
    devices=st.tuples(st.text(max_size=8)),
    bytes=st.integers(0, 1 << 50),
    state=st.sampled_from(LeaseState),
    case=st.text(max_size=20),
    created=st.floats(0, 1e10),
    updated=st.floats(0, 1e10),
    holder=st.one_of(st.none(), st.builds(Holder, st.integers(1), st.integers(0), st.integers(0))),
    baseline=st.one_of(st.just(()), st.tuples(st.one_of(st.none(), st.integers(0, 1 << 50)))),
    reported=st.one_of(st.none(), st.integers(0, 1 << 50)),
)


def encoded(*items: Lease, version: int = 5) -> bytes:
    return encode_file(version, encode_line(HEADER), map(encode_line, items))


LEASE = Lease(
    id="paddleapi-a/0",
    slot="s",
    group="g",
    devices=("d",),
    bytes=10,
    state=LeaseState.ACTIVE,
    case="c",
    created=0.0,
    updated=0.0,
)


@given(st.lists(leases, max_size=4), st.integers(0, 1 << 62))
def test_a_file_reads_back_as_it_was_written(items: list[Lease], version: int) -> None:
    found = decode_file(encoded(*items, version=version))
    assert (found.version, found.header, found.leases) == (version, HEADER, tuple(items))


@given(st.data())
def test_every_cut_or_changed_byte_behind_the_first_line_is_found(data: st.DataObject) -> None:
    text = encoded(LEASE, LEASE)
    start = text.index(b"\n") + 1
    at = data.draw(st.integers(start, len(text) - 1))
    if data.draw(st.booleans()):
        damaged = text[:at]
    else:
        damaged = text[:at] + bytes([text[at] ^ data.draw(st.integers(1, 255))]) + text[at + 1 :]
    with pytest.raises(DamagedFileError):
        decode_file(damaged)


@given(st.binary(max_size=200))
def test_no_bytes_whatever_raise_anything_else(text: bytes) -> None:
    with pytest.raises((DamagedFileError, OtherVersionError)):
        decode_file(text)


@pytest.mark.parametrize("line", [b"[]", b"{}", b'{"id": 3}', b"\xff\xfe", b"null", b"[" * 5000])
def test_a_right_checksum_over_wrong_records_is_still_damage(line: bytes) -> None:
    with pytest.raises(DamagedFileError):
        decode_file(encode_file(1, encode_line(HEADER), [line + b"\n"]))
    with pytest.raises(DamagedFileError):
        decode_file(encode_file(1, line + b"\n", []))


@pytest.mark.parametrize("change", [{"bytes": -1}, {"devices": ()}, {"baseline": (1, 2)}])
def test_a_lease_that_contradicts_itself_is_damage(change: dict[str, object]) -> None:
    from msgspec.structs import replace

    with pytest.raises(DamagedFileError, match="contradicts"):
        decode_file(encoded(replace(LEASE, **change)))


def test_another_version_is_told_from_damage() -> None:
    with pytest.raises(OtherVersionError, match="99"):
        decode_file(b"pytest-paddleapi-ledger 99 whatever comes then\n...")


def test_a_label_is_short_and_can_always_be_written() -> None:
    label = case_label("x\ud800" * 20_000)
    assert len(label) < 2000
    assert encode_line(HEADER).count(b"\n") == 1
    label.encode()


def test_a_line_end_in_a_case_stays_inside_its_line() -> None:
    from msgspec.structs import replace

    assert decode_file(encoded(replace(LEASE, case="a\nb\r\n"))).leases[0].case == "a\nb\r\n"


@pytest.mark.parametrize("devices", [(), ("d", "d")])
def test_a_group_needs_different_devices(devices: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="different devices"):
        Group("g", devices)
