"""A runner for tests whose actions are real, mostly bad, calls of Paddle and Torch.

It lives in the case process, so it may import the frameworks; the supervisor gets its import string.
"""

from __future__ import annotations

import numpy as np
import paddle
import torch
from light_runner import ACTIONS, LightRunner


def pow_of_negative() -> None:
    """Never returns, and holds the GIL: the kernel counts an integer exponent down to zero, from below."""
    paddle.pow(paddle.to_tensor([2, 3], dtype="int64"), -1)


def floor_divide() -> None:
    paddle.floor_divide(paddle.to_tensor([-(2**63)], dtype="int64"), paddle.to_tensor([-1], dtype="int64"))


def index_put() -> None:
    paddle.index_put(paddle.ones([4]), (paddle.to_tensor([2**40], dtype="int64"),), paddle.ones([1]))


def roi_align() -> None:
    boxes = paddle.to_tensor([[0.0, 0.0, 1e9, 1e9]])
    paddle.vision.ops.roi_align(paddle.ones([1, 3, 8, 8]), boxes, paddle.to_tensor([1], dtype="int32"), 2)


def pdist() -> None:
    x = torch.zeros(0, 20, requires_grad=True)
    torch.pdist(x).sum().backward()


def big_roi() -> None:
    """Wants some gigabytes in a C++ vector, inside a kernel where an exception ends the process."""
    boxes = paddle.to_tensor([[0.0, 0.0, 2e4, 2e4]])
    paddle.vision.ops.roi_align(paddle.ones([1, 3, 8, 8]), boxes, paddle.to_tensor([1], dtype="int32"), 2)


def allocate(side: str, mib: str) -> None:
    count = int(mib) << 18
    if side == "paddle":
        paddle.ones([count], "float32")
    elif side == "torch":
        torch.ones(count)
    elif side == "numpy":
        np.ones(count, np.float32)
    else:
        bytearray(count * 4)


def work() -> None:
    """A little of everything that starts threads or loads libraries on first use."""
    for module, size in ((torch, 300), (paddle, 300)):
        made = module.ones([size, size])
        _ = made @ made
        module.linalg.svd(module.ones([50, 50]))
    x = torch.ones(2, 3, 32, 32, requires_grad=True)
    torch.nn.functional.conv2d(x, torch.ones(4, 3, 5, 5)).sum().backward()
    y = paddle.ones([2, 3, 32, 32])
    y.stop_gradient = False
    paddle.nn.functional.conv2d(y, paddle.ones([4, 3, 5, 5])).sum().backward()


def call(api: str, dtype: str) -> None:
    """Call a function of one argument on the CPU with a dtype that it may have no kernel for."""
    getattr(paddle, api)(paddle.ones([2, 2], "float32").astype(dtype))


class SpecialRunner(LightRunner):
    """:class:`LightRunner` with calls of Paddle and Torch."""

    actions = {  # noqa: RUF012 - a test's table
        **ACTIONS,
        "work": work,
        "pow": pow_of_negative,
        "floor_divide": floor_divide,
        "index_put": index_put,
        "roi_align": roi_align,
        "pdist": pdist,
        "big_roi": big_roi,
        "allocate": allocate,
        "call": call,
    }

    @staticmethod
    def warm_up() -> None:
        paddle.ones([2, 2]) @ paddle.ones([2, 2])
