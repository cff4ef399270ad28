"""Cases over their time limit: stacks, then the end of the whole process group."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from pytest_paddleapi.process.messages import Verdict
from pytest_paddleapi.process.supervisor import Supervisor

from .support import alive


def test_a_kernel_that_never_returns_and_holds_the_gil(slot: Supervisor) -> None:
    attempt = slot.run("paddle pow", timeout=0.5)
    assert attempt.result.verdict is Verdict.TIMEOUT
    assert "over the time limit of 0.5 s in Paddle (stage: paddle); its process group was killed" in attempt.result.text
    assert "paddle/tensor/math.py" in attempt.stacks
    assert "in pow_of_negative" in attempt.stacks
    assert attempt.stacks in attempt.result.text
    assert attempt.pid is not None
    assert not alive(attempt.pid)
    assert slot.run("paddle pass").result.verdict is Verdict.PASS


@pytest.mark.parametrize("stage", ["starting", "inputs", "reference", "paddle", "comparison"])
def test_the_stage_is_named(light_slot: Supervisor, stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_paddleapi.process.stacks.py_spy_dump", lambda pid, meanwhile: "")
    attempt = light_slot.run(f"{stage} sleep 60", timeout=0.2)
    charged = {"starting": Verdict.CONFIG_INPUT, "inputs": Verdict.CONFIG_INPUT, "reference": Verdict.TORCH_ERROR}
    assert attempt.result.verdict is charged.get(stage, Verdict.TIMEOUT)
    assert f"stage: {stage}" in attempt.result.text
    assert "light_runner.py" in attempt.stacks


def test_py_spy_adds_the_native_frames(light_slot: Supervisor) -> None:
    attempt = light_slot.run("paddle hang", timeout=0.2)
    if "py-spy" not in attempt.stacks:
        pytest.skip("py-spy is not installed, or may not look at other processes")
    assert "hang_in_c" in attempt.stacks.split("py-spy", 1)[1]


def test_a_stopped_process_that_gives_no_stack_is_killed_all_the_same(light_slot: Supervisor) -> None:
    attempt = light_slot.run("paddle stop", timeout=0.2)
    assert attempt.result.verdict is Verdict.TIMEOUT
    assert "gave no Python stack" in attempt.result.text
    assert attempt.pid is not None
    assert not alive(attempt.pid)


@pytest.mark.parametrize("how", ["group", "setsid", "orphan"])
def test_what_the_case_started_dies_with_it(light_slot: Supervisor, how: str, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    light_slot.run(f"paddle grandchild {how} {note}")
    pid = int(note.read_text())
    assert alive(pid)
    attempt = light_slot.run("paddle sleep 60", timeout=0.2)
    assert attempt.result.verdict is Verdict.TIMEOUT
    assert not alive(pid), "it is gone before the verdict is given"


@pytest.mark.parametrize("how", ["group", "setsid", "orphan"])
def test_what_a_crashed_case_started_dies_with_it(light_slot: Supervisor, how: str, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    light_slot.run(f"paddle grandchild {how} {note}")
    light_slot.run("paddle segfault")
    assert not alive(int(note.read_text()))


def test_a_late_result_changes_nothing(light_slot: Supervisor) -> None:
    """The process is stopped with its answer half sent; the next case gets its own answer."""
    light_slot.run("paddle pass")
    late = light_slot.run("paddle sleep 0.6", timeout=0.5)
    assert late.result.verdict is Verdict.TIMEOUT
    following = light_slot.run("paddle say out mine")
    assert following.result.verdict is Verdict.PASS
    assert following.stdout == "mine\n"


def test_the_time_limit_counts_from_the_dispatch_not_from_the_start_of_the_process(light_slot: Supervisor) -> None:
    start = time.monotonic()
    attempt = light_slot.run("paddle pass", timeout=5)  # the zygote starts first
    assert attempt.result.verdict is Verdict.PASS
    assert attempt.seconds < time.monotonic() - start


def test_a_hung_zygote_does_not_keep_a_case_alive(light_slot: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The zygote is stopped, so nobody passes the kill on; then the zygote goes, and the case with it."""
    monkeypatch.setattr("pytest_paddleapi.process.supervisor.KILL_SECONDS", 1.0)
    monkeypatch.setattr("pytest_paddleapi.process.launcher._END_SECONDS", 0.2)
    light_slot.ensure_ready()
    case = light_slot.pid
    assert case is not None
    zygote = psutil.Process(case).parent()
    assert zygote is not None
    zygote.suspend()
    attempt = light_slot.run("paddle sleep 60", timeout=0.2)
    assert attempt.result.verdict is Verdict.TIMEOUT
    assert not alive(case)
    assert not alive(zygote.pid)
    assert light_slot.run("paddle pass").result.verdict is Verdict.PASS
