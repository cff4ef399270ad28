"""Runs the reference rule of a case in Torch, with its backward."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .amp import Watch, torch_amp
from .dtypes import LOW_PRECISION, torch_value
from .gauges import gauge_cotangent
from .holding import torch_holder
from .inputs.makers import ordinary
from .inputs.registry import CallValues, Draw
from .prepared import PreparedCase
from .reference.registry import Reference, is_derived_inplace
from .results import SideResult, error_text, first_line
from .tensors import leaves, map_leaves, to_torch

_NO_KERNEL = re.compile(r"not implemented for '?(Half|BFloat16|Float8\w*|ComplexHalf)")


def run_torch(case: PreparedCase, reference: Reference, *, backward: bool) -> SideResult:
    """The expected results. Half precision is computed in float32 where Torch has no kernel for it.

    Raises:
        NoEquivalent: the rule says that these arguments have no meaning in Torch.
        Exception: whatever Torch raises for the call.
    """
    _seed(case.seed[1] % (1 << 63))
    result = _run_at_a_dtype(case, reference, backward)
    case.record.reference(result)
    return result


def _run_at_a_dtype(case: PreparedCase, reference: Reference, backward: bool) -> SideResult:
    try:
        return _run(case, reference, backward, upcast=False)
    except (RuntimeError, NotImplementedError) as exc:
        if not _NO_KERNEL.search(str(exc)):
            raise
    result = _run(case, reference, backward, upcast=True)
    result.notes.append("reference computed in float32 and rounded: Torch has no kernel for the dtype")
    return result


def _seed(value: int) -> None:
    """Seed the generators that exist. ``torch.manual_seed`` also queues one call a time, with its stack, for
    every kind of device that may be used later: most of a small case's time, and memory that is never freed."""
    torch.default_generator.manual_seed(value)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(value)
    if torch.xpu.is_initialized():
        torch.xpu.manual_seed_all(value)


def _run(case: PreparedCase, reference: Reference, backward: bool, *, upcast: bool) -> SideResult:
    leaf_tensors: dict[str, torch.Tensor] = {}
    copies = bool(case.mutates)

    def prepare(name: str, value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return torch_value(value)
        tensor = to_torch(value).to(case.options.torch_device)
        wanted = backward and name.partition("[")[0] not in case.constant
        if wanted and (tensor.is_floating_point() or tensor.is_complex()) and tensor.dtype.itemsize > 1:
            tensor = tensor.requires_grad_(True)
            leaf_tensors[name] = tensor
        if copies:
            tensor = tensor.clone()
        return tensor.float() if upcast and tensor.dtype in LOW_PRECISION else tensor

    values = {name: convert_named(name, value, prepare) for name, value in case.values.items()}
    args, kwargs = case.binding.split(values)
    with torch.set_grad_enabled(backward):
        # A reference in higher precision is to stay there.
        watch = Watch()
        with torch_amp(case.options, watch) if not upcast else contextlib.nullcontext():
            outputs = reference.rule(*args, **kwargs)
        changed = {name: values[name] for name in case.mutates if name in values}
        if is_derived_inplace(case.api, reference):
            # The plain rule made a new tensor. In Paddle the argument becomes it, with its dtype:
            # ``equal_`` makes a tensor of bools, ``divide_`` of integers one of floats.
            (name,) = changed or {"": None}
            if name and isinstance(outputs, torch.Tensor):
                changed = {name: outputs}
        if upcast:
            outputs, changed = map_leaves(outputs, _rounder(case)), map_leaves(changed, _rounder(case))
    result = SideResult(outputs, changed, computed_in=watch.lowered)
    if backward and leaf_tensors:
        _differentiate(case, result, leaf_tensors)
    hold = torch_holder(case)
    result.outputs = map_leaves(result.outputs, hold)
    result.changed = map_leaves(result.changed, hold)
    return result


def convert_named(name: str, value: Any, convert: Callable[[str, Any], Any]) -> Any:
    """An argument with ``convert(readable name, value)`` applied to everything in it that is no container."""
    if isinstance(value, (list, tuple)):
        return type(value)(convert_named(f"{name}[{i}]", item, convert) for i, item in enumerate(value))
    if isinstance(value, dict):
        return {k: convert_named(f"{name}[{k!r}]", item, convert) for k, item in value.items()}
    if isinstance(value, slice):
        return slice(*(convert_named(f"{name}.{p}", getattr(value, p), convert) for p in ("start", "stop", "step")))
    return convert(name, value)


def _rounder(case: PreparedCase) -> Any:
    """Casts float32 results back to the inputs' half precision."""
    found = {t.dtype for t in case.call.tensors()}
    names = [name for name in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2") if name in found]
    if not names:  # it was mixed precision that wanted the missing kernel
        return lambda value: value
    low = getattr(torch, names[0])

    def convert(value: Any) -> Any:
        return value.to(low) if isinstance(value, torch.Tensor) and value.dtype == torch.float32 else value

    return convert


def cotangent(case: PreparedCase, index: int, shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
    """The gradient fed into output ``index``: ordinary values, the same for both frameworks."""
    from ..config import TensorSpec

    name = str(dtype).removeprefix("torch.")
    spec = TensorSpec(tuple(shape), name)
    values = ordinary(Draw(CallValues("", {}, {}, ordinary, ()), spec, ("gradient",), case.rng(index)))
    return torch.from_numpy(np.asarray(values)).reshape(shape).to(dtype)


def differentiable_outputs(result: SideResult) -> list[Any]:
    """Outputs and changed arguments, flattened, in the order of ``cotangents``."""
    found = [value for _, value in leaves(result.outputs)]
    for _, value in leaves(result.changed):
        if all(value is not other for other in found):
            found.append(value)
    return found


def _differentiate(case: PreparedCase, result: SideResult, inputs: dict[str, torch.Tensor]) -> None:
    outputs = differentiable_outputs(result)
    fed: list[torch.Tensor | None] = []
    for index, value in enumerate(outputs):
        wanted = isinstance(value, torch.Tensor) and value.requires_grad and value.grad_fn is not None
        fed.append(cotangent(case, index, value.shape, value.dtype) if wanted else None)
    result.cotangents = tuple(fed)
    chosen = [
        (value, gauge_cotangent(case.gauges.get(index), value, grad.to(value.device)))
        for index, (value, grad) in enumerate(zip(outputs, fed))
        if grad is not None
    ]
    if not chosen:
        return
    try:
        found = torch.autograd.grad(
            [value for value, _ in chosen], list(inputs.values()), [grad for _, grad in chosen], allow_unused=True
        )
    except (RuntimeError, NotImplementedError) as exc:
        if _NO_KERNEL.search(str(exc)):
            raise
        result.backward_error = exc
        result.notes.append(f"gradients not compared: Torch cannot differentiate this ({first_line(error_text(exc))})")
        return
    hold = torch_holder(case)
    result.gradients = {name: hold(grad) for name, grad in zip(inputs, found) if grad is not None}
