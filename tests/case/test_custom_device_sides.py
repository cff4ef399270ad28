"""The CPU's side of ``--paddle-custom-device``, and how two runs of Paddle are judged together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest
import torch

from pytest_paddleapi.case.modes.custom_device import CpuCall
from pytest_paddleapi.case.modes.pair import Side, run_pair
from pytest_paddleapi.case.paddle_side import PaddleCall
from pytest_paddleapi.case.prepared import PreparedCase, prepare
from pytest_paddleapi.config import parse_call
from pytest_paddleapi.process.messages import CaseOptions, Mode, Verdict

X = 'Tensor([3, 4],"float16")'


@pytest.fixture(autouse=True)
def _on_cpu() -> None:
    paddle.set_device("cpu")


def prepared(config: str) -> PreparedCase:
    return prepare(parse_call(config), CaseOptions(mode=Mode.PADDLE_CUSTOM_DEVICE))


def test_the_cpu_computes_half_precision_in_float32_and_rounds() -> None:
    call = CpuCall(prepared(f"paddle.abs({X})"), backward=True)
    call.forward()
    result = call.result()
    wanted = np.abs(call.case.values["x"].astype(np.float32)).astype(np.float16)
    assert result.outputs.dtype == torch.float16
    assert np.array_equal(result.outputs.numpy(), wanted)
    assert any("computed in float32 and rounded" in note for note in result.notes)
    gradients = call.gradients(call.own_cotangents())
    assert gradients["x"].dtype == torch.float16


def test_a_changed_argument_that_is_also_returned_stays_one_output() -> None:
    call = CpuCall(prepared(f"paddle.Tensor.add_({X}, {X})"), backward=True)
    call.forward()
    assert len(call.flat_outputs()) == 1 and call.outputs is call.changed["x"]
    assert call.outputs.dtype == paddle.float16


def test_what_the_cpu_has_a_kernel_for_is_computed_as_it_stands() -> None:
    call = CpuCall(prepared('paddle.exp(Tensor([3],"float32"))'), backward=True)
    call.forward()
    assert call.result().notes == []


def test_an_error_that_is_no_missing_kernel_stays() -> None:
    call = CpuCall(prepared('paddle.add(Tensor([2],"float16"), Tensor([3],"float16"))'), backward=True)
    with pytest.raises(ValueError, match="Broadcast"):
        call.forward()


class Refusing(PaddleCall):
    """A side whose call, or whose backward run, raises."""

    text = "kernel with key (npu) of kernel `exp` is not registered"
    in_backward = False

    def function(self) -> Callable[..., Any]:
        if not self.in_backward:
            raise RuntimeError(self.text)
        return super().function()

    def gradients(self, cotangents: Any) -> dict[str, torch.Tensor]:
        if self.in_backward:
            raise RuntimeError(self.text)
        return super().gradients(cotangents)


class Broken(Refusing):
    text = "the stars are wrong"


class BrokenBackward(Broken):
    in_backward = True


class MissingBackward(Refusing):
    in_backward = True


class OutOfMemory(Refusing):
    text = "ResourceExhaustedError: out of memory"


@pytest.mark.parametrize(
    ("standard", "tested", "verdict", "says"),
    [
        (PaddleCall, PaddleCall, Verdict.PASS, ""),
        (PaddleCall, Broken, Verdict.PADDLE_ERROR, "new Paddle raised RuntimeError: the stars are wrong"),
        (Broken, PaddleCall, Verdict.PADDLE_ERROR, "old Paddle raised RuntimeError: the stars are wrong"),
        (Broken, Broken, Verdict.BOTH_ERROR, "both refuse the call"),
        (PaddleCall, Refusing, Verdict.NOT_SUPPORTED, "new Paddle: RuntimeError: kernel"),
        (Refusing, PaddleCall, Verdict.NOT_COMPARABLE, "nothing to compare new Paddle with: old Paddle"),
        (Refusing, Refusing, Verdict.NOT_SUPPORTED, "old Paddle: RuntimeError"),
        (OutOfMemory, PaddleCall, Verdict.OOM, "old Paddle"),
        (PaddleCall, OutOfMemory, Verdict.OOM, "new Paddle"),
        (Broken, OutOfMemory, Verdict.OOM, "new Paddle"),
        (PaddleCall, BrokenBackward, Verdict.PADDLE_ERROR, "new Paddle, backward raised RuntimeError"),
        (BrokenBackward, PaddleCall, Verdict.PADDLE_ERROR, "old Paddle, backward raised RuntimeError"),
    ],
)
def test_who_refuses_decides_the_verdict(
    standard: type[PaddleCall], tested: type[PaddleCall], verdict: Verdict, says: str
) -> None:
    judgement = judged(standard, tested)
    assert judgement.verdict is verdict, judgement.text
    assert says in judgement.text


@pytest.mark.parametrize(
    ("standard", "tested"),
    [(BrokenBackward, BrokenBackward), (PaddleCall, MissingBackward), (MissingBackward, PaddleCall)],
)
def test_gradients_that_cannot_be_compared_are_left_out_and_said_so(
    standard: type[PaddleCall], tested: type[PaddleCall]
) -> None:
    judgement = judged(standard, tested)
    assert judgement.verdict is Verdict.PASS
    assert judgement.measured.compared_gradients == 0
    assert any("gradients not compared" in note for note in judgement.measured.notes)


def judged(standard: type[PaddleCall], tested: type[PaddleCall]) -> Any:
    case = prepared('paddle.exp(Tensor([3],"float32"))')
    return run_pair(
        case,
        lambda stage: None,
        Side("old Paddle", lambda: standard(case, backward=True)),
        Side("new Paddle", lambda: tested(case, backward=True)),
    )
