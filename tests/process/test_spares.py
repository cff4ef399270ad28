"""What is special about case processes that come of a spare; the other files run for both kinds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from pytest_paddleapi.process import launcher
from pytest_paddleapi.process.errors import StartError
from pytest_paddleapi.process.launcher import Spares, Zygote
from pytest_paddleapi.process.messages import Verdict
from pytest_paddleapi.process.slot import SlotState, StartRules
from pytest_paddleapi.process.slot_process import launcher_for
from pytest_paddleapi.process.stacks import thread_states
from pytest_paddleapi.process.supervisor import Supervisor

from .support import LIGHT, MakeSlot, alive, wait_until

#: One that any user may open, and that is no terminal.
DEVICE = "/dev/fuse"


def parent_of(slot: Supervisor) -> psutil.Process:
    """The keeper."""
    assert slot.pid is not None
    parent = psutil.Process(slot.pid).parent()
    assert parent is not None
    return parent


def waiting(slot: Supervisor) -> psutil.Process | None:
    """The spare behind the case process, loaded or not."""
    others = [child for child in parent_of(slot).children() if child.pid != slot.pid]
    assert len(others) <= 1
    return others[0] if others else None


def loaded_spare(slot: Supervisor) -> psutil.Process:
    """The spare, once the worker has heard that it is loaded."""
    spares = slot._launcher
    assert isinstance(spares, Spares)
    assert wait_until(lambda: spares.death_of(0) is None and spares.loaded is not None, 60.0)
    spare = waiting(slot)
    assert spare is not None
    return spare


@pytest.fixture
def spare_slot(make_slot: MakeSlot) -> Iterator[Supervisor]:
    made = make_slot(runner=LIGHT, modules=(), make_launcher=Spares)
    made.ensure_ready()
    yield made
    made.close()


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes"


@pytest.fixture
def noting_slot(make_slot: MakeSlot, notes: Path) -> Iterator[Supervisor]:
    made = make_slot(
        runner="light_runner:NotingRunner", modules=(), make_launcher=Spares, environment={"NOTES": str(notes)}
    )
    yield made
    made.close()


@pytest.fixture
def make_sharing(
    make_slot: MakeSlot, monkeypatch: pytest.MonkeyPatch, notes: Path
) -> Iterator[Callable[..., Supervisor]]:
    """Slots whose keepers import ``noting_module`` themselves, which does there what it is told."""
    monkeypatch.setattr(launcher, "_SURVIVE_FORK", {"noting_module"})
    made: list[Supervisor] = []

    def make(how: str = "", **arguments: Any) -> Supervisor:
        environment = {"NOTES": str(notes), "NOTING_MODULE": how, "DEVICE": DEVICE}
        slot = make_slot(
            runner=LIGHT, modules=("noting_module",), make_launcher=Spares, environment=environment, **arguments
        )
        made.append(slot)
        return slot

    yield make
    for slot in made:
        slot.close()


def words(notes: Path) -> list[str]:
    return [line.split()[0] for line in notes.read_text().splitlines()]


@pytest.mark.parametrize(
    ("device", "expected"),
    [("cpu", Zygote), ("cpu:0", Zygote), ("gpu:0", Spares), ("xpu:1", Spares), ("iluvatar_gpu:0", Spares)],
)
def test_only_the_cpu_forks(device: str, expected: type) -> None:
    assert launcher_for(device) is expected


def test_the_keeper_imports_no_framework() -> None:
    code = (
        "import sys, pytest_paddleapi.process.keeper;"
        "print(*[m for m in ('paddle', 'torch', 'numpy') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


def test_a_spare_loads_and_prepares_nothing(noting_slot: Supervisor, notes: Path) -> None:
    noting_slot.start()
    assert wait_until(lambda: notes.exists() and "loaded" in words(notes))
    time.sleep(0.2)
    assert words(notes) == ["loads", "loaded"]
    noting_slot.ensure_ready()
    assert wait_until(lambda: words(notes).count("loaded") == 2)
    time.sleep(0.2)
    assert words(notes) == ["loads", "loaded", "prepares", "prepared", "loads", "loaded"]


def test_one_loads_or_prepares_at_a_time(noting_slot: Supervisor, notes: Path) -> None:
    """Also where each case process dies as soon as it is ready, while the next spare loads."""
    for _ in range(4):
        assert noting_slot.run("paddle segfault").result.verdict is Verdict.PADDLE_CRASH
    noting_slot.ensure_ready()
    events = words(notes)
    assert events.count("prepared") == 5
    for begin, end in zip(events[::2], events[1::2]):
        assert (begin, end) in {("loads", "loaded"), ("prepares", "prepared")}, events


def test_the_case_process_was_the_spare_and_another_waits_behind_it(spare_slot: Supervisor) -> None:
    keeper = parent_of(spare_slot)
    for _ in range(3):
        spare = loaded_spare(spare_slot)
        spare_slot.run("paddle segfault")
        spare_slot.ensure_ready()
        assert spare_slot.pid == spare.pid
    assert parent_of(spare_slot) == keeper


def test_a_suspended_slot_keeps_its_spare(spare_slot: Supervisor) -> None:
    spare = loaded_spare(spare_slot)
    spare_slot.suspend()
    assert spare_slot.pid is None
    spare_slot.ensure_ready()
    assert spare_slot.pid == spare.pid


def test_a_case_process_has_no_descriptor_of_its_keeper(spare_slot: Supervisor) -> None:
    loaded_spare(spare_slot)
    links = [os.readlink(entry) for entry in Path(f"/proc/{spare_slot.pid}/fd").iterdir()]
    assert len([link for link in links if link.startswith("socket:")]) == 1, links
    assert not [link for link in links if link.startswith("pipe:")], links


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_spare_that_is_killed_while_it_waits_is_replaced(spare_slot: Supervisor, number: int) -> None:
    spare = loaded_spare(spare_slot)
    before = spare_slot.pid
    spare.send_signal(number)
    assert wait_until(lambda: not spare.is_running() and waiting(spare_slot) is not None)
    assert spare_slot.run("paddle pass").pid == before
    spare_slot.restart()
    assert spare_slot.run("paddle pass").result.verdict is Verdict.PASS
    assert spare_slot.life.failures == 0


def test_a_spare_that_is_killed_just_before_it_is_needed_costs_nothing(spare_slot: Supervisor) -> None:
    for _ in range(3):
        spare = loaded_spare(spare_slot)
        spare_slot.restart()
        spare.kill()  # it is not reaped, nor is its death known, when the case is asked for
        assert spare_slot.run("paddle pass").result.verdict is Verdict.PASS
        assert spare_slot.pid != spare.pid
    assert spare_slot.life.failures == 0


def test_spares_that_die_one_after_the_other_are_a_failed_start(make_slot: MakeSlot) -> None:
    rules = StartRules(waits=(0.0,))
    slot = make_slot(runner=LIGHT, modules=(), make_launcher=Spares, rules=rules)
    slot.ensure_ready()
    keeper = parent_of(slot)
    for _ in range(3):
        loaded_spare(slot).kill()
        spares = slot._launcher
        assert spares is not None
        assert wait_until(lambda spares=spares: spares.death_of(0) is None and spares.loaded is None)
    assert wait_until(lambda: waiting(slot) is None)
    assert slot.run("paddle pass").result.verdict is Verdict.PASS, "the case process is as well as before"
    slot.restart()
    with pytest.raises(StartError, match=r"one spare process after the other died while it waited; the last .*SIGKILL"):
        slot.ensure_ready(deadline=0.0)
    slot.ensure_ready()
    assert parent_of(slot) != keeper
    slot.close()


def test_a_load_that_fails_behind_a_case_is_reported_when_a_spare_is_needed(make_slot: MakeSlot, notes: Path) -> None:
    slot = make_slot(
        runner="light_runner:FailingLater",
        modules=(),
        make_launcher=Spares,
        rules=StartRules(waits=(0.0,)),
        environment={"NOTES": str(notes)},
    )
    slot.ensure_ready()
    assert wait_until(lambda: len(words(notes)) == 2 and waiting(slot) is None)
    before = slot.pid
    assert slot.run("paddle pass").pid == before
    slot.restart()
    with pytest.raises(StartError, match=r"(?s)FailingLater could not be imported.*no second time"):
        slot.ensure_ready(deadline=0.0)
    assert slot.run("paddle pass").result.verdict is Verdict.PASS
    slot.close()


def test_a_slot_that_is_made_ready_says_whether_it_had_to_start_a_process(light_slot: Supervisor) -> None:
    assert light_slot.prepare()
    assert light_slot.state is SlotState.IDLE
    assert not light_slot.prepare()
    light_slot.run("paddle segfault")
    assert light_slot.prepare()
    light_slot.suspend(undone=True)
    assert light_slot.prepare()


def test_a_process_that_has_gone_on_with_a_case_needs_no_preparing(light_slot: Supervisor) -> None:
    first = light_slot.run("paddle sleep 0.2", following=lambda: "paddle sleep 0.5")
    assert first.result.goes_on
    assert not light_slot.prepare()
    assert light_slot.run("paddle sleep 0.5").pid == first.pid


def test_a_process_that_survives_its_kill_retires_the_slot(
    light_slot: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process of ours can withstand SIGKILL, so the kernel's answer is made up: it runs on."""
    light_slot.ensure_ready()
    monkeypatch.setattr("pytest_paddleapi.process.kernel.await_end", lambda pid, started, seconds: False)
    parent_of(light_slot).kill()
    assert wait_until(lambda: light_slot._launcher is not None and light_slot._launcher.ended)
    with pytest.raises(StartError) as caught:
        light_slot.run("paddle pass")
    assert caught.value.retired
    assert light_slot.state is SlotState.RETIRED


def test_a_spare_that_hangs_behind_a_case_shows_its_stacks_when_it_is_needed(
    make_slot: MakeSlot, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_paddleapi.process.stacks.py_spy_dump", lambda pid, meanwhile: "")
    slot = make_slot(
        runner="light_runner:HangingLater",
        modules=(),
        make_launcher=Spares,
        start_seconds=3.0,
        environment={"NOTES": str(notes)},
    )
    slot.ensure_ready()
    assert wait_until(lambda: len(words(notes)) == 2)
    spare = waiting(slot)
    assert spare is not None
    slot.restart()
    with pytest.raises(StartError) as caught:
        slot.ensure_ready(deadline=0.0)
    assert "took too long" in str(caught.value)
    assert "in hang_in_c" in str(caught.value)
    assert f"{spare.pid} python" in str(caught.value), "the kernel's view, for want of py-spy"
    assert not alive(spare.pid)


def test_the_kernels_view_names_each_thread_and_its_state() -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        assert wait_until(lambda: thread_states(process.pid).startswith(f"  {process.pid} sleep: S"))
    finally:
        process.kill()
        process.wait()
    assert thread_states(process.pid) == ""


def test_with_the_real_frameworks_the_next_process_is_ready_at_once(make_slot: MakeSlot) -> None:
    slot = make_slot(make_launcher=Spares)
    slot.ensure_ready()
    loaded = loaded_spare(slot)
    # The first case of its process: one that crashes later is tried again in a fresh one, which takes the spare.
    crashed = slot.run("paddle index_put")
    assert crashed.result.verdict is Verdict.PADDLE_CRASH
    assert "in index_put" in crashed.stacks
    start = time.monotonic()
    slot.ensure_ready()
    assert time.monotonic() - start < 2.0, "the imports alone take longer"
    assert slot.pid == loaded.pid
    assert slot.run("paddle work", timeout=120).result.verdict is Verdict.PASS
    maps = [Path(f"/proc/{pid}/maps").read_text() for pid in (parent_of(slot).pid, slot.pid)]
    assert ["libtorch_cpu" in text for text in maps] == [True, True]
    assert ["libpaddle" in text for text in maps] == [False, True], "it may open devices when it is imported"
    slot.close()


def test_a_spare_is_forked_and_has_only_the_rest_to_import(
    make_sharing: Callable[..., Supervisor], notes: Path
) -> None:
    slot = make_sharing()
    slot.ensure_ready()
    keeper, spare = parent_of(slot), loaded_spare(slot)
    assert spare.cmdline() == psutil.Process(slot.pid).cmdline() == keeper.cmdline()
    assert [line.split()[:2] for line in notes.read_text().splitlines()] == [["imported", str(keeper.pid)]]


@pytest.mark.parametrize("how", ["thread", "device"])
def test_what_an_import_starts_or_opens_is_not_forked(
    make_sharing: Callable[..., Supervisor], notes: Path, how: str
) -> None:
    if how == "device" and not os.access(DEVICE, os.R_OK):
        pytest.skip(f"{DEVICE} cannot be opened here")
    slot = make_sharing(how)
    slot.ensure_ready()
    keeper, spare = parent_of(slot), loaded_spare(slot)
    assert "pytest_paddleapi.process.keeper" in keeper.cmdline()
    for process in (spare, psutil.Process(slot.pid)):
        assert "pytest_paddleapi.process.spare" in process.cmdline()
    assert [line.split()[1] for line in notes.read_text().splitlines()] == [
        str(process) for process in (keeper.pid, slot.pid, spare.pid)
    ]
    assert slot.run("paddle segfault").result.verdict is Verdict.PADDLE_CRASH
    assert slot.run("paddle pass").result.verdict is Verdict.PASS


def test_an_import_that_fails_in_the_keeper_is_told_as_one_in_a_spare(make_sharing: Callable[..., Supervisor]) -> None:
    slot = make_sharing("fail", rules=StartRules(waits=(0.0,)))
    with pytest.raises(StartError, match=r"(?s)noting_module could not be imported by .*no such luck"):
        slot.ensure_ready(deadline=0.0)


def test_an_import_that_hangs_in_the_keeper_shows_its_stacks(make_sharing: Callable[..., Supervisor]) -> None:
    slot = make_sharing("hang", start_seconds=2.0)
    with pytest.raises(StartError) as caught:
        slot.ensure_ready(deadline=0.0)
    assert "took too long" in str(caught.value)
    assert "noting_module.py" in str(caught.value)


def test_a_keeper_that_imports_is_ended_at_once(make_sharing: Callable[..., Supervisor], notes: Path) -> None:
    slot = make_sharing("hang")
    slot.start()
    assert wait_until(notes.exists)
    keeper = int(notes.read_text().split()[1])
    start = time.monotonic()
    slot.close()
    assert not alive(keeper)
    assert time.monotonic() - start < 2.5, "it is not waited for as one that serves is"
