"""The warm process: imports the frameworks once, then forks a case process in milliseconds.

Started by the supervisor as ``python -m pytest_paddleapi.process.zygote CHANNEL_FD ALIVE_FD PARENT_PID``. It
stays single threaded, reaps its children and whatever these leave behind, and dies with the worker. The second
descriptor is a pipe that it only keeps open: its end tells the sweeper that the zygote is gone.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any, NoReturn

import msgspec

from . import kernel
from .child import become_case_process
from .framing import Channel
from .loading import load, receive_load, show_stacks
from .messages import CaseLaunched, CaseNotLaunched, LaunchCase, ToLauncher
from .parent import CaseParent


def main() -> NoReturn:
    """Entry point."""
    fd, alive_fd, parent = map(int, sys.argv[1:])
    kernel.die_with_parent(parent)
    for inherited in (fd, alive_fd):
        os.set_inheritable(inherited, False)  # not for programs that an import or a case starts
    show_stacks()
    channel = Channel(socket.socket(fileno=fd), msgspec.msgpack.Decoder(ToLauncher))
    runner = load(channel, receive_load(channel))
    Zygote(channel, alive_fd, runner).run()


class Zygote(CaseParent):
    """Forks case processes from this one, which has imported everything."""

    def __init__(self, channel: Channel[ToLauncher], alive_fd: int, runner: Any) -> None:
        super().__init__(channel, alive_fd)
        self.runner = runner

    def launch(self, message: LaunchCase, fds: list[int]) -> None:
        """Fork a case process."""
        try:
            pid = self.fork(lambda: become_case_process(self.runner, message.options, fds))
        except OSError as exc:
            self.channel.send(CaseNotLaunched(message.token, f"fork failed: {exc}"))
        else:
            self.children[pid] = message.token
            try:
                started = kernel.start_time(pid)
            except OSError:
                started = 0  # it died already; its death is reported next
            self.channel.send(CaseLaunched(message.token, pid, started))
        finally:
            for fd in fds:
                os.close(fd)


if __name__ == "__main__":
    main()
