"""A session that is asked to pause gives its devices back, and goes on later."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from pytest_paddleapi.gpu_admission import pause_session, read_ledger, resume_session

from .support import wait_until

CONFIGS = [f'paddle.exp(Tensor([{size}, 1000],"float32"))' for size in range(1, 401)]


@pytest.mark.parametrize("workers", ["-n0", pytest.param("-n2", marks=pytest.mark.slow)])
def test_pause_empties_the_devices_and_resume_goes_on(make_farm: Any, start: Any, tmp_path: Path, workers: str) -> None:
    farm = make_farm(devices=2, mib=512, context_mib=16)
    session, ledger = start(farm, CONFIGS, workers), tmp_path / "ledger"
    assert wait_until(lambda: session.output.count("PASSED") >= 10, 60), session.output
    (state,) = read_ledger(ledger).sessions
    pause_session(state.name, ledger)
    assert wait_until(lambda: farm.used(0) == farm.used(1) == 0, 20), session.output
    assert wait_until(lambda: read_ledger(ledger).sessions[0].leases == (), 20)
    done = session.output.count("PASSED")
    assert done < len(CONFIGS)
    time.sleep(1.5)
    assert farm.used(0) == farm.used(1) == 0 and session.output.count("PASSED") == done
    resume_session(state.name, ledger)
    ended = session.wait()
    assert ended.code == 0, ended.output
    assert ended.verdicts() == dict.fromkeys(CONFIGS, "pass")
