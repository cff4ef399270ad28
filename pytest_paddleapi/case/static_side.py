"""Runs a case as a static graph of Paddle: the same call under ``paddle.jit.to_static``."""

from __future__ import annotations

import gc
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import paddle

from .callables import paddle_function
from .paddle_side import PaddleCall
from .results import SideResult
from .tensors import map_leaves

#: What is in every program: its arguments and its results.
_FRAME = frozenset({"pd_op.data", "builtin.shadow_output", "builtin.parameter", "builtin.set_parameter"})
#: Dialects of what CINN has compiled.
_CINN = ("cinn_runtime.", "cinn_op.")
#: As types of values are printed, such as ``pd_op.tensor<2x3xbf16>``.
_HALF = re.compile(r"(?<=[<x])b?f16(?=>)")


@dataclass(frozen=True)
class Capture:
    """What became of the call when the graph was built."""

    #: ``to_static`` ran the call eagerly instead.
    eager: bool
    #: Operations of the graph, without those for its arguments and results.
    operations: int
    #: Kernels that CINN compiled for the forward run.
    cinn_kernels: int
    #: Which dtypes of 16 bits the operations give: ``f16``, ``bf16``.
    halves: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Slot:
    """The place of a tensor among the arguments."""

    index: int


class StaticCall(PaddleCall):
    """The call as a static graph that is built, perhaps compiled, and run. Gradients go through it.

    What an adapter makes of arguments and results is outside the graph. An in-place API gives what the argument would
    become as its result; what a graph changes otherwise does not leave it.
    """

    capture: Capture | None = None
    #: The call changes an argument, and the graph does not give it.
    keeps_change = False

    def call(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Build the graph and run it.

        Raises:
            Exception: whatever Paddle raises while it builds, compiles or runs it.
        """
        tensors: list[paddle.Tensor] = []

        def slot(value: Any) -> Any:
            if not isinstance(value, paddle.Tensor):
                return value
            tensors.append(value)
            return _Slot(len(tensors) - 1)

        template = map_leaves((args, kwargs), slot)
        ran_eagerly = False
        failure: Exception | None = None

        def traced(given: list[Any]) -> Any:
            nonlocal ran_eagerly, failure
            ran_eagerly = paddle.in_dynamic_mode()
            fill = map_leaves(template, lambda value: given[value.index] if isinstance(value, _Slot) else value)
            try:
                return _invoke(self.case.api, *fill)
            except Exception as exc:
                failure = exc
                raise

        backend = "CINN" if self.case.options.static_backend == "CINN" else None
        # Its source is ours, not the case's: rewriting it costs 30 ms and leaves a file in the user's home.
        static = paddle.jit.to_static(paddle.jit.not_to_static(traced), full_graph=True, backend=backend)
        with warnings.catch_warnings():
            # Paddle's own code asks graph values for what they do not have, and warns of that.
            warnings.simplefilter("ignore")
            try:
                outputs = static(tensors)
            except Exception:
                if failure is not None:
                    # Paddle raises it anew, with the source of the functions above in front.
                    raise failure from None
                raise
        self.capture = _captured(static, eager=ran_eagerly)
        return outputs

    def keep_changed(self, values: Mapping[str, Any]) -> None:
        """An argument that the API changes and returns is what came back; of others nothing is known."""
        first, *others = self.case.mutates or ("",)
        if not first or others or not self._returns_changed():
            self.changed = {}
            self.keeps_change = bool(first)
            return
        self.changed = {first: self.outputs}
        if self.case.api.endswith("__setitem__"):
            self.outputs = None

    def result(self) -> SideResult:
        """See :meth:`.PaddleCall.result`."""
        result = super().result()
        if self.keeps_change:
            result.notes.append("arguments that the call changes are not compared: a graph gives its results alone")
        return result

    def _returns_changed(self) -> bool:
        return self.case.inplace or self.case.api.endswith("__setitem__")


def _invoke(api: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call ``api``; a method is looked up on the graph's value, which is no ``paddle.Tensor``."""
    parts = api.split(".")
    given = [*args, *kwargs.values()]
    if parts[:-1] != ["paddle", "Tensor"] or not given or not isinstance(given[0], paddle.pir.Value):
        return paddle_function(api)(*args, **kwargs)
    method = getattr(given[0], parts[-1])
    if args:
        return method(*args[1:], **kwargs)
    return method(**dict(list(kwargs.items())[1:]))


def _captured(static: Any, *, eager: bool) -> Capture:
    if eager or not len(static.program_cache):
        return Capture(True, 0, 0)
    program, layer = static.program_cache.last()[1]
    operations = [op for op in program.main_program.global_block().ops if op.name() not in _FRAME]
    compiled = [op.name() for op in layer.program.forward_program.global_block().ops]
    halves = {found for op in operations for value in op.results() for found in _HALF.findall(str(value.type()))}
    kernels = sum(name.startswith(_CINN) for name in compiled)
    return Capture(False, len(operations), kernels, frozenset(halves))


def release_graphs() -> None:
    """Let go of the graphs of a case that nobody holds any more. Without it each one keeps an executor with five
    threads for as long as the process lives."""
    gc.collect()
    paddle.base.core.clear_executor_cache()
