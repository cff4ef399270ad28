"""Real GPUs. Without one, or without a CUDA build of Torch, everything here is skipped with the reason."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_paddleapi.devices.model import Device
from pytest_paddleapi.devices.nvidia import KIND
from pytest_paddleapi.process.messages import CaseOptions
from pytest_paddleapi.process.supervisor import Supervisor


@pytest.fixture(scope="session")
def gpu() -> Device:
    """The first GPU in sight."""
    found = KIND.probe(os.environ)
    if not found.devices:
        pytest.skip(f"no NVIDIA GPU: {found.why_not}")
    return found.devices[0]


@pytest.fixture(scope="session")
def cuda_torch(gpu: Device) -> None:
    """Torch can compute on the GPU. Asked in a process of its own: a context would stay for the whole session."""
    code = "import torch; print(float(torch.ones(1, device='cuda')))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": gpu.uuid},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode:
        pytest.skip(f"this Torch cannot use the GPU: {done.stderr.strip().splitlines()[-1]}")


@pytest.fixture
def slot(gpu: Device, cuda_torch: None, tmp_path: Path) -> Iterator[Supervisor]:
    """A slot on the GPU whose only framework is Torch."""
    made = Supervisor(
        CaseOptions(threads=1, device="gpu:0", torch_device="cuda:0"),
        runner="torch_runner:TorchRunner",
        modules=("torch",),
        environment={KIND.visibility_variable or "": KIND.visible([gpu]), "PYTHONPATH": str(Path(__file__).parent)},
        prepare_locks=[tmp_path / "prepare" / "gpu.lock"],
    )
    yield made
    made.close()


@pytest.fixture
def used(gpu: Device) -> Any:
    """Bytes of the GPU that somebody has."""

    def read() -> int:
        reading = gpu.read()
        return reading.total - reading.free

    return read
