"""Times the reference of a case in Torch.

A reference rule is a Python function that reads its arguments and then calls Torch. Where it comes down to one call of
Torch (``torch.nn.functional.softmax`` with its arguments sorted), that call alone is timed, as its users would make it.
Otherwise the whole rule is, and the property ``torch_call`` says ``composed`` where it has several calls: its time is
then that of a composition, which a fused kernel of Paddle's should beat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from ..process import fatal
from ..process.messages import Stage
from .amp import torch_autocast
from .clocks import torch_clock
from .dtypes import torch_value
from .gauges import gauge_cotangent
from .prepared import PreparedCase
from .reference.registry import Reference, is_derived_inplace
from .results import SideResult, error_text, first_line
from .tensors import leaves, map_leaves, to_torch
from .timed import TimedSide, fresh_calls, time_backward
from .timing import FreshCall, Repeated, SameCall, measure
from .torch_side import NO_KERNEL, convert_named, cotangent, differentiable_outputs


def time_torch(case: PreparedCase, reference: Reference) -> TimedSide:
    """The times of the reference and of its backward run, after one run of both that is not timed.

    Raises:
        NoEquivalent: the rule says that these arguments have no meaning in Torch.
        Exception: whatever Torch raises for the call.
    """
    side = TimedSide("torch")
    options = case.options
    on_gpu = options.torch_device.startswith("cuda")
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(options.torch_device)
    with torch.set_grad_enabled(case.backward), torch_autocast(options):
        run = _first_run(case, reference)
        side.more["torch_call"] = "direct" if run.direct is not None else "composed"
        if is_derived_inplace(case.api, reference):
            side.notes.append("Torch makes a new tensor where Paddle changes its argument")
        with _without_default_device(options.torch_device, unless=run.direct is None or not run.has_tensors):
            _time(side, case, run, reference)
    if on_gpu:
        side.peak_bytes = int(torch.cuda.max_memory_allocated(options.torch_device))
        torch.cuda.empty_cache()  # what Torch keeps for itself is missing to Paddle
    return side


@dataclass
class _FirstRun:
    """The rule has run once, with these values."""

    values: dict[str, Any]
    inputs: dict[str, torch.Tensor]
    result: SideResult
    #: The only call of Torch in it, bound; None where there are more.
    direct: _Call | None

    @property
    def has_tensors(self) -> bool:
        """There is a tensor among the arguments, to say which device is meant."""
        return any(isinstance(value, torch.Tensor) for _, value in leaves(self.values))


@dataclass(frozen=True)
class _Call:
    """One call of a Torch function."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


class _Recorder(TorchFunctionMode):
    """Keeps the calls of Torch that give or change tensors; not those that one of them makes inside."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[_Call, Any]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Make the call; everything but questions about a tensor's form and values counts."""
        result = func(*args, **(kwargs or {}))
        if result is None or any(isinstance(value, torch.Tensor) for _, value in leaves(result)):
            self.calls.append((_Call(func, tuple(args), dict(kwargs or {})), result))
        return result


def _arguments(case: PreparedCase) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Arguments by name, and those of them that get a gradient. What the call changes is a copy."""
    inputs: dict[str, torch.Tensor] = {}

    def make(name: str, value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return torch_value(value)
        tensor = to_torch(value).to(case.options.torch_device)
        wanted = case.backward and name.partition("[")[0] not in case.constant
        if wanted and (tensor.is_floating_point() or tensor.is_complex()) and tensor.dtype.itemsize > 1:
            inputs[name] = tensor = tensor.requires_grad_(True)
        return tensor.clone() if case.mutates else tensor

    return {name: convert_named(name, value, make) for name, value in case.values.items()}, inputs


def _first_run(case: PreparedCase, reference: Reference) -> _FirstRun:
    values, inputs = _arguments(case)
    args, kwargs = case.binding.split(values)
    with _Recorder() as recorder:
        outputs = reference.rule(*args, **kwargs)
    changed = {name: values[name] for name in case.mutates if name in values}
    direct = None
    # A setter gives None, and then the rule's own result is another.
    if len(recorder.calls) == 1 and recorder.calls[0][1] is outputs:
        direct = recorder.calls[0][0]
    return _FirstRun(values, inputs, SideResult(outputs, changed), direct)


def _time(side: TimedSide, case: PreparedCase, run: _FirstRun, reference: Reference) -> None:
    clock, options = torch_clock(case.options.torch_device), case.options.timing
    backward = _backward(case, run)
    if backward is not None:
        try:
            time_backward(side, backward, clock, options)
        except (RuntimeError, NotImplementedError) as exc:
            if NO_KERNEL.search(str(exc)) or fatal.classify(f"{type(exc).__name__}: {exc}", Stage.REFERENCE):
                raise
            why = first_line(error_text(exc))
            side.notes.append(f"torch backward not timed: Torch cannot differentiate this ({why})")
        del backward
    run.result = SideResult(None)  # with all that its graph has saved
    side.times["forward"] = measure(_forward(case, run, reference), clock, options)


def _backward(case: PreparedCase, run: _FirstRun) -> Callable[[], Any] | None:
    chosen = []
    for index, value in enumerate(differentiable_outputs(run.result)):
        if isinstance(value, torch.Tensor) and value.requires_grad and value.grad_fn is not None:
            fed = cotangent(case, index, value.shape, value.dtype).to(value.device)
            chosen.append((value, gauge_cotangent(case.gauges.get(index), value, fed)))
    if not case.backward or not run.inputs or not chosen:
        return None
    return partial(
        torch.autograd.grad,
        [value for value, _ in chosen],
        list(run.inputs.values()),
        [fed for _, fed in chosen],
        retain_graph=True,
        allow_unused=True,
    )


def _forward(case: PreparedCase, run: _FirstRun, reference: Reference) -> Repeated:
    if not case.mutates:
        return SameCall(_bound(case, run, reference, run.values))
    return FreshCall(lambda: _bound(case, run, reference, _arguments(case)[0]), fresh_calls(case))


def _bound(case: PreparedCase, run: _FirstRun, reference: Reference, values: dict[str, Any]) -> Callable[[], Any]:
    """The call of Torch with these arguments in place of the first run's, or else the rule."""
    if run.direct is None:
        args, kwargs = case.binding.split(values)
        return partial(reference.rule, *args, **kwargs)
    # The two have one structure, so their leaves go together.
    old_and_new = zip(leaves(run.values), leaves(values))
    new = {id(old): value for (_, old), (_, value) in old_and_new if isinstance(old, torch.Tensor)}

    def renew(value: Any) -> Any:
        return new.get(id(value), value)

    found = run.direct
    return partial(found.function, *map_leaves(found.args, renew), **map_leaves(dict(found.kwargs), renew))


@contextmanager
def _without_default_device(device: str, *, unless: bool) -> Iterator[None]:
    """A default device is a hook in Python around each call of Torch, which costs as much as a small kernel."""
    if unless or device == "cpu":
        yield
        return
    torch.set_default_device(None)
    try:
        yield
    finally:
        torch.set_default_device(device)
