"""What tests of rules share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from pytest_paddleapi.case.reference.registry import Reference, find_reference
from pytest_paddleapi.process.messages import CaseResult, Verdict


def rule(name: str) -> Callable[..., Any]:
    """The reference rule of ``paddle.`` ``name``."""
    found = find_reference(f"paddle.{name}")
    assert isinstance(found, Reference)
    return found.rule


def functional_rule(name: str) -> Any:
    """The reference rule of ``paddle.nn.functional.`` ``name``."""
    return rule(f"nn.functional.{name}")


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    """Normally distributed doubles."""
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def check_row(run_case: Callable[..., CaseResult], row: tuple[str, int, int]) -> None:
    """Run a row of a table: a config, and how many outputs and gradients are compared."""
    config, outputs, gradients = row
    result = run_case(config)
    assert result.verdict is Verdict.PASS, result.text
    assert (result.measured.compared_outputs, result.measured.compared_gradients or 0) == (outputs, gradients)
