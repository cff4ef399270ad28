"""``--paddle-custom-device``: a custom device (or XPU) with the CPU, in one process."""

from __future__ import annotations

from typing import Any

import paddle

from ...process import fatal
from ..paddle_side import PaddleCall
from ..prepared import PreparedCase
from ..results import SideResult
from ..tensors import map_leaves
from .base import Enter, Judgement
from .pair import Side, run_pair

_HALF = frozenset({paddle.float16, paddle.bfloat16})


def run_custom_device(case: PreparedCase, enter: Enter) -> Judgement:
    """The CPU first, then the device, then the comparison on the host."""
    device = case.options.device
    backward = case.backward
    cpu = Side(
        "Paddle on the CPU",
        lambda: CpuCall(case, backward=backward),
        prepare=lambda: _choose("cpu"),
    )
    tested = Side(
        f"Paddle on {device}",
        lambda: PaddleCall(case, backward=backward),
        prepare=lambda: _choose(device),
    )
    try:
        return run_pair(case, enter, cpu, tested)
    finally:
        _choose(device)


def _choose(device: str) -> None:
    paddle.set_device(device)


class CpuCall(PaddleCall):
    """The call on the CPU; where that has no kernel for half precision it computes in float32 and rounds."""

    def __init__(self, case: PreparedCase, *, backward: bool) -> None:
        super().__init__(case, backward=backward)
        self._upcast = False

    def forward(self) -> None:
        """See :meth:`.PaddleCall.forward`."""
        half = self._half()
        try:
            super().forward()
            return
        except Exception as exc:  # Paddle has several types of error for a missing kernel
            if half is None or not fatal.is_unsupported(str(exc)):
                raise
        self._upcast = True
        self.inputs = {}
        super().forward()
        # A changed argument that is also returned stays one tensor.
        rounded: dict[int, Any] = {}

        def convert(value: Any) -> Any:
            return rounded.setdefault(id(value), _rounded(value, half))

        self.outputs, self.changed = map_leaves((self.outputs, self.changed), convert)

    def _argument(self, name: str, value: Any) -> Any:
        tensor = super()._argument(name, value)
        if self._upcast and isinstance(tensor, paddle.Tensor) and tensor.dtype in _HALF:
            return tensor.astype("float32")
        return tensor

    def _half(self) -> str | None:
        """The dtype of half precision among the case's tensors."""
        found = {spec.dtype for spec in self.case.call.tensors()}
        return next((name for name in ("float16", "bfloat16") if name in found), None)

    def result(self) -> SideResult:
        """See :meth:`.PaddleCall.result`."""
        result = super().result()
        if self._upcast:
            result.notes.append("the CPU computed in float32 and rounded: it has no kernel for the dtype")
        return result


def _rounded(value: Any, dtype: str | None) -> Any:
    return value.astype(dtype) if isinstance(value, paddle.Tensor) and value.dtype == paddle.float32 else value
