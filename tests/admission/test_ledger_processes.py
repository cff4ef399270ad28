"""The ledger between real processes, which are really killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_paddleapi.gpu_admission import Granted, Ledger, Refused, read_ledger

from .conftest import Programs
from .simulated import slot

OpenLedger = Callable[..., Ledger]


def test_a_killed_session_holds_nothing_when_the_next_one_looks(programs: Programs, open_ledger: OpenLedger) -> None:
    process, _ = programs.start("hold", "60")
    ledger = open_ledger()
    assert isinstance(ledger.reserve(slot(), "c", 60), Refused)
    process.kill()
    process.wait()
    assert isinstance(ledger.reserve(slot(), "c", 90), Granted)


def test_a_stopped_session_keeps_what_it_has(programs: Programs, open_ledger: OpenLedger) -> None:
    process, _ = programs.start("hold", "60")
    ledger = open_ledger()
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.1)
    answer = ledger.reserve(slot(), "c", 60)
    assert isinstance(answer, Refused)
    assert answer.available == 30


def test_a_session_killed_at_any_instant_leaves_nothing_behind(programs: Programs) -> None:
    """In the middle of a transaction too: it does nothing else."""
    process, _ = programs.start("kill_at_random", "40", "20")
    assert process.wait() == 0


def test_a_session_killed_while_it_joins_leaves_nothing_behind(programs: Programs) -> None:
    process, _ = programs.start("kill_while_joining", "40", "21")
    assert process.wait() == 0


def test_two_processes_racing_for_the_same_memory_never_both_have_it(programs: Programs, folder: Path) -> None:
    racers = [programs.start("race", "1000")[0] for _ in range(2)]
    won = []
    for racer in racers:
        assert racer.stdout is not None
        said = racer.stdout.read().split()
        assert racer.wait() == 0
        won.append(int(said[1]))
    assert all(count > 0 for count in won)
    assert read_ledger(folder).sessions == ()


def test_a_forked_child_that_lives_on_does_not_keep_the_session_alive(
    programs: Programs, open_ledger: OpenLedger
) -> None:
    process, (child, told) = programs.start("fork")
    programs.kill_later(int(child))
    assert told.startswith("LedgerError ledger")
    assert f"was opened by process {process.pid}; a forked child must open its own" in told
    ledger = open_ledger()
    assert isinstance(ledger.reserve(slot(), "c", 60), Refused), "the child must not have let go of its parent's lock"
    process.kill()
    process.wait()
    os.kill(int(child), 0)
    assert isinstance(ledger.reserve(slot(), "c", 90), Granted)


def test_a_program_that_the_session_started_does_not_keep_it_alive(programs: Programs, open_ledger: OpenLedger) -> None:
    process, (child,) = programs.start("execute")
    programs.kill_later(int(child))
    ledger = open_ledger()
    assert isinstance(ledger.reserve(slot(), "c", 60), Refused)
    process.kill()
    process.wait()
    os.kill(int(child), 0)
    assert isinstance(ledger.reserve(slot(), "c", 90), Granted)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGSEGV])
def test_by_whatever_signal_a_session_ends(programs: Programs, open_ledger: OpenLedger, end: signal.Signals) -> None:
    process, _ = programs.start("hold", "60")
    process.send_signal(end)
    process.wait(30)
    assert isinstance(open_ledger().reserve(slot(), "c", 90), Granted)
