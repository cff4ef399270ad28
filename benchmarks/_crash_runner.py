"""The real runner, which beside configs also takes ``crash NAME``: a call that kills the process."""

from __future__ import annotations

from collections.abc import Callable

import paddle
import torch

from pytest_paddleapi.case.runner import CaseRunner
from pytest_paddleapi.process.messages import CaseResult, RunCase, Stage


def floor_divide() -> None:
    """SIGFPE: the quotient does not fit its type."""
    paddle.floor_divide(paddle.to_tensor([-(2**63)], dtype="int64"), paddle.to_tensor([-1], dtype="int64"))


def index_put() -> None:
    """SIGSEGV: an index far out of range."""
    paddle.index_put(paddle.ones([4]), (paddle.to_tensor([2**40], dtype="int64"),), paddle.ones([1]))


def roi_align() -> None:
    """SIGABRT: a C++ exception that nobody catches."""
    boxes = paddle.to_tensor([[0.0, 0.0, 1e9, 1e9]])
    paddle.vision.ops.roi_align(paddle.ones([1, 3, 8, 8]), boxes, paddle.to_tensor([1], dtype="int32"), 2)


def pdist() -> None:
    """SIGFPE in Torch: a division by the number of rows."""
    x = torch.zeros(0, 20, requires_grad=True)
    torch.pdist(x).sum().backward()


CRASHES: dict[str, Callable[[], None]] = {
    function.__name__: function for function in (floor_divide, index_put, roi_align, pdist)
}


class CrashRunner(CaseRunner):
    """Runs cases, and crashes on demand."""

    def run(self, request: RunCase, enter: Callable[[Stage], None]) -> CaseResult:
        word, _, name = request.config.partition(" ")
        if word == "crash":
            enter(Stage.REFERENCE if name == "pdist" else Stage.PADDLE)
            CRASHES[name]()
        return super().run(request, enter)
