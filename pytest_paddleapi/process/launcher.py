"""The worker's handle on what makes case processes: start it, ask it for one, hear of deaths.

A :class:`Zygote` forks them and serves the CPU. CUDA does not survive a fork, and Paddle's GPU builds ask it for
devices as soon as they are imported, so other devices have :class:`Spares`: a loaded spare process becomes the case
process, and a new spare is loaded behind it.
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
from itertools import takewhile
from typing import ClassVar, Protocol

import msgspec

from . import sweeper
from .command import program
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
    MakeSpare,
    SignalCase,
    SignalSpare,
    SpareDied,
    SpareStarted,
)
from .output import OutputFile
from .sanitizer_log import SanitizerLog
from .stacks import collect_stacks

#: What touches no device when it is imported: Torch asks CUDA for nothing before the first tensor on a GPU.
_SURVIVE_FORK = frozenset({"numpy", "torch"})
_PACKAGES = {"paddle": "paddlepaddle (its GPU builds: see the README)"}
#: The variable whose value, used once, marks everything that descends from one launcher.
_MARK = "PYTEST_PADDLEAPI_PROCESS_TREE"
#: A launcher whose channel is closed ends its children and then itself.
_END_SECONDS = 3.0
#: How long a message to a launcher that may be stopped is tried to be sent.
_SEND_SECONDS = 5.0


class Launcher(Protocol):
    """What the supervisor needs in order to have case processes made. Used from one thread, but for kill()."""

    def fileno(self) -> int:
        """Readable when there is news: a death, or the launcher's own end."""

    def await_loaded(self, deadline: float) -> None:
        """Wait until it can launch; raises StartError. Called before each launch."""

    def launch(self, token: int, options: CaseOptions, fds: Sequence[int], deadline: float) -> CaseLaunched:
        """Make a case process that has copies of ``fds``: channel, stdout, stderr, stacks; raises StartError."""

    def take_log(self) -> SanitizerLog | None:
        """What the sanitizer prints that the last launched process runs under; the caller's from now on."""

    def case_is_ready(self, token: int, spare_delay: float) -> None:
        """The case process has prepared its device, so that the next one may be loaded."""

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


class _Parent:
    """A process that is the parent of case processes, and the sweeper that cleans up behind it.

    Must be made in a thread that lives on: the child dies with it.

    Raises:
        StartError: the operating system does not let us start a process.
    """

    #: The module of this package that it runs, and what messages call it.
    _program: ClassVar[str]
    _name: ClassVar[str]

    def __init__(
        self, environment: Mapping[str, str], runner: str, modules: Sequence[str], wrapper: Sequence[str] = ()
    ) -> None:
        ours, theirs = channel_pair()
        self.errors = OutputFile()
        mark = uuid.uuid4().hex
        self._mark = f"{_MARK}={mark}"
        alive_read, alive_write = os.pipe2(os.O_CLOEXEC)
        try:
            self._sweeper = subprocess.Popen(
                [sys.executable, "-I", "-S", sweeper.__file__, self._mark],
                stdin=alive_read,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            self.process = subprocess.Popen(
                program(self._program, theirs.fileno(), alive_write, os.getpid()),
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
        #: What can launch: the zygote itself, or the spare that waits; None while it loads.
        self.loaded: Loaded | None = None
        self._failure: StartError | None = None
        self._deaths: dict[int, CaseDied] = {}
        self._spoilt = False
        with contextlib.suppress(ChannelError):  # it is dead already; whoever waits for it is told why
            shared = 0 if wrapper else len(list(takewhile(_SURVIVE_FORK.__contains__, modules)))
            self.channel.send(Load(runner, tuple(modules), tuple(wrapper), shared))

    def fileno(self) -> int:
        """The channel's descriptor."""
        return self.channel.fileno()

    def await_loaded(self, deadline: float) -> None:
        """Wait until everything is imported by a process that can become, or make, a case process.

        Raises:
            StartError: it was not; the message has the end of the child's stderr and what to do.
        """
        try:
            while self.loaded is None:
                if self._failure is not None:
                    raise self._failure
                self._note(self.channel.receive(deadline))
        except ChannelTimeoutError:
            raise StartError(f"importing the frameworks took too long; it hung here:\n{self._stacks()}") from None
        except ChannelError:
            raise StartError(f"{self._name} {self._end_text()}\n{self._tail()}") from None

    def launch(self, token: int, options: CaseOptions, fds: Sequence[int], deadline: float) -> CaseLaunched:
        """Make a case process that gets copies of ``fds``: channel, stdout, stderr, stacks, progress.

        Raises:
            StartError: no process could be made.
        """
        try:
            self.channel.send(LaunchCase(token, options), deadline=deadline, fds=fds)
            while True:
                message = self.channel.receive(deadline)
                if isinstance(message, CaseLaunched) and message.token == token:
                    self._launched()
                    return message
                if isinstance(message, CaseNotLaunched) and message.token == token:
                    raise self._failure or StartError(message.text)
                self._note(message)
        except ChannelTimeoutError:
            raise StartError(f"{self._name} made no case process in time; it hung here:\n{self._stacks()}") from None
        except ChannelError:
            raise StartError(f"{self._name} {self._end_text()}, and made no case process\n{self._tail()}") from None

    def take_log(self) -> SanitizerLog | None:
        """Nothing, where there is no sanitizer."""
        return None

    def case_is_ready(self, token: int, spare_delay: float) -> None:
        """Nothing, where the next case process comes from a fork."""

    def signal_case(self, token: int, number: int, *, group: bool = False) -> None:
        """Signal a case process, or its whole group; nothing happens if it is reaped."""
        self._send(SignalCase(token, number, group))

    def death_of(self, token: int) -> CaseDied | None:
        """The death of a case process, if it was reported by now."""
        try:
            news = self.channel.receive_available()
        except MalformedFrameError:  # it was killed while it wrote
            self._spoilt, news = True, []
        for message in news:
            self._note(message)
        return self._deaths.get(token)

    @property
    def ended(self) -> bool:
        """The process is gone, or its channel is."""
        return self._spoilt or self.channel.ended or self.process.poll() is not None

    def kill(self) -> bool:
        """Kill it and all that descends from it; False where one does not die. Any thread may call this."""
        self._signal(signal.SIGKILL)
        return not sweeper.kill_marked(self._mark.encode())

    def close(self) -> int:
        """End it and all that descends from it, and reap it. Returns its exit code as ``Popen`` gives it."""
        self.channel.close()
        self._hurry()
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

    def _note(self, message: FromLauncher) -> None:
        """Remember news; each may come at any time."""
        if isinstance(message, CaseDied):
            self._deaths[message.token] = message
        elif isinstance(message, Loaded):
            self.loaded = message
        elif isinstance(message, LoadFailed):
            package = _PACKAGES.get(message.module, message.module)
            if message.missing:
                text = f"{message.module} is not installed; install {package} for {sys.executable}"
            else:
                text = f"{message.module} could not be imported by {sys.executable}"
            # What is not installed now will not be in a minute.
            text = f"{text}\n{message.text}\n{self._tail()}".rstrip()
            self._failure = StartError(text, retired=message.missing)

    def _stacks(self) -> str:
        """The stacks of what loads."""
        raise NotImplementedError

    def _launched(self) -> None:
        """A case process came to be."""

    def _hurry(self) -> None:
        """Called when the channel is closed, before the end is waited for."""

    def _send(self, message: SignalCase | MakeSpare | SignalSpare) -> None:
        with contextlib.suppress(ChannelError):  # then it is gone, or stopped, and :attr:`ended` is next
            self.channel.send(message, deadline=time.monotonic() + _SEND_SECONDS)

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


class Zygote(_Parent):
    """One warm process that forks case processes."""

    _program = "zygote"
    _name = "the process that imports the frameworks"

    def await_loaded(self, deadline: float) -> None:
        """Wait until it can fork.

        Raises:
            StartError: it cannot; the message has the end of the child's stderr and what to do.
        """
        super().await_loaded(deadline)
        threads = self.loaded.threads if self.loaded else 1
        if threads != 1:
            raise StartError(f"the zygote has {threads} threads, so a fork is not safe; is OMP_NUM_THREADS set?")

    def _stacks(self) -> str:
        return collect_stacks(self.process.pid, self.errors, lambda: self._signal(signal.SIGUSR1))

    def _hurry(self) -> None:
        if self.loaded is None:
            self._signal(signal.SIGKILL)  # it has no children yet, and looks at its channel only after the imports


class Spares(_Parent):
    """A process that imports what survives a fork, and keeps a spare that has imported everything and waits.

    ``wrapper`` is the beginning of the command of a program that each spare is to run under, such as a sanitizer.
    """

    _program = "keeper"
    _name = "the process that keeps the spare"

    def __init__(
        self, environment: Mapping[str, str], runner: str, modules: Sequence[str], wrapper: Sequence[str] = ()
    ) -> None:
        #: What the sanitizer prints under which the spare runs; and the one that became a case process last.
        self._spare_log: SanitizerLog | None = None
        self._case_log: SanitizerLog | None = None
        #: The spare that loads or waits.
        self._spare_pid: int | None = None
        #: The keeper is at its own imports, as far as we know.
        self._imports = True
        super().__init__(environment, runner, modules, wrapper)

    def take_log(self) -> SanitizerLog | None:
        """What the sanitizer prints that the last launched process runs under."""
        log, self._case_log = self._case_log, None
        return log

    def case_is_ready(self, token: int, spare_delay: float) -> None:
        """Let the next spare load behind it, in so many seconds."""
        self._send(MakeSpare(token, spare_delay))

    def _note(self, message: FromLauncher) -> None:
        super()._note(message)
        self._imports = False
        if isinstance(message, SpareStarted):
            self._spare_pid = message.pid
            if message.wrapped:
                self._spare_log = SanitizerLog(self.channel.take_fds(1)[0], self._hear)
        elif isinstance(message, Loaded):
            self.errors.take()  # what it said is of no use now, and there will be many spares
        elif isinstance(message, SpareDied):
            how = Death(message.status)
            self._let_log_end()
            if message.failed and self.loaded is None:
                self._failure = StartError(f"the process that imports the frameworks {how}\n{self._tail()}".rstrip())
            elif message.failed:
                self._failure = StartError(f"one spare process after the other died while it waited; the last {how}")
            self.loaded = self._spare_pid = None

    def close(self) -> int:
        """As :meth:`_Parent.close`."""
        code = super().close()
        self._let_log_end()
        return code

    def _let_log_end(self) -> None:
        """What the sanitizer of a dead spare said last may say why it died."""
        log, self._spare_log = self._spare_log, None
        if log is not None:
            log.await_end(_SEND_SECONDS)

    def _hurry(self) -> None:
        if self._imports:
            self._signal(signal.SIGKILL)  # as a zygote that does; a spare that it may have made just now dies with it

    def _hear(self, line: str) -> None:
        """What a spare prints, or its sanitizer in another form than reports: kept with what the keeper prints."""
        self.errors.append(f"{line}\n".encode())

    def _stacks(self) -> str:
        if self._spare_pid is None:
            return collect_stacks(self.process.pid, self.errors, lambda: self._signal(signal.SIGUSR1))
        return collect_stacks(self._spare_pid, self.errors, lambda: self._send(SignalSpare(signal.SIGUSR1)))

    def _launched(self) -> None:
        self.loaded = self._spare_pid = None
        self._case_log, self._spare_log = self._spare_log, None


def exit_text(code: int) -> str:
    """An exit code as ``Popen`` gives it, in words."""
    return str(Death(-code if code < 0 else code << 8))
