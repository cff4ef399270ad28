"""A pytest plugin for sessions on a farm: admission's numbers, scaled to devices of a few hundred MiB.

A session finds it in its own folder, and its numbers in the environment, so that its workers have them too.
"""

from __future__ import annotations

import json
import os
from dataclasses import fields
from typing import Any

from pytest_paddleapi.admission.rules import AdmissionRules

#: The environment variable with the numbers: JSON, an object.
NUMBERS = "SIMFARM_NUMBERS"
#: Not a field of the rules: what every estimate is multiplied with, to make it wrong.
FACTOR = "estimate_factor"


def _change_rules(numbers: dict[str, float]) -> None:
    unknown = set(numbers) - {field.name for field in fields(AdmissionRules)}
    if unknown:
        raise ValueError(f"{NUMBERS} has what AdmissionRules has not: {', '.join(sorted(unknown))}")
    # The defaults, so that whoever makes rules in this process has them.
    defaults = tuple(numbers.get(field.name, field.default) for field in fields(AdmissionRules))
    AdmissionRules.__init__.__defaults__ = defaults  # type: ignore[misc]


def _change_estimates(factor: float) -> None:
    from pytest_paddleapi.session import PaddleApiSession

    right = PaddleApiSession.estimate

    def estimate(self: Any, *arguments: Any) -> int:
        return int(right(self, *arguments) * factor)

    PaddleApiSession.estimate = estimate  # type: ignore[method-assign]


_numbers = json.loads(os.environ[NUMBERS])
_factor = _numbers.pop(FACTOR, 1.0)
_change_rules(_numbers)
if _factor != 1.0:
    _change_estimates(_factor)
