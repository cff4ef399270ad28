"""The slot of this process: runs one case at a time in its case process, and says how each ended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from .fleet import Placement
from .gpu_admission import default_folder
from .options.model import RunOptions
from .process.errors import StartError, UnconfirmedError
from .process.messages import CaseResult
from .process.supervisor import Attempt, Supervisor
from .reporting import AttemptInfo
from .results.verdicts import Verdict
from .scheduling.confirming import Confirmation
from .scheduling.dispatching import Dispatch

__all__ = ["CaseSlot"]


class CaseSlot:
    """One slot on the devices of ``placement``.

    ``confirmation`` looks at their memory; where this process holds the leases itself, :attr:`confirm` asks the ledger.
    """

    def __init__(self, options: RunOptions, placement: Placement, confirmation: Confirmation) -> None:
        self._options = options
        self._placement = placement
        self._confirmation = confirmation
        #: Asks whether the lease still fits, now that its process (by id) is ready; gives why not, or nothing.
        self.confirm: Callable[[int], str] | None = None
        #: There is one case in all.
        self.alone = False
        self._supervisor: Supervisor | None = None

    def warm(self) -> None:
        """Begin to start the case process, which takes seconds. Where that fails it is tried again for the first case,
        as often as the rules of starts say."""
        with suppress(StartError):
            self._made().start()

    def _made(self) -> Supervisor:
        if self._supervisor is None:
            case = self._placement.of_case(self._options.case)
            self._supervisor = Supervisor(
                case,
                environment=self._placement.environment,
                rules=self._options.numbers.starts,
                prepare_locks=self._prepare_locks(),
                sanitizer=self._options.sanitizer,
            )
        return self._supervisor

    def _prepare_locks(self) -> list[Path]:
        """The files that are locked while a process prepares this slot's devices; the host needs none."""
        if self._placement.kind == "cpu":
            return []
        folder = (self._options.ledger or default_folder()).absolute()
        return [folder / f"prepare-{uuid.replace('/', '_')}.lock" for uuid in self._placement.uuids]

    def run(
        self, config: str, dispatch: Dispatch, following: Callable[[], str] | None
    ) -> tuple[CaseResult, AttemptInfo]:
        """One attempt at a case, whatever becomes of it; ``following`` as for :meth:`.Supervisor.run`.

        Raises:
            SlotKilledError: :meth:`kill` was called.
        """
        supervisor = self._made()
        refused: tuple[CaseResult, AttemptInfo] | None = None

        def confirm() -> bool:
            nonlocal refused
            refused = self._refused(supervisor, dispatch) if dispatch.lease_bytes else None
            return refused is None

        try:
            if dispatch.restart:
                supervisor.restart()
            if supervisor.prepare() and not confirm():
                raise UnconfirmedError("the memory of the case was taken while its process started")
            if self._options.mode.is_performance:
                supervisor.await_rest()
            attempt = supervisor.run(
                config,
                dispatch.lease_bytes,
                dispatch.whole_device,
                self._options.timeout,
                following,
                self.alone,
                confirm,
            )
        except UnconfirmedError:
            assert refused is not None
            return refused
        except StartError as exc:
            # The case is as good as before; it is this slot that cannot run any.
            text = f"no case process could be started: {exc}"
            info = AttemptInfo(dispatch.token, dispatch.attempt, retired=str(exc), device_lost=exc.device_lost)
            return CaseResult(dispatch.token, Verdict.DEFERRED, text), info
        return _judged(attempt, dispatch)

    def _refused(self, supervisor: Supervisor, dispatch: Dispatch) -> tuple[CaseResult, AttemptInfo] | None:
        """What the attempt ends with where its lease does not fit any more, now that the process is ready."""
        pid = supervisor.pid
        if pid is not None and self.confirm is not None:
            why = self.confirm(pid)
        else:
            why = self._confirmation.refusal()
        if not why:
            return None
        context = self._confirmation.held(pid) if pid is not None else None
        supervisor.suspend(undone=True)
        result = CaseResult(dispatch.token, Verdict.DEFERRED, f"the slot was ready, but {why}")
        return result, AttemptInfo(dispatch.token, dispatch.attempt, context_bytes=context)

    def suspend(self) -> None:
        """End the case process, so that the devices are free; the next case starts a new one."""
        if self._supervisor is not None:
            self._supervisor.suspend()

    def finish(self) -> list[str]:
        """No case comes any more: what a sanitizer said that belongs to no case, up to its own end."""
        if self._supervisor is None:
            return []
        self._supervisor.end_gently()
        return self._supervisor.sanitizer_notes

    def kill(self, reason: str) -> None:
        """Kill the slot's processes; any thread may call this."""
        if self._supervisor is not None:
            self._supervisor.kill(reason)

    def close(self) -> None:
        """End the case process."""
        if self._supervisor is not None:
            self._supervisor.close()
            self._supervisor = None


def _judged(attempt: Attempt, dispatch: Dispatch) -> tuple[CaseResult, AttemptInfo]:
    result = attempt.result
    external = result.verdict is Verdict.EXTERNAL_KILL
    if external and dispatch.killed_before:
        text = f"{result.text}\nThe process was killed from outside in an earlier attempt too."
        result = CaseResult(result.token, Verdict.PADDLE_CRASH, text, result.measured, result.seconds)
    info = AttemptInfo(
        token=dispatch.token,
        attempt=dispatch.attempt,
        external=external,
        pid=attempt.pid,
        stdout=attempt.stdout,
        stderr=attempt.stderr,
    )
    return result, info
