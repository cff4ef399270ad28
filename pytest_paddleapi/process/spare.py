"""A process that has imported everything, touches no device, and waits to become a case process.

The keeper forks it, in a session of its own, from what survives a fork; or starts it as ``python -m
pytest_paddleapi.process.spare CHANNEL_FD PARENT_PID`` where nothing does; or :mod:`.wrapped` does that in a wrapper's
session. Paddle's GPU builds ask CUDA for its devices when they are imported, and CUDA does not survive a fork: so a
case process cannot be forked from one that has imported everything, and one of these waits behind it.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import NoReturn

import msgspec

from . import kernel
from .child import become_case_process
from .errors import ChannelClosedError
from .framing import Channel
from .loading import load, receive_load, show_stacks
from .messages import CaseLaunched, LaunchCase, ToLauncher


def main() -> NoReturn:
    """Entry point."""
    fd, parent = map(int, sys.argv[1:])
    kernel.die_with_parent(parent)
    os.set_inheritable(fd, False)  # not for programs that an import starts
    show_stacks()
    wait_as_spare(socket.socket(fileno=fd))


def wait_as_spare(connection: socket.socket) -> NoReturn:
    """Load what the keeper says over the connection, wait, and become the case process that it asks for."""
    channel = Channel(connection, msgspec.msgpack.Decoder(ToLauncher))
    runner = load(channel, receive_load(channel))
    try:
        message = channel.receive()
    except ChannelClosedError:
        os._exit(0)
    if not isinstance(message, LaunchCase):
        raise SystemExit(f"a spare waits for LaunchCase, not {type(message).__name__}")
    fds = channel.take_fds(5)
    channel.send(CaseLaunched(message.token, os.getpid(), kernel.start_time(os.getpid())))
    channel.close()
    become_case_process(runner, message.options, fds)


if __name__ == "__main__":
    main()
