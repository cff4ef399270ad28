"""Real CUDA errors: what kills a context, what does not, and that the next case is served."""

from __future__ import annotations

from pytest_paddleapi.devices.model import Device
from pytest_paddleapi.gpu_admission import MIB
from pytest_paddleapi.process.supervisor import Supervisor
from pytest_paddleapi.results.verdicts import Verdict


def test_a_case_passes(slot: Supervisor) -> None:
    assert slot.run("compute 64").result.verdict is Verdict.PASS


def test_out_of_memory_is_told_and_the_process_lives_on(slot: Supervisor, gpu: Device) -> None:
    too_much = gpu.read().total // MIB + 1024
    attempt = slot.run(f"compute {too_much}")
    assert attempt.result.verdict is Verdict.OOM, attempt
    assert slot.run("compute 16").pid == attempt.pid


def test_a_lost_context_ends_the_process_and_the_next_case_gets_another(slot: Supervisor) -> None:
    first = slot.run("assert_on_device")
    assert first.result.verdict is Verdict.PADDLE_CUDA, first
    assert first.result.fatal
    second = slot.run("compute 16")
    assert second.result.verdict is Verdict.PASS
    assert second.pid != first.pid


def test_a_kernel_that_does_not_end_is_killed(slot: Supervisor) -> None:
    slot.ensure_ready()
    attempt = slot.run("endless", timeout=5.0)
    assert attempt.result.verdict is Verdict.TIMEOUT, attempt
    assert slot.run("compute 16").result.verdict is Verdict.PASS
