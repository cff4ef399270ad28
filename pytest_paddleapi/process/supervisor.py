"""One slot as the worker sees it: keeps a case process ready, gives it cases, and survives its deaths."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from . import kernel
from .errors import ChannelError, ChannelTimeoutError, MalformedFrameError, SlotKilledError, StartError
from .fatal import Death, is_device_lost, side_verdict, verdict_for_death, where
from .framing import Channel, channel_pair
from .launcher import Launcher, Zygote, exit_text
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
    Verdict,
)
from .output import OutputFile
from .progress import Progress
from .slot import SlotLife, SlotState, StartRules
from .stacks import case_stack, collect_stacks
from .wire import pack_text

#: Limit of each phase of a start: imports, then preparing the device.
START_SECONDS = 180.0
#: How long a killed process may take to be gone; one that survives SIGKILL retires its slot.
KILL_SECONDS = 20.0
#: A process that closed its channel, or said that it exits, gets this long before it is killed.
_EXIT_SECONDS = 2.0
#: How often a running case's output is looked at, so that it cannot fill the disk (measured: 60 MB in between).
_TRIM_SECONDS = 0.05
#: While a start waits for its time, :meth:`Supervisor.kill` is looked for this often.
_KILL_LOOK_SECONDS = 0.2
#: A longer config is not sent ahead: a process that is busy reads nothing, and what is sent must fit the socket.
_LONGEST_AHEAD = 16 << 10
#: A case process can die between cases unseen until the next case is sent to it; that case has not begun
#: and is sent to a new process, at most this often.
_SENDINGS = 3

#: What a process with a damaged heap dies of, sooner or later.
_DAMAGE = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)

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
    #: It died as processes die whose memory an earlier case has damaged, and there was an earlier case.
    suspect: bool = False


@dataclass(frozen=True)
class _Sent:
    """A case that the process began with; the time is of ``time.monotonic``."""

    request: RunCase
    at: float


@dataclass
class _Process:
    """A case process that exists."""

    launched: CaseLaunched
    channel: Channel[FromCase]
    #: Cases that it has run.
    served: int = 0
    #: It closed its channel, did not exit, and was killed for it.
    put_down: bool = False

    @property
    def token(self) -> int:
        return self.launched.token


class Supervisor:
    """Owns a slot's zygote and case process. Used from one thread, which must live on.

    Args:
        options: what holds for every case.
        runner: ``package.module:Class`` that runs cases; a test gives its own.
        modules: imported in the zygote before the runner.
        environment: added to the child's environment, for example the visibility variable of its device.
        start_seconds: limit of each phase of a start.
        rules: what failed starts lead to.
        make_launcher: makes what makes case processes; called again after its death.
    """

    def __init__(
        self,
        options: CaseOptions,
        *,
        runner: str = RUNNER,
        modules: Sequence[str] = MODULES,
        environment: Mapping[str, str] | None = None,
        start_seconds: float = START_SECONDS,
        rules: StartRules | None = None,
        make_launcher: Callable[[Mapping[str, str], str, Sequence[str]], Launcher] = Zygote,
    ) -> None:
        self.options = options
        self.life = SlotLife(rules)
        self._runner = runner
        self._modules = tuple(modules)
        self._environment = dict(environment or {})
        self._start_seconds = start_seconds
        self._make_launcher = make_launcher
        self._launcher: Launcher | None = None
        self._process: _Process | None = None
        self._token = 0
        #: The case that the process has begun with before :meth:`run` was called for it.
        self._ahead: _Sent | None = None
        self._stdout, self._stderr, self._stacks = OutputFile(), OutputFile(), OutputFile()
        self._progress = Progress()
        self._closed = False
        self._killed: str | None = None
        #: How the last launcher ended, as ``Popen`` says it.
        self._launcher_code = 0

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
        """Begin to start the launcher, without waiting for it.

        Raises:
            StartError: not even its process could be made.
        """
        if self._launcher is None and self.life.state in (SlotState.DEAD, SlotState.SUSPENDED):
            self._launcher = self._make_launcher(self._child_environment(), self._runner, self._modules)
            self.life.to(SlotState.STARTING)

    def _child_environment(self) -> dict[str, str]:
        threads = str(self.options.threads or 1)
        return {
            # Intel's OpenMP lets idle threads spin for 200 ms after each parallel region, which with small cases is
            # always: they take the core that this process, or another slot, could use.
            "OMP_WAIT_POLICY": "passive",
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
            StartError: no process could be started in time, or none ever will be.
            SlotKilledError: :meth:`kill` was called.
        """
        while True:
            self._check_killed()
            if self.life.state in (SlotState.RETIRED, SlotState.QUARANTINED):
                raise StartError(f"the slot is {self.life.state.value}; it is not started again", retired=True)
            self._notice_deaths()
            if self.life.state is SlotState.IDLE:
                return
            wait = self.life.retry_at - time.monotonic()
            if wait > 0:
                if deadline is not None and self.life.retry_at > deadline:
                    raise StartError("a start failed, and its wait is not over", retry_at=self.life.retry_at)
                time.sleep(min(wait, _KILL_LOOK_SECONDS))
                continue
            try:
                self._start_once()
            except StartError as exc:
                self._drop_launcher()
                self._check_killed()
                self._start_failed(exc)
                if deadline is not None and self.life.retry_at > deadline:
                    raise StartError(str(exc), retry_at=self.life.retry_at) from exc
            else:
                self.life.start_succeeded()
                return

    def _start_failed(self, exc: StartError) -> None:
        """Count it.

        Raises:
            StartError: it was the last.
        """
        self.life.start_failed(time.monotonic())
        if is_device_lost(str(exc)):
            self.life.quarantine()
            raise StartError(f"the device is lost or unavailable: {exc}", retired=True) from exc
        if exc.retired:
            self.life.retire()
            raise exc
        if self.life.state is SlotState.RETIRED:
            raise StartError(f"{self.life.failures} starts in a row failed; the last: {exc}", retired=True) from exc

    def _start_once(self) -> None:
        self.start()
        launcher = self._launcher
        assert launcher is not None
        if self.life.state is SlotState.STARTING:
            launcher.await_loaded(time.monotonic() + self._start_seconds)
            self.life.to(SlotState.LOADED)
        self.life.to(SlotState.PREPARING)
        self._token += 1
        ours, theirs = channel_pair()
        channel: Channel[FromCase] = Channel(ours, msgspec.msgpack.Decoder(FromCase))
        deadline = time.monotonic() + self._start_seconds
        try:
            fds = (theirs.fileno(), self._stdout.fd, self._stderr.fd, self._stacks.fd, self._progress.fd)
            launched = launcher.launch(self._token, self.options, fds, deadline)
        except StartError:
            channel.close()
            raise
        finally:
            theirs.close()
        self._process = _Process(launched, channel)
        try:
            message = channel.receive(deadline)
        except ChannelTimeoutError:
            stacks = self._stacks_of(self._process, launcher)
            raise StartError(f"the case process was not ready in time; it hung here:\n{stacks}") from None
        except ChannelError:
            died = self._await_death(self._process, launcher)
            how = str(Death(died.status)) if died else "was lost"
            raise StartError(f"the case process {how} while it got ready\n{self._last_words()}") from None
        if isinstance(message, CaseNotReady):
            raise StartError(f"the case process could not get ready\n{message.text}\n{self._last_words()}".rstrip())
        if not isinstance(message, CaseReady):
            raise StartError(f"the case process sent {type(message).__name__} where CaseReady was expected")
        self.life.to(SlotState.IDLE)

    def prepare(self) -> bool:
        """Bring the slot to where it can run a case; True where a process had to be started for that.

        Raises:
            StartError, SlotKilledError: as :meth:`ensure_ready`.
        """
        if self._ahead is not None:
            return False
        before = self.pid
        self.ensure_ready()
        return self.pid != before

    def restart(self) -> None:
        """Replace the case process by a fresh one, which is ready in a moment."""
        if self._process is not None:
            self._kill_process()

    def suspend(self, *, undone: bool = False) -> None:
        """End the case process, so that it holds nothing of its device; the next case makes a new one.

        ``undone``: the process was started for nothing, because its memory was gone when it was ready.
        """
        self.restart()
        if self.life.state is SlotState.LOADED:
            if undone:
                self.life.start_undone()
            else:
                self.life.to(SlotState.SUSPENDED)

    # Running --------------------------------------------------------------------------------

    def run(
        self,
        config: str,
        lease_bytes: int = 0,
        whole_device: bool = True,
        timeout: float = 1800.0,
        following: Callable[[], str] | None = None,
    ) -> Attempt:
        """Run one case to its end, whatever that is.

        A case whose process has run others and dies of a signal that damaged memory leads to is run once more in a
        new process: a kernel that writes where it should not is often survived by its own case and not by a later one.

        Args:
            config: the config's text.
            lease_bytes: what the ledger promised, in bytes; 0 for no limit.
            whole_device: running out of memory is then final.
            timeout: seconds from now until the process is killed.
            following: called once the case is on its way, for the config that the process is to go on with at
                once if the case passes and prints nothing, under the same lease (empty: none). :meth:`run` must
                be called for that one next after a pass; it is dropped, with the process, if it is called for
                another. Must be short: the time limit is not looked at.

        Raises:
            StartError: no case process could be started.
            SlotKilledError: :meth:`kill` was called; the case has no verdict.
        """
        attempt = self._run(config, lease_bytes, whole_device, timeout, following)
        if not attempt.suspect:
            return attempt
        again = self._run(config, lease_bytes, whole_device, timeout, None)
        if again.result.verdict is attempt.result.verdict:
            return again
        first_line = attempt.result.text.partition("\n")[0]
        note = (
            f"an attempt in a process that had run other cases ended otherwise, and they may be to blame: {first_line}"
        )
        measured = again.result.measured
        measured = msgspec.structs.replace(measured, notes=(*measured.notes, note))
        return replace(again, result=msgspec.structs.replace(again.result, measured=measured))

    def _run(
        self,
        config: str,
        lease_bytes: int,
        whole_device: bool,
        timeout: float,
        following: Callable[[], str] | None,
    ) -> Attempt:
        """:meth:`run`, without a second attempt after a crash that may be another case's."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            had = ahead.request
            if (had.config, had.lease_bytes, had.whole_device) != (config, lease_bytes, whole_device):
                self._kill_process()  # it runs a case that nobody waits for
                ahead = None
        for sending in range(1, _SENDINGS + 1):
            if ahead is None:
                self.ensure_ready()
                self.life.case_begins()
                self._token += 1
                now = time.monotonic()
                request = RunCase(self._token, config, lease_bytes, whole_device, packed=pack_text(config))
                sent = _Sent(request, now)
            else:
                sent = ahead
            attempt = self._attempt(sent, timeout, following, send=ahead is None, last=sending == _SENDINGS)
            if attempt is not None:
                return attempt
            ahead = None
        raise AssertionError("the last sending has a result")

    def _attempt(
        self, sent: _Sent, timeout: float, following: Callable[[], str] | None, *, send: bool, last: bool
    ) -> Attempt | None:
        """One sending; None where the process turns out to have been dead before, unless it is the ``last``."""
        process, launcher = self._process, self._launcher
        assert process is not None
        assert launcher is not None
        request = sent.request
        stacks = ""
        result: CaseResult | None
        ahead: RunCase | None = None
        suspect = False
        try:
            result = None
            if not send or self._was_sent(process, request, sent.at + timeout):
                if following is not None:
                    ahead = self._send_ahead(process, following(), sent, timeout)
                result = self._await_result(process, launcher, request, sent.at + timeout)
            if result is None:
                died = self._await_death(process, launcher)
                self._check_killed()
                if self._progress.stage_of(request.token) is None and not last:
                    self._stacks.take()
                    return None
                stacks = case_stack(self._stacks.take())
                result = self._after_death(died, request, process)
                suspect = died is not None and process.served > 0 and Death(died.status).signal in _DAMAGE
            elif result.fatal:
                self._await_death(process, launcher)
        except ChannelTimeoutError:
            stacks = self._stacks_of(process, launcher)
            stage = self._stage(request)
            verdict = Verdict.TIMEOUT if stage in (Stage.PADDLE, Stage.COMPARISON) else side_verdict(stage)
            result = self._put_down(request, verdict, f"over the time limit of {timeout:g} s {where(stage)}")
        except MalformedFrameError as exc:
            text = f"the case process sent what is no message ({exc}) {where(self._stage(request))}"
            result = self._put_down(request, side_verdict(self._stage(request)), text)
        except BaseException:
            # Ctrl-C, or a fault of ours: a case that nobody waits for must not run on.
            self._drop_launcher()
            raise
        now = time.monotonic()
        process.served += 1
        if self._process is not None:
            self.life.to(SlotState.IDLE)
        goes_on = result.goes_on and ahead is not None
        if goes_on:
            assert ahead is not None
            self.life.case_begins()
            self._ahead = _Sent(ahead, now)
        seconds = now - sent.at
        text = f"{result.text}\n{stacks}".rstrip()
        return Attempt(
            msgspec.structs.replace(result, text=text, seconds=result.seconds or seconds),
            # A process that goes on printed nothing before; what is there now is the next case's.
            stdout="" if goes_on else self._stdout.take(),
            stderr="" if goes_on else self._stderr.take(),
            pid=process.launched.pid,
            seconds=seconds,
            stacks=stacks,
            suspect=suspect,
        )

    def _send_ahead(self, process: _Process, config: str, before: _Sent, timeout: float) -> RunCase | None:
        """Send the next case while the one ``before`` runs; None where it was not sent."""
        if not config or len(config) > _LONGEST_AHEAD:
            return None
        self._token += 1
        lease, after = before.request, before.request.token
        ahead = RunCase(self._token, config, lease.lease_bytes, lease.whole_device, after, pack_text(config))
        return ahead if self._was_sent(process, ahead, before.at + timeout) else None

    def _was_sent(self, process: _Process, request: RunCase, deadline: float) -> bool:
        """Send a case; False where the process is dead.

        Raises:
            ChannelTimeoutError: it did not take the message before ``deadline``.
        """
        try:
            process.channel.send(request, deadline=deadline)
        except ChannelTimeoutError:
            raise
        except ChannelError:
            return False
        return True

    def _await_result(
        self, process: _Process, launcher: Launcher, request: RunCase, deadline: float
    ) -> CaseResult | None:
        """Wait for the result of a case that was sent; None where the process ended without one.

        Raises:
            ChannelTimeoutError: ``deadline`` passed.
            MalformedFrameError: the channel is spoilt.
        """
        poll = select.poll()
        poll.register(process.channel, select.POLLIN)
        poll.register(launcher, select.POLLIN)
        own = {process.channel.fileno()}
        dead = False
        while True:
            # One by one: the result of the case that the process went on with may have come with this one.
            while (message := process.channel.receive_now()) is not None:
                # Messages of another token are late and change nothing.
                if isinstance(message, CaseResult) and message.token == request.token:
                    return message
            if dead or process.channel.ended:
                return None
            left = deadline - time.monotonic()
            if left <= 0:
                raise ChannelTimeoutError("the case is over its time limit")
            ready = {fd for fd, _ in poll.poll(1000 * min(left, _TRIM_SECONDS))}
            if not ready:
                self._trim()
            # Asked before the messages are read: then all that a dead process ever sent is among them.
            dead = ready != own and (launcher.death_of(process.token) is not None or launcher.ended)

    def _stage(self, request: RunCase) -> Stage:
        return self._progress.stage_of(request.token) or Stage.STARTING

    def _after_death(self, died: CaseDied | None, request: RunCase, process: _Process) -> CaseResult:
        """The result of a case whose process died without one."""
        stage = self._stage(request)
        if died is not None and process.put_down:
            text = f"the case process closed its channel {where(stage)}, did not exit, and was killed"
            return CaseResult(request.token, side_verdict(stage), text)
        if died is not None and self._progress.stage_of(request.token) is None:
            text = f"{_SENDINGS} case processes in a row ended before this case began in them"
            return CaseResult(request.token, Verdict.EXTERNAL_KILL, f"{text}; the last {Death(died.status)}")
        if died is not None:
            limited = bool(request.lease_bytes) and not request.whole_device
            verdict, text = verdict_for_death(stage, Death(died.status), output=self._stderr.peek(), limited=limited)
            needed = 2 * request.lease_bytes if verdict is Verdict.DEFERRED else None
            return CaseResult(request.token, verdict, text, needed_bytes=needed)
        if self.life.state is SlotState.RETIRED:
            text = f"the case process went wrong {where(stage)}, and does not die of SIGKILL"
            return CaseResult(request.token, side_verdict(stage), text)
        # Whatever ended the zygote was no doing of the case, which runs in another process.
        text = f"the process that forked the case process {exit_text(self._launcher_code)}, and the case process"
        return CaseResult(request.token, Verdict.EXTERNAL_KILL, f"{text} died with it {where(stage)}")

    def _put_down(self, request: RunCase, verdict: Verdict, text: str) -> CaseResult:
        """Kill the process of a case that will not end well."""
        self._kill_process()
        self._check_killed()
        gone = self.life.state is not SlotState.RETIRED
        end = "its process group was killed" if gone else "its process does not die of SIGKILL, so the slot is retired"
        return CaseResult(request.token, verdict, f"{text}; {end}")

    def _await_death(self, process: _Process, launcher: Launcher) -> CaseDied | None:
        """Wait until the process is reaped and forget it; None where the launcher died instead, or had to.

        The slot is retired if the process does not go.
        """
        start = time.monotonic()
        poll = select.poll()
        poll.register(launcher, select.POLLIN)
        while (died := launcher.death_of(process.token)) is None and not launcher.ended:
            waited = time.monotonic() - start
            if waited > KILL_SECONDS:
                # The launcher may be what hangs, so that nobody passes our signals on.
                if not launcher.kill():
                    self.life.retire()
                break
            if waited > _EXIT_SECONDS:
                process.put_down = True
                launcher.signal_case(process.token, signal.SIGKILL, group=True)
            poll.poll(50)
        if died is not None:
            process.channel.close()
            self._process = None
            self.life.to(SlotState.LOADED)
        else:
            self._drop_launcher()
        return died

    def _notice_deaths(self) -> None:
        """Between cases: the case process or the launcher may have been killed."""
        launcher, process = self._launcher, self._process
        if launcher is None:
            return
        if process is not None and launcher.death_of(process.token) is not None:
            self._await_death(process, launcher)
            self._stacks.take()
        if launcher.ended:
            self._drop_launcher()

    # Ending ---------------------------------------------------------------------------------

    def kill(self, reason: str) -> None:
        """Kill the slot's processes and let :meth:`run` raise SlotKilledError. Any thread may call this."""
        self._killed = reason
        launcher = self._launcher
        if launcher is not None:
            launcher.kill()

    def _check_killed(self) -> None:
        if self._killed is not None:
            raise SlotKilledError(f"the slot was killed: {self._killed}")

    def _stacks_of(self, process: _Process, launcher: Launcher) -> str:
        self._stacks.take()
        return collect_stacks(
            process.launched.pid,
            self._stacks,
            lambda: launcher.signal_case(process.token, signal.SIGUSR1),
            self._trim,
        )

    def _trim(self) -> None:
        self._stdout.trim()
        self._stderr.trim()

    def _last_words(self) -> str:
        return self._stderr.peek()[-3000:].strip()

    def _kill_process(self) -> None:
        self._ahead = None
        process, launcher = self._process, self._launcher
        if process is None or launcher is None:
            return
        launcher.signal_case(process.token, signal.SIGKILL, group=True)
        self._await_death(process, launcher)
        self._stacks.take()

    def _drop_launcher(self) -> None:
        """End the launcher, and with it the case process; the slot is dead, or retired if that one does not go."""
        self._ahead = None
        process, self._process = self._process, None
        launcher, self._launcher = self._launcher, None
        if process is not None:
            process.channel.close()
        if launcher is not None:
            self._launcher_code = launcher.close()
        # A process that frees gigabytes takes its time, and until then the device has not got them back.
        if process is not None and not kernel.await_end(
            process.launched.pid, process.launched.start_time, KILL_SECONDS
        ):
            self.life.retire()
        self.life.died()

    def close(self) -> None:
        """End both processes and wait until they are gone. Can be called again."""
        if self._closed:
            return
        self._closed = True
        self._drop_launcher()
        for file in (self._stdout, self._stderr, self._stacks):
            file.close()
        self._progress.close()
