"""A process that has imported everything, touches no device, and waits to become a case process.

Started by the keeper as ``python -m pytest_paddleapi.process.spare CHANNEL_FD PARENT_PID``, in a session of its
own, or by :mod:`.wrapped` in a wrapper's. Whoever cannot fork (CUDA does not survive it) keeps one of these behind
the case process.
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
    channel = Channel(socket.socket(fileno=fd), msgspec.msgpack.Decoder(ToLauncher))
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
