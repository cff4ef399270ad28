"""The worker's handle on a zygote: start it, ask it for a case process, hear of deaths."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

import msgspec

from .errors import ChannelClosedError, ChannelError, ChannelTimeoutError, StartError
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

_ZYGOTE = "pytest_paddleapi.process.zygote"
_PACKAGES = {"paddle": "paddlepaddle"}


class Zygote:
    """One warm process. Must be made in a thread that lives on: the child dies with it."""

    def __init__(self, environment: Mapping[str, str], runner: str, modules: Sequence[str]) -> None:
        ours, theirs = channel_pair()
        self.errors = OutputFile()
        # Not the current folder first on the path: people work in checkouts that hold a folder ``paddle``.
        safe_path = ["-P"] if sys.version_info >= (3, 11) else []
        try:
            self.process = subprocess.Popen(
                [sys.executable, *safe_path, "-m", _ZYGOTE, str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=self.errors.fd,
                stderr=self.errors.fd,
                env=dict(environment),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        finally:
            theirs.close()
        self.channel: Channel[FromLauncher] = Channel(ours, msgspec.msgpack.Decoder(FromLauncher))
        self.loaded: Loaded | None = None
        self.deaths: dict[int, CaseDied] = {}
        self.channel.send(Load(runner, tuple(modules)))

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
            self.signal(signal.SIGABRT)  # faulthandler is not set up yet; the kernel's stack must do
            raise StartError(f"importing the frameworks took too long\n{self._tail()}") from None
        except ChannelError as exc:
            raise StartError(f"the zygote ended while it imported the frameworks: {exc}\n{self._tail()}") from None
        if isinstance(message, LoadFailed):
            package = _PACKAGES.get(message.module, message.module)
            advice = f"install {package} in {sys.executable}'s environment" if message.missing else "see its text"
            raise StartError(f"{message.module} could not be imported: {advice}\n{message.text}")
        if not isinstance(message, Loaded):
            raise StartError(f"the zygote answered {type(message).__name__} where Loaded was expected")
        if message.threads != 1:
            raise StartError(
                f"the zygote has {message.threads} threads, so a fork is not safe; is OMP_NUM_THREADS set?"
            )
        self.loaded = message

    def launch(self, token: int, options: CaseOptions, fds: Sequence[int], deadline: float) -> CaseLaunched:
        """Fork a case process that gets copies of ``fds``: channel, stdout, stderr, stacks.

        Raises:
            StartError: no process could be made.
        """
        try:
            self.channel.send(LaunchCase(token, options), deadline=deadline, fds=fds)
            while True:
                message = self.channel.receive(deadline)
                if isinstance(message, CaseDied):
                    self.deaths[message.token] = message
                elif isinstance(message, CaseLaunched) and message.token == token:
                    return message
                elif isinstance(message, CaseNotLaunched) and message.token == token:
                    raise StartError(message.text)
        except ChannelError as exc:
            raise StartError(f"the zygote cannot fork any more: {exc}\n{self._tail()}") from None

    def signal_case(self, token: int, number: int, *, group: bool = False) -> None:
        """Signal a case process, or its whole group; nothing happens if it is reaped."""
        with contextlib.suppress(ChannelClosedError):
            self.channel.send(SignalCase(token, number, group), deadline=time.monotonic() + 5)

    def death_of(self, token: int) -> CaseDied | None:
        """The death of a case process, if it was reported by now."""
        for message in self.channel.receive_available():
            if isinstance(message, CaseDied):
                self.deaths[message.token] = message
        return self.deaths.pop(token, None)

    @property
    def ended(self) -> bool:
        """The zygote is gone, or its channel is."""
        return self.channel.ended or self.process.poll() is not None

    def signal(self, number: int) -> None:
        """Signal the zygote itself."""
        if self.process.poll() is None:
            self.process.send_signal(number)

    def close(self) -> int:
        """End it and its case processes, and reap it. Returns its exit code as ``Popen`` gives it."""
        self.channel.close()
        try:
            code = self.process.wait(timeout=2.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.errors.close()
        return code

    def _tail(self) -> str:
        return self.errors.peek()[-3000:].strip()
