"""Where results stay until they are compared: on the host, or on the second device of a pair.

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
from .compare.registry import ELEMENTWISE, Comparator
from .results import SideResult
from .tensors import map_leaves, paddle_to_torch

__all__ = ["comparing_device", "give_back_cache", "paddle_holder", "received", "torch_holder"]


def torch_holder(options: CaseOptions) -> Callable[[Any], Any]:
    """What brings a result of Torch to where it stays: dense, detached, with its values as they read."""
    return partial(_hold_torch, device=options.second_torch_device)


def _hold_torch(value: Any, device: str) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach()
    if value.layout is not torch.strided:
        value = value.to_dense()
    return value.resolve_conj().resolve_neg().to(device)


def paddle_holder(options: CaseOptions) -> Callable[[Any], Any]:
    """What brings a result of Paddle to where it stays: a Paddle tensor there, or a Torch tensor on the host."""
    return partial(_hold_paddle, device=options.second_device)


def _hold_paddle(value: Any, device: str) -> Any:
    if not isinstance(value, paddle.Tensor):
        return value
    if not device or value.is_selected_rows():
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


def comparing_device(options: CaseOptions, comparator: Comparator) -> str:
    """Torch's name of the device that values are compared on.

    Comparators that do more than compare pairs of tensors work with NumPy, on the host.
    """
    return options.second_torch_device if comparator is ELEMENTWISE else "cpu"


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
    if not isinstance(value, paddle.Tensor):
        return value
    if device != "cpu" and value.place.is_gpu_place():
        return _shared(value)
    return paddle_to_torch(value).to(device)


def _shared(value: paddle.Tensor) -> torch.Tensor:
    """A Torch tensor over the same memory, on the same device."""
    return torch.utils.dlpack.from_dlpack(paddle.utils.dlpack.to_dlpack(value))


def give_back_cache() -> None:
    """Let Torch give back the device memory that it keeps for itself: it is missing to Paddle, and to neighbours."""
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
