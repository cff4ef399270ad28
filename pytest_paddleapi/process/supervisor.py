"""One slot as the worker sees it: keeps a case process ready, gives it cases, and survives its deaths."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from . import judging
from .errors import ChannelError, ChannelTimeoutError, MalformedFrameError, UnconfirmedError
from .fatal import side_verdict, where
from .launcher import Launcher
from .messages import CaseDied, CaseResult, RunCase, Stage, Verdict
from .sanitizer_judging import judged, judged_at_the_end
from .sanitizer_reports import Kind
from .slot import SlotState
from .slot_process import KILL_SECONDS, LOG_SECONDS, MODULES, RUNNER, START_SECONDS, CaseProcess, SlotProcess
from .stacks import case_stack
from .wire import pack_text

__all__ = ["KILL_SECONDS", "MODULES", "RUNNER", "START_SECONDS", "Attempt", "Supervisor"]

#: How often a running case's output is looked at, so that it cannot fill the disk (measured: 60 MB in between).
_TRIM_SECONDS = 0.05
#: How long a case's end may take to come out of the sanitizer's output, which is there before the result is sent.
_MARK_SECONDS = 10.0
#: ``compute-sanitizer`` stops printing after 100 errors (its ``--print-limit``); before, it is started anew.
_MOST_PRINTED = 50
#: A longer config is not sent ahead: a process that is busy reads nothing, and what is sent must fit the socket.
_LONGEST_AHEAD = 16 << 10
#: A case process can die between cases unseen until the next case is sent to it; that case has not begun
#: and is sent to a new process, at most this often.
_SENDINGS = 3


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


class Supervisor(SlotProcess):
    """One slot: keeps a case process ready, gives it cases, and survives its deaths.

    Used from one thread, which must live on; the arguments are those of :class:`.SlotProcess`.
    """

    #: The case that the process has begun with before :meth:`run` was called for it.
    _ahead: _Sent | None = None

    def prepare(self, deadline: float | None = None) -> bool:
        """As :meth:`.SlotProcess.prepare`; a process that has gone on with the next case needs none."""
        return super().prepare(deadline) if self._ahead is None else False

    def run(
        self,
        config: str,
        lease_bytes: int = 0,
        whole_device: bool = True,
        timeout: float = 1800.0,
        following: Callable[[], str] | None = None,
        alone: bool = False,
        confirm: Callable[[], bool] | None = None,
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
                another. Must be short: the time limit is not looked at. Never called under a sanitizer, which may
                find something in a case that passes.
            alone: no other case will be run, so that what a sanitizer says when the process ends is the case's too.
            confirm: called where a process had to be started for the case after all: whether the case may still run.

        Raises:
            StartError: no case process could be started.
            SlotKilledError: :meth:`kill` was called; the case has no verdict.
            UnconfirmedError: ``confirm`` said no.
        """
        following = following if self._sanitizer is None else None
        attempt = self._run(config, lease_bytes, whole_device, timeout, following, alone, confirm)
        if not attempt.suspect:
            return attempt
        again = self._run(config, lease_bytes, whole_device, timeout, None, alone, confirm)
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
        alone: bool,
        confirm: Callable[[], bool] | None,
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
                if self.prepare() and confirm is not None and not confirm():
                    raise UnconfirmedError("the memory of the case was taken while its process started")
                self.life.case_begins()
                self._token += 1
                now = time.monotonic()
                request = RunCase(self._token, config, lease_bytes, whole_device, packed=pack_text(config))
                sent = _Sent(request, now)
            else:
                sent = ahead
            process = self._process
            attempt = self._attempt(sent, timeout, following, send=ahead is None, last=sending == _SENDINGS)
            if attempt is not None:
                assert process is not None
                return self._with_findings(process, sent.request, attempt, alone)
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
                suspect = judging.may_be_anothers(died, process.served)
            elif result.fatal:
                self._await_death(process, launcher)
        except ChannelTimeoutError:
            stacks = self._stacks_of(process, launcher)
            stage = self._stage(request)
            result = self._put_down(
                request, judging.over_time(stage), f"over the time limit of {timeout:g} s {where(stage)}"
            )
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

    def _with_findings(self, process: CaseProcess, request: RunCase, attempt: Attempt, alone: bool) -> Attempt:
        """The attempt with what the sanitizer found in it; ends the process where it is the last of it."""
        log, sanitizer = process.log, self._sanitizer
        if log is None or sanitizer is None:
            return attempt
        process.config = request.config
        alone = alone and process.served == 1
        if self._process is process:
            log.await_end_of(request.token, _MARK_SECONDS)
            counts = log.counts()
            if alone or counts[Kind.FINDING] + counts[Kind.HARMLESS] >= _MOST_PRINTED:
                self._await_exit(process, self._launcher)
        if self._process is not process:
            log.await_end(LOG_SECONDS)
        result = judged(attempt.result, log.take(request.token))
        if self._process is not process and not alone:
            self._note_leftovers(process)
        elif alone and (text := self._leftovers(process)):
            result = judged_at_the_end(result, text)
        return replace(attempt, result=result, suspect=attempt.suspect and result.verdict is attempt.result.verdict)

    def _send_ahead(self, process: CaseProcess, config: str, before: _Sent, timeout: float) -> RunCase | None:
        """Send the next case while the one ``before`` runs; None where it was not sent."""
        if not config or len(config) > _LONGEST_AHEAD:
            return None
        self._token += 1
        lease, after = before.request, before.request.token
        ahead = RunCase(self._token, config, lease.lease_bytes, lease.whole_device, after, pack_text(config))
        return ahead if self._was_sent(process, ahead, before.at + timeout) else None

    def _was_sent(self, process: CaseProcess, request: RunCase, deadline: float) -> bool:
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
        self, process: CaseProcess, launcher: Launcher, request: RunCase, deadline: float
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

    def _after_death(self, died: CaseDied | None, request: RunCase, process: CaseProcess) -> CaseResult:
        """The result of a case whose process died without one."""
        stage = self._stage(request)
        if died is None:
            if self.life.state is SlotState.RETIRED:
                return judging.after_no_death(request, stage)
            return judging.after_launcher_death(request, stage, self._launcher_code)
        if process.put_down:
            return judging.after_silence(request, stage)
        if self._progress.stage_of(request.token) is None:
            return judging.after_deaths_before(request, died, _SENDINGS)
        return judging.after_death(request, died, stage, self._stderr.peek())

    def _put_down(self, request: RunCase, verdict: Verdict, text: str) -> CaseResult:
        """Kill the process of a case that will not end well."""
        self._kill_process(KILL_SECONDS)
        self._check_killed()
        gone = self.life.state is not SlotState.RETIRED
        end = "its process group was killed" if gone else "its process does not die of SIGKILL, so the slot is retired"
        return CaseResult(request.token, verdict, f"{text}; {end}")

    def _kill_process(self, seconds: float = KILL_SECONDS) -> None:
        self._ahead = None
        super()._kill_process(seconds)

    def _drop_launcher(self, seconds: float = KILL_SECONDS) -> None:
        self._ahead = None
        super()._drop_launcher(seconds)
