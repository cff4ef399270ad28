"""Farms for tests, and processes on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .build import FarmUnavailableError, build
from .farm import Farm
from .sessions import FarmSession, leftovers
from .support import PaddleProcesses


@pytest.fixture(scope="session", autouse=True)
def _libraries() -> None:
    try:
        build()
    except FarmUnavailableError as exc:
        pytest.skip(str(exc))


@pytest.fixture
def make_farm(tmp_path: Path) -> Iterator[Any]:
    """Makes farms, with the arguments of :class:`~.farm.Farm` but the folder."""
    made: list[Farm] = []

    def make(**arguments: Any) -> Farm:
        made.append(Farm(tmp_path / f"farm{len(made)}", **arguments))
        return made[-1]

    yield make
    for farm in made:
        farm.close()


@pytest.fixture(scope="session")
def _zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Farm, PaddleProcesses]]:
    folder = tmp_path_factory.mktemp("farm")
    with Farm(folder / "farm", devices=2, mib=1024, context_mib=64) as farm:
        processes = PaddleProcesses(farm, folder / "processes")
        yield farm, processes
        processes.close()


@pytest.fixture
def farm(_zygote: tuple[Farm, PaddleProcesses]) -> Farm:
    """Two devices of 1 GiB, context 64 MiB, that nobody uses. All tests share it: Paddle takes long to start."""
    farm, processes = _zygote
    processes.end_children()
    farm.clear()
    for device in range(farm.devices):
        assert farm.by_process(device) == {}
        farm.reset_peak(device)
    return farm


@pytest.fixture
def paddle(farm: Farm, _zygote: tuple[Farm, PaddleProcesses]) -> Iterator[PaddleProcesses]:
    """Starts Paddle processes on ``farm``; those that still run at the end of the test are killed."""
    _, processes = _zygote
    yield processes
    processes.end_children()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    """Starts a pytest session: ``start(farm, configs, *arguments, **more)``, as :class:`~.sessions.FarmSession`.

    All of a test share a ledger. At the end of the test nothing may be left of them.
    """
    made: list[tuple[Farm, FarmSession]] = []

    def start(farm: Farm, configs: list[str], *arguments: str, **more: Any) -> FarmSession:
        folder = tmp_path / f"session{len(made)}"
        session = FarmSession(farm, folder, configs, *arguments, ledger=tmp_path / "ledger", **more)
        made.append((farm, session))
        return session

    yield start
    for _, session in made:
        if session.running:  # the test has failed
            session.kill()
    for farm in {id(farm): farm for farm, _ in made}.values():
        assert leftovers(farm, [session for on, session in made if on is farm]) == []
