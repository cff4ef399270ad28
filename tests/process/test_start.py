"""Starts that fail: typed errors that say what to do, waits, retirement."""

from __future__ import annotations

import threading
import time
import uuid

import pytest

from pytest_paddleapi.process.errors import SlotKilledError, StartError
from pytest_paddleapi.process.launcher import Spares, Zygote
from pytest_paddleapi.process.messages import CaseOptions, Verdict
from pytest_paddleapi.process.slot import SlotState, StartRules
from pytest_paddleapi.process.supervisor import Supervisor

from .support import LIGHT, MakeSlot, tagged

Launching = type[Zygote] | type[Spares]
UNREADY = "light_runner:UnreadyRunner"
#: Failures follow each other at once.
AT_ONCE = StartRules(waits=(0.0,), retire_after=3)


@pytest.fixture
def tag() -> str:
    """A value for an environment variable that no other test's processes have."""
    return uuid.uuid4().hex


def failure(slot: Supervisor, seconds: float = 0.0) -> StartError:
    with pytest.raises(StartError) as caught:
        slot.ensure_ready(deadline=time.monotonic() + seconds)
    return caught.value


def test_starting_does_not_wait(light_slot: Supervisor) -> None:
    start = time.monotonic()
    light_slot.start()
    assert time.monotonic() - start < 1.0
    assert light_slot.state is SlotState.STARTING
    light_slot.ensure_ready()
    assert light_slot.state is SlotState.IDLE


def test_a_module_that_is_not_installed_is_named_and_not_tried_again(make_slot: MakeSlot, launcher: Launching) -> None:
    slot = make_slot(runner=LIGHT, modules=("json", "no_such_framework"), make_launcher=launcher)
    error = failure(slot)
    assert error.retired
    assert "no_such_framework is not installed" in str(error)
    assert "install no_such_framework for" in str(error)
    assert slot.state is SlotState.RETIRED


def test_missing_paddle_names_its_package(
    make_slot: MakeSlot, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = tmp_path_factory.mktemp("hook")
    # As if it were not installed: an interpreter that finds no module of this name.
    (hook / "sitecustomize.py").write_text(
        "import sys\n"
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'paddle':\n"
        "            sys.path[:] = [entry for entry in sys.path if 'site-packages' not in entry]\n"
        "sys.meta_path.insert(0, Hide())\n"
    )
    slot = make_slot(modules=("paddle",), runner="json:JSONDecoder", environment={"PYTHONPATH": str(hook)})
    error = failure(slot)
    assert "paddle is not installed; install paddlepaddle" in str(error)
    assert error.retired


def test_a_module_whose_import_fails_shows_the_traceback(
    make_slot: MakeSlot, launcher: Launching, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("modules")
    (folder / "broken_module.py").write_text(
        "import sys\nprint('a warning on stderr', file=sys.stderr)\nraise ImportError('libfoo.so.1: no such file')\n"
    )
    slot = make_slot(
        runner=LIGHT, modules=("broken_module",), environment={"PYTHONPATH": str(folder)}, make_launcher=launcher
    )
    error = failure(slot)
    assert not error.retired
    assert "broken_module could not be imported" in str(error)
    assert "libfoo.so.1: no such file" in str(error)
    assert "a warning on stderr" in str(error)
    assert error.retry_at > time.monotonic()


def test_an_import_that_crashes_shows_the_end_of_stderr_and_the_stack(make_slot: MakeSlot, launcher: Launching) -> None:
    error = failure(make_slot(runner="light_runner:CrashingImport", modules=(), make_launcher=launcher))
    assert "was killed by SIGSEGV" in str(error)
    assert "last words of an import" in str(error)
    assert "in warm_up" in str(error)


def test_an_import_that_hangs_is_killed_at_its_limit_and_shows_its_stack(
    make_slot: MakeSlot, launcher: Launching, tag: str
) -> None:
    slot = make_slot(
        runner="light_runner:HangingImport",
        modules=(),
        make_launcher=launcher,
        start_seconds=1.5,
        environment={"HANG": tag},
    )
    error = failure(slot)
    assert "took too long" in str(error)
    assert "in warm_up" in str(error)
    assert not tagged("HANG", tag)


@pytest.mark.parametrize(
    ("device", "words"),
    [("broken", ["could not get ready", "no such luck"]), ("crash", ["was killed by SIGSEGV", "last words"])],
)
def test_a_case_process_that_cannot_get_ready(
    make_slot: MakeSlot, launcher: Launching, device: str, words: list[str]
) -> None:
    slot = make_slot(CaseOptions(device=device), runner=UNREADY, modules=(), make_launcher=launcher)
    error = failure(slot)
    for word in words:
        assert word in str(error)
    assert not error.device_lost
    assert slot.state is SlotState.DEAD


def test_a_case_process_that_hangs_while_it_gets_ready(make_slot: MakeSlot, launcher: Launching, tag: str) -> None:
    slot = make_slot(
        CaseOptions(device="hang"),
        runner=UNREADY,
        modules=(),
        make_launcher=launcher,
        start_seconds=1.5,
        environment={"HANG": tag},
    )
    error = failure(slot)
    assert "not ready in time" in str(error)
    assert "in hang_in_c" in str(error)
    assert not tagged("HANG", tag)


def test_a_lost_device_quarantines_the_slot_at_once(make_slot: MakeSlot, launcher: Launching) -> None:
    slot = make_slot(CaseOptions(device="lost"), runner=UNREADY, modules=(), make_launcher=launcher)
    error = failure(slot)
    assert error.retired
    assert error.device_lost
    assert "device is lost or unavailable" in str(error)
    assert slot.state is SlotState.QUARANTINED
    assert failure(slot).retired
    assert failure(slot).device_lost


def test_failures_in_a_row_retire_the_slot(make_slot: MakeSlot, launcher: Launching) -> None:
    slot = make_slot(CaseOptions(device="broken"), runner=UNREADY, modules=(), make_launcher=launcher, rules=AT_ONCE)
    with pytest.raises(StartError, match=r"(?s)3 starts in a row failed; the last: .*no such luck") as caught:
        slot.ensure_ready()
    assert caught.value.retired
    assert slot.state is SlotState.RETIRED
    with pytest.raises(StartError, match="retired"):
        slot.run("paddle pass")


def test_a_wait_that_outlasts_the_deadline_is_not_begun(make_slot: MakeSlot, launcher: Launching) -> None:
    slot = make_slot(CaseOptions(device="broken"), runner=UNREADY, modules=(), make_launcher=launcher)
    first = failure(slot)
    start = time.monotonic()
    second = failure(slot, 1.0)
    assert time.monotonic() - start < 1.0
    assert second.retry_at == first.retry_at


def test_the_next_start_waits_its_time(make_slot: MakeSlot, launcher: Launching) -> None:
    rules = StartRules(waits=(0.5,), retire_after=2)
    slot = make_slot(CaseOptions(device="broken"), runner=UNREADY, modules=(), make_launcher=launcher, rules=rules)
    retry_at = failure(slot).retry_at
    assert failure(slot, 60.0).retired
    assert time.monotonic() >= retry_at


def test_a_slot_that_is_killed_ends_its_run_with_the_reason(light_slot: Supervisor) -> None:
    light_slot.ensure_ready()
    killer = threading.Timer(0.3, light_slot.kill, ("nothing moved for half an hour",))
    killer.start()
    with pytest.raises(SlotKilledError, match="nothing moved for half an hour"):
        light_slot.run("paddle sleep 60")
    killer.join()
    with pytest.raises(SlotKilledError):
        light_slot.run("paddle pass")


def test_an_interpreter_that_cannot_be_started_is_a_start_error(
    make_slot: MakeSlot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/no/such/python")
    slot = make_slot(runner=LIGHT, modules=())
    assert "/no/such/python could not be started" in str(failure(slot))
    monkeypatch.undo()
    slot.life.retry_at = 0.0
    assert slot.run("paddle pass").result.verdict is Verdict.PASS


def test_closing_is_quick_and_can_be_repeated(make_slot: MakeSlot, launcher: Launching, tag: str) -> None:
    slot = make_slot(runner=LIGHT, modules=(), make_launcher=launcher, environment={"CLOSED": tag})
    assert slot.run("paddle pass").result.verdict is Verdict.PASS
    slot.close()
    assert not tagged("CLOSED", tag)
    slot.close()


def test_closing_a_slot_that_still_imports_does_not_wait_for_it(
    make_slot: MakeSlot, launcher: Launching, tag: str
) -> None:
    slot = make_slot(
        runner="light_runner:HangingImport", modules=(), make_launcher=launcher, environment={"CLOSED": tag}
    )
    slot.start()
    time.sleep(0.3)
    start = time.monotonic()
    slot.close()
    assert time.monotonic() - start < 2.0
    assert not tagged("CLOSED", tag)


def test_an_interrupt_during_a_case_leaves_no_process(make_slot: MakeSlot, monkeypatch: pytest.MonkeyPatch) -> None:
    slot = make_slot(runner=LIGHT, modules=(), environment={"INTERRUPTED": "yes"})
    slot.ensure_ready()

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(slot, "_trim", interrupt)
    with pytest.raises(KeyboardInterrupt):
        slot.run("paddle sleep 60")
    assert slot.state is SlotState.DEAD
    assert not tagged("INTERRUPTED", "yes")
    monkeypatch.undo()
    assert slot.run("paddle pass").result.verdict is Verdict.PASS
