"""Frames over a socket pair: whole, cut anyhow, malformed, too large, late, with descriptors."""

from __future__ import annotations

import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_paddleapi.process.errors import (
    ChannelClosedError,
    ChannelTimeoutError,
    FrameTooLargeError,
    MalformedFrameError,
)
from pytest_paddleapi.process.framing import Channel, FrameSplitter, channel_pair, encode_frame
from pytest_paddleapi.process.messages import CaseReady, CaseResult, FromCase, Measured, Verdict

DECODER: msgspec.msgpack.Decoder[FromCase] = msgspec.msgpack.Decoder(FromCase)
Pair = tuple[socket.socket, Channel[FromCase]]
RESULT = CaseResult(3, Verdict.PASS, "fine", Measured(max_abs_diff=float("inf"), notes=("a", "b")), 0.5)


@pytest.fixture
def raw_and_channel() -> Iterator[Pair]:
    raw, theirs = channel_pair()
    channel = Channel(theirs, DECODER)
    yield raw, channel
    raw.close()
    channel.close()


def receive_all(channel: Channel[FromCase]) -> None:
    while True:
        channel.receive(soon())


def soon(seconds: float = 5.0) -> float:
    return time.monotonic() + seconds


def test_a_message_comes_out_as_it_went_in(raw_and_channel: Pair) -> None:
    raw, channel = raw_and_channel
    sender = Channel(raw.dup(), DECODER)
    sender.send(CaseReady(3))
    sender.send(RESULT)
    assert [channel.receive(soon()), channel.receive(soon())] == [CaseReady(3), RESULT]
    sender.close()


@given(
    texts=st.lists(st.text(max_size=50), min_size=1, max_size=8),
    cuts=st.lists(st.integers(1, 40), min_size=1, max_size=30),
)
def test_any_cutting_of_the_stream_gives_the_same_frames(texts: list[str], cuts: list[int]) -> None:
    frames = [encode_frame(CaseResult(i, Verdict.PASS, text)) for i, text in enumerate(texts)]
    stream, splitter, bodies = b"".join(frames), FrameSplitter(), []
    position = 0
    while position < len(stream):
        step = cuts[position % len(cuts)]
        splitter.push(stream[position : position + step])
        position += step
        while (body := splitter.pop()) is not None:
            bodies.append(body)
    assert [DECODER.decode(body).text for body in bodies] == texts  # type: ignore[union-attr]
    assert splitter.pending == 0


@given(st.binary(max_size=300))
def test_random_bytes_give_messages_or_a_typed_error(data: bytes) -> None:
    raw, theirs = channel_pair()
    channel = Channel(theirs, DECODER, max_frame=1 << 16)
    try:
        raw.sendall(data)
        raw.close()
        with pytest.raises((MalformedFrameError, ChannelClosedError)):
            receive_all(channel)
    finally:
        channel.close()


def test_a_message_of_another_protocol_is_malformed(raw_and_channel: Pair) -> None:
    raw, channel = raw_and_channel
    body = msgspec.msgpack.encode({"type": "no such message"})
    raw.sendall(struct.pack("!I", len(body)) + body)
    with pytest.raises(MalformedFrameError, match="is no message"):
        channel.receive(soon())


def test_a_field_of_the_wrong_type_is_malformed(raw_and_channel: Pair) -> None:
    raw, channel = raw_and_channel
    body = msgspec.msgpack.encode({"type": "result", "token": "three", "verdict": "pass"})
    raw.sendall(struct.pack("!I", len(body)) + body)
    with pytest.raises(MalformedFrameError, match="is no message"):
        channel.receive(soon())


def test_a_claimed_length_over_the_limit_is_refused_before_it_is_read(raw_and_channel: Pair) -> None:
    raw, channel = raw_and_channel
    raw.sendall(struct.pack("!I", 0xFFFFFFFF))
    with pytest.raises(FrameTooLargeError, match="claims 4294967295 bytes"):
        channel.receive(soon())


def test_a_message_over_the_limit_is_not_sent(raw_and_channel: Pair) -> None:
    raw, channel = raw_and_channel
    sender = Channel(raw.dup(), DECODER, max_frame=100)
    with pytest.raises(FrameTooLargeError, match="over the limit of 100"):
        sender.send(CaseResult(1, Verdict.PASS, "x" * 200))
    sender.close()
    assert channel.receive_available() == []


def test_messages_before_garbage_are_delivered_first(raw_and_channel: Pair) -> None:
    raw, channel = raw_and_channel
    raw.sendall(encode_frame(RESULT) + b"\xff" * 10)
    assert channel.receive_available() == [RESULT]
    with pytest.raises(MalformedFrameError):
        channel.receive_available()


def test_an_end_inside_a_frame_is_malformed(raw_and_channel: Pair) -> None:
    raw, channel = raw_and_channel
    raw.sendall(encode_frame(RESULT)[:-3])
    raw.close()
    with pytest.raises(MalformedFrameError, match="bytes into a frame"):
        channel.receive(soon())


def test_an_end_between_frames_is_a_closed_channel(raw_and_channel: Pair) -> None:
    raw, channel = raw_and_channel
    raw.sendall(encode_frame(RESULT))
    raw.close()
    assert channel.receive(soon()) == RESULT
    with pytest.raises(ChannelClosedError):
        channel.receive(soon())
    assert channel.ended


def test_sending_to_nobody_is_a_closed_channel(raw_and_channel: Pair) -> None:
    raw, channel = raw_and_channel
    raw.close()
    with pytest.raises(ChannelClosedError):
        channel.send(RESULT)


def test_receiving_gives_up_at_the_deadline(raw_and_channel: Pair) -> None:
    raw, channel = raw_and_channel
    raw.sendall(encode_frame(RESULT)[:10])
    start = time.monotonic()
    with pytest.raises(ChannelTimeoutError):
        channel.receive(start + 0.1)
    assert 0.09 < time.monotonic() - start < 3


def test_sending_to_somebody_who_does_not_read_gives_up_at_the_deadline(raw_and_channel: Pair) -> None:
    _, channel = raw_and_channel
    with pytest.raises(ChannelTimeoutError):
        channel.send(CaseResult(1, Verdict.PASS, "x" * 4_000_000), deadline=time.monotonic() + 0.1)


def test_a_long_message_passes_through_a_small_buffer(raw_and_channel: Pair) -> None:
    raw, channel = raw_and_channel
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    message = CaseResult(1, Verdict.PASS, "x" * 1_000_000)
    thread = threading.Thread(target=lambda: raw.sendall(encode_frame(message)))
    thread.start()
    assert channel.receive(soon(20)) == message
    thread.join()


def test_a_signal_does_not_disturb_a_wait(raw_and_channel: Pair) -> None:
    raw, channel = raw_and_channel
    previous = signal.signal(signal.SIGALRM, lambda number, frame: raw.sendall(encode_frame(RESULT)))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert channel.receive(soon()) == RESULT
    finally:
        signal.signal(signal.SIGALRM, previous)


def test_descriptors_travel_with_their_message(raw_and_channel: Pair, tmp_path: Path) -> None:
    raw, channel = raw_and_channel
    sender = Channel(raw.dup(), DECODER)
    with open(tmp_path / "file", "w+") as file:
        sender.send(RESULT, fds=[file.fileno()])
    assert channel.receive(soon()) == RESULT
    (fd,) = channel.take_fds(1)
    os.write(fd, b"through a copy")
    assert not os.get_inheritable(fd)
    os.close(fd)
    sender.close()
    assert (tmp_path / "file").read_text() == "through a copy"


def test_missing_descriptors_are_malformed(raw_and_channel: Pair) -> None:
    raw, channel = raw_and_channel
    raw.sendall(encode_frame(RESULT))
    channel.receive(soon())
    with pytest.raises(MalformedFrameError, match="1 file descriptors should have come, 0 did"):
        channel.take_fds(1)


def test_descriptors_that_nobody_takes_are_closed_with_the_channel(raw_and_channel: Pair) -> None:
    raw, channel = raw_and_channel
    sender = Channel(raw.dup(), DECODER)
    read_end, write_end = os.pipe()
    sender.send(RESULT, fds=[write_end])
    os.close(write_end)
    channel.receive(soon())
    channel.close()
    sender.close()
    assert os.read(read_end, 1) == b""  # no writer is left
    os.close(read_end)
