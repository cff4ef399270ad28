"""``--paddleapi-shrink``: what failed is made small at the end of a run, in the controller or the only process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import msgspec

from .estimates import Estimates
from .fleet import Placement
from .gpu_admission import AdmissionRules
from .options.model import RunOptions
from .process.errors import StartError
from .process.messages import CaseOptions
from .results.verdicts import Outcome, Verdict, outcome_of
from .shrinking import Limits, shrink, signature_of
from .shrinking.prober import Prober
from .shrinking.signature import FINE

__all__ = ["FailureShrinker"]

#: Failures that are shrunk, at most; runs and seconds for each; seconds for all.
MOST_FAILURES, RUNS, SECONDS, ALL_SECONDS = 20, 200, 60.0, 300.0
#: Seconds of one run, where the time limit of a case is not shorter.
RUN_SECONDS = 10.0


class FailureShrinker:
    """Remembers failures, and shrinks them when the session's own slots are idle.

    Runs hold no lease. So only those cases are shrunk whose estimate, and with it that of everything smaller, is
    within the least that a lease promises; one at a time, this is less than what the reserve of a device is for.
    """

    def __init__(self, options: RunOptions, placement: Placement, estimates: Callable[[], Estimates]) -> None:
        self._options = options
        self._placement = placement
        self._estimates = estimates
        #: Verdicts by canonical config, in the order that they came.
        self.failed: dict[str, Verdict] = {}

    def add(self, config: str, verdict: Verdict) -> None:
        """A final verdict came."""
        outcome = outcome_of(verdict, unsupported_fails=self._options.unsupported_fails)
        if outcome in (Outcome.FAILED, Outcome.ERROR) and verdict not in FINE and verdict is not Verdict.OOM:
            self.failed.setdefault(config, verdict)

    def lines(self) -> Iterator[str]:
        """Shrink, and say what came of each failure."""
        most = AdmissionRules().minimum_bytes
        chosen = [config for config in self.failed if self._estimates().now(config) <= most]
        done = 0
        if chosen:
            end = time.monotonic() + ALL_SECONDS
            try:
                with Prober(self._case(), timeout=self._limit(), environment=self._placement.environment) as probe:
                    for config in chosen[:MOST_FAILURES]:
                        left = end - time.monotonic()
                        if left <= 0:
                            break
                        yield from _one(config, self.failed[config], probe, min(left, SECONDS))
                        done += 1
            except StartError as exc:
                yield f"stopped: no case process could be started: {exc}"
        if rest := len(chosen) - done:
            yield f"{rest} more were left, to bound the time: python -m pytest_paddleapi shrink CONFIG"
        if large := len(self.failed) - len(chosen):
            yield f"{large} need more memory than is free beside other cases: python -m pytest_paddleapi shrink CONFIG"

    def _limit(self) -> float:
        return min(self._options.timeout, RUN_SECONDS)

    def _case(self) -> CaseOptions:
        placement = self._placement
        return msgspec.structs.replace(
            self._options.case, device=placement.paddle[0], torch_device=placement.torch[0], dump=""
        )


def _one(config: str, verdict: Verdict, probe: Prober, seconds: float) -> Iterator[str]:
    first = probe(config)
    if first.verdict is not verdict:
        yield f"not shrunk, it ends as {first.verdict} now and was {verdict}: {config}"
        return
    found = shrink(config, signature_of(first), probe, Limits(RUNS, seconds))
    yield f"{found.config}"
    yield f"    {found.signature}; {found.elements[0]} elements became {found.elements[1]} in {found.runs} runs, from"
    yield f"    {config}"
