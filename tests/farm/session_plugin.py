"""A pytest plugin for sessions on a farm: makes every estimate wrong by a factor, and counts inherited leases.

A session finds it in its own folder, and the factor in the environment.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pytest_paddleapi.estimates import Estimates
from pytest_paddleapi.gpu_admission import Promptness

#: The environment variable with the factor.
FACTOR_VARIABLE = "SIMFARM_ESTIMATE_FACTOR"
#: Beside this file: one byte for each lease towards which what its process still held was counted.
INHERITED = "inherited"


def _change_estimates(factor: float) -> None:
    right = Estimates.of

    def wrong(self: Estimates, config: str) -> int | None:
        size = right(self, config)
        return None if size is None else int(size * factor)

    Estimates.of = wrong  # type: ignore[method-assign]


def _count_inherited(file: Path) -> None:
    right = Promptness.begins

    def counting(self: Promptness, lease: Any, *, inherited: bool = False) -> None:
        if inherited:
            with file.open("ab") as stream:
                stream.write(b".")
        right(self, lease, inherited=inherited)

    Promptness.begins = counting  # type: ignore[method-assign]


_count_inherited(Path(__file__).with_name(INHERITED))
_change_estimates(float(os.environ[FACTOR_VARIABLE]))
