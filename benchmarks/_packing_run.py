"""The event loop of the packing simulation: the real engine, and time that jumps from one event to the next."""

from __future__ import annotations

import heapq
import itertools
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from _packing_cases import CONTEXT_BYTES, DEATH_SECONDS, LOAD_SECONDS, PREPARE_SECONDS, SimulatedCase, step_count
from _packing_devices import SimulatedDevice, foreigners_on
from _packing_policies import SimulatedAdmission

from pytest_paddleapi.admission.records import LeaseState
from pytest_paddleapi.devices.model import Holder
from pytest_paddleapi.gpu_admission import AdmissionRules
from pytest_paddleapi.results.verdicts import Verdict
from pytest_paddleapi.scheduling.dispatching import Dispatch, Ended
from pytest_paddleapi.scheduling.engine import Engine
from pytest_paddleapi.scheduling.queue import CaseQueue
from pytest_paddleapi.scheduling.xdist_controller import FOLLOWERS, TICK_SECONDS


@dataclass(frozen=True)
class Setting:
    """A fleet, and the rules by which it is shared. ``by_inputs``: cases are estimated by the sum of their inputs."""

    devices: int
    total: int
    workers: int
    seed: int
    rules: AdmissionRules = field(default_factory=AdmissionRules)
    admission: type[SimulatedAdmission] = SimulatedAdmission
    by_inputs: bool = False
    foreign: bool = True
    #: Seconds between two looks at memory and delayed cases while nothing ends.
    tick: float = TICK_SECONDS
    #: Check after every grant that no device has more promised than it has.
    audit: bool = False


@dataclass
class Outcome:
    """What happened. Seconds of simulated time, but for ``cpu_seconds``; byte-seconds in ``memory_seconds``."""

    makespan: float = 0.0
    out_of_memory: int = 0
    confirms_failed: int = 0
    attempts: int = 0
    #: By case; a case that is decided twice is an error of the engine.
    verdicts: dict[int, Verdict] = field(default_factory=dict)
    busy_seconds: float = 0.0
    memory_seconds: float = 0.0
    events: int = 0
    cpu_seconds: float = 0.0
    stop_reason: str | None = None

    @property
    def reruns(self) -> int:
        """Attempts that came to nothing."""
        return self.attempts - len([v for v in self.verdicts.values() if v is not Verdict.OVERSIZE])


@dataclass
class _Slot:
    name: str
    device: SimulatedDevice
    holder: Holder | None = None
    dispatch: Dispatch | None = None
    begun: float = 0.0
    #: What the running case has taken.
    taken: int = 0


class OverPromisedError(AssertionError):
    """A device has more promised than it has."""


class Simulation:
    """One run of ``cases`` under one setting."""

    def __init__(self, cases: Sequence[SimulatedCase], setting: Setting) -> None:
        self.cases, self.setting = cases, setting
        self.devices = [SimulatedDevice(f"device{n}", setting.total) for n in range(setting.devices)]
        self.now = 0.0
        self.admission = setting.admission(self.devices, setting.rules, setting.workers, lambda: self.now)
        estimates = [case.inputs if setting.by_inputs else case.estimate for case in cases]
        self.engine = Engine(
            CaseQueue(range(len(cases))),
            self.admission,
            estimates.__getitem__,
            str,
            largest_first=setting.rules.largest_first,
        )
        self.outcome = Outcome()
        self._events: list[tuple[float, int, Any, tuple[Any, ...]]] = []
        self._serial = itertools.count()
        self._tick_number = 0
        self._pids = itertools.count(1)
        self._rng = random.Random(setting.seed)
        self._slots: dict[str, _Slot] = {}
        for worker in range(setting.workers):
            for device in self.devices:
                slot = _Slot(f"{device.uuid}/{worker}", device)
                self._slots[slot.name] = slot
                self.engine.add_slot(slot.name, device.uuid)

    def run(self) -> Outcome:
        """Until every case is decided, or the engine stops the run."""
        started = time.process_time()
        if self.setting.foreign:
            for foreigner in foreigners_on(self.devices, self.setting.seed):
                self._at(foreigner.next, self._foreign, foreigner)
        self._poll()
        outcome, engine, events = self.outcome, self.engine, self._events
        while events and not engine.finished:
            self.now, _, act, arguments = heapq.heappop(events)
            act(*arguments)
            outcome.events += 1
        outcome.stop_reason = engine.stop_reason
        outcome.cpu_seconds = time.process_time() - started
        return outcome

    def _at(self, when: float, act: Any, *arguments: Any) -> None:
        heapq.heappush(self._events, (when, next(self._serial), act, arguments))

    def _foreign(self, foreigner: Any) -> None:
        foreigner.act(self.now)
        self._at(foreigner.next, self._foreign, foreigner)

    def _tick(self, number: int) -> None:
        if number == self._tick_number:
            self._poll()

    def _poll(self) -> None:
        self._poll_once()
        # As the controller's clock does: half a second later, or when the engine wants to look.
        look = self.engine.next_look(self.now)
        self._tick_number += 1
        due = self.now + self.setting.tick
        self._at(due if look is None else min(due, max(look, self.now + 1e-6)), self._tick, self._tick_number)

    def _poll_once(self) -> None:
        for name in self.engine.to_suspend():
            self._end_process(self._slots[name])
        dispatches = self.engine.poll(self.now)
        if self.setting.audit:
            for uuid in {self._slots[dispatch.slot].device.uuid for dispatch in dispatches}:
                self._audit(uuid)
        for dispatch in dispatches:
            self._dispatch(dispatch)
        for case, _ in self.engine.oversize:
            self._decide(case, Verdict.OVERSIZE)
        self.engine.oversize.clear()

    def _audit(self, uuid: str) -> None:
        """Not by the functions under test: what running cases may still take, beside what is used."""
        device = self.admission.devices[uuid]
        claims, active = 0, 0
        for lease in self.admission.leases[uuid].values():
            if lease.state is LeaseState.ACTIVE:
                has = device.held[lease.holder] - (lease.baseline[0] or 0) if lease.holder in device.held else 0
                claims += max(0, lease.bytes - max(0, has))
                active += 1
        reserve = 0 if active == 1 else self.setting.rules.reserve_of(device.total)
        over = device.used + claims + reserve - device.total
        if over > 0:
            raise OverPromisedError(f"{uuid} has {over} bytes more promised than it has, at {self.now:.3f} s")

    # A case ---------------------------------------------------------------------------------

    def _dispatch(self, dispatch: Dispatch) -> None:
        slot = self._slots[dispatch.slot]
        slot.dispatch = dispatch
        if dispatch.restart:
            self._end_process(slot)
        if slot.holder is not None:
            self._begin(slot, dispatch)
            return
        ready = max(self.now + LOAD_SECONDS, slot.device.prepared_at) + PREPARE_SECONDS
        slot.device.prepared_at = ready
        self._at(ready, self._ready, slot)

    def _ready(self, slot: _Slot) -> None:
        holder = Holder(next(self._pids), 0, 0)
        slot.device.held[holder] = 0
        slot.holder = holder
        assert slot.dispatch is not None
        if not slot.device.take(holder, CONTEXT_BYTES):
            self.outcome.out_of_memory += 1
        elif self.admission.confirm(slot.name, holder):
            self._begin(slot, slot.dispatch)
            return
        self.outcome.confirms_failed += 1
        self.outcome.attempts += 1
        self._end_process(slot)
        ended = Ended(Verdict.DEFERRED, context_bytes=CONTEXT_BYTES)
        self.engine.settle(slot.name, slot.dispatch.token, ended, self.now)
        self.admission.gone(slot.name)
        self._poll()

    def _end_process(self, slot: _Slot) -> None:
        if slot.holder is not None:
            left = slot.device.die(slot.holder)
            slot.holder = None
            self._at(self.now + self._rng.uniform(*DEATH_SECONDS), slot.device.settle, left)

    def _begin(self, slot: _Slot, dispatch: Dispatch) -> None:
        slot.dispatch, slot.begun, slot.taken = dispatch, self.now, 0
        self.outcome.attempts += 1
        case = self.cases[dispatch.case]
        steps = step_count(case.peak)
        self._at(self.now + case.seconds / (steps + 1), self._step, slot, case, 1, steps)
        while self.engine.follow_up(slot.name, self.now, FOLLOWERS):
            pass

    def _step(self, slot: _Slot, case: SimulatedCase, step: int, steps: int) -> None:
        assert slot.holder is not None
        part = case.peak * step // steps - slot.taken
        if not slot.device.take(slot.holder, part):
            self.outcome.out_of_memory += 1
            self._end(slot, case, out_of_memory=True)
            return
        slot.taken += part
        if step < steps:
            self._at(self.now + case.seconds / (steps + 1), self._step, slot, case, step + 1, steps)
        else:
            self._at(slot.begun + case.seconds, self._end, slot, case)

    def _end(self, slot: _Slot, case: SimulatedCase, *, out_of_memory: bool = False) -> None:
        dispatch, holder = slot.dispatch, slot.holder
        assert dispatch is not None and holder is not None
        self.outcome.busy_seconds += self.now - slot.begun
        self._at(self.now + case.release, slot.device.give_back, holder, slot.taken)
        if not out_of_memory:
            ended = Ended(Verdict.PASS, pid=holder.pid)
            self.outcome.memory_seconds += case.memory_seconds
        elif dispatch.whole_device:
            ended = Ended(Verdict.OOM, pid=holder.pid)
        else:
            ended = Ended(Verdict.DEFERRED, 2 * dispatch.lease_bytes, pid=holder.pid)
        slot.dispatch = None
        if self.engine.settle(slot.name, dispatch.token, ended, self.now):
            self._decide(dispatch.case, ended.verdict)
        following = self.engine.running(slot.name)
        if following is not None:
            self._begin(slot, following)
        self._poll()

    def _decide(self, case: int, verdict: Verdict) -> None:
        assert case not in self.outcome.verdicts, f"case {case} was decided twice"
        self.outcome.verdicts[case] = verdict
        self.outcome.makespan = self.now
