"""Matrix and vector products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .registry import NoEquivalent, reference


@reference("paddle.matmul", "paddle.linalg.matmul", constant=("out",))
def matmul(
    x: torch.Tensor,
    y: torch.Tensor,
    transpose_x: bool = False,
    transpose_y: bool = False,
    name: Any = None,
    *,
    out: Any = None,
) -> torch.Tensor:
    """A transpose flag has no effect on a vector (documentation of ``paddle.matmul``)."""
    x, y = real_with_complex(x, y)
    if transpose_x and x.dim() > 1:
        x = x.transpose(-1, -2)
    if transpose_y and y.dim() > 1:
        y = y.transpose(-1, -2)
    return torch.matmul(x, y)


def real_with_complex(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Paddle promotes a real side to the complex dtype of the other, and mixes no other dtypes in a product.

    Raises:
        TypeError: dtypes that Paddle does not mix.
    """
    if x.dtype == y.dtype:
        return x, y
    if not (x.is_complex() or y.is_complex()):
        raise TypeError(f"both sides of a product have one dtype, not {x.dtype} and {y.dtype}")
    dtype = torch.promote_types(x.dtype, y.dtype)
    return x.to(dtype), y.to(dtype)


@reference("paddle.mm")
def mm(input: torch.Tensor, mat2: torch.Tensor, name: Any = None) -> torch.Tensor:
    """Unlike Torch's, it takes batches and vectors as ``matmul`` does."""
    return matmul(input, mat2)


@reference("paddle.Tensor.__matmul__")
def matmul_operator(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return matmul(x, y)


@reference("paddle.Tensor.__rmatmul__")
def matmul_reflected(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return matmul(y, x)


@reference("paddle.bmm", constant=("out",))
def bmm(x: torch.Tensor, y: torch.Tensor, name: Any = None, *, out: Any = None) -> torch.Tensor:
    return torch.bmm(x, y)


@reference("paddle.mv")
def mv(x: torch.Tensor, vec: torch.Tensor, name: Any = None) -> torch.Tensor:
    return torch.mv(x, vec)


@reference("paddle.dot", constant=("out",))
def dot(x: torch.Tensor, y: torch.Tensor, name: Any = None, *, out: Any = None) -> torch.Tensor:
    """The first axis of matrices is a batch axis; complex numbers are not conjugated."""
    if x.dim() > 2 or x.dim() < 1 or x.shape != y.shape:
        raise ValueError(f"dot takes vectors or rows of vectors of one shape, not {list(x.shape)} and {list(y.shape)}")
    return (x * y).sum(-1, dtype=torch.result_type(x, y))


@reference("paddle.vecdot", "paddle.linalg.vecdot")
def vecdot(x: torch.Tensor, y: torch.Tensor, axis: Any = -1, name: Any = None) -> torch.Tensor:
    """The first argument is conjugated (as in the array API standard)."""
    return (x.conj() * y).sum(axis)


@reference("paddle.inner")
def inner(x: torch.Tensor, y: torch.Tensor, name: Any = None) -> torch.Tensor:
    """Sums over the last axes; a 0-D tensor scales. The shape is ``x.shape[:-1] + y.shape[:-1]``."""
    return torch.inner(x, y)


@reference("paddle.outer", "paddle.ger", constant=("out",))
def outer(x: torch.Tensor, y: torch.Tensor, name: Any = None, *, out: Any = None) -> torch.Tensor:
    """Tensors of any shape are flattened first."""
    mixed = x.dtype != y.dtype and not (x.is_complex() or y.is_complex())
    if mixed and not (x.is_floating_point() and y.is_floating_point()):
        raise TypeError(f"Paddle does not mix integers with floats of a tensor: {x.dtype} and {y.dtype}")
    return x.reshape(-1, 1) * y.reshape(1, -1)


@reference("paddle.addmm")
def addmm(
    input: torch.Tensor, x: torch.Tensor, y: torch.Tensor, beta: float = 1.0, alpha: float = 1.0, name: Any = None
) -> torch.Tensor:
    return torch.addmm(input, x, y, beta=beta, alpha=alpha)


@reference("paddle.baddbmm")
def baddbmm(
    input: torch.Tensor, x: torch.Tensor, y: torch.Tensor, beta: float = 1.0, alpha: float = 1.0, name: Any = None
) -> torch.Tensor:
    """A matrix as ``input`` has a row for each batch: Paddle asks for the batch size of ``x`` in its first axis."""
    if input.dim() == 2:
        if input.shape[0] != x.shape[0]:
            raise ValueError(f"input has {input.shape[0]} rows for {x.shape[0]} batches")
        input = input.unsqueeze(1)
    return torch.baddbmm(input, x, y, beta=beta, alpha=alpha)


@reference("paddle.linalg.multi_dot")
def multi_dot(x: Sequence[torch.Tensor], name: Any = None) -> torch.Tensor:
    return torch.linalg.multi_dot(list(x))


@reference("paddle.einsum")
def einsum(equation: str, *operands: torch.Tensor) -> torch.Tensor:
    if any(not isinstance(operand, torch.Tensor) for operand in operands):
        raise TypeError("operands are separate arguments")
    return torch.einsum(equation, *operands)


@reference("paddle.kron")
def kron(x: torch.Tensor, y: torch.Tensor, name: Any = None) -> torch.Tensor:
    return torch.kron(*real_with_complex(x, y))


@reference("paddle.tensordot", constant=("axes",))
def tensordot(x: torch.Tensor, y: torch.Tensor, axes: Any = 2, name: Any = None) -> torch.Tensor:
    """Axes of one list apply to both sides, a shorter list is continued by the longer, and an axis of
    extent 1 meets one of any extent, which is summed (documentation of ``paddle.tensordot``)."""
    axes_x, axes_y = _tensordot_axes(axes, x.dim())
    for axis_x, axis_y in zip(axes_x, axes_y):
        if x.shape[axis_x] == 1:
            y = y.sum(axis_y, keepdim=True)
        elif y.shape[axis_y] == 1:
            x = x.sum(axis_x, keepdim=True)
    return torch.tensordot(x, y, dims=(axes_x, axes_y))


def _tensordot_axes(axes: Any, rank_x: int) -> tuple[list[int], list[int]]:
    if isinstance(axes, torch.Tensor) and axes.dim() == 0:
        raise TypeError("a tensor of axes is a list of them")
    axes = _plain(axes)
    if isinstance(axes, int):
        if axes < 0:
            raise ValueError(f"axes must not be negative, it is {axes}")
        return list(range(rank_x - axes, rank_x)), list(range(axes))
    parts = [_plain(part) for part in axes]
    if not parts or isinstance(parts[0], int):
        first, second = parts, list[int]()
    else:
        first = list(parts[0])
        second = list(parts[1]) if len(parts) > 1 else []
    if len(first) < len(second):
        first = first + second[len(first) :]
    else:
        second = second + first[len(second) :]
    return first, second


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, torch.Tensor) else value


@reference("paddle.cross", "paddle.linalg.cross")
def cross(x: torch.Tensor, y: torch.Tensor, axis: int | None = 9, name: Any = None) -> torch.Tensor:
    """The default, 9, means the first axis of extent 3."""
    if x.shape != y.shape:
        raise ValueError(f"both sides have one shape, not {list(x.shape)} and {list(y.shape)}")
    if axis is None or axis == 9:
        axis = next((i for i, extent in enumerate(x.shape) if extent == 3), None)
        if axis is None:
            raise ValueError(f"no axis of {list(x.shape)} has extent 3")
    return torch.linalg.cross(x, y, dim=axis)


@reference("paddle.add_n", "paddle.Tensor.add_n")
def add_n(inputs: torch.Tensor | Sequence[torch.Tensor], name: Any = None) -> torch.Tensor:
    if isinstance(inputs, torch.Tensor):
        return inputs.clone()
    first, *others = inputs
    if not others:
        return first.clone()
    if any(other.shape != first.shape for other in others):
        raise ValueError("add_n takes tensors of one shape")
    low = first.dtype in (torch.float16, torch.bfloat16)
    # Paddle documents a sum, not an order of rounding: half precision is accumulated in float32.
    total = first.float() if low else first
    for other in others:
        total = total + other
    return total.to(first.dtype)


@reference("paddle.linalg.fp8_fp8_half_gemm_fused", no_gradient="an inference operator")
def fp8_gemm(
    x: torch.Tensor,
    y: torch.Tensor,
    transpose_x: bool = False,
    transpose_y: bool = False,
    bias: torch.Tensor | None = None,
    scale: float = 1.0,
    output_dtype: str = "float16",
    act: str = "identity",
    name: Any = None,
) -> torch.Tensor:
    """``act(scale * x @ y + bias)`` in the output's dtype."""
    activations = {"identity": lambda t: t, "relu": torch.relu, "gelu": torch.nn.functional.gelu}
    if act not in activations:
        raise NoEquivalent(f"activation {act!r}")
    a, b = x.float(), y.float()
    product = torch.matmul(a.mT if transpose_x else a, b.mT if transpose_y else b) * scale
    if bias is not None:
        product = product + bias.float()
    return activations[act](product).to({"float16": torch.float16, "bfloat16": torch.bfloat16}[output_dtype])
