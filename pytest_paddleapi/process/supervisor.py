"""One slot as the worker sees it: keeps a case process ready, gives it cases, and survives its deaths."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from .errors import ChannelError, ChannelTimeoutError, MalformedFrameError, StartError
from .fatal import Death, verdict_for_death, where
from .framing import Channel, channel_pair
from .launcher import Zygote
from .messages import (
    CaseDied,
    CaseLaunched,
    CaseNotReady,
    CaseOptions,
    CaseReady,
    CaseResult,
    FromCase,
    RunCase,
    Stage,
    StageEntered,
    Verdict,
)
from .output import OutputFile
from .slot import SlotLife, SlotState, StartRules

#: Limit of each phase of a start: imports, then preparing the device.
START_SECONDS = 180.0
#: How long a killed process may take to be gone; one that survives SIGKILL retires its slot.
KILL_SECONDS = 20.0
#: The stacks of a hung process are waited for this long; py-spy gets its own limit.
_STACK_SECONDS, _PY_SPY_SECONDS = 2.0, 10.0
#: How often a running case's output is looked at, so that it cannot fill the disk.
_TRIM_SECONDS = 0.5

#: Imported before the fork, in this order.
MODULES = ("numpy", "torch", "paddle")
RUNNER = "pytest_paddleapi.case.runner:CaseRunner"


@dataclass(frozen=True)
class Attempt:
    """One run of a case: its result, what it printed, and which process it was."""

    result: CaseResult
    stdout: str
    stderr: str
    pid: int | None
    seconds: float
    stacks: str = ""


@dataclass
class _Process:
    """A case process that exists."""

    launched: CaseLaunched
    channel: Channel[FromCase]
    #: The last case that was sent to it ended it, or nothing did yet.
    stage: Stage = Stage.STARTING


class Supervisor:
    """Owns a slot's zygote and case process. Used from one thread, which must live on.

    Args:
        options: what holds for every case.
        runner: ``package.module:Class`` that runs cases; a test gives its own.
        modules: imported in the zygote before the runner.
        environment: added to the child's environment, for example the visibility variable of its device.
    """

    def __init__(
        self,
        options: CaseOptions,
        *,
        runner: str = RUNNER,
        modules: Sequence[str] = MODULES,
        environment: dict[str, str] | None = None,
        start_seconds: float = START_SECONDS,
        rules: StartRules | None = None,
    ) -> None:
        self.options = options
        self.life = SlotLife(rules)
        self._runner = runner
        self._modules = tuple(modules)
        self._environment = environment or {}
        self._start_seconds = start_seconds
        self._zygote: Zygote | None = None
        self._process: _Process | None = None
        self._token = 0
        self._stdout, self._stderr, self._stacks = OutputFile(), OutputFile(), OutputFile()
        self._closed = False

    @property
    def state(self) -> SlotState:
        """The slot's state."""
        return self.life.state

    @property
    def pid(self) -> int | None:
        """The case process, where there is one."""
        return self._process.launched.pid if self._process else None

    # Starting -------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to start the zygote, without waiting for it."""
        if self._zygote is None and self.life.state is SlotState.DEAD:
            self.life.to(SlotState.STARTING)
            self._zygote = Zygote(self._child_environment(), self._runner, self._modules)

    def _child_environment(self) -> dict[str, str]:
        threads = str(self.options.threads or 1)
        return {
            **os.environ,
            "FLAGS_use_system_allocator": "1",
            "NVIDIA_TF32_OVERRIDE": "0",
            "OMP_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
            # NumPy starts OpenBLAS's threads on import, and a process with threads must not be forked.
            "OPENBLAS_NUM_THREADS": "1",
            **self._environment,
        }

    def ensure_ready(self, deadline: float | None = None) -> None:
        """Wait until a case process is idle, starting what is missing.

        After a failed start it waits as the slot's rules say and tries again, until ``deadline`` (of
        ``time.monotonic``) or until the slot is retired.

        Raises:
            StartError: no process could be started in time, or the slot is retired.
        """
        while True:
            if self.life.state in (SlotState.RETIRED, SlotState.QUARANTINED):
                raise StartError("the slot is retired: it failed to start too often", retired=True)
            self._notice_deaths()
            if self.life.state is SlotState.IDLE:
                return
            try:
                self._start_once()
            except StartError as exc:
                self._drop_zygote()
                self.life.start_failed(time.monotonic())
                if self.life.state is SlotState.RETIRED:
                    raise StartError(
                        f"{self.life.failures} starts in a row failed; the last: {exc}", retired=True
                    ) from exc
                if deadline is not None and self.life.retry_at > deadline:
                    raise StartError(str(exc), retry_at=self.life.retry_at) from exc
                time.sleep(max(0.0, self.life.retry_at - time.monotonic()))
            else:
                self.life.start_succeeded()
                return

    def _start_once(self) -> None:
        self.start()
        zygote = self._zygote
        assert zygote is not None
        if self.life.state is SlotState.STARTING:
            zygote.await_loaded(time.monotonic() + self._start_seconds)
            self.life.to(SlotState.LOADED)
        self.life.to(SlotState.PREPARING)
        self._token += 1
        ours, theirs = channel_pair()
        deadline = time.monotonic() + self._start_seconds
        try:
            fds = (theirs.fileno(), self._stdout.fd, self._stderr.fd, self._stacks.fd)
            launched = zygote.launch(self._token, self.options, fds, deadline)
        except StartError:
            ours.close()
            raise
        finally:
            theirs.close()
        channel: Channel[FromCase] = Channel(ours, msgspec.msgpack.Decoder(FromCase))
        self._process = _Process(launched, channel)
        try:
            message = channel.receive(deadline)
        except ChannelTimeoutError:
            raise StartError(f"the case process was not ready in time\n{self._take_stacks()}") from None
        except ChannelError as exc:
            raise StartError(
                f"the case process died while it got ready: {exc}\n{self._stderr.peek()[-3000:]}"
            ) from None
        if isinstance(message, CaseNotReady):
            raise StartError(f"the case process could not get ready\n{message.text}")
        if not isinstance(message, CaseReady):
            raise StartError(f"the case process sent {type(message).__name__} where CaseReady was expected")
        self.life.to(SlotState.IDLE)

    def restart(self) -> None:
        """Replace the case process by a fresh one, which is ready in a moment."""
        if self._process is not None:
            self._kill_process()

    # Running --------------------------------------------------------------------------------

    def run(self, config: str, lease_bytes: int = 0, whole_device: bool = True, timeout: float = 1800.0) -> Attempt:
        """Run one case to its end, whatever that is.

        Args:
            config: the config's text.
            lease_bytes: what the ledger promised, in bytes; 0 for no limit.
            whole_device: running out of memory is then final.
            timeout: seconds from now until the process is killed.

        Raises:
            StartError: no case process could be started.
        """
        self.ensure_ready()
        process, zygote = self._process, self._zygote
        assert process is not None
        assert zygote is not None
        self._token += 1
        token, start = self._token, time.monotonic()
        process.stage = Stage.STARTING
        self.life.to(SlotState.BUSY)
        stacks = ""
        result: CaseResult | None = None
        with contextlib.suppress(ChannelError):  # it died just now: the loop below finds out how
            process.channel.send(RunCase(token, config, lease_bytes, whole_device), deadline=start + timeout)
        try:
            result = self._await_result(process, zygote, token, start + timeout)
        except ChannelTimeoutError:
            stacks = self._stacks_of(process)
            self._kill_process()
            text = f"over the time limit of {timeout:g} s {where(process.stage)}; the process was killed"
            result = CaseResult(token, Verdict.TIMEOUT, f"{text}\n{stacks}".rstrip(), seconds=time.monotonic() - start)
        except MalformedFrameError as exc:
            self._kill_process()
            text = f"the case process sent what is no message {where(process.stage)}: {exc}"
            result = CaseResult(token, Verdict.PADDLE_CRASH, text)
        if result is None:
            result = self._after_death(process, zygote, token)
        elif result.fatal:
            self._await_death(process, zygote)
        if self._process is not None:
            self.life.to(SlotState.IDLE)
        return Attempt(
            result,
            stdout=self._stdout.take(),
            stderr=self._stderr.take(),
            pid=process.launched.pid,
            seconds=time.monotonic() - start,
            stacks=stacks,
        )

    def _await_result(self, process: _Process, zygote: Zygote, token: int, deadline: float) -> CaseResult | None:
        """The result; None where the process ended without one.

        Raises:
            ChannelTimeoutError: ``deadline`` passed.
            MalformedFrameError: the channel is spoilt.
        """
        poll = select.poll()
        poll.register(process.channel, select.POLLIN)
        poll.register(zygote.channel, select.POLLIN)
        while True:
            for message in process.channel.receive_available():
                # Messages of an earlier token are late and change nothing.
                if isinstance(message, StageEntered) and message.token == token:
                    process.stage = message.stage
                elif isinstance(message, CaseResult) and message.token == token:
                    return message
            if process.channel.ended or zygote.ended:
                return None
            death = zygote.death_of(process.launched.token)
            if death is not None:
                zygote.deaths[death.token] = death
                if not process.channel.receive_available():
                    return None
            left = deadline - time.monotonic()
            if left <= 0:
                raise ChannelTimeoutError("the case is over its time limit")
            poll.poll(1000 * min(left, _TRIM_SECONDS))
            self._stdout.trim()
            self._stderr.trim()

    def _after_death(self, process: _Process, zygote: Zygote, token: int) -> CaseResult:
        died = self._await_death(process, zygote)
        stacks = self._stacks.take().strip()
        if died is not None:
            verdict, text = verdict_for_death(process.stage, Death(died.status))
            return CaseResult(token, verdict, f"{text}\n{stacks}".rstrip())
        code = self._drop_zygote()
        self.life.died()
        text = f"the zygote ended with code {code}, and its case process with it {where(process.stage)}"
        if code in (-signal.SIGKILL, -signal.SIGTERM):
            return CaseResult(token, Verdict.EXTERNAL_KILL, text)
        verdict, _ = verdict_for_death(process.stage, Death(0))
        return CaseResult(token, verdict, f"{text}\n{stacks}".rstrip())

    def _await_death(self, process: _Process, zygote: Zygote) -> CaseDied | None:
        """Wait until the process is reaped; None where the zygote died instead.

        The slot is retired if the process does not go.
        """
        deadline = time.monotonic() + KILL_SECONDS
        killed_at = time.monotonic() + 2.0
        while True:
            died = zygote.death_of(process.launched.token)
            if died is not None or zygote.ended:
                break
            now = time.monotonic()
            if now > deadline:
                self.life.to(SlotState.RETIRED)
                break
            if now > killed_at:  # it closed its channel, or said that it exits, and lives on
                zygote.signal_case(process.launched.token, signal.SIGKILL, group=True)
            poll = select.poll()
            poll.register(zygote.channel, select.POLLIN)
            poll.poll(50)
        process.channel.close()
        self._process = None
        if died is not None and self.life.state is not SlotState.RETIRED:
            self.life.to(SlotState.LOADED)
        return died

    def _notice_deaths(self) -> None:
        """Between cases: the case process or the zygote may have been killed."""
        zygote, process = self._zygote, self._process
        if zygote is not None and process is not None:
            with contextlib.suppress(MalformedFrameError):
                if zygote.death_of(process.launched.token) is not None:
                    process.channel.close()
                    self._process = None
                    self.life.to(SlotState.LOADED)
        if zygote is not None and zygote.ended:
            self._drop_zygote()
            self.life.died()

    # Ending ---------------------------------------------------------------------------------

    def _stacks_of(self, process: _Process) -> str:
        """Python's stacks of a hung process, by its signal handler, and py-spy's where it is installed."""
        assert self._zygote is not None
        self._stacks.take()
        self._zygote.signal_case(process.launched.token, signal.SIGUSR1)
        deadline = time.monotonic() + _STACK_SECONDS
        size = -1
        while time.monotonic() < deadline:
            time.sleep(0.05)
            if self._stacks.size() and self._stacks.size() == size:
                break
            size = self._stacks.size()
        text = self._stacks.take().strip()
        py_spy = shutil.which("py-spy")
        if py_spy:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                done = subprocess.run(
                    [py_spy, "dump", "--native", "--pid", str(process.launched.pid)],
                    capture_output=True,
                    text=True,
                    timeout=_PY_SPY_SECONDS,
                    check=False,
                )
                if done.returncode == 0:
                    text = f"{text}\npy-spy:\n{done.stdout.strip()}"
        return text or "(the process gave no stacks)"

    def _take_stacks(self) -> str:
        return self._stacks_of(self._process) if self._process else ""

    def _kill_process(self) -> None:
        process, zygote = self._process, self._zygote
        if process is None or zygote is None:
            return
        zygote.signal_case(process.launched.token, signal.SIGKILL, group=True)
        if self._await_death(process, zygote) is None and self.life.state is not SlotState.RETIRED:
            self._drop_zygote()
            self.life.died()
        self._stacks.take()

    def _drop_zygote(self) -> int | None:
        if self._process is not None:
            self._process.channel.close()
            self._process = None
        zygote, self._zygote = self._zygote, None
        return zygote.close() if zygote is not None else None

    def close(self) -> None:
        """End both processes and wait until they are gone. Can be called again."""
        if self._closed:
            return
        self._closed = True
        self._drop_zygote()
        self.life.died()
        for file in (self._stdout, self._stderr, self._stacks):
            file.close()
