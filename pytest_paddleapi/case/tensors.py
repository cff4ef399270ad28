"""Values into both frameworks and back: always the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import paddle
import torch

from .dtypes import CARRIER, dtype_name


def to_torch(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """A tensor over the array's own memory; clone it before anything writes."""
    name = array.dtype.name
    carrier = CARRIER.get(name)
    if carrier is None:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(carrier)).view(getattr(torch, name))


def to_paddle(array: np.ndarray[Any, Any]) -> paddle.Tensor:
    """A tensor with a copy of the array's values."""
    name = array.dtype.name
    if name == "bfloat16":
        return paddle.to_tensor(array.view(np.uint16))
    if name in CARRIER:
        # Every float8 value is a float32 value too, so the cast changes nothing.
        return paddle.to_tensor(array.astype(np.float32)).cast(name)
    return paddle.to_tensor(array)


def paddle_to_torch(tensor: paddle.Tensor) -> torch.Tensor:
    """The values of a Paddle tensor as a Torch tensor on the host.

    Sparse tensors are given as dense ones, and so are the selected rows of a sparse gradient.
    """
    if tensor.is_selected_rows():
        rows = tensor.get_selected_rows()
        values = torch.from_numpy(np.array(rows.get_tensor()))
        dense = torch.zeros((rows.height(), *values.shape[1:]), dtype=values.dtype)
        return dense.index_add(0, torch.tensor(rows.rows(), dtype=torch.int64), values)
    tensor = tensor.detach()
    if tensor.is_sparse():
        tensor = tensor.to_dense()
    array = tensor.numpy()
    name = dtype_name(tensor.dtype)
    if name in CARRIER:
        carrier = np.int16 if name == "bfloat16" else np.int8
        return (
            torch.from_numpy(np.ascontiguousarray(array).view(carrier)).view(getattr(torch, name)).reshape(array.shape)
        )
    if not isinstance(array, np.ndarray):
        array = np.asarray(array)
    array = np.array(array, order="C", copy=None)
    # An array of one element or none counts as contiguous even with a negative stride, which Torch refuses.
    return torch.from_numpy(array.copy() if min(array.strides, default=0) < 0 else array)


#: Dtypes that both frameworks exchange without a copy on the host (DLPack has them all).
_EXCHANGED = frozenset(
    {
        paddle.float16,
        paddle.bfloat16,
        paddle.float32,
        paddle.float64,
        paddle.complex64,
        paddle.complex128,
        paddle.uint8,
        paddle.int8,
        paddle.int16,
        paddle.int32,
        paddle.int64,
    }
)


def land(tensor: paddle.Tensor, device: str, *, copy: bool = True) -> torch.Tensor:
    """The values of a Paddle tensor as a Torch tensor on ``device`` (Torch's name).

    Where the tensor is on that device already, its values do not pass through the host, and without ``copy`` the two
    have one memory.
    """
    if device == "cpu" or not _shares(tensor, device):
        return paddle_to_torch(tensor).to(device)
    # Torch's stream must not run ahead of Paddle's.
    paddle.device.synchronize()
    shared = share(tensor)
    return shared.clone() if copy else shared


def share(tensor: paddle.Tensor) -> torch.Tensor:
    """A Torch tensor on the same device, over the same memory if that has no gaps."""
    return torch.from_dlpack(tensor.detach().contiguous())


def _shares(tensor: paddle.Tensor, device: str) -> bool:
    dense = not (tensor.is_selected_rows() or tensor.is_sparse())
    if not dense or tensor.dtype not in _EXCHANGED or not tensor.place.is_gpu_place():
        return False
    # Each framework counts the visible devices, in one order.
    return torch.device(device) == torch.device("cuda", tensor.place.gpu_device_id())


def map_leaves(value: Any, convert: Callable[[Any], Any]) -> Any:
    """The same structure with ``convert`` applied to everything that is no container."""
    if isinstance(value, list):
        return [map_leaves(item, convert) for item in value]
    if isinstance(value, tuple):
        items = [map_leaves(item, convert) for item in value]
        return tuple(items)
    if isinstance(value, dict):
        return {key: map_leaves(item, convert) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(map_leaves(part, convert) for part in (value.start, value.stop, value.step)))
    return convert(value)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Everything that is no container, with a readable path such as ``[1][0]``."""
    if isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{path}[{key!r}]")
    elif isinstance(value, slice):
        for part in ("start", "stop", "step"):
            yield from leaves(getattr(value, part), f"{path}.{part}")
    else:
        yield path, value
