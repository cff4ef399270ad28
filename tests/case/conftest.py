"""Cases run by the real supervisor in a real case process: one that crashes takes no other test down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_paddleapi.process.messages import CaseOptions, CaseResult
from pytest_paddleapi.process.supervisor import Supervisor


@pytest.fixture(scope="session")
def run_case() -> Iterator[Callable[..., CaseResult]]:
    """Run one config in real Paddle and Torch; keyword arguments are fields of ``CaseOptions``."""
    supervisor = Supervisor(CaseOptions(threads=1))

    def run(config: str, **options: object) -> CaseResult:
        wanted = CaseOptions(threads=1, **options)  # type: ignore[arg-type]
        if wanted != supervisor.options:
            supervisor.restart()
            supervisor.options = wanted
        return supervisor.run(config, timeout=120.0).result

    yield run
    supervisor.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for ``table_row`` runs for each row of ``tables/NAME.txt``; its module says ``TABLE = NAME``.

    A row is ``(config, compared outputs, compared gradients)``.
    """
    if "table_row" in metafunc.fixturenames:
        path = Path(__file__).parent / "tables" / f"{metafunc.module.TABLE}.txt"
        rows = []
        for line in path.read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("#"):
                outputs, gradients, config = line.split(" ", 2)
                rows.append(pytest.param((config, int(outputs), int(gradients)), id=config))
        metafunc.parametrize("table_row", rows)
