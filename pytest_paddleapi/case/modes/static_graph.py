"""``--paddle-cinn``: eager Paddle with the (compiled) static graph of the same call."""

from __future__ import annotations

import msgspec
import torch

from ...process.messages import Verdict
from ..amp import amp_dtype
from ..paddle_side import PaddleCall
from ..prepared import PreparedCase
from ..static_side import Capture, StaticCall, release_graphs
from .base import Enter, Judgement
from .pair import Side, run_pair

_STATIC = "Paddle's static graph"


def run_paddle_cinn(case: PreparedCase, enter: Enter) -> Judgement:
    """Eager first, then the graph, then the comparison."""
    captures: list[Capture] = []

    def inspect(call: PaddleCall) -> Judgement | None:
        assert isinstance(call, StaticCall) and call.capture is not None
        captures.append(call.capture)
        if case.options.amp and _lowered(call.capture, amp_dtype(case.options)):
            call.watch.lowered = amp_dtype(case.options)
        return _not_captured(call.capture)

    eager = Side("eager Paddle", lambda: PaddleCall(case, backward=case.backward))
    static = Side(_STATIC, lambda: StaticCall(case, backward=case.backward), inspect=inspect)
    judgement = run_pair(case, enter, eager, static)
    release_graphs()
    return _told(judgement, captures[0], case.options.static_backend) if captures else judgement


def _lowered(capture: Capture, dtype: torch.dtype) -> bool:
    """An operation of the graph gives this dtype; the counts of eager calls do not see it."""
    return ("f16" if dtype is torch.float16 else "bf16") in capture.halves


def _not_captured(capture: Capture) -> Judgement | None:
    """The verdict where there is no graph to speak of."""
    if capture.eager:
        return Judgement(
            Verdict.NOT_COMPARABLE, "to_static ran the call eagerly: there is no static graph to compare with"
        )
    if not capture.operations:
        return Judgement(
            Verdict.NOT_COMPARABLE,
            "the static graph has no operation: the call gives only what is known while the graph is built",
        )
    return None


def _told(judgement: Judgement, capture: Capture, backend: str) -> Judgement:
    """The judgement, with what was compared."""
    measured = judgement.measured
    note = f"eager Paddle with its static graph of {capture.operations} operations"
    more: dict[str, int | float | str] = {"graph_operations": capture.operations}
    if backend == "CINN":
        more["cinn_kernels"] = capture.cinn_kernels
        note += (
            f", {capture.cinn_kernels} kernels compiled by CINN" if capture.cinn_kernels else ", none compiled by CINN"
        )
    else:
        note += ", not compiled"
    measured = msgspec.structs.replace(measured, notes=(note, *measured.notes), more={**measured.more, **more})
    return Judgement(judgement.verdict, judgement.text, measured, judgement.fatal)
