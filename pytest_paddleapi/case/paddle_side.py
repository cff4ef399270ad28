"""Runs a case in Paddle, with its backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import paddle
import torch

from .adapters.registry import find_adapter
from .amp import Watch, paddle_amp
from .callables import paddle_function
from .dtypes import CARRIER, paddle_value, torch_dtype
from .gauges import gauge_cotangent
from .holding import paddle_holder
from .prepared import PreparedCase
from .results import SideResult
from .tensors import leaves, map_leaves, paddle_to_torch, to_paddle
from .torch_side import convert_named, cotangent

_DIFFERENTIABLE = frozenset(
    {paddle.float16, paddle.bfloat16, paddle.float32, paddle.float64, paddle.complex64, paddle.complex128}
)


class PaddleCall:
    """One call in Paddle, in two steps, so that a failure of the backward run can be told apart."""

    def __init__(self, case: PreparedCase, *, backward: bool) -> None:
        self.case = case
        self.backward = backward
        self.inputs: dict[str, paddle.Tensor] = {}
        self.outputs: Any = None
        self.changed: dict[str, Any] = {}
        self.watch = Watch()

    def forward(self) -> None:
        """Make the arguments and call.

        Raises:
            MissingApiError, ClosedApiError: there is no such API, or it is not for configs.
            Exception: whatever Paddle raises.
        """
        case = self.case
        paddle.seed(case.seed[1] % (1 << 31))
        call, values = self.bound()
        with paddle_amp(case.options, self.watch):
            found = call()
        self.outputs = find_adapter(case.api).results(found)
        self.keep_changed(values)

    def function(self) -> Callable[..., Any]:
        """What is called with the arguments.

        Raises:
            MissingApiError, ClosedApiError: there is no such API, or it is not for configs.
        """
        found: Callable[..., Any] = paddle_function(self.case.api)
        return found

    def keep_changed(self, values: Mapping[str, Any]) -> None:
        """Keep those of the arguments that the call changes."""
        self.changed = {name: values[name] for name in self.case.mutates if name in values}

    def bound(self) -> tuple[Callable[[], Any], dict[str, Any]]:
        """The call with new arguments, which it may change, and the arguments by name.

        Raises:
            MissingApiError, ClosedApiError: there is no such API, or it is not for configs.
        """
        case = self.case
        values = {name: convert_named(name, value, self._argument) for name, value in case.values.items()}
        args, kwargs = case.binding.split(find_adapter(case.api).arguments(values))
        return partial(self.function(), *args, **kwargs), values

    def _argument(self, name: str, value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return paddle_value(value)
        tensor = to_paddle(value)
        wanted = self.backward and name.partition("[")[0] not in self.case.constant
        if wanted and tensor.dtype in _DIFFERENTIABLE:
            tensor.stop_gradient = False
            self.inputs[name] = tensor
            if self.case.mutates:
                # Paddle refuses to change a leaf that wants a gradient in place.
                return tensor.clone()
        return tensor

    def flat_outputs(self) -> list[Any]:
        """Outputs, then changed arguments that are not among them."""
        found = [value for _, value in leaves(self.outputs)]
        return found + [value for _, value in leaves(self.changed) if all(value is not other for other in found)]

    def differentiable(self) -> list[bool]:
        """For each of :meth:`flat_outputs`: does Paddle say that it has a gradient?"""
        return [isinstance(v, paddle.Tensor) and not v.stop_gradient for v in self.flat_outputs()]

    def own_cotangents(self) -> tuple[torch.Tensor | None, ...]:
        """Output gradients made after Paddle's own results, where there is no reference to share them with."""
        fed: list[torch.Tensor | None] = []
        for index, (value, possible) in enumerate(zip(self.flat_outputs(), self.differentiable())):
            shape, dtype = (torch.Size(value.shape), torch_dtype(value.dtype)) if possible else (None, None)
            fed.append(cotangent(self.case, index, shape, dtype) if shape is not None and dtype else None)
        return tuple(fed)

    def gradients(self, cotangents: Sequence[torch.Tensor | None]) -> dict[str, Any]:
        """Gradients of the inputs for these output gradients, held as results are; inputs that get none are left out.

        Raises:
            Exception: whatever Paddle raises in its backward run.
        """
        run = self.differentiation(cotangents)
        found = run() if run is not None else ()
        hold = paddle_holder(self.case)
        gradients = {name: hold(grad) for name, grad in zip(self.inputs, found) if grad is not None}
        self.case.record.paddle_gradients(gradients)
        return gradients

    def differentiation(
        self, cotangents: Sequence[torch.Tensor | None], *, retain_graph: bool = False
    ) -> Callable[[], list[paddle.Tensor | None]] | None:
        """The backward run, with everything ready that it takes; None where there is none. It gives one gradient for
        each of :attr:`inputs`, and can run again if it is to ``retain_graph``."""
        chosen = [
            (value, self._fed(index, value, grad))
            for index, (value, grad, possible) in enumerate(zip(self.flat_outputs(), cotangents, self.differentiable()))
            if possible and grad is not None
        ]
        if not chosen or not self.inputs:
            return None
        self.case.record.paddle_fed(cotangents)
        return partial(
            paddle.grad,
            [value for value, _ in chosen],
            list(self.inputs.values()),
            grad_outputs=[grad for _, grad in chosen],
            retain_graph=retain_graph,
            allow_unused=True,
        )

    def _fed(self, index: int, value: paddle.Tensor, weight: torch.Tensor) -> paddle.Tensor:
        gauge = self.case.gauges.get(index)
        fed = _from_torch(gauge_cotangent(gauge, paddle_to_torch(value), weight) if gauge else weight)
        # Under mixed precision the side that the weight was made for may have an output of another dtype.
        return fed.astype(value.dtype) if self.case.options.amp and fed.dtype != value.dtype else fed

    def result(self) -> SideResult:
        """The results where they stay until they are compared: Torch tensors, or see :mod:`.holding`."""
        hold = paddle_holder(self.case)
        outputs, changed = map_leaves(self.outputs, hold), map_leaves(self.changed, hold)
        result = SideResult(outputs, changed, computed_in=self.watch.lowered)
        self.case.record.paddle(result)
        return result


def _from_torch(tensor: torch.Tensor) -> paddle.Tensor:
    name = str(tensor.dtype).removeprefix("torch.")
    if name == "bfloat16":
        return paddle.to_tensor(tensor.view(torch.int16).numpy().view(np.uint16))
    if name in CARRIER:
        # Every float8 value is a float32 value too, so the cast changes nothing.
        return paddle.to_tensor(tensor.float().numpy()).cast(name)
    return paddle.to_tensor(tensor.numpy())
