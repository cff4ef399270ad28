"""Keeps a spare behind the case process, for devices whose state does not survive a fork.

Started by the supervisor as ``python -m pytest_paddleapi.process.keeper CHANNEL_FD ALIVE_FD PARENT_PID``; the
arguments are those of :mod:`.zygote`. It imports what survives a fork, such as Torch, and forks spares from that: they
have only the rest to import, and share its memory. Where something has started a thread or opened a device meanwhile,
spares are programs of their own that import everything.

A spare may run under another program, such as a sanitizer (:mod:`.wrapping`). That program is then the child, and the
leader of its process group; it stays when the spare becomes the case process.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass
from typing import NoReturn

import msgspec

from . import kernel
from .command import program
from .errors import ChannelClosedError, MalformedFrameError
from .framing import Channel, channel_pair
from .loading import load_shared, receive_load, show_stacks
from .messages import (
    CaseDied,
    CaseLaunched,
    CaseNotLaunched,
    FromSpare,
    LaunchCase,
    Load,
    Loaded,
    LoadFailed,
    MakeSpare,
    SignalSpare,
    SpareDied,
    SpareStarted,
    ToLauncher,
)
from .parent import CaseParent
from .spare import wait_as_spare
from .wrapping import Wrapping

#: Spares that die one after the other while they wait: something is after them, and no use feeding it.
_MOST_LOST = 3


def main() -> NoReturn:
    """Entry point."""
    fd, alive_fd, parent = map(int, sys.argv[1:])
    kernel.die_with_parent(parent)
    for inherited in (fd, alive_fd):
        os.set_inheritable(inherited, False)  # not for the spares
    show_stacks()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    channel = Channel(socket.socket(fileno=fd), msgspec.msgpack.Decoder(ToLauncher))
    request = receive_load(channel)
    load_shared(channel, request)
    Keeper(channel, alive_fd, request).run()


@dataclass
class _Spare:
    pid: int
    channel: Channel[FromSpare]
    loaded: bool = False


@dataclass
class _Launch:
    """A case process that the worker asked for, and that no spare has become yet."""

    message: LaunchCase
    fds: list[int]

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)


class Keeper(CaseParent):
    """Starts spares, one at a time, and gives the loaded one to the case that is to be launched.

    The next one is started some time after the case process is ready, or when that is dead: not while one loads or
    prepares its device.
    """

    def __init__(self, channel: Channel[ToLauncher], alive_fd: int, request: Load) -> None:
        super().__init__(channel, alive_fd)
        self._request = request
        self._forks = not request.wrapper and kernel.threads() == 1 and not kernel.open_devices()
        self._spare: _Spare | None = None
        self._wanted: _Launch | None = None
        #: What the spare and the case process run under, by the id of our child.
        self._wrappings: dict[int, Wrapping] = {}
        #: The token of the case process that is not ready yet.
        self._preparing: int | None = None
        #: When the next spare is to be started (monotonic seconds), where that is still to come.
        self._start_at: float | None = None
        #: A spare could not load; the worker ends this process when it next needs one.
        self._failed = False
        #: Spares that died while they waited, since one was used.
        self._lost = 0

    def run(self) -> NoReturn:
        """Start the first spare, and serve."""
        self._start()
        super().run()

    def spares(self) -> set[int]:
        """The spare, where there is one."""
        return {self._spare.pid} if self._spare else set()

    def launch(self, message: LaunchCase, fds: list[int]) -> None:
        """Give the case to the spare, now or when it is loaded."""
        self._wanted = _Launch(message, fds)
        if self._failed:
            self._refuse("no spare process could be loaded")
        else:
            self._start()
            self._hand_over()

    def tend_spare(self, message: MakeSpare | SignalSpare) -> None:
        """The case process is ready, so that another may load; or the spare is to show its stacks."""
        if isinstance(message, MakeSpare):
            if message.token == self._preparing:
                self._preparing = None
                self._start_at = time.monotonic() + message.delay
        elif self._spare is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.inner(self._spare.pid), message.signal)  # not reaped yet, so the id is still its own

    def inner(self, pid: int) -> int:
        """The process under the wrapper ``pid``; without one, ``pid`` itself."""
        wrapping = self._wrappings.get(pid)
        if wrapping is None:
            return pid
        wrapping.look()
        if wrapping.pid is None or wrapping.status is not None:
            raise ProcessLookupError(f"no process runs under {pid}")
        return wrapping.pid

    def died(self, token: int, pid: int, status: int) -> CaseDied:
        """What to tell of a case process: how it ended itself, where its wrapper lived to see that."""
        wrapping = self._wrappings.pop(pid, None)
        if wrapping is None:
            return super().died(token, pid, status)
        wrapping.look()
        wrapping.close()
        return CaseDied(token, pid, status if wrapping.status is None else wrapping.status, status)

    def case_ended(self, token: int) -> None:
        """One that died before it was ready makes room for the next spare too, and none is waited for now."""
        if token == self._preparing:
            self._preparing = None
        self._start()

    def other_ended(self, pid: int, status: int) -> None:
        """The spare died: while it waited, another one loads; a load that failed is for the worker to judge."""
        spare = self._spare
        if spare is None or spare.pid != pid:
            return
        self._forget(spare)
        wrapping = self._wrappings.pop(pid, None)
        if wrapping is not None:
            wrapping.look()
            wrapping.close()
            status = status if wrapping.status is None else wrapping.status
        self._lost += 1
        if self._failed:  # as it had said itself
            return
        self._failed = not spare.loaded or self._lost >= _MOST_LOST
        self._tell(SpareDied(pid, status, self._failed))
        if self._failed:
            self._refuse("the spare process died")
        self._start()

    def listen(self) -> None:
        """What the spare says: loaded, not loaded, or that it is the case process now.

        Starts one whose time has come.
        """
        if self._start_at is not None and time.monotonic() >= self._start_at:
            self._start()
        spare = self._spare
        if spare is None:
            return
        try:
            news = spare.channel.receive_available()
        except MalformedFrameError:
            # A half message from one that was killed; if it lives it is mad, and must go.
            news = []
            with contextlib.suppress(ProcessLookupError):
                os.kill(spare.pid, signal.SIGKILL)
        if spare.channel.ended:
            self._ignore(spare)
        for message in news:
            if isinstance(message, Loaded):
                spare.loaded = True
                self._tell(message)
                self._hand_over()
            elif isinstance(message, LoadFailed):
                self._failed = True
                self._tell(message)
                self._refuse(f"{message.module} could not be imported")
            else:
                self._became(spare, message)

    def patience(self) -> float | None:
        """Until the next spare is to be started."""
        return None if self._start_at is None else max(0.0, (self._start_at - time.monotonic()) * 1000)

    def _start(self) -> None:
        self._start_at = None
        if self._spare is not None or self._preparing is not None or self._failed:
            return
        ours, theirs = channel_pair()
        try:
            pid, wrapping = self._make(ours, theirs)
        except OSError as exc:
            ours.close()
            self._failed = True
            name = self._request.wrapper[0] if self._request.wrapper else sys.executable
            self._tell(LoadFailed(name, f"a spare process could not be started: {exc}", False))
            self._refuse(str(exc))
            return
        finally:
            theirs.close()
        self._spare = spare = _Spare(pid, Channel(ours, msgspec.msgpack.Decoder(FromSpare)))
        self.poll.register(spare.channel, select.POLLIN)
        if wrapping is None:
            self._tell(SpareStarted(pid))
        else:
            self._wrappings[pid] = wrapping
            self._tell(SpareStarted(pid, wrapped=True), fds=(wrapping.output,))
            wrapping.passed_on()
        with contextlib.suppress(ChannelClosedError):  # it is dead already, and reaped next
            spare.channel.send(self._request)

    def _make(self, ours: socket.socket, theirs: socket.socket) -> tuple[int, Wrapping | None]:
        if not self._forks:
            os.set_inheritable(theirs.fileno(), True)
            return self._spawn(theirs.fileno())
        waiting = self._wanted.fds if self._wanted is not None else []
        return self.fork(lambda: wait_as_spare(theirs), (ours.fileno(), *waiting)), None

    def _spawn(self, channel: int) -> tuple[int, Wrapping | None]:
        # Not subprocess: it would wait for its children by itself.
        if not self._request.wrapper:
            command = program("spare", channel, self.pid)
            return os.posix_spawn(command[0], command, os.environ, setsid=True), None
        wrapping = Wrapping(self._request.wrapper, program("spare"), channel)
        try:
            pid = os.posix_spawn(
                wrapping.command[0], wrapping.command, os.environ, setsid=True, file_actions=wrapping.file_actions
            )
        except OSError:
            wrapping.passed_on()
            wrapping.close()
            raise
        finally:
            wrapping.started()
        return pid, wrapping

    def _hand_over(self) -> None:
        """Send the case to the spare. It is not the spare's until that one has said so: it may just be dying."""
        if self._wanted is not None and self._spare is not None and self._spare.loaded:
            with contextlib.suppress(ChannelClosedError):  # it is dead; the next spare gets the case
                self._spare.channel.send(self._wanted.message, fds=self._wanted.fds)

    def _became(self, spare: _Spare, message: CaseLaunched) -> None:
        self._forget(spare)
        self._lost = 0
        self.children[spare.pid] = self._preparing = message.token
        if self._wanted is not None:
            self._wanted.close()
            self._wanted = None
        self._tell(message)

    def _refuse(self, text: str) -> None:
        if self._wanted is not None:
            self._wanted.close()
            self._tell(CaseNotLaunched(self._wanted.message.token, text))
            self._wanted = None

    def _forget(self, spare: _Spare) -> None:
        self._ignore(spare)
        spare.channel.close()
        self._spare = None

    def _ignore(self, spare: _Spare) -> None:
        with contextlib.suppress(KeyError):  # done before
            self.poll.unregister(spare.channel)

    def _tell(self, message: msgspec.Struct, fds: tuple[int, ...] = ()) -> None:
        with contextlib.suppress(ChannelClosedError):  # the worker died; the loop ends next
            self.channel.send(message, fds=fds)


if __name__ == "__main__":
    main()
