"""Random lives of a whole fleet, and of one slot: what must hold whatever happens, and that everything ends."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pytest_paddleapi.gpu_admission import AdmissionRules, Policy, Setback
from pytest_paddleapi.process.errors import SlotStateError
from pytest_paddleapi.process.slot import SlotLife, SlotState, StartRules
from pytest_paddleapi.results.verdicts import Verdict
from pytest_paddleapi.scheduling.dispatching import Dispatch, Ended, Grant, NoRoom
from pytest_paddleapi.scheduling.engine import EXTERNAL_KILL_LIMIT, Engine
from pytest_paddleapi.scheduling.queue import CaseQueue

TOTALS = {"a": 100, "b": 100, "c": 60, "d": 40}


class Fleet:
    """Admission to groups of devices with the real policy. A lease counts in full from its grant until its memory is
    seen back, which is when the test says so; others may take what is free."""

    def __init__(self, groups: list[str], workers: int) -> None:
        self.totals = {group: TOTALS[group] for group in groups}
        self.policy = Policy(dict.fromkeys(groups, workers), AdmissionRules(successes_to_raise=1))
        self.places: dict[str, str] = {}
        #: By slot: group and bytes.
        self.active: dict[str, tuple[str, int]] = {}
        self.pending: dict[str, tuple[str, int]] = {}
        self.foreign: dict[str, int] = dict.fromkeys(groups, 0)
        self.trouble = ""
        self.paused = False

    def promised(self, group: str) -> int:
        return sum(n for leases in (self.active, self.pending) for where, n in leases.values() if where == group)

    def free(self, group: str) -> int:
        return TOTALS[group] - self.foreign[group] - self.promised(group)

    def place(self, slot: str, group: str) -> None:
        self.places[slot] = group

    def drop_group(self, group: str) -> None:
        del self.totals[group]

    def need(self, estimate: int) -> int:
        return max(1, estimate)

    def is_oversize(self, need: int) -> bool:
        return need > max(self.totals.values(), default=0)

    def target(self, group: str) -> int:
        return self.policy.target(group)

    def reserve(self, slot: str, label: str, need: int, *, grown: bool) -> Grant | NoRoom:
        assert slot not in self.active, "a slot that runs a case was asked for"
        group = self.places[slot]
        size = min(need, TOTALS[group]) if grown else need
        own = self.pending.pop(slot, None)
        available = self.free(group)
        if size > available:
            if own is not None:
                self.pending[slot] = own
            return NoRoom(available)
        self.active[slot] = (group, size)
        return Grant(size, size == TOTALS[group])

    def finished(self, slot: str, *, pid: int | None) -> None:
        self.pending[slot] = self.active.pop(slot)

    def flush(self) -> None:
        pass

    def gone(self, slot: str) -> None:
        if slot in self.active:
            self.pending[slot] = self.active.pop(slot)

    def succeeded(self, label: str, slot: str) -> None:
        self.policy.case_succeeded(label, self.places[slot], slot)

    def failed(self, label: str, slot: str, setback: Setback, now: float) -> float:
        return self.policy.case_failed(label, self.places[slot], slot, setback, now)

    def wants_restart(self, slot: str) -> bool:
        wanted = self.policy.wants_restart(slot)
        if wanted:
            self.policy.slot_restarted(slot)
        return wanted

    def take_lost(self) -> dict[str, str]:
        return {}

    def under_pressure(self, now: float, *, waiting: int, busy: int) -> bool:
        return self.policy.under_pressure(now, waiting=waiting, busy=busy)

    def housekeep(self, now: float) -> None:
        return


class FleetMachine(RuleBasedStateMachine):
    """Slots come, die, retire and lose their devices; cases pass, fail, grow, are killed; others take memory."""

    largest_first = False

    @initialize(
        groups=st.lists(st.sampled_from(sorted(TOTALS)), min_size=1, max_size=4, unique=True),
        estimates=st.lists(st.sampled_from([0, 1, 10, 25, 40, 55, 90, 100, 130]), min_size=1, max_size=40),
    )
    def begin(self, groups: list[str], estimates: list[int]) -> None:
        self.now = 0.0
        self.groups = groups
        self.fleet = Fleet(groups, workers=3)
        self.count = len(estimates)
        self.engine = Engine(
            CaseQueue(range(self.count)), self.fleet, estimates.__getitem__, str, largest_first=self.largest_first
        )
        # Slots come at any time, on any group that is left.
        self.engine.awaited = lambda: any(group not in self.engine.quarantined for group in groups)
        self.slots: dict[str, str] = {}
        self.decided: list[int] = []
        self.followers: dict[str, list[Dispatch]] = defaultdict(list)
        self.past: list[tuple[str, int]] = []
        self.kills = 0
        self.serial = 0
        for group in groups * 2:
            self.add(group)

    def add(self, group: str) -> None:
        self.serial += 1
        name = f"slot{self.serial}"
        self.engine.add_slot(name, group)
        if group not in self.engine.quarantined:
            self.slots[name] = group

    def busy(self) -> list[str]:
        return [slot for slot in self.slots if self.engine.running(slot)]

    def pick(self, names: list[str], which: int) -> str:
        return names[which % len(names)]

    def forget_lost_slots(self) -> None:
        """Idle slots of a quarantined group are out at once."""
        for slot in [s for s, g in self.slots.items() if g in self.engine.quarantined and not self.engine.running(s)]:
            del self.slots[slot]

    def poll_now(self, free: list[str] | None = None) -> None:
        stopped = self.engine.stop_reason is not None
        busy = set(self.busy())
        for dispatch in self.engine.poll(self.now, free):
            group = self.slots[dispatch.slot]
            assert not stopped and not self.fleet.paused
            assert group not in self.engine.quarantined
            assert dispatch.slot not in busy
            assert free is None or dispatch.slot in free
            assert self.fleet.active[dispatch.slot] == (group, dispatch.lease_bytes)
            assert self.fleet.free(group) >= 0
            busy.add(dispatch.slot)
            assert sum(self.slots[s] == group for s in busy) <= self.fleet.target(group)
        self.decided += [case for case, _ in self.engine.oversize]
        self.engine.oversize.clear()

    def settle_one(self, slot: str, ended: Ended) -> None:
        dispatch = self.engine.running(slot)
        assert dispatch is not None
        if self.engine.settle(slot, dispatch.token, ended, self.now):
            assert ended.verdict not in (Verdict.DEFERRED, Verdict.EXTERNAL_KILL)
            self.decided.append(dispatch.case)
        self.past.append((slot, dispatch.token))
        following = self.followers.pop(slot, [])
        if ended.verdict is Verdict.PASS and following:
            assert self.engine.running(slot) == following[0]
            self.followers[slot] = following[1:]
        if ended.retired is not None:
            del self.slots[slot]
        self.forget_lost_slots()

    # -- what happens

    @rule(seconds=st.sampled_from([0.0, 0.01, 0.05, 0.3, 2.0, 7.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(part=st.one_of(st.none(), st.sets(st.integers(0, 9))))
    def poll(self, part: set[int] | None) -> None:
        names = list(self.slots)
        self.poll_now(None if part is None else [names[n] for n in sorted(part) if n < len(names)])

    @precondition(lambda self: self.busy())
    @rule(
        which=st.integers(0, 20),
        verdict=st.sampled_from(
            [Verdict.PASS, Verdict.PASS, Verdict.PADDLE_ACCURACY, Verdict.TIMEOUT, Verdict.PADDLE_CRASH, Verdict.OOM]
        ),
    )
    def case_ends(self, which: int, verdict: Verdict) -> None:
        self.settle_one(self.pick(self.busy(), which), Ended(verdict, pid=1))

    @precondition(lambda self: self.busy())
    @rule(which=st.integers(0, 20), grows=st.booleans())
    def case_is_deferred(self, which: int, grows: bool) -> None:
        slot = self.pick(self.busy(), which)
        running = self.engine.running(slot)
        assert running is not None
        self.settle_one(slot, Ended(Verdict.DEFERRED, 2 * running.lease_bytes if grows else None))

    @precondition(lambda self: self.busy() and self.kills < EXTERNAL_KILL_LIMIT - 1)
    @rule(which=st.integers(0, 20))
    def case_is_killed_from_outside(self, which: int) -> None:
        slot = self.pick(self.busy(), which)
        running = self.engine.running(slot)
        assert running is not None
        self.kills += 1
        verdict = Verdict.PADDLE_CRASH if running.killed_before else Verdict.EXTERNAL_KILL
        self.settle_one(slot, Ended(verdict, external=True))

    @precondition(lambda self: self.busy())
    @rule(which=st.integers(0, 20), lost=st.sampled_from([False, False, False, True]))
    def slot_retires(self, which: int, lost: bool) -> None:
        slot = self.pick(self.busy(), which)
        group = self.slots[slot]
        self.settle_one(slot, Ended(Verdict.DEFERRED, retired="no start", device_lost=lost))
        last = not any(g == group for g in self.slots.values())
        assert (group in self.engine.quarantined) >= (lost or last)

    @precondition(lambda self: self.slots)
    @rule(which=st.integers(0, 20))
    def slot_dies(self, which: int) -> None:
        slot = self.pick(list(self.slots), which)
        lost = self.engine.drop_slot(slot, self.now)
        if lost is not None:
            self.decided.append(lost)
        self.followers.pop(slot, None)
        del self.slots[slot]

    @precondition(lambda self: len(self.slots) < 12)
    @rule(which=st.integers(0, 3))
    def slot_comes(self, which: int) -> None:
        self.add(self.groups[which % len(self.groups)])

    @precondition(lambda self: self.past)
    @rule(which=st.integers(0, 99))
    def message_comes_again(self, which: int) -> None:
        slot, token = self.past[which % len(self.past)]
        before = self.engine.running(slot)
        assert not self.engine.settle(slot, token, Ended(Verdict.PASS), self.now)
        assert self.engine.running(slot) == before

    @precondition(lambda self: self.busy())
    @rule(which=st.integers(0, 20), depth=st.sampled_from([1, 4]))
    def case_follows(self, which: int, depth: int) -> None:
        slot = self.pick(self.busy(), which)
        running = self.engine.running(slot)
        chosen = self.engine.follow_up(slot, self.now, depth)
        if chosen is not None and running is not None:
            assert chosen.lease_bytes == running.lease_bytes
            self.followers[slot].append(chosen)

    @rule(paused=st.booleans())
    def pause(self, paused: bool) -> None:
        self.fleet.paused = paused
        idle = self.engine.to_suspend()
        # Without a pause only those whose processes are in the way of a case that fits on their group alone.
        assert paused or not {self.slots[slot] for slot in idle} & {self.slots[slot] for slot in self.busy()}
        assert not set(idle) & set(self.busy())
        assert not self.engine.to_suspend()

    @rule(which=st.integers(0, 3), part=st.floats(0, 1))
    def others_take_memory(self, which: int, part: float) -> None:
        group = self.groups[which % len(self.groups)]
        self.fleet.foreign[group] = 0
        self.fleet.foreign[group] = int(part * max(0, self.fleet.free(group)))

    @rule()
    def memory_comes_back(self) -> None:
        self.fleet.pending.clear()

    # -- what holds

    @invariant()
    def nothing_is_promised_twice(self) -> None:
        for group in self.groups:
            assert self.fleet.free(group) >= 0
        assert set(self.fleet.active) == set(self.busy())
        assert self.engine.busy == len(self.busy())

    @invariant()
    def every_case_is_in_one_place(self) -> None:
        running = [d.case for slot in self.busy() if (d := self.engine.running(slot))]
        chosen = [d.case for followers in self.followers.values() for d in followers]
        waiting = list(self.engine.queue.pending())
        assert sorted([*self.decided, *running, *chosen, *waiting]) == list(range(self.count))

    def teardown(self) -> None:
        """Left in peace, with a slot on each group that is left, everything is decided within a round or two a case."""
        if not hasattr(self, "engine"):
            return
        had_slots = bool(self.slots)
        self.fleet.paused = False
        self.fleet.foreign = dict.fromkeys(self.groups, 0)
        for group in self.groups:
            self.add(group)
        for _ in range(2 * self.count + 10):
            self.fleet.pending.clear()
            self.now += 31.0
            self.poll_now()
            for slot in self.busy():
                while self.engine.running(slot):
                    self.settle_one(slot, Ended(Verdict.PASS))
            if self.engine.finished:
                break
        assert self.engine.finished
        if self.engine.stop_reason is None:
            assert sorted(self.decided) == list(range(self.count))
        else:
            assert not had_slots or not self.slots or "died one after another" in self.engine.stop_reason


TestFleet = FleetMachine.TestCase
TestFleet.settings = settings(max_examples=40, stateful_step_count=50, deadline=None)


class FleetBySize(FleetMachine):
    """The same where the largest case that fits goes first."""

    largest_first = True


TestFleetBySize = FleetBySize.TestCase
TestFleetBySize.settings = TestFleet.settings


class QueueMachine(RuleBasedStateMachine):
    """The order in which cases are offered, against a plain list, whatever is taken, put back and added between."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.queue = CaseQueue(range(20))
        self.added = 20
        self.front: list[int] = []
        self.due: list[int] = []
        self.fresh = list(range(20))
        #: When, in which order, and which case.
        self.delayed: list[tuple[float, int, int]] = []
        self.out: list[int] = []

    @rule(place=st.integers(0, 80), many=st.integers(1, 12))
    def takes_some_while_looking(self, place: int, many: int) -> None:
        self.become_due()
        expected = [*self.front, *self.due, *self.fresh]
        for position, case in enumerate(self.queue.offers(self.now)):
            assert case == expected[position]
            if place <= position < place + many:
                self.queue.take(case)
                self.out.append(case)
                for part in (self.front, self.due, self.fresh):
                    if case in part:
                        part.remove(case)

    def become_due(self) -> None:
        ready = sorted(entry for entry in self.delayed if entry[0] <= self.now)
        self.due += [case for _, _, case in ready]
        self.delayed = [entry for entry in self.delayed if entry not in ready]

    @precondition(lambda self: self.out)
    @rule()
    def puts_back(self) -> None:
        case = self.out.pop()
        self.queue.put_back(case)
        self.front.insert(0, case)

    @precondition(lambda self: self.out)
    @rule(delay=st.sampled_from([0.0, 1.0, 5.0]))
    def retries(self, delay: float) -> None:
        case = self.out.pop(0)
        self.queue.retry(case, self.now + delay)
        self.delayed.append((self.now + delay, self.added, case))
        self.added += 1

    @rule(count=st.integers(1, 5))
    def adds(self, count: int) -> None:
        first = max([*self.fresh, *self.out, *self.front, *self.due, *(case for _, _, case in self.delayed)]) + 1
        self.queue.extend(range(first, first + count))
        self.fresh += range(first, first + count)

    @rule(seconds=st.sampled_from([0.5, 3.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def offers_as_the_model_says(self) -> None:
        before = self.queue.changes
        self.become_due()
        assert self.queue.candidates(self.now, 999) == [*self.front, *self.due, *self.fresh]
        assert self.queue.ready == len(self.front) + len(self.due) + len(self.fresh)
        assert self.queue.ahead == len(self.front) + len(self.due)
        assert len(self.queue) == self.queue.ready + len(self.delayed)
        assert self.queue.changes >= before
        case = self.queue.next_retry()
        assert case == min((when for when, _, _ in self.delayed), default=None)


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)

S = SlotState
#: Where a process is on its way to a case, a case's way back, and what may end it at any time.
FORWARD = {
    (S.DEAD, S.STARTING),
    (S.STARTING, S.LOADED),
    (S.LOADED, S.PREPARING),
    (S.PREPARING, S.IDLE),
    (S.IDLE, S.BUSY),
    (S.BUSY, S.IDLE),
    (S.BUSY, S.SUSPENDED),
    (S.IDLE, S.SUSPENDED),
    (S.LOADED, S.SUSPENDED),
    (S.SUSPENDED, S.STARTING),
    # A process that has only loaded stands by for one that has to go: a new one needs no loading then.
    (S.PREPARING, S.LOADED),
    (S.IDLE, S.LOADED),
    (S.BUSY, S.LOADED),
    (S.SUSPENDED, S.PREPARING),
}
ENDS = {S.DEAD, S.RETIRED, S.QUARANTINED}
OVER = {S.RETIRED, S.QUARANTINED}


class SlotMachine(RuleBasedStateMachine):
    """One slot against a model: which moves there are, when it may start again, when it is given up."""

    def __init__(self) -> None:
        super().__init__()
        self.life = SlotLife(StartRules(waits=(5.0, 15.0), retire_after=3, retire_undone=2))
        self.state = S.DEAD
        self.failures = self.undone = 0
        self.now = 0.0

    def allowed(self, new: SlotState) -> bool:
        if self.state in OVER:
            return (self.state, new) == (S.RETIRED, S.QUARANTINED)
        return (self.state, new) in FORWARD or (new in ENDS and new is not self.state)

    @rule(new=st.sampled_from(list(S)))
    def moves(self, new: SlotState) -> None:
        try:
            self.life.to(new)
        except SlotStateError:
            assert not self.allowed(new)
        else:
            assert self.allowed(new)
            self.state = new

    @precondition(lambda self: self.state in (S.STARTING, S.LOADED, S.PREPARING))
    @rule()
    def start_fails(self) -> None:
        self.now += 1.0
        self.life.start_failed(self.now)
        self.failures += 1
        self.state = S.RETIRED if self.failures >= 3 else S.DEAD
        if self.state is S.DEAD:
            assert self.life.retry_at == self.now + (5.0 if self.failures == 1 else 15.0)

    @precondition(lambda self: self.state is S.IDLE)
    @rule()
    def start_succeeds(self) -> None:
        self.life.start_succeeded()
        self.failures = 0

    @precondition(lambda self: self.state is S.IDLE)
    @rule()
    def start_is_undone(self) -> None:
        self.life.start_undone()
        self.undone += 1
        self.state = S.RETIRED if self.undone >= 2 else S.SUSPENDED

    @precondition(lambda self: self.state is S.IDLE)
    @rule()
    def case_begins(self) -> None:
        self.life.case_begins()
        self.state, self.undone = S.BUSY, 0

    @rule()
    def process_dies(self) -> None:
        self.life.died()
        self.state = self.state if self.state in OVER else S.DEAD

    @rule()
    def device_is_lost(self) -> None:
        self.life.quarantine()
        self.state = S.QUARANTINED

    @invariant()
    def is_as_the_model_says(self) -> None:
        assert (self.life.state, self.life.failures, self.life.undone) == (self.state, self.failures, self.undone)


TestSlotLife = SlotMachine.TestCase
TestSlotLife.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
