"""The parent of case processes: passes signals on, reaps, ends what is left behind, and reports deaths.

How a case process comes to be is a subclass's: :mod:`.zygote` forks it, :mod:`.keeper` turns a spare into it.
Both fork with :meth:`CaseParent.fork`.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from typing import NoReturn

from . import kernel
from .errors import ChannelClosedError
from .framing import Channel
from .messages import CaseDied, LaunchCase, MakeSpare, SignalCase, SignalSpare, ToLauncher

#: Held back around a fork, so that no handler of the parent runs in the child.
HELD_BACK = frozenset({signal.SIGCHLD, signal.SIGUSR1})
#: Killed processes are waited for this long; one in the kernel's hands (state D) may take for ever.
_GONE_SECONDS = 5.0


class CaseParent:
    """A process of one thread that makes case processes, and ends them with the worker.

    ``alive_fd`` is a pipe that it only keeps open: its end tells the sweeper that this process is gone.

    Attributes:
        children: the case processes that are not reaped, and the token of each.
    """

    def __init__(self, channel: Channel[ToLauncher], alive_fd: int) -> None:
        self.channel = channel
        self.alive_fd = alive_fd
        self.children: dict[int, int] = {}
        self.pid = os.getpid()
        self.poll = select.poll()
        #: Written to by the kernel's signals, once it serves.
        self.wake_pipe: tuple[int, ...] = ()

    def fork(self, become: Callable[[], object], foreign: Iterable[int] = ()) -> int:
        """A child that does ``become`` and ends; it keeps none of our descriptors, nor the ``foreign`` ones.

        Raises:
            OSError: there can be no more processes.
        """
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
        try:
            pid = os.fork()
            if pid == 0:
                self._become(become, foreign)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
        return pid

    def _become(self, become: Callable[[], object], foreign: Iterable[int]) -> NoReturn:
        try:
            os.setsid()
            kernel.die_with_parent(self.pid)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
            self.channel.close()
            for fd in (self.alive_fd, *self.wake_pipe, *foreign):
                os.close(fd)
            become()
        except SystemExit as exc:
            if isinstance(exc.code, str):  # as the interpreter would at its end
                print(exc.code, file=sys.stderr, flush=True)
        except Exception:  # noqa: BLE001 - nothing may run on in the code that called
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(1)

    def launch(self, message: LaunchCase, fds: list[int]) -> None:
        """Make a case process; ``fds`` are its own to close."""
        raise NotImplementedError

    def listen(self) -> None:
        """Read what came from where the subclass registered with :attr:`poll`."""

    def patience(self) -> float | None:
        """Milliseconds after which :meth:`listen` is to be called though nothing came; None: never."""
        return None

    def tend_spare(self, message: MakeSpare | SignalSpare) -> None:
        """A message about spares; one that forks has none."""

    def spares(self) -> set[int]:
        """Children that are not case processes, and not left behind by one either."""
        return set()

    def inner(self, pid: int) -> int:
        """The case process, where the child ``pid`` is another program that it runs under.

        Raises:
            ProcessLookupError: it has ended, or has not begun.
        """
        return pid

    def died(self, token: int, pid: int, status: int) -> CaseDied:
        """What to tell of a case process that was reaped."""
        return CaseDied(token, pid, status)

    def case_ended(self, token: int) -> None:
        """A case process was reaped, and its death reported."""

    def other_ended(self, pid: int, status: int) -> None:
        """A child was reaped that is no case process."""

    def run(self) -> NoReturn:
        """Serve until the worker closes the channel."""
        kernel.adopt_orphans()
        self.wake_pipe = wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self.poll.register(self.channel, select.POLLIN)
        self.poll.register(wake_read, select.POLLIN)
        while True:
            self.poll.poll(self.patience())
            with contextlib.suppress(BlockingIOError):
                os.read(wake_read, 4096)
            for message in self.channel.receive_available():
                self._handle(message)
            self.listen()
            self._reap()
            if self.channel.ended:
                self._end()

    def _handle(self, message: ToLauncher) -> None:
        if isinstance(message, LaunchCase):
            self.launch(message, self.channel.take_fds(5))
        elif isinstance(message, SignalCase):
            for pid, token in self.children.items():
                if token == message.token:
                    # Not reaped yet, so the id is still this child's.
                    with contextlib.suppress(ProcessLookupError):
                        if message.group:
                            os.killpg(pid, message.signal)
                        else:
                            os.kill(self.inner(pid), message.signal)
        elif isinstance(message, (MakeSpare, SignalSpare)):
            self.tend_spare(message)

    def _reap(self) -> None:
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None:
                return
            self.listen()  # what it said last decides what it was
            pid = found.si_pid
            if pid in self.children or pid in self.spares():
                # Its zombie still owns the group's id, so nobody else can be hit.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            token = self.children.pop(pid, None)
            if token is None:
                self.other_ended(pid, status)
                continue
            self._kill_adopted()
            with contextlib.suppress(ChannelClosedError):  # the worker died; the loop ends next
                self.channel.send(self.died(token, pid, status))
            self.case_ended(token)

    def _kill_adopted(self, *, spares_too: bool = False) -> None:
        """Kill and reap what a dead case process left behind, in its group or out of it.

        Whoever loses its parent becomes our child, because we adopt orphans; so killing our children
        until there are none but case processes and spares ends the whole tree.
        """
        deadline = time.monotonic() + _GONE_SECONDS
        kept = set(self.children) | (set() if spares_too else self.spares())
        while (adopted := [pid for pid in kernel.children() if pid not in kept]) and time.monotonic() < deadline:
            for pid in adopted:
                with contextlib.suppress(PermissionError):  # it became another user's (setuid): not ours to end
                    os.kill(pid, signal.SIGKILL)  # not reaped yet, so the id is still its own
                os.waitpid(pid, os.WNOHANG)
            time.sleep(0.001)

    def _end(self) -> NoReturn:
        for pid in (*self.children, *self.spares()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        self.children.clear()
        self._kill_adopted(spares_too=True)
        os._exit(0)
