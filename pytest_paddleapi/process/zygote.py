"""The warm process: imports the frameworks once, then forks a case process in milliseconds.

Started by the supervisor as ``python -m pytest_paddleapi.process.zygote CHANNEL_FD ALIVE_FD PARENT_PID``. It
stays single threaded, reaps its children and whatever these leave behind, and dies with the worker. The second
descriptor is a pipe that it only keeps open: its end tells the sweeper that the zygote is gone.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import importlib.util
import os
import resource
import select
import signal
import socket
import sys
import time
import traceback
from typing import Any, NoReturn

import msgspec

from . import kernel
from .errors import ChannelClosedError
from .framing import Channel
from .messages import (
    CaseDied,
    CaseLaunched,
    CaseNotLaunched,
    LaunchCase,
    Load,
    Loaded,
    LoadFailed,
    SignalCase,
    ToLauncher,
)
from .progress import Progress
from .server import serve

#: Killed processes are waited for this long; one in the kernel's hands (state D) may take for ever.
_GONE_SECONDS = 5.0
#: Held back around a fork, so that no handler of the zygote runs in the child.
_OURS = {signal.SIGCHLD, signal.SIGUSR1}
#: Paddle, Torch or Python may have handlers for these; a case process must die of them, and say of which.
_DEADLY = (signal.SIGTERM, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)


def main() -> NoReturn:
    """Entry point."""
    fd, alive_fd, parent = map(int, sys.argv[1:])
    kernel.die_with_parent(parent)
    for inherited in (fd, alive_fd):
        os.set_inheritable(inherited, False)  # not for programs that an import or a case starts
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # An import may crash or hang: its stack goes to stderr, which the worker shows.
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)
    channel = Channel(socket.socket(fileno=fd), msgspec.msgpack.Decoder(ToLauncher))
    request = channel.receive()
    if not isinstance(request, Load):
        raise SystemExit(f"the first message must be Load, not {type(request).__name__}")
    runner = _load(channel, request)
    kernel.adopt_orphans()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the frameworks may have put a handler of theirs
    Zygote(channel, alive_fd, runner).run()


def _load(channel: Channel[ToLauncher], request: Load) -> Any:
    start = time.monotonic()
    versions: dict[str, str] = {}
    module, _, name = request.runner.partition(":")
    for wanted in (*request.modules, module):
        try:
            imported = importlib.import_module(wanted)
        except Exception:  # noqa: BLE001 - any failure of an import is told to the worker, which shows it to the user
            missing = importlib.util.find_spec(wanted.partition(".")[0]) is None
            channel.send(LoadFailed(wanted, traceback.format_exc()[-4000:], missing))
            raise SystemExit(1) from None
        versions[wanted] = str(getattr(imported, "__version__", ""))
    runner = getattr(sys.modules[module], name)
    warm_up = getattr(runner, "warm_up", None)
    if warm_up is not None:
        try:
            warm_up()
        except Exception:  # noqa: BLE001 - as above
            channel.send(LoadFailed(request.runner, traceback.format_exc()[-4000:], False))
            raise SystemExit(1) from None
    gc.collect()
    # What is imported now is never garbage: later collections need not look at it, and the pages stay
    # shared after a fork.
    gc.freeze()
    threads = len(os.listdir("/proc/self/task"))
    channel.send(Loaded(os.getpid(), time.monotonic() - start, threads, versions))
    return runner


class Zygote:
    """Forks case processes, passes signals on, and reports deaths."""

    def __init__(self, channel: Channel[ToLauncher], alive_fd: int, runner: Any) -> None:
        self.channel = channel
        self.alive_fd = alive_fd
        self.runner = runner
        self.children: dict[int, int] = {}
        self.pid = os.getpid()

    def run(self) -> NoReturn:
        """Serve until the worker closes the channel."""
        wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        poll = select.poll()
        poll.register(self.channel, select.POLLIN)
        poll.register(wake_read, select.POLLIN)
        while True:
            poll.poll()
            with contextlib.suppress(BlockingIOError):
                os.read(wake_read, 4096)
            for message in self.channel.receive_available():
                self._handle(message)
            self._reap()
            if self.channel.ended:
                self._end()

    def _handle(self, message: ToLauncher) -> None:
        if isinstance(message, LaunchCase):
            self._launch(message)
        elif isinstance(message, SignalCase):
            for pid, token in self.children.items():
                if token == message.token:
                    # Not reaped yet, so the id is still this child's.
                    with contextlib.suppress(ProcessLookupError):
                        (os.killpg if message.group else os.kill)(pid, message.signal)

    def _launch(self, message: LaunchCase) -> None:
        fds = self.channel.take_fds(5)
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, _OURS)
        try:
            pid = os.fork()
        except OSError as exc:
            self.channel.send(CaseNotLaunched(message.token, f"fork failed: {exc}"))
        else:
            if pid == 0:
                self._child(message, fds)
            self.children[pid] = message.token
            try:
                started = kernel.start_time(pid)
            except OSError:
                started = 0  # it died already; its death is reported next
            self.channel.send(CaseLaunched(message.token, pid, started))
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _OURS)
            for fd in fds:
                os.close(fd)

    def _child(self, message: LaunchCase, fds: list[int]) -> NoReturn:
        try:
            os.setsid()
            kernel.die_with_parent(self.pid)
            signal.set_wakeup_fd(-1)
            # Ours wrote to the zygote's stderr, and a reset beneath it would leave it off for good.
            faulthandler.disable()
            for number in (signal.SIGCHLD, *_DEADLY):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _OURS)
            self.channel.close()
            os.close(self.alive_fd)
            channel_fd, out, err, stacks, progress = fds
            null = os.open(os.devnull, os.O_RDONLY)
            for source, target in ((null, 0), (out, 1), (err, 2)):
                os.dup2(source, target)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            kernel.prefer_for_oom_kill()
            # A hung call may hold the GIL for ever: these handlers are C and need none.
            faulthandler.enable(stacks, all_threads=True)
            faulthandler.register(signal.SIGUSR1, stacks, all_threads=True, chain=False)
            serve(socket.socket(fileno=channel_fd), Progress(progress), self.runner, message.options)
        except BaseException:  # noqa: BLE001 - nothing may run on in the zygote's code
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(1)

    def _reap(self) -> None:
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None:
                return
            pid = found.si_pid
            if pid in self.children:
                # Its zombie still owns the group's id, so nobody else can be hit.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            token = self.children.pop(pid, None)
            if token is not None:
                self._kill_adopted()
                with contextlib.suppress(ChannelClosedError):  # the worker died; the loop ends next
                    self.channel.send(CaseDied(token, pid, status))

    def _kill_adopted(self) -> None:
        """Kill and reap what a dead case process left behind, in its group or out of it.

        Whoever loses its parent becomes our child, because we adopt orphans; so killing our children
        until there are none but case processes ends the whole tree.
        """
        deadline = time.monotonic() + _GONE_SECONDS
        while (adopted := [pid for pid in kernel.children() if pid not in self.children]) and (
            time.monotonic() < deadline
        ):
            for pid in adopted:
                with contextlib.suppress(PermissionError):  # it became another user's (setuid): not ours to end
                    os.kill(pid, signal.SIGKILL)  # not reaped yet, so the id is still its own
                os.waitpid(pid, os.WNOHANG)
            time.sleep(0.001)

    def _end(self) -> NoReturn:
        for pid in self.children:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        self.children.clear()
        self._kill_adopted()
        os._exit(0)


if __name__ == "__main__":
    main()
