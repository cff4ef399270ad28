"""The watchdog of a run, over a real engine."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from pytest_paddleapi.results.verdicts import Verdict
from pytest_paddleapi.scheduling.dispatching import Ended
from pytest_paddleapi.scheduling.engine import Engine
from pytest_paddleapi.stalls import RunWatch

from .scheduling.test_groups import Groups, engine_on

LIMIT = 1.5


class Killed:
    """Takes the place of the slots."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.event = threading.Event()

    def __call__(self, reason: str) -> None:
        self.reasons.append(reason)
        self.event.set()


def watch_with(killed: Killed, folder: Path) -> RunWatch:
    return RunWatch(1.0, LIMIT, ledger=folder / "ledger", device="cpu", kill=killed)


def busy_engine() -> Engine:
    engine = engine_on(Groups({"A": 10}), [1, 1], {"a1": "A"})
    engine.poll(0.0)
    return engine


def test_a_case_that_does_not_end_is_told_of_and_killed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    killed = Killed()
    watch = watch_with(killed, tmp_path)
    watch.start()
    try:
        watch.look(busy_engine())
        assert killed.event.wait(60)
        assert "no case was started and none ended" in watch.reason
    finally:
        watch.finished()
    assert "slot a1 on A: runs 0, attempt 1" in capfd.readouterr().err


def test_verdicts_keep_it_quiet(tmp_path: Path) -> None:
    killed = Killed()
    watch = watch_with(killed, tmp_path)
    engine = engine_on(Groups({"A": 10}), [1] * 100, {"a1": "A"})
    watch.start()
    try:
        end = time.monotonic() + 2 * LIMIT
        while time.monotonic() < end:
            for dispatch in engine.poll(0.0):
                watch.look(engine)
                engine.settle("a1", dispatch.token, Ended(Verdict.PASS), 0.0)
            watch.look(engine)
            time.sleep(0.1)
    finally:
        watch.finished()
    assert (killed.reasons, watch.reason) == ([], "")


def test_a_pause_and_other_peoples_tests_are_no_stall(tmp_path: Path) -> None:
    killed = Killed()
    watch = watch_with(killed, tmp_path)
    admission = Groups({"A": 10})
    engine = engine_on(admission, [1, 1], {"a1": "A"})
    (dispatch,) = engine.poll(0.0)
    watch.start()
    try:
        watch.look(engine)
        admission.paused = True
        engine.settle("a1", dispatch.token, Ended(Verdict.PASS), 0.0)
        watch.look(engine)
        watch.look(engine)
        time.sleep(1.5 * LIMIT)
        assert not killed.event.is_set()
        watch.rest()
        time.sleep(1.5 * LIMIT)
    finally:
        watch.finished()
    assert killed.reasons == []
