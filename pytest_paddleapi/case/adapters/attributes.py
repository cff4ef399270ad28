"""Methods that return arrays: compared as tensors."""

from __future__ import annotations

from typing import Any

import paddle

from .registry import adapter


def _as_tensor(array: Any) -> Any:
    """The array as a tensor; Paddle gives bfloat16 out as 16-bit integers and takes these back as bfloat16."""
    return paddle.to_tensor(array)


adapter("paddle.Tensor.numpy", results=_as_tensor, about="the array is compared as a tensor")
