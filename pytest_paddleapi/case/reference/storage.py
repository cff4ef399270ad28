"""Where a tensor lives and in what form: ``Tensor.to`` and its neighbours; and what only speaks of storage,
gradients' machinery or the state of the process, and so gives nothing to compare."""

from __future__ import annotations

from typing import Any

import torch

from ..dtypes import torch_dtype
from .registry import NoEquivalent, reference, without_reference


def _dtype_or_none(value: Any) -> torch.dtype | None:
    """The dtype that an argument of ``Tensor.to`` means; None for a device."""
    if isinstance(value, torch.Tensor):
        return value.dtype
    try:
        return torch_dtype(value)
    except TypeError:
        return None


@reference("paddle.Tensor.to", constant=("other",))
def to(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """``to(dtype)``, ``to(device, dtype)`` and ``to(other)``; only the dtype counts in a comparison on the host."""
    unknown = set(kwargs) - {"device", "dtype", "other", "blocking"}
    if unknown:
        raise TypeError(f"to() has no argument {', '.join(sorted(unknown))}")
    wanted = [kwargs.get("dtype"), kwargs.get("other"), *(a for a in args if not isinstance(a, bool))]
    found = [dtype for dtype in map(_dtype_or_none, wanted) if dtype is not None]
    return x.to(found[0]) if found else x.clone()


@reference("paddle.Tensor.value", "paddle.Tensor.pin_memory")
def same_values(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@reference("paddle.Tensor.cuda")
def cuda(x: torch.Tensor, device_id: Any = None, blocking: bool = True) -> torch.Tensor:
    return x.clone()


@reference("paddle.Tensor.reconstruct_from_", mutates=("self",), constant=("other",), no_gradient="it gives nothing")
def reconstruct_from(self: torch.Tensor, other: torch.Tensor) -> None:
    """A deep copy of ``self = other``; shape and dtype change with it."""
    self.data = other.detach().clone()


@reference("paddle.create_parameter")
def create_parameter(
    shape: Any, dtype: Any, name: Any = None, attr: Any = None, is_bias: bool = False, default_initializer: Any = None
) -> torch.Tensor:
    """A bias is zero, a weight uniform within Glorot's limit, which ``compare/random_creation.py`` knows."""
    if attr is not None or default_initializer is not None:
        raise NoEquivalent("its initializer is an object, which a config cannot write")
    wanted = torch_dtype(dtype)
    size = [int(n) for n in (shape.reshape(-1) if isinstance(shape, torch.Tensor) else shape)]
    if is_bias:
        return torch.zeros(size, dtype=wanted)
    return (2 * torch.rand(size, dtype=wanted) - 1) * glorot_limit(size)


def glorot_limit(shape: list[int]) -> float:
    """Bound of the uniform distribution of a new weight (Glorot and Bengio 2010, equation 16); fans as Paddle
    counts them, the axes after the second being a receptive field."""
    if len(shape) < 2:
        fans = 2 * (shape[0] if shape else 1)
    elif len(shape) == 2:
        fans = sum(shape)
    else:
        field = 1
        for extent in shape[2:]:
            field *= extent
        fans = field * (shape[0] + shape[1])
    return float((6 / fans) ** 0.5) if fans else 0.0


def _of(namespace: str, names: str) -> list[str]:
    return [f"{namespace}.{name}" for name in names.split()]


without_reference(
    *_of("paddle.Tensor", "backward clear_grad clear_gradient gradient register_hook requires_grad_ retain_grads"),
    why="it drives the gradient machinery, it computes nothing from a config's arguments",
)
without_reference(
    *_of("paddle.Tensor", "apply apply_"),
    why="it takes a Python function, which a config cannot write",
)
without_reference(
    *_of(
        "paddle.Tensor",
        "create_parameter create_tensor data_ptr get_device get_map_tensor get_selected_rows get_tensor is_dist "
        "is_selected_rows rows set_string_list set_tensor set_vocab",
    ),
    why="it speaks of storage, not of values",
)
without_reference(
    *_of(
        "paddle",
        "autocast check_shape disable_compat disable_signal_handler disable_static enable_compat enable_static "
        "get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype get_cuda_rng_state get_default_dtype "
        "get_flags get_rng_state in_dynamic_mode is_autocast_enabled is_grad_enabled manual_seed seed "
        "enable_grad no_grad set_cuda_rng_state set_grad_enabled set_default_dtype set_flags set_printoptions "
        "set_rng_state",
    ),
    why="it reads or changes the state of the process",
)
without_reference(*_of("paddle", "finfo iinfo"), why="it describes a dtype and takes no tensor")
without_reference(*_of("paddle", "load save"), why="it reads or writes files")
without_reference(
    *_of("paddle", "from_dlpack from_numpy to_dlpack"),
    why="it exchanges memory with another library, whose objects a config cannot write",
)
without_reference(
    *_of("paddle", "batch flops summary"),
    *_of("paddle.incubate", "inference"),
    *_of("paddle.nn.utils", "clip_grad_norm_ clip_grad_value_ remove_weight_norm spectral_norm weight_norm"),
    why="it works on layers, parameters with gradients or readers, which a config cannot write",
)
