"""What may watch a case while it runs; by default nothing does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .results import SideResult


class Record:
    """Is told of what a case has made so far, as soon as it is there: the next step may end the process."""

    def inputs(self, values: Mapping[str, Any]) -> None:
        """The arguments by name, with numpy arrays for tensors."""

    def reference(self, result: SideResult) -> None:
        """Everything that the reference gave."""

    def paddle(self, result: SideResult) -> None:
        """What Paddle's call gave, before its backward run."""

    def paddle_fed(self, cotangents: Sequence[torch.Tensor | None]) -> None:
        """The output gradients that Paddle's backward run begins with."""

    def paddle_gradients(self, gradients: Mapping[str, torch.Tensor]) -> None:
        """What Paddle's backward run gave."""
