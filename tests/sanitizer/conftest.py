"""Slots whose case processes run under the stand-in."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pytest_paddleapi
from pytest_paddleapi.process.messages import CaseOptions
from pytest_paddleapi.process.sanitizer import Sanitizer
from pytest_paddleapi.process.supervisor import Supervisor

HERE = Path(__file__).parent
STAND_IN = (sys.executable, "-S", str(HERE / "compute_sanitizer.py"))
_PATH = os.pathsep.join(map(str, (HERE, HERE.parent / "process", Path(pytest_paddleapi.__file__).parents[1])))


@pytest.fixture(scope="session")
def make_slot() -> Iterator[Callable[..., Supervisor]]:
    """Makes supervisors; closed at the end at the latest."""
    made: list[Supervisor] = []

    def make(
        *options: str, device: str = "test:0", command: tuple[str, ...] = STAND_IN, **arguments: Any
    ) -> Supervisor:
        slot = Supervisor(
            CaseOptions(seed=7, device=device, sanitize=True),
            runner="sanitized_runner:SanitizedRunner",
            modules=(),
            environment={"PYTHONPATH": _PATH},
            sanitizer=Sanitizer((*command, *options)),
            **arguments,
        )
        made.append(slot)
        return slot

    yield make
    for slot in made:
        slot.close()


@pytest.fixture
def slot(make_slot: Callable[..., Supervisor]) -> Iterator[Supervisor]:
    """A slot of its own."""
    made = make_slot()
    yield made
    made.close()
