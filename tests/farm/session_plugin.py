"""A pytest plugin for sessions on a farm: makes every estimate wrong by a factor.

A session finds it in its own folder, and the factor in the environment.
"""

from __future__ import annotations

import os

from pytest_paddleapi.estimates import Estimates

#: The environment variable with the factor.
FACTOR_VARIABLE = "SIMFARM_ESTIMATE_FACTOR"


def _change_estimates(factor: float) -> None:
    right = Estimates.of

    def wrong(self: Estimates, config: str) -> int | None:
        size = right(self, config)
        return None if size is None else int(size * factor)

    Estimates.of = wrong  # type: ignore[method-assign]


_change_estimates(float(os.environ[FACTOR_VARIABLE]))
