"""A plug-in of Paddle for a chip that is not there."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

__all__ = ["chip_library", "paddle_folder"]


@pytest.fixture(scope="session")
def paddle_folder() -> Path:
    """Where Paddle is installed; it is not imported."""
    spec = importlib.util.find_spec("paddle")
    if spec is None or spec.origin is None:
        pytest.skip("Paddle is not installed")
    return Path(spec.origin).parent


@pytest.fixture(scope="session")
def chip_library(paddle_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``chip_plugin.cpp``, built for this Paddle, in a folder of its own."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no g++ to build a plug-in with")
    library = tmp_path_factory.mktemp("chip") / "libchip.so"
    source = Path(__file__).with_name("chip_plugin.cpp")
    command = [compiler, "-shared", "-fPIC", "-std=c++17", f"-I{paddle_folder / 'include'}", "-o"]
    subprocess.run([*command, str(library), str(source)], check=True, timeout=120)
    return library
