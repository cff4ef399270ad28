"""Automatic mixed precision (``--paddleapi-amp``): both frameworks' contexts, and what they make of a comparison.

Level O1 casts the inputs of some operations (matrix products, convolutions) to a dtype of 16 bits, and those of
others (sums, exponentials) to float32. Which ones they are each framework decides by lists of its own, and Paddle's
has no effect on the CPU. So results may differ in dtype, and be less exact than their dtype says. Each side is
watched for what it really computed in (:attr:`~.results.SideResult.computed_in`), and the comparison goes by that.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import paddle
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..process.messages import CaseOptions
from .tensors import leaves, map_leaves

#: From the coarsest to the finest, by the bits of the mantissa.
_BY_EXACTNESS = (torch.bfloat16, torch.float16, torch.float32)
_STATS_FLAG = "FLAGS_low_precision_op_list"


def amp_dtype(options: CaseOptions) -> torch.dtype:
    """The dtype that both sides lower to: float16 where one of them computes on an accelerator, as both frameworks
    have it by default there, bfloat16 on the CPU, where float16 has few kernels."""
    on_cpu = options.device == options.torch_device == "cpu"
    return torch.bfloat16 if on_cpu else torch.float16


def paddle_autocast(options: CaseOptions) -> contextlib.AbstractContextManager[Any]:
    """Paddle's context, where the options ask for it, with nothing of ours in it that takes time."""
    if not options.amp:
        return contextlib.nullcontext()
    context: contextlib.AbstractContextManager[Any] = paddle.amp.auto_cast(level="O1", dtype=_name(amp_dtype(options)))
    return context


def torch_autocast(options: CaseOptions) -> contextlib.AbstractContextManager[Any]:
    """Torch's context, where the options ask for it, with nothing of ours in it that takes time."""
    if not options.amp:
        return contextlib.nullcontext()
    return torch.autocast(torch.device(options.torch_device).type, dtype=amp_dtype(options))


class Watch:
    """What one side computed in; ``lowered`` is known after the context."""

    def __init__(self) -> None:
        self.lowered: torch.dtype | None = None


@contextlib.contextmanager
def paddle_amp(options: CaseOptions, watch: Watch) -> Iterator[None]:
    """Paddle's context, where the options ask for it."""
    if not options.amp:
        yield
        return
    dtype = amp_dtype(options)
    paddle.base.core.clear_low_precision_op_list()
    paddle.set_flags({_STATS_FLAG: 1})
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="amp_guard can only be enabled")
            with paddle.amp.auto_cast(level="O1", dtype=_name(dtype)):
                yield
    finally:
        watch.lowered = _counted(paddle.base.core.get_low_precision_op_list(), dtype)
        paddle.set_flags({_STATS_FLAG: 0})


def _counted(calls: Mapping[str, Any], dtype: torch.dtype) -> torch.dtype | None:
    """``dtype`` if a call computed in it. Counts are in the order float16, bfloat16, float32, others."""
    place = 0 if dtype is torch.float16 else 1
    for counts in calls.values():
        numbers = counts.split(",") if isinstance(counts, str) else counts
        if int(numbers[place]):
            return dtype
    return None


@contextlib.contextmanager
def torch_amp(options: CaseOptions, watch: Watch) -> Iterator[None]:
    """Torch's context, where the options ask for it."""
    if not options.amp:
        yield
        return
    dtype = amp_dtype(options)
    seen = _Seen(dtype)
    with seen, torch_autocast(options):
        yield
    watch.lowered = dtype if seen.found else None


class _Seen(TorchDispatchMode):
    """Looks for a dtype among what operations give, below autocast."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self.found = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not self.found:
            self.found = any(getattr(value, "dtype", None) is self.dtype for _, value in leaves(result))
        return result


def coarsest(*dtypes: torch.dtype | None) -> torch.dtype | None:
    """The least exact of those that are given and have at most 32 bits; None where none is."""
    found = [dtype for dtype in dtypes if dtype in _BY_EXACTNESS]
    return min(found, key=_BY_EXACTNESS.index) if found else None


def in_one_dtype(actual: Any, expected: Any) -> tuple[Any, Any]:
    """Both results, with pairs of floats that differ in dtype rounded to the coarser of the two.

    Results of another structure, or of wider dtypes, stay as they are: the comparison will say so.
    """
    left, right = dict(leaves(actual)), dict(leaves(expected))
    common = {path: _common(left[path], right[path]) for path in left if path in right}
    if all(dtype is None for dtype in common.values()) or list(left) != list(right):
        return actual, expected
    return _rounded(actual, common), _rounded(expected, common)


def _common(actual: Any, expected: Any) -> torch.dtype | None:
    if not (isinstance(actual, torch.Tensor) and isinstance(expected, torch.Tensor)):
        return None
    dtypes = (actual.dtype, expected.dtype)
    return coarsest(*dtypes) if dtypes[0] != dtypes[1] and all(d in _BY_EXACTNESS for d in dtypes) else None


def _rounded(value: Any, wanted: Mapping[str, torch.dtype | None]) -> Any:
    # In the order of leaves(), which map_leaves() shares.
    order = iter(wanted.values())

    def convert(leaf: Any) -> Any:
        dtype = next(order)
        return leaf if dtype is None else leaf.to(dtype)

    return map_leaves(value, convert)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
