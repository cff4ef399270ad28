"""A case runner with references that a test needs and no API has: some that give something else each time.

It lives in the case process, so it may import the frameworks; the supervisor gets its import string.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import torch

from pytest_paddleapi.case import runner
from pytest_paddleapi.case.reference import registry

#: Counts the runs of all references below.
_runs = itertools.count(1)


def _unsteady(x: torch.Tensor) -> torch.Tensor:
    """The absolute value, a little more in every run; close enough for ``--accuracy``."""
    return x.abs() * (1 + 1e-6 * next(_runs))


def _refuses_the_second(x: torch.Tensor) -> torch.Tensor:
    """The exponential, in every other run."""
    if next(_runs) % 2 == 0:
        raise ValueError("not twice")
    return x.exp()


def _writes_into_its_input(x: torch.Tensor) -> torch.Tensor:
    """The square, which it leaves in its argument: the next run must not start from that."""
    with torch.no_grad():
        x.copy_(x * x)
    return x * 1


class UnsteadyRunner(runner.CaseRunner):
    """The real runner, with these references in place of those of three APIs."""

    @staticmethod
    def warm_up() -> None:
        """As the real one, then exchange the references."""
        runner.CaseRunner.warm_up()
        for api, rule in (
            ("paddle.abs", _unsteady),
            ("paddle.exp", _refuses_the_second),
            ("paddle.square", _writes_into_its_input),
        ):
            found = registry.find_reference(api)
            assert isinstance(found, registry.Reference)
            registry._rules[api] = replace(found, rule=rule)
