"""The warm process: imports the frameworks once, then forks a case process in milliseconds.

Started by the supervisor as ``python -m pytest_paddleapi.process.zygote CHANNEL_FD PARENT_PID``. It stays
single threaded, reaps its children, and dies with the worker.
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
from .server import serve

#: A killed process group is looked at this long until its last member is gone.
_GROUP_SECONDS = 5.0


def main() -> NoReturn:
    """Entry point."""
    fd, parent = int(sys.argv[1]), int(sys.argv[2])
    kernel.die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = Channel(socket.socket(fileno=fd), msgspec.msgpack.Decoder(ToLauncher))
    request = channel.receive()
    if not isinstance(request, Load):
        raise SystemExit(f"the first message must be Load, not {type(request).__name__}")
    runner = _load(channel, request)
    kernel.adopt_orphans()
    Zygote(channel, runner).run()


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

    def __init__(self, channel: Channel[ToLauncher], runner: Any) -> None:
        self.channel = channel
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
        fds = self.channel.take_fds(4)
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
            for fd in fds:
                os.close(fd)

    def _child(self, message: LaunchCase, fds: list[int]) -> NoReturn:
        try:
            os.setsid()
            kernel.die_with_parent(self.pid)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self.channel.close()
            channel_fd, out, err, stacks = fds
            null = os.open(os.devnull, os.O_RDONLY)
            for source, target in ((null, 0), (out, 1), (err, 2)):
                os.dup2(source, target)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            # A hung call may hold the GIL for ever: these handlers are C and need none.
            faulthandler.enable(stacks, all_threads=True)
            faulthandler.register(signal.SIGUSR1, stacks, all_threads=True, chain=False)
            serve(socket.socket(fileno=channel_fd), self.runner, message.options)
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
                _await_group(pid)
                self.channel.send(CaseDied(token, pid, status))

    def _end(self) -> NoReturn:
        for pid in self.children:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        os._exit(0)


def _await_group(group: int) -> None:
    """Wait until nobody of a killed process group is left; orphans of it are ours to reap."""
    deadline = time.monotonic() + _GROUP_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-group, os.WNOHANG)[0]:
                pass
        try:
            os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):
            return
        time.sleep(0.002)


if __name__ == "__main__":
    main()
