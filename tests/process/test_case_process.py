"""How a case process is set up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from pytest_paddleapi.process.messages import CaseOptions, Verdict
from pytest_paddleapi.process.supervisor import Supervisor

from .support import LIGHT, MakeSlot


def test_it_leads_a_session_and_a_group_of_its_own(light_slot: Supervisor) -> None:
    assert light_slot.run("paddle leaders").stdout == "True\n"


def test_it_dumps_no_core(light_slot: Supervisor) -> None:
    assert light_slot.run("paddle limits").stdout.split()[0] == "0"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FLAGS_use_system_allocator", "1"),
        ("NVIDIA_TF32_OVERRIDE", "0"),
        ("OPENBLAS_NUM_THREADS", "1"),
        ("OMP_NUM_THREADS", "3"),
        ("MKL_NUM_THREADS", "3"),
        ("SOME_VISIBLE_DEVICES", "GPU-1"),
    ],
)
def test_the_environment_is_set_before_anything_is_imported(make_slot: MakeSlot, name: str, value: str) -> None:
    slot = make_slot(CaseOptions(threads=3), runner=LIGHT, modules=(), environment={"SOME_VISIBLE_DEVICES": "GPU-1"})
    assert slot.run(f"paddle environment {name}").stdout == f"{value}\n"
    slot.close()


def test_the_worker_keeps_its_own_environment(light_slot: Supervisor) -> None:
    before = dict(os.environ)
    light_slot.ensure_ready()
    assert dict(os.environ) == before


def test_paddle_uses_the_systems_allocator_and_the_zygote_is_single_threaded(slot: Supervisor) -> None:
    slot.ensure_ready()
    assert slot.pid is not None
    zygote = psutil.Process(slot.pid).parent()
    assert zygote is not None
    assert zygote.num_threads() == 1
    assert zygote.environ()["FLAGS_use_system_allocator"] == "1"


def test_both_frameworks_work_after_the_fork(slot: Supervisor) -> None:
    for _ in range(3):
        assert slot.run("paddle work", timeout=120).result.verdict is Verdict.PASS
        slot.restart()


def test_the_options_reach_the_runner(light_slot: Supervisor) -> None:
    assert light_slot.run("paddle pass").result.text.endswith("seed 7")


def test_a_restart_gives_a_fresh_process_of_the_same_zygote(light_slot: Supervisor) -> None:
    light_slot.ensure_ready()
    first = light_slot.pid
    assert first is not None
    zygote = psutil.Process(first).ppid()
    light_slot.restart()
    light_slot.ensure_ready()
    assert light_slot.pid not in (None, first)
    assert psutil.Process(light_slot.pid).ppid() == zygote


def test_a_suspended_slot_has_no_case_process_and_comes_back(light_slot: Supervisor) -> None:
    light_slot.ensure_ready()
    light_slot.suspend()
    assert (light_slot.state.value, light_slot.pid) == ("suspended", None)
    assert light_slot.run("paddle pass").result.verdict is Verdict.PASS


def test_starts_that_were_undone_thrice_retire_the_slot(light_slot: Supervisor) -> None:
    for expected in ("suspended", "suspended", "retired"):
        light_slot.ensure_ready()
        light_slot.suspend(undone=True)
        assert light_slot.state.value == expected
    assert light_slot._launcher is None, "nothing is kept loaded for a slot that is over"


def test_the_worker_side_imports_no_framework() -> None:
    code = (
        "import sys, pytest_paddleapi.process.supervisor;"
        "print(*[m for m in ('paddle', 'torch', 'numpy') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


def test_a_program_that_the_case_starts_gets_none_of_its_descriptors(light_slot: Supervisor, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    light_slot.run(f"paddle grandchild setsid {note}")
    links = [os.readlink(entry) for entry in Path("/proc", note.read_text(), "fd").iterdir()]
    assert not [link for link in links if link.startswith("socket:")], links


def test_a_folder_named_like_a_framework_is_not_imported(
    make_slot: MakeSlot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.version_info < (3, 11):
        pytest.skip("Python 3.10 has no safe path")
    (tmp_path / "json.py").write_text("raise ImportError('the wrong one')")
    monkeypatch.chdir(tmp_path)
    slot = make_slot(runner=LIGHT, modules=("json",))
    assert slot.run("paddle pass").result.verdict is Verdict.PASS
    slot.close()


def test_an_interrupt_of_the_terminal_does_not_reach_it(light_slot: Supervisor) -> None:
    light_slot.ensure_ready()
    assert light_slot.pid is not None
    os.killpg(light_slot.pid, signal.SIGINT)
    before = light_slot.pid
    assert light_slot.run("paddle pass").pid == before
