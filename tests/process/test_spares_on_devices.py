"""Spares on a simulated device below real Paddle: what waits holds no memory, and a crash gives all of it back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_paddleapi.process.errors import StartError
from pytest_paddleapi.process.launcher import Spares
from pytest_paddleapi.process.messages import CaseOptions, Verdict
from pytest_paddleapi.process.slot import SlotState
from pytest_paddleapi.process.supervisor import RUNNER, Supervisor

from ..farm.build import FarmUnavailableError
from ..farm.farm import MIB, Farm
from ..farm.layout import Action, Event
from .support import ENVIRONMENT, MakeSlot, wait_until

CONTEXT = 64 * MIB
CONFIG = 'paddle.matmul(Tensor([64, 64],"float32"), Tensor([64, 64],"float32"))'


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    folder: Path = tmp_path_factory.mktemp("farm") / "farm"
    try:
        made = Farm(folder, devices=1, mib=1024, context_mib=CONTEXT // MIB)
    except FarmUnavailableError as exc:
        pytest.skip(str(exc))
    with made:
        yield made


@pytest.fixture(scope="module")
def slot(farm: Farm, make_slot: MakeSlot) -> Iterator[Supervisor]:
    """A slot that was never started, or whose spare waits behind an idle case process."""
    variables = farm.environment()
    variables["PYTHONPATH"] += f":{ENVIRONMENT['PYTHONPATH']}"
    made = make_slot(CaseOptions(device="sim_gpu:0", threads=1), runner=RUNNER, environment=variables)
    yield made
    made.close()


def spare_is_loaded(slot: Supervisor) -> bool:
    launcher = slot._launcher
    assert isinstance(launcher, Spares), "chosen by the device"
    return wait_until(lambda: launcher.death_of(0) is None and launcher.loaded is not None, 120.0)


def test_a_spare_that_has_loaded_holds_nothing_of_the_device(farm: Farm, slot: Supervisor) -> None:
    slot.start()
    assert spare_is_loaded(slot)
    assert farm.by_process(0) == {}
    slot.ensure_ready()
    assert slot.pid is not None
    assert farm.by_process(0) == {slot.pid: CONTEXT}
    assert spare_is_loaded(slot)
    assert slot.run(CONFIG).result.verdict is Verdict.PASS
    assert set(farm.by_process(0)) == {slot.pid}


def test_a_suspended_slot_holds_nothing_of_the_device(farm: Farm, slot: Supervisor) -> None:
    slot.ensure_ready()
    slot.suspend()
    assert farm.by_process(0) == {}
    assert slot.prepare()
    assert slot.run(CONFIG).result.verdict is Verdict.PASS


def test_a_crash_in_the_device_gives_its_memory_back(farm: Farm, slot: Supervisor) -> None:
    slot.suspend()  # in a process that has run a case, the next one would be tried twice
    slot.ensure_ready()
    farm.inject(Event.ALLOCATE, Action.SEGFAULT, device=0)
    attempt = slot.run(CONFIG)
    farm.clear()
    assert attempt.result.verdict is Verdict.PADDLE_CRASH, attempt.result.text
    assert farm.by_process(0) == {}
    following = slot.run(CONFIG)
    assert following.result.verdict is Verdict.PASS, following.result.text
    assert following.pid != attempt.pid


def test_a_device_that_is_lost_at_start_up_quarantines_the_slot(farm: Farm, slot: Supervisor) -> None:
    slot.suspend()
    farm.inject(Event.INIT, Action.FAIL, code=45)
    with pytest.raises(StartError) as caught:
        slot.ensure_ready()
    assert caught.value.device_lost
    assert slot.state is SlotState.QUARANTINED
