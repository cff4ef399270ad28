"""``--paddle-only``: the call and its backward run, and give well-formed results."""

from __future__ import annotations

import torch

from ...process.messages import Measured, Stage, Verdict
from ..paddle_side import PaddleCall
from ..prepared import PreparedCase
from ..reference.registry import NoReference
from ..tensors import leaves
from .base import Enter, Judgement, judge_exception


def run_paddle_only(case: PreparedCase, enter: Enter) -> Judgement:
    """Run the case in Paddle alone.

    What the reference rules know to have no values (state of the process, files, gradient machinery) is not called.
    """
    if isinstance(case.reference, NoReference):
        return Judgement(Verdict.NOT_COMPARABLE, f"{case.api} is not called: {case.reference.why}")
    enter(Stage.PADDLE)
    call = PaddleCall(case, backward=case.backward)
    try:
        call.forward()
        result = call.result()
        outputs = [value for _, value in leaves(result.outputs)]
        gradients = call.gradients(call.own_cotangents())
    except Exception as exc:  # any failure of the API under test is a verdict
        return judge_exception(exc, Stage.PADDLE, "Paddle")
    enter(Stage.COMPARISON)
    problems = [
        f"gradient of {name}: shape {list(gradient.shape)}, its input has {list(call.inputs[name].shape)}"
        for name, gradient in gradients.items()
        if list(gradient.shape) != list(call.inputs[name].shape)
    ]
    if problems:
        return Judgement(Verdict.PADDLE_ACCURACY, "\n".join(problems))
    tensors = [value for value in outputs if isinstance(value, torch.Tensor)]
    if not tensors and not gradients:
        return Judgement(Verdict.NOT_COMPARABLE, "the call gives no tensor")
    measured = Measured(
        compared_outputs=len(tensors),
        compared_gradients=len(gradients),
        compared_elements=sum(t.numel() for t in tensors),
        notes=("Paddle alone: results are well formed, their values were not compared",),
    )
    return Judgement(Verdict.PASS, measured=measured)
