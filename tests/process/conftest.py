"""Slots with real processes. A zygote takes seconds to import the frameworks, so most tests share one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_paddleapi.process.launcher import Spares, Zygote
from pytest_paddleapi.process.messages import CaseOptions
from pytest_paddleapi.process.supervisor import Supervisor

from .support import ENVIRONMENT, LAUNCHERS, LIGHT, MakeSlot


@pytest.fixture(scope="session")
def make_slot() -> Iterator[MakeSlot]:
    """Makes supervisors of the runners beside this file; they are closed at the session's end at the latest."""
    made: list[Supervisor] = []

    def make(
        options: CaseOptions | None = None,
        *,
        runner: str = "special_runner:SpecialRunner",
        environment: dict[str, str] | None = None,
        **arguments: Any,
    ) -> Supervisor:
        environment = dict(environment or {})
        paths = [environment.pop("PYTHONPATH", ""), ENVIRONMENT["PYTHONPATH"]]
        slot = Supervisor(
            options or CaseOptions(seed=7),
            runner=runner,
            environment={"PYTHONPATH": os.pathsep.join(filter(None, paths)), **environment},
            **arguments,
        )
        made.append(slot)
        return slot

    yield make
    for slot in made:
        slot.close()


@pytest.fixture(scope="session")
def slot(make_slot: MakeSlot) -> Supervisor:
    """One slot with both frameworks, for most tests; each leaves it usable, and the next one checks that."""
    made = make_slot()
    made.ensure_ready()
    return made


@pytest.fixture(params=LAUNCHERS)
def launcher(request: pytest.FixtureRequest) -> type[Zygote] | type[Spares]:
    """Each way to make case processes."""
    return LAUNCHERS[request.param]


@pytest.fixture(params=LAUNCHERS)
def light_slot(request: pytest.FixtureRequest, make_slot: MakeSlot) -> Iterator[Supervisor]:
    """A slot of its own whose processes import no framework and start in a blink; once for each way to make them."""
    made = make_slot(runner=LIGHT, modules=(), make_launcher=LAUNCHERS[request.param])
    yield made
    made.close()
