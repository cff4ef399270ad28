"""Cases run through the real runner, in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_paddleapi.process.messages import CaseOptions, CaseResult, RunCase


@pytest.fixture(scope="session")
def run_case() -> Callable[..., CaseResult]:
    """Run one config in real Paddle and Torch; keyword arguments are fields of ``CaseOptions``."""
    from pytest_paddleapi.case.runner import CaseRunner

    CaseRunner.warm_up()

    def run(config: str, **options: object) -> CaseResult:
        runner = CaseRunner(CaseOptions(threads=1, **options))  # type: ignore[arg-type]
        return runner.run(RunCase(token=1, config=config), lambda stage: None)

    return run


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
