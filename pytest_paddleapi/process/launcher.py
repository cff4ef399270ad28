"""The worker's handle on what makes case processes: start it, ask it for one, hear of deaths.

A zygote forks them and serves the CPU. CUDA does not survive a fork, so a GPU needs another
:class:`Launcher`: a loaded spare process that becomes the case process, and a new spare behind it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from . import sweeper
from .errors import ChannelError, ChannelTimeoutError, MalformedFrameError, StartError
from .fatal import Death
from .framing import Channel, channel_pair
from .messages import (
    CaseDied,
    CaseLaunched,
    CaseNotLaunched,
    CaseOptions,
    FromLauncher,
    LaunchCase,
    Load,
    Loaded,
    LoadFailed,
    SignalCase,
)
from .output import OutputFile
from .stacks import collect_stacks

_ZYGOTE = "pytest_paddleapi.process.zygote"
_PACKAGES = {"paddle": "paddlepaddle (its GPU builds: see the README)"}
#: The variable whose value, used once, marks everything that descends from one zygote.
_MARK = "PYTEST_PADDLEAPI_PROCESS_TREE"
#: A zygote whose channel is closed ends its children and then itself.
_END_SECONDS = 3.0


class Launcher(Protocol):
    """What the supervisor needs in order to have case processes made. Used from one thread, but for kill()."""

    def fileno(self) -> int:
        """Readable when there is news: a death, or the launcher's own end."""

    def await_loaded(self, deadline: float) -> None:
        """Wait until it can launch; raises StartError."""

    def launch(self, token: int, options: CaseOptions, fds: Sequence[int], deadline: float) -> CaseLaunched:
        """Make a case process that has copies of ``fds``: channel, stdout, stderr, stacks; raises StartError."""

    def signal_case(self, token: int, number: int, *, group: bool = False) -> None:
        """Signal a case process, or its group; does nothing once it is reaped."""

    def death_of(self, token: int) -> CaseDied | None:
        """The death of a case process, if it is known by now."""

    @property
    def ended(self) -> bool:
        """It is gone, and every case process of its with it, or soon."""

    def kill(self) -> bool:
        """Kill it and all that descends from it; False where one does not die. Any thread may call this."""

    def close(self) -> int:
        """End it and all that descends from it, gently if it can be; returns its exit code as ``Popen`` does."""


class Zygote:
    """One warm process, and the sweeper that cleans up behind it.

    Must be made in a thread that lives on: the child dies with it.

    Raises:
        StartError: the operating system does not let us start a process.
    """

    def __init__(self, environment: Mapping[str, str], runner: str, modules: Sequence[str]) -> None:
        ours, theirs = channel_pair()
        self.errors = OutputFile()
        mark = uuid.uuid4().hex
        self._mark = f"{_MARK}={mark}"
        alive_read, alive_write = os.pipe2(os.O_CLOEXEC)
        # Not the current folder first on the path: people work in checkouts that hold a folder ``paddle``.
        safe_path = ["-P"] if sys.version_info >= (3, 11) else []
        try:
            self._sweeper = subprocess.Popen(
                [sys.executable, "-I", "-S", sweeper.__file__, self._mark],
                stdin=alive_read,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            self.process = subprocess.Popen(
                [sys.executable, *safe_path, "-m", _ZYGOTE, str(theirs.fileno()), str(alive_write), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=self.errors.fd,
                stderr=self.errors.fd,
                env={**environment, _MARK: mark},
                pass_fds=(theirs.fileno(), alive_write),
                start_new_session=True,
            )
        except OSError as exc:
            ours.close()
            self.errors.close()
            raise StartError(f"{sys.executable} could not be started: {exc}") from exc
        finally:
            theirs.close()
            os.close(alive_read)
            os.close(alive_write)
        self.channel: Channel[FromLauncher] = Channel(ours, msgspec.msgpack.Decoder(FromLauncher))
        self.loaded: Loaded | None = None
        self._deaths: dict[int, CaseDied] = {}
        self._spoilt = False
        with contextlib.suppress(ChannelError):  # it is dead already; whoever waits for it is told why
            self.channel.send(Load(runner, tuple(modules)))

    def fileno(self) -> int:
        """The channel's descriptor."""
        return self.channel.fileno()

    def await_loaded(self, deadline: float) -> None:
        """Wait until everything is imported.

        Raises:
            StartError: it was not; the message has the end of the child's stderr and what to do.
        """
        if self.loaded is not None:
            return
        try:
            message = self.channel.receive(deadline)
        except ChannelTimeoutError:
            stacks = collect_stacks(self.process.pid, self.errors, lambda: self._signal(signal.SIGUSR1))
            raise StartError(f"importing the frameworks took too long; it hung here:\n{stacks}") from None
        except ChannelError:
            raise StartError(f"the process that imports the frameworks {self._end_text()}\n{self._tail()}") from None
        if isinstance(message, LoadFailed):
            package = _PACKAGES.get(message.module, message.module)
            if message.missing:
                text = f"{message.module} is not installed; install {package} for {sys.executable}"
            else:
                text = f"{message.module} could not be imported by {sys.executable}"
            # What is not installed now will not be in a minute.
            raise StartError(f"{text}\n{message.text}\n{self._tail()}".rstrip(), retired=message.missing)
        if not isinstance(message, Loaded):
            raise StartError(f"the zygote answered {type(message).__name__} where Loaded was expected")
        if message.threads != 1:
            raise StartError(
                f"the zygote has {message.threads} threads, so a fork is not safe; is OMP_NUM_THREADS set?"
            )
        self.loaded = message

    def launch(self, token: int, options: CaseOptions, fds: Sequence[int], deadline: float) -> CaseLaunched:
        """Fork a case process that gets copies of ``fds``: channel, stdout, stderr, stacks, progress.

        Raises:
            StartError: no process could be made.
        """
        try:
            self.channel.send(LaunchCase(token, options), deadline=deadline, fds=fds)
            while True:
                message = self.channel.receive(deadline)
                if isinstance(message, CaseDied):
                    self._deaths[message.token] = message
                elif isinstance(message, CaseLaunched) and message.token == token:
                    return message
                elif isinstance(message, CaseNotLaunched) and message.token == token:
                    raise StartError(message.text)
        except ChannelTimeoutError:
            raise StartError(f"the zygote did not fork in time\n{self._tail()}") from None
        except ChannelError:
            raise StartError(f"the zygote {self._end_text()} before it could fork\n{self._tail()}") from None

    def signal_case(self, token: int, number: int, *, group: bool = False) -> None:
        """Signal a case process, or its whole group; nothing happens if it is reaped."""
        with contextlib.suppress(ChannelError):  # then the zygote is gone, or stopped, and :attr:`ended` is next
            self.channel.send(SignalCase(token, number, group), deadline=time.monotonic() + 5)

    def death_of(self, token: int) -> CaseDied | None:
        """The death of a case process, if it was reported by now."""
        try:
            news = self.channel.receive_available()
        except MalformedFrameError:  # it was killed while it wrote
            self._spoilt, news = True, []
        for message in news:
            if isinstance(message, CaseDied):
                self._deaths[message.token] = message
        return self._deaths.get(token)

    @property
    def ended(self) -> bool:
        """The zygote is gone, or its channel is."""
        return self._spoilt or self.channel.ended or self.process.poll() is not None

    def kill(self) -> bool:
        """Kill it and all that descends from it; False where one does not die. Any thread may call this."""
        self._signal(signal.SIGKILL)
        return not sweeper.kill_marked(self._mark.encode())

    def close(self) -> int:
        """End it and its case processes, and reap it. Returns its exit code as ``Popen`` gives it."""
        self.channel.close()
        if self.loaded is None:
            self._signal(signal.SIGKILL)  # it has no children yet, and looks at its channel only after the imports
        try:
            code = self.process.wait(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        try:
            swept = self._sweeper.wait(timeout=sweeper.GONE_SECONDS + 1) == 0
        except subprocess.TimeoutExpired:
            self._sweeper.kill()
            swept = self._sweeper.wait() == 0
        if not swept:
            sweeper.kill_marked(self._mark.encode())
        self.errors.close()
        return code

    def _signal(self, number: int) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)

    def _end_text(self) -> str:
        try:
            code = self.process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            return "closed its channel"
        return exit_text(code)

    def _tail(self) -> str:
        return self.errors.peek()[-3000:].strip()


def exit_text(code: int) -> str:
    """An exit code as ``Popen`` gives it, in words."""
    return str(Death(-code if code < 0 else code << 8))
