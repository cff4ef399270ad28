"""The loop without xdist: the same engine, one slot, in pytest's own process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from .dispatching import Dispatch, Ended
from .engine import Engine

SLOT = "local"
#: How long to wait before memory is looked at again when nothing fits.
_PAUSE = 0.2


def run_items(
    items: Sequence[Any],
    engine: Engine,
    *,
    is_case: Callable[[Any], bool],
    run_ordinary: Callable[[int], None],
    run_case: Callable[[Dispatch], Ended],
    refuse: Callable[[int, int], None],
    should_stop: Callable[[], bool],
    suspend: Callable[[], None],
    look: Callable[[Engine], object],
) -> None:
    """Run ``items`` in order; cases, which may be put off, within their neighbours.

    ``run_case`` runs what was dispatched and says how it ended; ``refuse`` reports a case that fits on
    no device (position, admission bytes); ``suspend`` ends the slot's process, for a pause; ``look`` is told
    whenever the engine may have moved. Returns early where ``should_stop`` says so, or with the engine's
    ``stop_reason`` set.
    """
    engine.add_slot(SLOT)
    for ordinary, positions in _runs(items, is_case):
        if ordinary:
            for position in positions:
                run_ordinary(position)
                if should_stop():
                    return
            continue
        engine.queue.extend(positions)
        while not engine.finished:
            look(engine)
            running = engine.running(SLOT)  # the case that followed another under its lease
            for dispatch in [running] if running else engine.poll(time.monotonic()):
                look(engine)
                ended = run_case(dispatch)
                engine.settle(SLOT, dispatch.token, ended, time.monotonic())
                break
            else:
                if engine.to_suspend():
                    suspend()
                if not engine.oversize and not engine.finished:
                    _wait(engine)
            while engine.oversize:
                refuse(*engine.oversize.pop(0))
                if should_stop():
                    return
            if should_stop():
                return
        look(engine)
        if engine.stop_reason is not None:
            return


def _runs(items: Sequence[Any], is_case: Callable[[Any], bool]) -> Iterator[tuple[bool, list[int]]]:
    for case, group in groupby(range(len(items)), key=lambda i: is_case(items[i])):
        yield not case, list(group)


def _wait(engine: Engine) -> None:
    due = engine.next_wakeup()
    pause = _PAUSE if due is None else min(_PAUSE, max(0.0, due - time.monotonic()))
    time.sleep(max(pause, 0.01))
