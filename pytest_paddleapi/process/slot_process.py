"""The processes of one slot: start them, wait until one is ready, and see that they are gone."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from . import kernel
from .errors import ChannelError, ChannelTimeoutError, SlotKilledError, StartError
from .fatal import Death, is_device_lost
from .framing import Channel, channel_pair
from .launcher import Launcher, Spares, Zygote
from .messages import CaseDied, CaseLaunched, CaseNotReady, CaseOptions, CaseReady, FromCase
from .output import OutputFile
from .prepare_lock import PrepareLock
from .progress import Progress
from .sanitizer import Sanitizer
from .sanitizer_judging import leftovers
from .sanitizer_log import SanitizerLog
from .sanitizer_reports import Kind
from .slot import SlotLife, SlotState, StartRules
from .stacks import collect_stacks

#: Limit of each phase of a start: imports, then preparing the device.
START_SECONDS = 180.0
#: How long a killed process may take to be gone; one that survives SIGKILL retires its slot.
KILL_SECONDS = 20.0
#: Each slot before this one in the queue for the device may use up its whole limit, and then has to be ended.
_QUEUE_SHARE = 4
#: A process that closed its channel, or said that it exits, gets this long before it is killed.
_EXIT_SECONDS = 2.0
#: Under a sanitizer, which has to write its summaries too. Less than :data:`KILL_SECONDS`.
_SANITIZED_EXIT_SECONDS = 15.0
#: What a sanitizer has printed arrives at once, unless somebody still has its output open.
LOG_SECONDS = 2.0
#: While a start waits for its time, :meth:`SlotProcess.kill` is looked for this often.
_KILL_LOOK_SECONDS = 0.2

#: Imported before there is a case process, in this order.
MODULES = ("numpy", "torch", "paddle")
RUNNER = "pytest_paddleapi.case.runner:CaseRunner"

MakeLauncher = Callable[[Mapping[str, str], str, Sequence[str]], Launcher]


def launcher_for(device: str) -> MakeLauncher:
    """What makes case processes for a device, by Paddle's name of it: the state of any but the CPU survives no fork."""
    return Zygote if device.partition(":")[0] == "cpu" else Spares


@dataclass
class CaseProcess:
    """A case process that exists."""

    launched: CaseLaunched
    channel: Channel[FromCase]
    #: Cases that it has run.
    served: int = 0
    #: It closed its channel, did not exit, and was killed for it.
    put_down: bool = False
    #: What the sanitizer prints that it runs under.
    log: SanitizerLog | None = None
    #: The last case that it was sent.
    config: str = ""
    #: How it ended, where its parent could say so.
    died: CaseDied | None = None

    @property
    def token(self) -> int:
        return self.launched.token


class SlotProcess:
    """Owns a slot's launcher and case process. Used from one thread, which must live on.

    Args:
        options: what holds for every case.
        runner: ``package.module:Class`` that runs cases; a test gives its own.
        modules: imported before the runner.
        environment: added to the child's environment, for example the visibility variable of its device.
        start_seconds: limit of each phase of a start.
        rules: what failed starts lead to.
        make_launcher: makes what makes case processes; called again after its death. By default
            :func:`launcher_for` chooses it by the device.
        sanitizer: what each case process runs under; none comes from a fork then.
        prepare_locks: a lock file for each device, the same for all slots of it on this host; they are held while a
            case process prepares the devices, so that one does at a time. With none others may prepare meanwhile.
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
        make_launcher: MakeLauncher | None = None,
        prepare_locks: Sequence[Path] = (),
        sanitizer: Sanitizer | None = None,
    ) -> None:
        self.options = options
        self.life = SlotLife(rules)
        self._runner = runner
        self._modules = tuple(modules)
        self._environment = dict(environment or {})
        self._start_seconds = start_seconds
        self._sanitizer = sanitizer
        if sanitizer is not None:
            make_launcher = partial(Spares, wrapper=sanitizer.words)
        self._make_launcher = make_launcher
        self._prepare_lock = PrepareLock(*prepare_locks)
        self._launcher: Launcher | None = None
        self._process: CaseProcess | None = None
        self._token = 0
        self._stdout, self._stderr, self._stacks = OutputFile(), OutputFile(), OutputFile()
        self._progress = Progress()
        self._closed = False
        self._killed: str | None = None
        #: How the last launcher ended, as ``Popen`` says it.
        self._launcher_code = 0
        #: What sanitizers said that belongs to no case.
        self.sanitizer_notes: list[str] = []

    @property
    def state(self) -> SlotState:
        """The slot's state."""
        return self.life.state

    @property
    def pid(self) -> int | None:
        """The case process, where there is one."""
        return self._process.launched.pid if self._process else None

    def start(self) -> None:
        """Begin to start the launcher, without waiting for it.

        Raises:
            StartError: not even its process could be made.
        """
        if self._launcher is None and self.life.state in (SlotState.DEAD, SlotState.SUSPENDED):
            make = self._make_launcher or launcher_for(self.options.device)
            self._launcher = make(self._child_environment(), self._runner, self._modules)
            self.life.to(SlotState.STARTING)

    def _child_environment(self) -> dict[str, str]:
        threads = str(self.options.threads or 1)
        # With the system's allocator each tensor comes from the driver, and goes back to it: nobody waits for memory
        # that nobody uses. Where calls are timed the driver must not be, so there Paddle keeps it until the case ends.
        timed = self.options.mode.is_performance and self.options.device != "cpu"
        return {
            # Intel's OpenMP lets idle threads spin for 200 ms after each parallel region, which with small cases is
            # always: they take the core that this process, or another slot, could use.
            "OMP_WAIT_POLICY": "passive",
            **os.environ,
            "FLAGS_use_system_allocator": "0" if timed else "1",
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
            self._notice_deaths()
            if self.life.state in (SlotState.RETIRED, SlotState.QUARANTINED):
                lost = self.life.state is SlotState.QUARANTINED
                text = f"the slot is {self.life.state.value}; it is not started again"
                raise StartError(text, retired=True, device_lost=lost)
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
            except BaseException:
                self._drop_launcher()  # nobody will take up a start that was interrupted
                raise
            else:
                self.life.start_succeeded()
                return
            finally:
                # Not before a process that failed is gone, and has let go of its device.
                self._prepare_lock.release()

    def prepare(self, deadline: float | None = None) -> bool:
        """:meth:`ensure_ready` for a caller that looks at the device's memory before it sends the case.

        Returns:
            Whether a process had to be started, which takes memory of the device that was free before.

        Raises:
            StartError: as :meth:`ensure_ready`.
            SlotKilledError: as :meth:`ensure_ready`.
        """
        before = self._token
        self.ensure_ready(deadline)
        return self._token != before

    def _start_failed(self, exc: StartError) -> None:
        """Count it.

        Raises:
            StartError: it was the last.
        """
        self.life.start_failed(time.monotonic())
        if is_device_lost(str(exc)):
            self.life.quarantine()
            raise StartError(f"the device is lost or unavailable: {exc}", retired=True, device_lost=True) from exc
        if exc.retired:
            self.life.retire()
            raise exc
        if self.life.state is SlotState.RETIRED:
            raise StartError(f"{self.life.failures} starts in a row failed; the last: {exc}", retired=True) from exc

    def _start_once(self) -> None:
        self.start()
        launcher = self._launcher
        assert launcher is not None
        # Also where it was loaded before: the next spare may still be at it.
        launcher.await_loaded(time.monotonic() + self._start_seconds)
        if self.life.state is SlotState.STARTING:
            self.life.to(SlotState.LOADED)
        self._prepare_lock.acquire(time.monotonic() + _QUEUE_SHARE * self._start_seconds, self._check_killed)
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
        self._process = CaseProcess(launched, channel, log=launcher.take_log())
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
        launcher.case_is_ready(self._token, self.life.rules.spare_delay)
        self.life.to(SlotState.IDLE)

    def await_rest(self) -> None:
        """Wait until nothing is loaded beside a process that is ready: importing the next spare takes a core for
        seconds, and calls that are timed meanwhile would take longer."""
        if self._launcher is not None:
            with contextlib.suppress(StartError):  # whoever needs that spare is told
                self._launcher.await_loaded(time.monotonic() + self._start_seconds)

    def restart(self) -> None:
        """Replace the case process by a fresh one, which is ready in a moment."""
        if self._process is not None:
            self.end_gently()
            self._kill_process()

    def end_gently(self) -> None:
        """Under a sanitizer: let an idle case process exit by itself, so that the sanitizer says what it counted."""
        process, launcher = self._process, self._launcher
        if process is None or process.log is None or self.life.state is not SlotState.IDLE:
            return
        self._await_exit(process, launcher)
        self._note_leftovers(process)

    def _await_exit(self, process: CaseProcess, launcher: Launcher | None) -> None:
        """Let an idle process end by itself."""
        assert launcher is not None
        process.channel.close()
        self._await_death(process, launcher)
        self._stacks.take()

    def _leftovers(self, process: CaseProcess) -> str:
        """What the sanitizer of a process that has ended said beside its findings in cases."""
        log, died = process.log, process.died
        if log is None or self._sanitizer is None:
            return ""
        log.await_end(LOG_SECONDS)
        counts = log.counts()
        seen = counts[Kind.FINDING] + counts[Kind.HARMLESS]
        # The process's own exit code is passed on, and may be the same number.
        code = None
        if died is not None and died.status == 0 and died.wrapper_status is not None:
            code = Death(died.wrapper_status).exit_code
        return leftovers(log.take_rest(), seen, code, self._sanitizer.exit_code)

    def _note_leftovers(self, process: CaseProcess) -> None:
        """Keep them, as they are no case's."""
        text = self._leftovers(process)
        if text:
            cases = f"{process.served} case{'' if process.served == 1 else 's'}"
            last = f", the last {process.config}" if process.config else ""
            self.sanitizer_notes.append(f"a process that ran {cases}{last}: {text}")

    def suspend(self, *, undone: bool = False) -> None:
        """End the case process, so that it holds nothing of its device; the next case makes a new one.

        ``undone``: the process was started for nothing, because its memory was gone when it was ready.
        """
        self.restart()
        if self.life.state is SlotState.LOADED:
            if undone:
                self.life.start_undone()
                if self.state is SlotState.RETIRED:
                    self._drop_launcher()  # what is loaded will not be needed
            else:
                self.life.to(SlotState.SUSPENDED)

    def _await_death(self, process: CaseProcess, launcher: Launcher, seconds: float = KILL_SECONDS) -> CaseDied | None:
        """Wait until the process is reaped and forget it; None where the launcher died instead, or had to.

        The slot is retired if the process does not go, though it has ``seconds``.
        """
        start = time.monotonic()
        poll = select.poll()
        poll.register(launcher, select.POLLIN)
        while (died := launcher.death_of(process.token)) is None and not launcher.ended:
            waited = time.monotonic() - start
            if waited > seconds:
                # The launcher may be what hangs, so that nobody passes our signals on.
                if not launcher.kill():
                    self.life.retire()
                break
            if waited > (_EXIT_SECONDS if process.log is None else _SANITIZED_EXIT_SECONDS):
                process.put_down = True
                launcher.signal_case(process.token, signal.SIGKILL, group=True)
            poll.poll(50)
        process.died = died
        if died is not None:
            process.channel.close()
            self._process = None
            self.life.to(SlotState.LOADED)
        else:
            self._drop_launcher(seconds)
        return died

    def _notice_deaths(self) -> None:
        """Between cases: the case process or the launcher may have been killed."""
        launcher, process = self._launcher, self._process
        if launcher is None:
            return
        if process is not None and launcher.death_of(process.token) is not None:
            self._await_death(process, launcher)
            self._stacks.take()
            self._note_leftovers(process)
        if launcher.ended:
            self._drop_launcher()

    def kill(self, reason: str) -> None:
        """Kill the slot's processes and let :meth:`run` raise SlotKilledError. Any thread may call this."""
        self._killed = reason
        launcher = self._launcher
        if launcher is not None:
            launcher.kill()

    def _check_killed(self) -> None:
        if self._killed is not None:
            raise SlotKilledError(f"the slot was killed: {self._killed}")

    def _stacks_of(self, process: CaseProcess, launcher: Launcher) -> str:
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

    def _kill_process(self, seconds: float = KILL_SECONDS) -> None:
        """Kill the case process, if there is one, and wait until it is gone, at most ``seconds``."""
        process, launcher = self._process, self._launcher
        if process is None or launcher is None:
            return
        launcher.signal_case(process.token, signal.SIGKILL, group=True)
        self._await_death(process, launcher, seconds)
        self._stacks.take()

    def _drop_launcher(self, seconds: float = KILL_SECONDS) -> None:
        """End the launcher, and with it the case process; the slot is dead, or retired if that one does not go."""
        process, self._process = self._process, None
        launcher, self._launcher = self._launcher, None
        if process is not None:
            process.channel.close()
        if launcher is not None:
            self._launcher_code = launcher.close()
        # A process that frees gigabytes takes its time, and until then the device has not got them back.
        if process is not None and not kernel.await_end(process.launched.pid, process.launched.start_time, seconds):
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
