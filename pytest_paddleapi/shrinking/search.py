"""The greedy search: take what helps, until nothing does. Pure but for the runs that it asks for."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ..config import Call, parse_call, print_call
from ..process.messages import CaseResult
from .edits import KINDS, weight
from .signature import Signature, signature_of

__all__ = ["Limits", "Probe", "Shrunk", "Step", "shrink"]

#: Runs a config and gives what became of it.
Probe = Callable[[str], CaseResult]


@dataclass(frozen=True)
class Limits:
    """Runs and seconds, both at most; the run that is under way when time is up is not counted back."""

    runs: int = 200
    seconds: float = 300.0


@dataclass(frozen=True)
class Step:
    """An edit that kept the failure."""

    kind: str
    config: str
    runs: int


@dataclass
class Shrunk:
    """What the search came to. ``complete``: no edit helps any more; else a limit was reached."""

    config: str
    signature: Signature
    steps: list[Step] = field(default_factory=list)
    runs: int = 0
    complete: bool = False
    #: Elements of all tensors, at first and at last.
    elements: tuple[int, int] = (0, 0)


class _OutOfRunsError(Exception):
    """A limit is reached."""


def shrink(
    config: str,
    signature: Signature,
    probe: Probe,
    limits: Limits | None = None,
    *,
    told: Callable[[Step], None] = lambda step: None,
    clock: Callable[[], float] = time.monotonic,
) -> Shrunk:
    """Make ``config``, which fails with ``signature``, as small as edits that keep the signature make it.

    One config leads to one result, as long as the runs give what they gave and no limit is reached. ``told`` hears of
    each step that helped.

    Raises:
        ConfigSyntaxError: ``config`` is none.
    """
    search = _Search(parse_call(config), signature, probe, limits or Limits(), told, clock)
    try:
        while search.improve():
            pass
        search.found.complete = True
    except _OutOfRunsError:
        pass  # what was found so far is the result, and says that it is not complete
    found = search.found
    found.config = print_call(search.call)
    found.elements = (weight(parse_call(config))[0], weight(search.call)[0])
    return found


class _Search:
    def __init__(
        self,
        call: Call,
        signature: Signature,
        probe: Probe,
        limits: Limits,
        told: Callable[[Step], None],
        clock: Callable[[], float],
    ) -> None:
        self.call = call
        self.found = Shrunk(print_call(call), signature)
        self._probe = probe
        self._limits = limits
        self._told = told
        self._clock = clock
        self._end = clock() + (limits.seconds or math.inf)
        self._tried = {print_call(call)}

    def improve(self) -> bool:
        """One round through all kinds of edits; False where none of them helped."""
        before = self.call
        for kind in KINDS:
            while self._first_that_helps(kind):
                pass
        return self.call is not before

    def _first_that_helps(self, kind: str) -> bool:
        for candidate in self._candidates(kind):
            text = print_call(candidate)
            if self._fails_alike(text):
                self.call = candidate
                step = Step(kind, text, self.found.runs)
                self.found.steps.append(step)
                self._told(step)
                return True
        return False

    def _candidates(self, kind: str) -> Iterator[Call]:
        least = weight(self.call)
        for candidate in KINDS[kind](self.call):
            text = print_call(candidate)
            if weight(candidate) < least and text not in self._tried:
                self._tried.add(text)
                yield candidate

    def _fails_alike(self, text: str) -> bool:
        if self.found.runs >= self._limits.runs or self._clock() >= self._end:
            raise _OutOfRunsError
        self.found.runs += 1
        return signature_of(self._probe(text)) == self.found.signature
