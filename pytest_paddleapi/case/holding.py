"""Where results stay until they are compared: on the host, on Torch's device in gpu-mode, or on the second device of
a pair.

In the dual modes a result leaves the device that computed it as soon as it is there. Paddle's go to the second device
by Paddle's own copy and reach the comparators without another one where Torch knows that device, and by way of the host
where it does not (Paddle's custom devices). Torch's go to the second device where Torch knows it, and to the host where
not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import paddle
import torch

from ..process import fatal
from ..process.messages import CaseOptions
from .prepared import PreparedCase
from .results import SideResult
from .tensors import land, map_leaves, paddle_to_torch

__all__ = ["give_back_cache", "paddle_holder", "received", "torch_holder"]


def torch_holder(case: PreparedCase) -> Callable[[Any], Any]:
    """What brings a result of Torch to where it stays: dense, detached, with its values as they read."""
    second = case.options.second_device
    return partial(_hold_torch, device=case.options.second_torch_device if second else case.landing)


def _hold_torch(value: Any, device: str) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach()
    if value.layout is not torch.strided:
        value = value.to_dense()
    return value.resolve_conj().resolve_neg().to(device)


def paddle_holder(case: PreparedCase) -> Callable[[Any], Any]:
    """What brings a result of Paddle to where it stays: a Paddle tensor on the second device, or one of Torch where it
    is compared."""
    return partial(_hold_paddle, device=case.options.second_device, landing=case.landing)


def _hold_paddle(value: Any, device: str, landing: str) -> Any:
    if not isinstance(value, paddle.Tensor):
        return value
    if not device:
        return land(value, landing)
    if value.is_selected_rows():
        return paddle_to_torch(value)
    value = value.detach()
    if value.is_sparse():
        value = value.to_dense()
    try:
        return value._copy_to(paddle.device._convert_to_place(device), True)
    except RuntimeError as exc:
        # A view with strides is made contiguous on its device first, and not every custom device has a kernel for that.
        if value.is_contiguous() or not fatal.is_unsupported(str(exc)):
            raise
        return paddle_to_torch(value)


def received(side: SideResult, device: str) -> SideResult:
    """The same results, with each tensor one of Torch on the device of this name. What was held stays valid."""
    receive = partial(_receive, device=device)
    return replace(
        side,
        outputs=map_leaves(side.outputs, receive),
        changed=map_leaves(side.changed, receive),
        gradients=map_leaves(side.gradients, receive),
    )


def _receive(value: Any, device: str) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(device)
    # Nobody else has what is held, so that it needs no copy.
    return land(value, device, copy=False) if isinstance(value, paddle.Tensor) else value


def give_back_cache(options: CaseOptions) -> None:
    """Let Torch give back the device memory that it keeps for itself: it is missing to Paddle, and to neighbours.

    Not in gpu-mode, which keeps it for the next case.
    """
    if torch.cuda.is_initialized() and not options.gpu_mode:
        torch.cuda.empty_cache()
