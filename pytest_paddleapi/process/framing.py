"""Length-prefixed MessagePack over an inherited socket, with deadlines and a bound on size.

A frame is four bytes of length, big-endian, then that many bytes of one MessagePack message. Open file
descriptors can travel beside a frame (``SCM_RIGHTS``). Deadlines are times of :func:`time.monotonic`.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

from .errors import ChannelClosedError, ChannelTimeoutError, FrameTooLargeError, MalformedFrameError

#: A config line has at most 33,000 characters and a verdict's text is cut to less than a megabyte,
#: so a longer frame can only be garbage.
MAX_FRAME = 8 * 1024 * 1024
#: Five descriptors travel with the request to launch a case process; more than this in one message is garbage too.
MAX_FDS = 8

_HEADER = struct.Struct("!I")
_CHUNK = 64 * 1024
_INT = struct.Struct("i")
_FDS_SPACE = socket.CMSG_SPACE(MAX_FDS * _INT.size)

T = TypeVar("T")


def encode_frame(message: msgspec.Struct, *, max_frame: int = MAX_FRAME) -> bytes:
    """The bytes of one frame.

    Raises:
        FrameTooLargeError: the message is longer than ``max_frame`` bytes.
    """
    body = msgspec.msgpack.encode(message)
    if len(body) > max_frame:
        raise FrameTooLargeError(f"a {type(message).__name__} of {len(body)} bytes is over the limit of {max_frame}")
    return _HEADER.pack(len(body)) + body


class FrameSplitter:
    """Cuts a byte stream into frames; pure, so that any cutting of the stream can be tested."""

    def __init__(self, *, max_frame: int = MAX_FRAME) -> None:
        self.max_frame = max_frame
        self._buffer = bytearray()

    @property
    def pending(self) -> int:
        """Bytes of a frame that has begun and is not whole yet."""
        return len(self._buffer)

    def push(self, data: bytes) -> None:
        """Add what came."""
        self._buffer += data

    def pop(self) -> bytes | None:
        """The body of the next frame; None where it is not whole yet.

        Raises:
            FrameTooLargeError: its header claims more than the limit.
        """
        if len(self._buffer) < _HEADER.size:
            return None
        (length,) = _HEADER.unpack_from(self._buffer)
        if length > self.max_frame:
            raise FrameTooLargeError(f"a frame claims {length} bytes; the limit is {self.max_frame}")
        end = _HEADER.size + length
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_HEADER.size : end])
        del self._buffer[:end]
        return body


class Channel(Generic[T]):
    """One end of a socket pair: sends structs, receives messages of type ``T``. Owns the socket."""

    def __init__(self, sock: socket.socket, decoder: msgspec.msgpack.Decoder[T], *, max_frame: int = MAX_FRAME) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._decoder = decoder
        self._splitter = FrameSplitter(max_frame=max_frame)
        self._received: deque[T] = deque()
        self._fds: deque[int] = deque()
        self._fault: MalformedFrameError | None = None
        #: The other side has closed its end; messages that came before may still wait here.
        self.ended = False

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: msgspec.Struct, *, deadline: float | None = None, fds: Sequence[int] = ()) -> None:
        """Send one message, with copies of ``fds``.

        Raises:
            ChannelClosedError: nobody can receive it any more.
            ChannelTimeoutError: it was not taken before ``deadline``; the stream is cut and useless.
            FrameTooLargeError: it is longer than the limit; nothing was sent.
        """
        data = memoryview(encode_frame(message, max_frame=self._splitter.max_frame))
        while data:
            try:
                if fds:
                    sent = socket.send_fds(self._socket, [data], list(fds))
                    fds = ()
                else:
                    sent = self._socket.send(data)
                data = data[sent:]
            except BlockingIOError:
                self._wait(select.POLLOUT, deadline, "sent")
            except (BrokenPipeError, ConnectionResetError) as exc:
                raise ChannelClosedError(f"a {type(message).__name__} could not be sent: {exc}") from exc

    def receive(self, deadline: float | None = None) -> T:
        """The next message, waiting for it.

        Raises:
            ChannelClosedError: the other side ended, and there is no message left.
            ChannelTimeoutError: no whole message came before ``deadline``.
            MalformedFrameError: what came is not one.
        """
        while not self._received:
            self._check()
            if self.ended:
                raise ChannelClosedError("the other side closed the channel")
            self._wait(select.POLLIN, deadline, "received")
            self._read_some()
        return self._received.popleft()

    def receive_available(self) -> list[T]:
        """The messages that are there now, without waiting; look at :attr:`ended` after it.

        Raises:
            MalformedFrameError: what came is not a message, and those that came before it were returned earlier.
        """
        while not self.ended and self._fault is None and self._read_some():
            pass
        if not self._received:
            self._check()
        messages = list(self._received)
        self._received.clear()
        return messages

    def receive_now(self) -> T | None:
        """The next message, if it is there; look at :attr:`ended` after None.

        Raises:
            MalformedFrameError: what came is not a message.
        """
        while not self._received and not self.ended and self._fault is None and self._read_some():
            pass
        if self._received:
            return self._received.popleft()
        self._check()
        return None

    def take_fds(self, count: int) -> list[int]:
        """The descriptors that came with the last message, now owned by the caller.

        Raises:
            MalformedFrameError: fewer than ``count`` have come.
        """
        if len(self._fds) < count:
            raise MalformedFrameError(f"{count} file descriptors should have come, {len(self._fds)} did")
        return [self._fds.popleft() for _ in range(count)]

    def close(self) -> None:
        """Close the socket and every descriptor that nobody took."""
        while self._fds:
            os.close(self._fds.popleft())
        self._socket.close()

    def _wait(self, events: int, deadline: float | None, done: str) -> None:
        poll = select.poll()
        poll.register(self._socket, events)
        timeout = None if deadline is None else max(0.0, (deadline - time.monotonic()) * 1000)
        if not poll.poll(timeout):
            raise ChannelTimeoutError(f"no whole message could be {done} in time")

    def _read_some(self) -> bool:
        """Read once. False when it got all that was there, or nothing will ever be."""
        try:
            # Not socket.recv_fds: it drops the flag, and a program that the case starts would hold our descriptors.
            data, ancillary, _, _ = self._socket.recvmsg(_CHUNK, _FDS_SPACE, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            data, ancillary = b"", []
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                whole = len(content) - len(content) % _INT.size
                self._fds.extend(fd for (fd,) in _INT.iter_unpack(content[:whole]))
        if not data:
            self.ended = True
            if self._splitter.pending:
                self._fault = MalformedFrameError(f"the channel ended {self._splitter.pending} bytes into a frame")
            return False
        self._splitter.push(data)
        try:
            while (body := self._splitter.pop()) is not None:
                self._received.append(self._decode(body))
        except MalformedFrameError as exc:
            self._fault = exc  # raised when what came before it is taken
        # What comes later, and the end, can be waited for again.
        return len(data) == _CHUNK

    def _check(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _decode(self, body: bytes) -> T:
        try:
            return self._decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            raise MalformedFrameError(f"a frame of {len(body)} bytes is no message: {exc}") from exc


def channel_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets, closed on exec; pass one on and wrap the other in a :class:`Channel`."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
