"""Running cases in this process: a worker of xdist, or the only process of the session."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from _pytest.skipping import evaluate_skip_marks

from .case_slot import CaseSlot
from .dumping import add_verdict
from .fleet import Placement, devices_of
from .gpu_admission import AdmissionRules
from .host_lease import HostLease
from .items import CaseItem
from .options.model import RunOptions
from .process.messages import CaseResult
from .reporting import AttemptInfo, make_report
from .results.verdicts import Verdict
from .scheduling.confirming import Confirmation
from .scheduling.dispatching import Dispatch, Ended
from .scheduling.local import SLOT
from .scheduling.xdist_worker import WorkerLoop, find_interactor

__all__ = ["ItemRunner", "config_of", "is_case"]


class ItemRunner:
    """The slot of this process, and what it was told to run next.

    ``label`` names the session in the ledger. ``remote``: the controller is on another host, so that each case needs
    a lease of this one's ledger.
    """

    def __init__(
        self, options: RunOptions, placement: Placement, rules: AdmissionRules, *, label: str, remote: bool
    ) -> None:
        self._options = options
        confirmation = Confirmation(lambda: devices_of(placement, options.memory_limit), options.ledger, rules)
        self.slot = CaseSlot(options, placement, confirmation)
        self._host_lease: HostLease | None = None
        if remote:
            self._host_lease = HostLease(options, placement, rules, label)
            self.slot.confirm = self._host_lease.confirm
        #: Called while the case process works, and for the config that it goes on with.
        self.following: Callable[[], str] | None = None
        self._pending: Dispatch | None = None
        self._ended: Ended | None = None
        #: Tokens of the attempt that runs, and of the last one if that passed.
        self._token = self._passed = 0

    def serve(self, session: pytest.Session) -> None:
        """Run what the controller of this worker sends, until it says that this was all."""
        loop = WorkerLoop(
            find_interactor(session.config),
            is_case,
            self._begin,
            lambda token: token == self._passed,
            self.slot.suspend,
            self._see_to_lease if self._host_lease is not None else None,
        )
        self.following = lambda: self._announced(loop, session.items)
        loop.run(session)

    def _announced(self, loop: WorkerLoop, items: Sequence[pytest.Item]) -> str:
        position = loop.following(self._token)
        return "" if position is None else config_of(items[position])

    def _begin(self, data: dict[str, Any]) -> None:
        """A dispatch from the controller, for the item that runs next."""
        self.expect(
            Dispatch(
                slot=SLOT,
                case=data["index"],
                token=data["token"],
                attempt=data["attempt"],
                lease_bytes=data["lease_bytes"],
                whole_device=data["whole_device"],
                killed_before=data["killed_before"],
                restart=data["restart"],
                estimate=data["estimate"],
            )
        )

    def expect(self, dispatch: Dispatch) -> None:
        """The item that runs next is this case's."""
        self._pending, self._ended = dispatch, None

    def take_ended(self) -> Ended:
        """How the last expected case ended, once.

        Raises:
            RuntimeError: it has no report of ours.
        """
        ended, self._ended = self._ended, None
        if ended is None:
            raise RuntimeError("a case's protocol ended without a report; did another plugin take it over?")
        return ended

    def _see_to_lease(self) -> None:
        """See to the lease, and to a pause that somebody asks for on this host."""
        assert self._host_lease is not None
        if self._host_lease.rest():
            self.slot.suspend()

    def run_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """The whole protocol of a case, with one report; None for other items."""
        if not isinstance(item, CaseItem):
            return None
        hook = item.ihook
        # Fixtures of an ordinary test that ran before, down to what the two share.
        item.session._setupstate.teardown_exact(nextitem or item)
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        hook.pytest_runtest_logreport(report=self._run_item(item))
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _run_item(self, item: CaseItem) -> pytest.TestReport:
        dispatch, self._pending = self._pending, None
        if dispatch is None:  # another plugin's loop called: no lease, no retry
            dispatch = Dispatch(SLOT, item.index, 0, 1, 0, True, True)
        start = time.time()
        self._token, self._passed = dispatch.token, 0
        if item.case.error is not None:
            result = CaseResult(dispatch.token, Verdict.CONFIG_PARSE, item.case.error)
            info = AttemptInfo(dispatch.token, dispatch.attempt)
        elif (skip := evaluate_skip_marks(item)) is not None:
            result = CaseResult(dispatch.token, Verdict.NOT_COMPARABLE, f"skipped by a mark: {skip.reason}")
            info = AttemptInfo(dispatch.token, dispatch.attempt)
        else:
            result, info = self._attempt(item, dispatch)
        info = replace(info, estimated_bytes=dispatch.estimate or None, lease_bytes=dispatch.lease_bytes or None)
        if self._options.dump is not None:
            add_verdict(self._options.dump, item.case.canonical, result)
        if result.verdict is Verdict.PASS:
            self._passed = dispatch.token
        self._ended = Ended(
            result.verdict,
            result.needed_bytes,
            info.external,
            info.pid,
            info.retired,
            info.device_lost,
            info.context_bytes,
        )
        return make_report(item, result, info, start, time.time())

    def _attempt(self, item: CaseItem, dispatch: Dispatch) -> tuple[CaseResult, AttemptInfo]:
        config = item.case.canonical
        if self._host_lease is None:
            # While one case is timed, nothing else of ours may be at work: the next begins after the report.
            following = None if self._options.mode.is_performance else self.following
            return self.slot.run(config, dispatch, following)
        # Each case has a lease of its own there, so that none follows another in its process unasked.
        return self._host_lease.run(dispatch, item.nodeid, lambda granted: self.slot.run(config, granted, None))

    def close(self) -> None:
        """End the case process, and give back what it has of this host."""
        self.slot.close()
        if self._host_lease is not None:
            self._host_lease.close()


def config_of(item: Any) -> str:
    """The config that an item runs; empty for other items, and for what is no config."""
    return item.case.canonical if isinstance(item, CaseItem) and item.case.error is None else ""


def is_case(item: pytest.Item) -> bool:
    """It is a case of ours."""
    return isinstance(item, CaseItem)
