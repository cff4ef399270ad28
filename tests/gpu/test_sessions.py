"""The plugin on a real GPU, where Paddle has a build for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_paddleapi.devices.model import Device
from pytest_paddleapi.fleet import cpu_build

EXAMPLES = Path(__file__).parents[2] / "example_configs"


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_the_examples_run_on_the_gpu(gpu: Device, tmp_path: Path, workers: str) -> None:
    if why := cpu_build():
        pytest.skip(why)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "--accuracy", "--paddleapi-device=nvidia", workers),
            *(
                f"--paddleapi-configs={EXAMPLES / 'elementwise.txt'}",
                "--junitxml=r.xml",
                "--paddleapi-workers-per-gpu=2",
            ),
        ],
        cwd=tmp_path,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    devices = set(re.findall(r'name="device" value="([^"]+)"', (tmp_path / "r.xml").read_text()))
    assert devices
    assert all(device.startswith(("GPU-", "MIG-")) for device in devices)
