"""Conversions, parameters, and names at Paddle's top that live elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from pytest_paddleapi.case.reference.storage import glorot_limit
from pytest_paddleapi.process.messages import CaseResult, Verdict

from .support import check_row, rule

X = 'Tensor([3, 4],"float32")'
PASSING = [
    # call, compared outputs, compared gradients
    (f'paddle.Tensor.to({X}, "float64")', 1, 1),
    (f'paddle.Tensor.to({X}, "cpu", "float16")', 1, 1),
    (f'paddle.Tensor.to({X}, Tensor([1],"int32"))', 1, 0),
    ('paddle.Tensor.to(Tensor([3],"int64"), dtype="float32")', 1, 0),
    (f'paddle.Tensor.to({X}, "cpu")', 1, 1),
    (f"paddle.Tensor.value({X})", 1, 1),
    ('paddle.Tensor.reconstruct_from_(Tensor([3],"float32"), Tensor([2, 2],"int64"))', 2, 0),
    ('paddle.create_parameter(list[30, 20], "float32")', 1, 0),
    ('paddle.create_parameter(list[8, 4, 3, 3], dtype="float64")', 1, 0),
    ('paddle.create_parameter(list[30], "float32", is_bias=True)', 1, 0),
    (f"paddle.layer_norm({X}, 4)", 1, 1),
    ('paddle.conv2d(Tensor([1, 2, 5, 5],"float32"), Tensor([3, 2, 3, 3],"float32"))', 1, 2),
    ('paddle.adaptive_avg_pool1d(Tensor([2, 4, 7],"float32"), 3)', 1, 1),
]


@pytest.mark.parametrize("row", PASSING, ids=lambda row: row[0])
def test_paddle_agrees(run_case: Callable[..., CaseResult], row: tuple[str, int, int]) -> None:
    check_row(run_case, row)


@pytest.mark.parametrize("name", ["cuda", "pin_memory"])
def test_what_only_a_gpu_build_has_is_not_supported(run_case: Callable[..., CaseResult], name: str) -> None:
    assert run_case(f"paddle.Tensor.{name}({X})").verdict is Verdict.NOT_SUPPORTED


def test_paddle_alone_asks_for_no_gradient_where_there_is_none(run_case: Callable[..., CaseResult]) -> None:
    from pytest_paddleapi.process.messages import Mode

    result = run_case(f"paddle.grad({X}, {X})", mode=Mode.PADDLE_ONLY)
    assert result.verdict is Verdict.PASS, result.text
    assert not result.measured.compared_gradients


def test_an_unknown_argument_of_to_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        rule("Tensor.to")(torch.ones(2), colour="red")


@pytest.mark.parametrize(("shape", "fans"), [([30, 20], 50), ([8, 4, 3, 3], 9 * 12), ([7], 14), ([], 2)])
def test_the_limit_of_a_new_weight(shape: list[int], fans: int) -> None:
    assert glorot_limit(shape) == pytest.approx((6 / fans) ** 0.5)
