"""A runner whose only framework is Torch: its config is ``ACTION [ARGUMENTS]``, done on the GPU in the Paddle stage.

So that slots, leases and the judging of errors can be tried on a real GPU without a GPU build of Paddle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from pytest_paddleapi.process.fatal import classify
from pytest_paddleapi.process.messages import CaseOptions, CaseResult, Measured, RunCase, Stage, Verdict

MIB = 1 << 20


def compute(mib: str) -> None:
    """Forward and backward over tensors of so many MiB."""
    x = torch.ones(int(mib) * MIB // 4, device="cuda", requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad is not None
    assert float(x.grad.max()) == 2.0


def hold(mib: str) -> None:
    """Keep memory until the process ends."""
    KEPT.append(torch.ones(int(mib) * MIB // 4, device="cuda"))
    torch.cuda.synchronize()


def assert_on_device() -> None:
    """An index out of range: a kernel's own assertion, which loses the context."""
    torch.zeros(4, device="cuda")[torch.tensor([100], device="cuda")].sum().item()


def endless() -> None:
    """A kernel that does not end in any time that a test waits."""
    torch.cuda._sleep(1 << 62)
    torch.cuda.synchronize()


KEPT: list[torch.Tensor] = []
ACTIONS: dict[str, Callable[..., None]] = {f.__name__: f for f in (compute, hold, assert_on_device, endless)}


class TorchRunner:
    """Touches the GPU when the slot is prepared, and not before."""

    def __init__(self, options: CaseOptions) -> None:
        torch.ones(1, device=options.torch_device).cpu()

    @staticmethod
    def warm_up() -> None:
        """Nothing to do before the device is there."""

    def run(self, request: RunCase, enter: Callable[[Stage], Any]) -> CaseResult:
        action, *arguments = request.config.split()
        enter(Stage.PADDLE)
        try:
            ACTIONS[action](*arguments)
        except Exception as exc:
            found = classify(f"{type(exc).__name__}: {exc}", Stage.PADDLE)
            if found is None:
                return CaseResult(request.token, Verdict.PADDLE_ERROR, f"{type(exc).__name__}: {exc}")
            return CaseResult(request.token, found.verdict, str(exc), fatal=found.fatal)
        finally:
            if action != "assert_on_device":
                torch.cuda.empty_cache()
        return CaseResult(request.token, Verdict.PASS, "", Measured(compared_outputs=1))
