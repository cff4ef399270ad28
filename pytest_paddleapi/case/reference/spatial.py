"""What convolution, pooling and resampling rules share: sizes, padding, data formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F


def ints(value: Any) -> list[int]:
    """Python ints of an int, a sequence of ints (tensors among them), or an integer tensor."""
    if isinstance(value, torch.Tensor):
        return [int(v) for v in value.reshape(-1).tolist()]
    if isinstance(value, (list, tuple)):
        return [int(v) for v in value]
    return [int(value)]


def spread(value: Any, n: int, what: str) -> list[int]:
    """``value`` as ``n`` ints; a single one counts for every axis.

    Raises:
        ValueError: there are neither one nor ``n``.
    """
    values = ints(value)
    if isinstance(value, (list, tuple)) and len(values) != n:
        raise ValueError(f"{what} needs {n} numbers, it has {values}")
    if len(values) not in (1, n):
        raise ValueError(f"{what} needs one number or {n}, it has {values}")
    return values * n if len(values) == 1 else values


def channel_last(data_format: str, *, allowed: Sequence[str]) -> bool:
    """True for formats such as NHWC.

    Raises:
        ValueError: the format is not among ``allowed``.
    """
    if data_format not in allowed:
        raise ValueError(f"data_format must be one of {', '.join(allowed)}, not {data_format!r}")
    return data_format[-1] == "C" and len(data_format) > 2


def to_first(x: torch.Tensor, last: bool) -> torch.Tensor:
    """``x`` with its channels at axis 1."""
    return x.movedim(-1, 1) if last else x


def from_first(x: torch.Tensor, last: bool) -> torch.Tensor:
    """The inverse of :func:`to_first`."""
    return x.movedim(1, -1) if last else x


def padding_pairs(
    padding: Any, sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int], last: bool
) -> tuple[list[tuple[int, int]], bool]:
    """(before, after) for each spatial axis, and whether the algorithm is SAME.

    Takes every form that Paddle documents: an int, one or two ints per axis, pairs for all axes with batch
    and channel, ``SAME``, ``VALID``. SAME makes ``ceil(size / stride)`` outputs, the odd one after.

    Raises:
        ValueError: the padding has no such form.
    """
    n = len(sizes)
    if isinstance(padding, str):
        name = padding.upper()
        if name == "VALID":
            return [(0, 0)] * n, False
        if name != "SAME":
            raise ValueError(f"unknown padding {padding!r}")
        pairs = []
        for size, k, s in zip(sizes, kernel, stride):
            total = max((-(-size // s) - 1) * s + k - size, 0)
            pairs.append((total // 2, total - total // 2))
        return pairs, True
    if isinstance(padding, (list, tuple)):
        values = list(padding)
        if len(values) == n + 2 and isinstance(values[0], (list, tuple)):
            batch_channel = (values[0], values[-1]) if last else values[:2]
            if any(list(pair) != [0, 0] for pair in batch_channel):
                raise ValueError(f"padding of batch and channel must be zero: {padding}")
            inner = values[1:-1] if last else values[2:]
            return [(int(a), int(b)) for a, b in inner], False
        if len(values) == 2 * n and not isinstance(values[0], (list, tuple)):
            flat = ints(values)
            return list(zip(flat[0::2], flat[1::2])), False
        if len(values) == n and not isinstance(values[0], (list, tuple)):
            return [(p, p) for p in ints(values)], False
        raise ValueError(f"invalid padding {padding}")
    return [(p, p) for p in spread(padding, n, "padding")], False


def pad_spatial(x: torch.Tensor, pairs: Sequence[tuple[int, int]], value: float = 0.0) -> torch.Tensor:
    """Pad the trailing axes of ``x``; negative amounts crop."""
    if all(pair == (0, 0) for pair in pairs):
        return x
    return F.pad(x, [amount for pair in reversed(pairs) for amount in pair], value=value)


def zeros_from(shape: Sequence[int], *tensors: torch.Tensor | None) -> torch.Tensor:
    """Zeros that depend on ``tensors``, so that their gradients are zeros and not missing."""
    given = [t for t in tensors if t is not None]
    first = given[0]
    result = torch.zeros(tuple(shape), dtype=first.dtype, device=first.device)
    for tensor in given:
        result = result + tensor.reshape(-1)[:0].sum().to(first.dtype)
    return result


def wide(x: torch.Tensor) -> torch.Tensor:
    """``x`` in the precision that sums are taken in: float32 for half precision, which Torch also computes
    much faster on the CPU."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
