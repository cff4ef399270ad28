"""How to ask a driver: in an order that cannot mislead, and without waiting for one that never comes back.

A query of a sick GPU can hang in the kernel, where no signal reaches it. So it runs in a thread of its own, which
is left behind when it hangs. What comes back too late is thrown away: a reading is fresh or it is an error.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from queue import SimpleQueue
from typing import Any, TypeVar

from .model import DeviceLostError, DeviceReadingError, DeviceReadingTimeoutError

__all__ = ["ABANDON_SECONDS", "PATIENCE_SECONDS", "TimedReader", "bracketed", "patiently", "within"]

T = TypeVar("T")
KeyT = TypeVar("KeyT", bound=Hashable)

#: Looks at the free memory in one reading, each between two looks at what processes hold.
_ROUNDS = 2

#: A caller waits this long for one reading. It may hold the ledger meanwhile, so it is short: a healthy
#: driver answers in a millisecond, and one that does not is asked again in the next round.
PATIENCE_SECONDS = 1.0

#: A call that has hung for so long is given up for good, and the next round tries with a new thread.
ABANDON_SECONDS = 30.0

#: Where nothing can begin without a reading, one that fails is tried again for this long.
START_SECONDS = 5.0
#: With a pause after each failure.
_RETRY_PAUSE = 0.25

#: Threads that may hang at once. More would only pile up in a driver that is not going to answer.
MOST_HANGING = 3


class _Call:
    """One call on its way; exactly one of ``result`` and ``error`` is meant once ``done`` is set."""

    def __init__(self, function: Callable[[], Any], started: float) -> None:
        self.function = function
        self.started = started
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self.function()
        except BaseException as exc:  # noqa: BLE001  nobody is above this in the thread; the caller raises it
            self.error = exc
        self.done.set()


class TimedReader:
    """Runs the readings of one device, one at a time, each with a time limit.

    Several threads may use one reader. ``device`` is only for the messages.
    """

    def __init__(
        self,
        device: str,
        *,
        patience: float = PATIENCE_SECONDS,
        abandon_after: float = ABANDON_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.device = device
        self._patience = patience
        self._abandon_after = abandon_after
        self._clock = clock
        self._lock = threading.Lock()
        self._queue: SimpleQueue[_Call | None] | None = None
        self._current: _Call | None = None
        self._abandoned: list[_Call] = []

    def read(self, function: Callable[[], T]) -> T:
        """Call ``function`` in the reader's thread; its result, or whatever it raises.

        Raises:
            DeviceReadingTimeoutError: it did not return within the reader's patience; or, at once, an earlier call
                still hangs.
        """
        with self._lock:
            self._leave_earlier()
            call = self._current = _Call(function, self._clock())
            self._thread_queue().put(call)
            if not call.done.wait(self._patience):
                raise DeviceReadingTimeoutError(self.device, f"no answer within {self._patience:g} s")
            self._current = None
        if call.error is not None:
            raise call.error
        return call.result  # type: ignore[no-any-return]

    def close(self) -> None:
        """Let the thread end, now or when its call returns."""
        with self._lock:
            self._leave_thread()

    @property
    def hanging(self) -> int:
        """How many calls have not come back, the current one included."""
        calls = [*self._abandoned, *([self._current] if self._current else [])]
        return sum(not call.done.is_set() for call in calls)

    def _leave_earlier(self) -> None:
        earlier = self._current
        if earlier is None or earlier.done.is_set():
            return  # an answer that came too late: nobody wants it any more
        age = self._clock() - earlier.started
        if age < self._abandon_after:
            # Not another wait: the caller may hold the ledger, and everybody would wait with it in every round.
            raise DeviceReadingTimeoutError(self.device, f"the driver has not answered for {age:.0f} s")
        self._abandoned = [call for call in self._abandoned if not call.done.is_set()]
        if len(self._abandoned) + 1 >= MOST_HANGING:
            raise DeviceReadingTimeoutError(
                self.device, f"{MOST_HANGING} calls hang in the driver, the latest for {age:.0f} s; the device is sick"
            )
        self._abandoned.append(earlier)
        self._leave_thread()

    def _leave_thread(self) -> None:
        if self._queue is not None:
            self._queue.put(None)
            self._queue = None

    def _thread_queue(self) -> SimpleQueue[_Call | None]:
        if self._queue is None:
            self._queue = SimpleQueue()
            # A daemon, or a hanging driver would keep the process from ending.
            threading.Thread(target=_serve, args=(self._queue,), name=f"read {self.device}", daemon=True).start()
        return self._queue


def _serve(queue: SimpleQueue[_Call | None]) -> None:
    while (call := queue.get()) is not None:
        call.run()


def patiently(function: Callable[[], T], seconds: float = START_SECONDS) -> T:
    """Call ``function``, which reads a device, until a reading succeeds; a driver may be busy for a moment.

    Raises:
        DeviceReadingError: none has, for so many seconds, or the driver says that the device is lost.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            return function()
        except DeviceLostError:
            raise
        except DeviceReadingError:
            if time.monotonic() >= end:
                raise
        time.sleep(_RETRY_PAUSE)


def within(seconds: float, what: str, function: Callable[[], T]) -> T:
    """Call ``function`` once with a time limit; for what is not done again and again.

    Raises:
        DeviceReadingTimeoutError: it did not return in time. Its thread stays behind until it does.
    """
    reader = TimedReader(what, patience=seconds)
    try:
        return reader.read(function)
    finally:
        reader.close()


def bracketed(free: Callable[[], int], held: Callable[[], Mapping[KeyT, int]]) -> tuple[int, dict[KeyT, int]]:
    """The free memory and what each process holds, such that no byte is counted as both.

    No driver gives both at one moment. If a process takes memory between a look at the free memory and one at what
    it holds, the same bytes are seen free and held, and are promised twice. So each look at the free memory stands
    between two looks at what is held, and each process counts with its least: at the moment when the free memory was
    read, it held no less than that, whatever *other* processes did meanwhile. (Free, held, free with the smaller
    free is not enough: one process takes and another gives back, and both looks at the free memory are too high.)

    That is exact for a process that only takes or only gives back during one reading. For one that turns round in
    it, two looks at the free memory make it unlikely that each falls just where little is in use. A process that is
    missing from any look is missing from the result.
    """
    least = dict(held())
    looks: list[int] = []
    for _ in range(_ROUNDS):
        looks.append(free())
        again = held()
        least = {key: min(size, again[key]) for key, size in least.items() if key in again}
    return min(looks), least
