"""The engine: which case runs next on which slot, and what a result means for the queue.

Pure state. Time comes in as an argument and memory is asked of an :class:`Admission`, so the same code
runs under xdist, in one process, and in a simulation.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ..gpu_admission import Setback
from ..results.verdicts import Verdict
from .candidates import Candidate
from .dispatching import Admission, Dispatch, Ended, Grant, NoRoom
from .first_fit import FirstFit
from .largest_first import LargestFirst
from .ordering import Order
from .queue import CaseQueue

#: Where nothing fitted on a group, it is asked again this many seconds later, or when something ends there. The memory
#: of what ended comes back a few milliseconds later, so looks are dense at first and get rarer.
LOOK_AGAIN, LOOK_AGAIN_SOON = 0.1, 0.01
#: The fourth external kill of a session says that the machine is not safe to run on.
EXTERNAL_KILL_LIMIT = 4
#: A case may take its worker down once more before it is reported.
WORKER_LOSSES_PER_CASE = 2
#: Seconds for which a slot may run one case right after another under one lease; then memory is read again.
LEASE_SECONDS = 0.1
#: Where nothing runs on a group and nothing fits there for this long, its idle processes give back what they hold.
#: Longer than the memory of an ended case takes to be seen back.
GIVE_WAY_SECONDS = 3.0
#: Where a slot's host had no memory for a case after all, the slot rests for a second, and twice as long each time up
#: to the second number: such an answer takes milliseconds, and every waiting case would be sent there and back.
REST_SECONDS, LONGEST_REST_SECONDS = 1.0, 30.0
#: Several cases wait behind a slot's present one only where its last one took less than this, in seconds.
QUICK_SECONDS = 0.02


@dataclass
class _History:
    attempts: int = 0
    kills: int = 0
    losses: int = 0
    need: int | None = None
    grown: bool = False
    #: It was given all that there was while idle processes on its devices held some.
    had_what_was_left: bool = False


@dataclass
class _Slot:
    group: str = ""
    #: How many were added before it.
    place: int = 0
    running: Dispatch | None = None
    #: Its process was ended for a pause; the next case starts a new one.
    suspended: bool = False
    #: Its process is there and has ended a case: the next one begins at once.
    warm: bool = False
    #: How many cases in a row came back because no process could be had for them, or not with their memory.
    failures: int = 0
    #: When its lease was granted, when its present case began, and whether the last one was quick.
    granted: float = 0.0
    begun: float = 0.0
    quick: bool = False
    #: What goes on under the lease, each after the one before has passed.
    following: deque[Dispatch] = field(default_factory=deque)


_SETBACKS = {
    Verdict.DEFERRED: Setback.DEFERRED,
    Verdict.OOM: Setback.DEFERRED,
    Verdict.TIMEOUT: Setback.TIMEOUT,
    Verdict.PADDLE_CRASH: Setback.CRASH,
    Verdict.PADDLE_CUDA: Setback.CRASH,
    Verdict.EXTERNAL_KILL: Setback.CRASH,
}


@dataclass
class Engine:
    """Queue, slots and memory in one place. ``estimate`` and ``label`` look a case up by its index; a case whose
    estimate is None is passed over until there is one."""

    queue: CaseQueue
    admission: Admission
    estimate: Callable[[int], int | None]
    label: Callable[[int], str]
    #: The largest case that fits goes first, not the first in the order of the queue; see :mod:`.largest_first`.
    largest_first: bool = False
    #: Whether slots may still come: workers that start, or are being replaced.
    awaited: Callable[[], bool] = lambda: False
    #: How many slots run something else than cases.
    elsewhere: int = 0
    #: Why the run must stop; None while it need not.
    stop_reason: str | None = None
    #: Cases that cannot run on any device, with their admission bytes; the caller reports them.
    oversize: list[tuple[int, int]] = field(default_factory=list)
    #: Groups of devices that serve no more, and why.
    quarantined: dict[str, str] = field(default_factory=dict)
    #: Counts dispatches and verdicts: what stands still does not change it.
    progress: int = 0
    _slots: dict[str, _Slot] = field(default_factory=dict)
    _histories: dict[int, _History] = field(default_factory=dict)
    _tokens: int = 0
    _external_kills: int = 0
    _idle_losses: int = 0
    #: How many slots run a case, by group, and in all.
    _running: Counter[str] = field(default_factory=Counter)
    _busy: int = 0
    #: Slots that run nothing, by group; and the groups that are worth a look: they have such a slot, and nothing was
    #: refused to them since the last one.
    _idle: dict[str, dict[str, None]] = field(default_factory=dict)
    _open: dict[str, None] = field(default_factory=dict)
    #: When a group is worth a look anyway, and when something ended there last.
    _next_look: dict[str, float] = field(default_factory=dict)
    _last_end: dict[str, float] = field(default_factory=dict)
    _order: Order = field(init=False)
    _added: int = 0
    #: Since when nothing runs on a group although cases were refused there, by group.
    _starved: dict[str, float] = field(default_factory=dict)
    _giving_way: set[str] = field(default_factory=set)
    #: Until when a group of another host is left alone.
    _resting: dict[str, float] = field(default_factory=dict)
    #: Why the last slot, or group, was given up.
    _given_up: str = ""

    def __post_init__(self) -> None:
        if self.largest_first:
            self._order = LargestFirst(self.queue, self._look)
        else:
            self._order = FirstFit(self.queue, self._look, self.admission.need(0))

    # Slots ----------------------------------------------------------------------------------

    def add_slot(self, slot: str, group: str = "") -> None:
        """A slot that can take cases from now on, on this group of devices; not if that is quarantined."""
        if group not in self.quarantined and slot not in self._slots:
            self._slots[slot] = _Slot(group, self._added)
            self._added += 1
            self.admission.place(slot, group)
            self._note_idle(slot, group)

    def drop_slot(self, slot: str, now: float) -> int | None:
        """The slot is gone, with its process. Returns a case that must be reported as lost for good.

        The case that it ran goes back to the queue, once.
        """
        state = self._slots.get(slot)
        if state is None:
            return None
        dispatch = self._end(slot, state)
        self._remove(slot)
        self._put_back(state.following)
        if dispatch is None:
            self._idle_losses += 1
            if self._idle_losses > 4 + 2 * len(self._slots):
                self.stop_reason = (
                    f"{self._idle_losses} workers died one after another without a case; "
                    "see their output above, and try -n0 to see the cause"
                )
            return None
        self.admission.failed(self.label(dispatch.case), slot, Setback.CRASH, now)
        history = self._history(dispatch.case)
        history.losses += 1
        if history.losses >= WORKER_LOSSES_PER_CASE:
            return dispatch.case
        self.queue.retry(dispatch.case, now)
        return None

    def running(self, slot: str) -> Dispatch | None:
        """What the slot runs."""
        state = self._slots.get(slot)
        return state.running if state else None

    @property
    def busy(self) -> int:
        """How many slots run a case."""
        return self._busy

    def _note_idle(self, slot: str, group: str) -> None:
        self._idle.setdefault(group, {})[slot] = None
        self._open[group] = None

    def _end(self, slot: str, state: _Slot) -> Dispatch | None:
        """The slot runs nothing any more; what it ran."""
        dispatch, state.running = state.running, None
        if dispatch is not None:
            self._running[state.group] -= 1
            self._busy -= 1
            self._note_idle(slot, state.group)
        return dispatch

    def _remove(self, slot: str) -> str:
        """Forget a slot that runs nothing; its group."""
        group = self._slots.pop(slot).group
        del self._idle[group][slot]
        self._open[group] = None  # its neighbours may get its memory
        self.admission.gone(slot)
        return group

    def quarantine(self, group: str, why: str) -> None:
        """Use no slot of this group any more; those that are busy may end their cases."""
        if group in self.quarantined:
            return
        self.quarantined[group] = why
        self.admission.drop_group(group)
        self._order.forget()  # what only fitted there fits nowhere now
        for slot in [s for s, state in self._slots.items() if state.group == group and state.running is None]:
            self._remove(slot)
        self._stop_without_slots(why)

    def to_suspend(self) -> list[str]:
        """Idle slots whose processes are to be ended; each once.

        The session is paused, or nothing fits on their devices as long as they hold a part of them.
        """
        paused = self.admission.paused
        if not paused and not self._giving_way:
            return []
        idle = [
            s
            for s, state in self._slots.items()
            if state.running is None and not state.suspended and (paused or state.group in self._giving_way)
        ]
        for slot in idle:
            self._slots[slot].suspended, self._slots[slot].warm = True, False
            self.admission.gone(slot)
        return idle

    def next_look(self, now: float) -> float | None:
        """When :meth:`poll` may find memory for cases that wait; None where none waits or no slot is idle."""
        if not self.queue.ready or self._busy == len(self._slots) or self.stop_reason is not None:
            return None
        if self.admission.paused:
            return None
        looks = (
            max(self._next_look.get(group, 0.0), self._resting.get(group, 0.0))
            for group, idle in self._idle.items()
            if idle
        )
        return max(now, min(looks))

    @property
    def finished(self) -> bool:
        """Nothing waits and nothing runs, or the run was stopped and nothing runs."""
        return self.busy == 0 and (not len(self.queue) or self.stop_reason is not None)

    # Dispatching ----------------------------------------------------------------------------

    def poll(self, now: float, free: list[str] | None = None, *, elsewhere: int = 0) -> list[Dispatch]:
        """Everything that can start now. ``free`` limits it to these slots; so many others run no cases of ours."""
        self.elsewhere = elsewhere
        self.admission.housekeep(now)
        started: list[Dispatch] = []
        self._quarantine_lost()
        self._stop_without_slots()
        if self.stop_reason is None:
            if not self.admission.paused:
                self._fill(free, now, started)
            self._quarantine_lost()
            self._watch_pressure(now)
        self.admission.flush()
        return started

    def _quarantine_lost(self) -> None:
        for group, why in self.admission.take_lost().items():
            # Where there is but one group, its slots may be without its name.
            self.quarantine("" if "" in self._idle else group, why)

    def _fill(self, slots: list[str] | None, now: float, started: list[Dispatch]) -> None:
        """Start what fits: the least busy group first, and in it the slot with the fewest failures."""
        unready = self._order.unready
        for group, idle in self._idle.items():
            if now < self._resting.get(group, 0.0):
                self._open.pop(group, None)
            elif idle and (unready or now >= self._next_look.get(group, 0.0)):
                since = now - self._last_end.get(group, -LOOK_AGAIN * 2)
                self._next_look[group] = now + min(LOOK_AGAIN, max(LOOK_AGAIN_SOON, since / 2))
                self._open[group] = None
        self._order.look(now, len(self._slots))
        if not self.queue.ready:
            self._starved.clear()
            self._giving_way.clear()
            return
        allowed = None if slots is None else set(slots)
        heap = [entry for group in list(self._open) if (entry := self._entry(group, allowed))]
        heapq.heapify(heap)
        while heap and self.queue.ready:
            slot = heapq.heappop(heap)[-1]
            group = self._slots[slot].group
            if self._running[group] >= self.admission.target(group):
                self._open.pop(group)
                continue
            dispatch = self._start(slot, now)
            if dispatch is None:
                self._open.pop(group)  # what does not fit on one slot of the group fits on none
                continue
            started.append(dispatch)
            entry = self._entry(group, allowed)
            if entry is not None:
                heapq.heappush(heap, entry)
        self._starved = {group: since for group, since in self._starved.items() if not self._running[group]}
        self._giving_way = {group for group, since in self._starved.items() if now - since >= GIVE_WAY_SECONDS}

    def _entry(self, group: str, allowed: set[str] | None) -> tuple[int, int, bool, int, str] | None:
        """The group's best idle slot, with what it is sorted by; None if it has none."""
        idle = self._idle[group]
        if not idle or group in self.quarantined:
            self._open.pop(group)
            return None
        states = self._slots
        best = min(
            (
                (states[s].failures, not states[s].warm, states[s].place, s)
                for s in idle
                if allowed is None or s in allowed
            ),
            default=None,
        )
        return None if best is None else (self._running[group], *best)

    def follow_up(self, slot: str, now: float, depth: int = 1) -> Dispatch | None:
        """Choose a case that the slot may begin the moment the ones before have passed, under the same lease.

        The lease must be large enough and not twice what is needed, and younger than :data:`LEASE_SECONDS`. Up to
        ``depth`` cases follow the present one. Once chosen, a case is the slot's: :meth:`settle` makes it the
        running one after a pass, and puts it back after anything else. None where the next case must be asked for
        in :meth:`poll`.
        """
        state = self._slots[slot]
        lease = state.running
        if lease is None or lease.whole_device or self.stop_reason is not None or len(state.following) >= depth:
            return None
        if now - state.granted > LEASE_SECONDS or self._running[state.group] > self.admission.target(state.group):
            return None
        if depth > 1 and (not state.quick or len(self.queue) < depth * len(self._slots)):
            return None  # they might wait behind a slow one while other slots have nothing to do
        case = self._order.follower(state.group, lease.lease_bytes, now)
        if case is None or case in self._histories:
            return None
        estimate = self.estimate(case)
        if estimate is None or not (need := self.admission.need(estimate)) <= lease.lease_bytes <= 2 * need:
            return None
        self.queue.take(case)
        self._order.followed(state.group, case)
        self._tokens += 1
        after = (state.following[-1] if state.following else lease).token
        following = Dispatch(
            slot, case, self._tokens, 1, lease.lease_bytes, False, False, after=after, estimate=estimate
        )
        state.following.append(following)
        return following

    def _put_back(self, following: deque[Dispatch]) -> None:
        while following:
            self.queue.put_back(following.pop().case)

    def _start(self, slot: str, now: float) -> Dispatch | None:
        state = self._slots[slot]
        asked = False

        def ask(candidate: Candidate) -> Grant | NoRoom:
            nonlocal asked
            asked = True
            # Once: after that all that there is must be all that there could be.
            had = candidate.grown and self._history(candidate.case).had_what_was_left
            grown = candidate.grown and not (had and self._has_warm_neighbours(slot, state.group))
            return self.admission.reserve(slot, self.label(candidate.case), candidate.need, grown=grown)

        picked = self._order.pick(state.group, ask, warm=state.warm)
        if picked is None:
            if asked and not self._running[state.group]:
                self._starved.setdefault(state.group, now)
            return None
        self.queue.take(picked.candidate.case)
        state.granted = state.begun = now
        grant = picked.grant
        if grant.whole_device and picked.candidate.grown and self._has_warm_neighbours(slot, state.group):
            self._history(picked.candidate.case).had_what_was_left = True
            grant = replace(grant, whole_device=False)
        restart = self.admission.wants_restart(slot)
        return self._dispatch(slot, picked.candidate.case, grant, restart=restart)

    def _has_warm_neighbours(self, slot: str, group: str) -> bool:
        return any(self._slots[other].warm for other in self._idle[group] if other != slot)

    def _look(self, case: int) -> Candidate | None:
        """A waiting case and what it needs; None if that is not known yet, or is more than any device has: then it
        is taken out."""
        history = self._histories.get(case)
        if history is not None and history.need:
            return Candidate(case, history.need, history.grown)
        estimate = self.estimate(case)
        if estimate is None:
            return None
        need = self.admission.need(estimate)
        if self.admission.is_oversize(need):
            self.queue.take(case)
            self.oversize.append((case, need))
            return None
        return Candidate(case, need, False)

    def _dispatch(self, slot: str, case: int, grant: Grant, *, restart: bool) -> Dispatch:
        history = self._history(case)
        history.attempts += 1
        self._tokens += 1
        dispatch = Dispatch(
            slot,
            case,
            self._tokens,
            history.attempts,
            grant.nbytes,
            grant.whole_device,
            killed_before=history.kills > 0,
            restart=restart,
            estimate=self.estimate(case) or 0,
        )
        state = self._slots[slot]
        state.running, state.suspended = dispatch, False
        self.progress += 1
        self._running[state.group] += 1
        self._busy += 1
        del self._idle[state.group][slot]
        return dispatch

    # Results --------------------------------------------------------------------------------

    def settle(self, slot: str, token: int, ended: Ended, now: float) -> bool:
        """Take in one result; True where it is the case's final one.

        A result for another token than the slot's present one is late or repeated: it changes nothing
        and is not final.
        """
        state = self._slots.get(slot)
        if state is None or state.running is None or state.running.token != token:
            return False
        case = state.running.case
        self.progress += 1
        state.quick = now - state.begun < QUICK_SECONDS
        self._idle_losses = 0
        state.failures = state.failures + 1 if ended.verdict is Verdict.DEFERRED and ended.pid is None else 0
        if ended.verdict is Verdict.PASS and state.following:
            self.admission.succeeded(self.label(case), slot)
            self._histories.pop(case, None)
            state.running, state.begun = state.following.popleft(), now
            self._history(state.running.case).attempts += 1
            return True
        self._end(slot, state)
        self._last_end[state.group] = now
        self._next_look[state.group] = now + LOOK_AGAIN_SOON
        if state.failures and ended.capacity_bytes is not None:
            rest = min(LONGEST_REST_SECONDS, REST_SECONDS * 2 ** (state.failures - 1))
            self._resting[state.group] = now + rest
        self._put_back(state.following)
        self.admission.finished(slot, pid=ended.pid)
        if not len(self.queue):
            self.admission.flush()
        state.warm = ended.pid is not None and _SETBACKS.get(ended.verdict) in (None, Setback.DEFERRED)
        if ended.external:
            self._count_external_kill()
        if ended.retired is not None:
            self._retire(slot, case, ended, now)
            return False
        again = self._feed(case, slot, ended, now)
        if state.group in self.quarantined:
            self._remove(slot)
            self._stop_without_slots(self.quarantined[state.group])
        history = self._history(case)
        if ended.verdict is Verdict.EXTERNAL_KILL:
            history.kills += 1
            self.queue.retry(case, now)
            return False
        if ended.capacity_bytes is not None and slot in self._slots:
            self.admission.note_capacity(slot, ended.capacity_bytes)
        if ended.verdict is Verdict.DEFERRED:
            if ended.context_bytes and slot in self._slots:
                self.admission.note_context(slot, ended.context_bytes)
            if ended.needed_bytes:
                history.need = max(ended.needed_bytes, history.need or 0)
                history.grown = True
            self.queue.retry(case, again)
            return False
        self._histories.pop(case, None)
        return True

    def _feed(self, case: int, slot: str, ended: Ended, now: float) -> float:
        """Tell the policy; returns when the case may be tried again."""
        setback = _SETBACKS.get(ended.verdict)
        if setback is not None:
            return self.admission.failed(self.label(case), slot, setback, now)
        self.admission.succeeded(self.label(case), slot)
        return now

    def _count_external_kill(self) -> None:
        self._external_kills += 1
        if self._external_kills >= EXTERNAL_KILL_LIMIT:
            self.stop_reason = (
                f"{self._external_kills} case processes were killed from outside (SIGKILL or SIGTERM): this "
                "machine is not safe to run on. Look for the kernel's out-of-memory killer (dmesg), a batch "
                "system's limits or another user, then run again with --lf"
            )

    def _retire(self, slot: str, case: int, ended: Ended, now: float) -> None:
        group = self._remove(slot)
        self.queue.retry(case, now)
        why = ended.retired or ""
        if ended.device_lost or all(state.group != group for state in self._slots.values()):
            self.quarantine(group, why)
        self._stop_without_slots(why)

    def _stop_without_slots(self, why: str = "") -> None:
        """Stop where no slot is left that could begin a case, and none will come. What runs may end.

        ``why`` something was given up just now; without it, where something was given up before.
        """
        self._given_up = why or self._given_up
        if not self._given_up or self.stop_reason is not None or self.awaited():
            return
        if all(state.group in self.quarantined for state in self._slots.values()):
            self.stop_reason = f"no slot is left that could run a case: {self._given_up}"

    def attempts(self, case: int) -> int:
        """How often the case was started so far."""
        history = self._histories.get(case)
        return history.attempts if history else 0

    def describe(self) -> str:
        """Every slot's state, a line each; for messages."""
        lines = [f"{len(self.queue)} cases wait, {self.busy} run"]
        for slot, state in list(self._slots.items()):
            running = state.running
            what = "idle" if running is None else f"runs {self.label(running.case)}, attempt {running.attempt}"
            lines.append(f"slot {slot}{f' on {state.group}' if state.group else ''}: {what}")
        lines += [f"quarantined: {group}: {why}" for group, why in list(self.quarantined.items())]
        return "\n".join(lines)

    def next_wakeup(self) -> float | None:
        """The time of the next delayed retry; None where none waits."""
        return self.queue.next_retry()

    # ----------------------------------------------------------------------------------------

    def _history(self, case: int) -> _History:
        return self._histories.setdefault(case, _History())

    def _watch_pressure(self, now: float) -> None:
        waiting = len(self.queue)
        # A case whose estimate is still to come wants no memory yet.
        halted = self.admission.paused or not self._slots or self._order.unready
        if self.admission.under_pressure(now, waiting=0 if halted else waiting, busy=self.busy + self.elsewhere):
            if self.admission.trouble:
                self.stop_reason = f"no case could start for long, {waiting} wait: {self.admission.trouble}"
                return
            self.stop_reason = (
                f"nothing ran and no case could start for long, {waiting} wait for memory that other processes hold. "
                "Free the device, lower the --paddleapi-memory-limit of the other session, or raise "
                "--paddleapi-pressure-timeout"
            )
