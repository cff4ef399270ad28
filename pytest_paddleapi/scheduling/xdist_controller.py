"""The controller's scheduler under xdist: memory first, then one case to one worker.

It implements ``xdist.scheduler.protocol.Scheduling``; DSession calls it in the main thread only.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..results.verdicts import Verdict
from .dispatching import Dispatch, Ended
from .engine import Engine
from .xdist_worker import RUN_COMMAND, SUSPEND_COMMAND

#: How often memory and delayed retries are looked at while no worker reports anything. While a worker has nothing to
#: do although cases wait, memory may come back at any moment, and the engine says when to look.
TICK_SECONDS = 0.5
#: How many quick cases wait at a worker behind its present one, so that it need not wait for the controller.
FOLLOWERS = 4
#: A worker that dies in the moment of its start is started this often before the session ends with the error.
START_ATTEMPTS = 5
#: So many workers in a row, and two more for each that is up, may die before they have collected.
_MOST_STILLBORN = 4


@dataclass
class _Node:
    """One worker."""

    node: Any
    collected: bool = False
    #: Positions of ordinary tests that it runs, in order.
    ordinary: list[int] = field(default_factory=list)
    #: How the running case ended, once its report has come.
    ended: Ended | None = None
    ended_token: int = 0


class Groups(Protocol):
    """Which group of devices each worker is on."""

    def group_of(self, worker: str) -> str: ...

    def leave(self, worker: str) -> None: ...

    def is_remote(self, worker: str) -> bool: ...


class CaseScheduling:
    """Hands out cases as the engine admits them, and ordinary tests file by file.

    Args:
        config: pytest's.
        fleet: which devices each worker is on.
        make_engine: called once, with the positions of cases in the collection.
        is_case: whether a node id is one of ours.
        refuse: reports a case that fits on no device (position, admission bytes).
        look: told whenever the engine may have moved; returns why the run must end, or nothing.
    """

    def __init__(
        self,
        config: Any,
        fleet: Groups,
        make_engine: Callable[[Sequence[str], list[int]], Engine],
        is_case: Callable[[str], bool],
        refuse: Callable[[str, int], None],
        look: Callable[[Engine], str],
    ) -> None:
        self.config = config
        self.fleet = fleet
        self.make_engine = make_engine
        self.is_case = is_case
        self.refuse = refuse
        self.look = look
        self.engine: Engine | None = None
        self.collection: Sequence[str] | None = None
        self._cases: set[int] = set()
        self._workers: dict[str, _Node] = {}
        self._batches: deque[list[int]] = deque()
        self._ticker: _Ticker | None = None
        self._stillborn = 0
        self.stop_reason: str | None = None

    # What DSession asks ---------------------------------------------------------------------

    @property
    def nodes(self) -> list[Any]:
        """Every worker that is up."""
        return [worker.node for worker in self._workers.values()]

    @property
    def collection_is_completed(self) -> bool:
        """True from the first worker's collection on: it can start while the others come up."""
        return self.collection is not None

    @property
    def tests_finished(self) -> bool:
        """Nothing waits and nothing runs."""
        if self.engine is None:
            return self.stop_reason is not None
        if any(worker.ordinary for worker in self._workers.values()):
            return False
        return self.engine.finished and (not self._batches or self.stop_reason is not None)

    @property
    def has_pending(self) -> bool:
        """Something waits or runs."""
        return not self.tests_finished

    def add_node(self, node: Any) -> None:
        """A worker is up; it collects next."""
        self._workers[node.gateway.id] = _Node(node)

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """A worker has collected. All must have found the same tests in the same order."""
        if self.collection is None:
            self.collection = list(collection)
            self._cases = {i for i, nodeid in enumerate(collection) if self.is_case(nodeid)}
            self._batches = deque(_by_file(collection, self._cases))
            self.engine = self.make_engine(self.collection, sorted(self._cases))
            self.engine.awaited = self._awaits_workers
        elif list(collection) != self.collection:
            self._stop(_difference(self.collection, collection, node.gateway.id))
            return
        self._stillborn = 0
        self._workers[node.gateway.id].collected = True
        assert self.engine is not None
        self.engine.add_slot(node.gateway.id, self.fleet.group_of(node.gateway.id))

    def schedule(self) -> None:
        """Start what can start."""
        if self._ticker is None:
            self._ticker = _Ticker.attach(self.config, self.tick)
        self._pump()

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """A worker is done with one item."""
        worker = self._workers.get(node.gateway.id)
        if worker is None:
            return
        if worker.ordinary and worker.ordinary[0] == item_index:
            worker.ordinary.pop(0)
        elif self.engine is not None:
            running = self.engine.running(node.gateway.id)
            if running is not None and running.case == item_index:
                self._settle(worker)
        self._pump()

    def mark_test_pending(self, item: str) -> None:
        """Another plugin wants an item to run again."""
        assert self.collection is not None
        assert self.engine is not None
        position = list(self.collection).index(item)
        if position in self._cases:
            self.engine.queue.retry(position, time.monotonic())
        else:
            self._batches.appendleft([position])
        self._pump()

    def remove_pending_tests_from_node(self, node: Any, indices: Sequence[int]) -> None:
        """Only for schedulers that steal, and this one does not.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("cases are sent one at a time, there is nothing to steal")

    def remove_node(self, node: Any) -> str | None:
        """A worker ended or died. Returns the item that is to be reported as crashed.

        A case is run once more before that. Ordinary tests behind a crashed one go back to the queue.
        """
        self.fleet.leave(node.gateway.id)
        worker = self._workers.pop(node.gateway.id, None)
        if worker is None:
            self._count_stillborn()
            return None
        assert self.engine is None or self.collection is not None
        if self.engine is None or self.collection is None:
            return None
        if worker.ended is not None:
            self._settle(worker)  # its report had come: it is no loss
        crashed = self.engine.drop_slot(node.gateway.id, time.monotonic())
        if worker.ordinary:
            crashed, rest = worker.ordinary[0], worker.ordinary[1:]
            if rest:
                self._batches.appendleft(rest)
        if self.engine.stop_reason and not self.stop_reason:
            self._stop(self.engine.stop_reason)
        self._pump()
        return None if crashed is None else self.collection[crashed]

    def _count_stillborn(self) -> None:
        """A worker died before it could be given anything. xdist starts another one, each time."""
        self._stillborn += 1
        if self._stillborn > _MOST_STILLBORN + 2 * len(self._workers):
            # Else it starts the next one all the same.
            self.config.pluginmanager.getplugin("dsession")._max_worker_restart = 0
            self._stop(
                f"{self._stillborn} workers died one after another before they could run anything; "
                "see their output above, and try -n0 to see the cause"
            )

    def _awaits_workers(self) -> bool:
        """Some worker is starting or collecting, or is about to be replaced."""
        dsession = self.config.pluginmanager.getplugin("dsession")
        ready = {worker.node for worker in self._workers.values() if worker.collected}
        return not ready.issuperset(dsession._active_nodes)

    # What the plugin tells ------------------------------------------------------------------

    def note_report(self, report: Any) -> None:
        """Keep how a case ended until the worker says that it is done with the item."""
        data = getattr(report, "paddleapi", None)
        node = getattr(report, "node", None)
        worker = self._workers.get(node.gateway.id) if node is not None else None
        if data is None or worker is None:
            return
        worker.ended = ended_from(data)
        worker.ended_token = data["token"]

    def tick(self) -> None:
        """Called in the main thread every TICK_SECONDS, or when the engine wants to look."""
        if self._ticker is not None:
            self._ticker.served()
        self._pump()

    def close(self) -> None:
        """Stop the clock."""
        if self._ticker is not None:
            self._ticker.stop()

    # ----------------------------------------------------------------------------------------

    def _settle(self, worker: _Node) -> None:
        """Take in how the worker's case ended. Its channel keeps order, so its report has come before."""
        assert self.engine is not None
        ended, worker.ended = worker.ended, None
        slot = worker.node.gateway.id
        running = self.engine.running(slot)
        if running is None:
            return
        if ended is None or worker.ended_token != running.token:
            # Another plugin swallowed or replaced the report: the case has no verdict, so it runs once more.
            ended = Ended(Verdict.EXTERNAL_KILL)
        self.engine.settle(slot, running.token, ended, time.monotonic())
        if self.engine.stop_reason and not self.stop_reason:
            self._stop(self.engine.stop_reason)

    def _pump(self) -> None:
        engine = self.engine
        if engine is None:
            return
        self._look(engine)
        free = []
        for slot, worker in self._workers.items():
            if not worker.collected or worker.ordinary or worker.node.shutting_down or engine.running(slot):
                continue
            if self._batches and self.stop_reason is None:
                worker.ordinary = self._batches.popleft()
                worker.node.send_runtest_some(list(worker.ordinary))
            else:
                free.append(slot)
        for slot in engine.to_suspend():
            self._command(self._workers[slot], SUSPEND_COMMAND)
        elsewhere = sum(bool(worker.ordinary) for worker in self._workers.values())
        for dispatch in engine.poll(time.monotonic(), free, elsewhere=elsewhere):
            self._send(self._workers[dispatch.slot], dispatch)
        for slot, worker in self._workers.items():
            if self.fleet.is_remote(slot):
                continue  # each of its cases needs a lease there
            while engine.running(slot) and (following := engine.follow_up(slot, time.monotonic(), FOLLOWERS)):
                self._send(worker, following)
        while engine.oversize:
            position, need = engine.oversize.pop(0)
            assert self.collection is not None
            self.refuse(self.collection[position], need)
        if self._ticker is not None and (look := engine.next_look(time.monotonic())) is not None:
            self._ticker.at_latest(look)
        self._look(engine)

    def _look(self, engine: Engine) -> None:
        stalled = self.look(engine)
        if (reason := engine.stop_reason or stalled) and not self.stop_reason:
            self._stop(reason)

    def kill(self) -> None:
        """Kill the workers of this host; each takes its case process along. Any thread may call this."""
        for worker in list(self._workers.values()):
            process = getattr(getattr(worker.node.gateway, "_io", None), "popen", None)
            if process is not None:
                process.kill()

    def _send(self, worker: _Node, dispatch: Dispatch) -> None:
        self._command(
            worker,
            RUN_COMMAND,
            index=dispatch.case,
            token=dispatch.token,
            attempt=dispatch.attempt,
            lease_bytes=dispatch.lease_bytes,
            whole_device=dispatch.whole_device,
            killed_before=dispatch.killed_before,
            restart=dispatch.restart,
            after=dispatch.after,
            estimate=dispatch.estimate,
        )

    def _command(self, worker: _Node, command: str, **data: Any) -> None:
        # A worker that died a moment ago: DSession will call remove_node, which puts the case back. What it has
        # reported before counts.
        with suppress(OSError):
            worker.node.sendcommand(command, **data)

    def _stop(self, reason: str) -> None:
        self.stop_reason = reason
        self._batches.clear()
        if self.engine is not None and self.engine.stop_reason is None:
            self.engine.stop_reason = reason


def ended_from(data: dict[str, Any]) -> Ended:
    """The engine's view of what travels on a report."""
    return Ended(
        Verdict(data["verdict"]),
        needed_bytes=data.get("needed_bytes"),
        external=bool(data.get("external")),
        pid=data.get("pid"),
        retired=data.get("retired"),
        device_lost=bool(data.get("device_lost")),
        context_bytes=data.get("context_bytes"),
        capacity_bytes=data.get("capacity_bytes"),
    )


def _by_file(collection: Sequence[str], cases: set[int]) -> list[list[int]]:
    """Ordinary tests, a batch a file, so that fixtures of a module are made once."""
    batches: dict[str, list[int]] = {}
    for position, nodeid in enumerate(collection):
        if position not in cases:
            batches.setdefault(nodeid.split("::", 1)[0], []).append(position)
    return list(batches.values())


def _difference(first: Sequence[str], second: Sequence[str], name: str) -> str:
    only_first = [n for n in first if n not in set(second)][:3]
    only_second = [n for n in second if n not in set(first)][:3]
    detail = f"missing there: {only_first}, only there: {only_second}" if only_first or only_second else "another order"
    return f"worker {name} collected other tests than the first one ({detail}); did a config file change meanwhile?"


def retry_starts(dsession: Any) -> None:
    """Make xdist try again where a worker dies before it can speak; of itself it ends with an internal error."""
    manager = dsession.nodemanager
    start = manager.setup_node

    def setup_node(spec: Any, putevent: Any) -> Any:
        for _ in range(START_ATTEMPTS - 1):
            try:
                return start(spec, putevent)
            except (EOFError, OSError) as exc:
                reporter = manager.config.pluginmanager.getplugin("terminalreporter")
                if reporter is not None:
                    reporter.write_line(f"paddleapi: worker {spec.id} died while it started ({exc}); started again")
                spec.id = None  # the old one may be taken by what was begun
                manager.group.allocate_id(spec)
        return start(spec, putevent)

    manager.setup_node = setup_node


class _Ticker:
    """Wakes DSession from a thread: it waits for worker events and for nothing else."""

    def __init__(self, dsession: Any) -> None:
        self._dsession = dsession
        self._changed = threading.Condition()
        self._stopped = False
        self._unserved = False
        #: When the next tick is due (monotonic seconds).
        self._due = 0.0
        self._thread = threading.Thread(target=self._run, name="paddleapi-tick", daemon=True)

    @classmethod
    def attach(cls, config: Any, tick: Callable[[], None]) -> _Ticker:
        """Let DSession call ``tick`` in its main loop."""
        dsession = config.pluginmanager.getplugin("dsession")
        ticker = cls(dsession)
        dsession.worker_paddleapi_tick = tick
        ticker._thread.start()
        return ticker

    def _run(self) -> None:
        with self._changed:
            self._due = time.monotonic() + TICK_SECONDS
            while not self._stopped:
                if self._unserved:  # never two in the queue
                    self._changed.wait()
                elif (left := self._due - time.monotonic()) > 0:
                    self._changed.wait(left)
                else:
                    self._unserved = True
                    self._dsession.queue.put(("paddleapi_tick", {}))

    def served(self) -> None:
        """The tick has come; the next one comes TICK_SECONDS later, if not before."""
        with self._changed:
            self._unserved = False
            self._due = time.monotonic() + TICK_SECONDS
            self._changed.notify()

    def at_latest(self, when: float) -> None:
        """The next tick comes then at the latest (monotonic seconds)."""
        with self._changed:
            if when < self._due:
                self._due = when
                self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
