"""Estimates of device memory: counted by hand, and measured with Paddle's own statistics."""

from __future__ import annotations

import gc
import inspect
import time
from collections.abc import Callable
from typing import Any

import paddle
import pytest
import torch

from pytest_paddleapi.case.binding import bind
from pytest_paddleapi.case.compare.registry import find_comparator
from pytest_paddleapi.case.estimate import CaseEstimator, Estimate, Way, estimate
from pytest_paddleapi.case.fake_run import FakeRunError, Peaks, fake_run
from pytest_paddleapi.case.inputs.makers import ordinary
from pytest_paddleapi.case.paddle_side import PaddleCall
from pytest_paddleapi.case.prepared import PreparedCase, prepare
from pytest_paddleapi.case.reference.registry import Reference
from pytest_paddleapi.config import parse_call
from pytest_paddleapi.config.device_sizes import SMALL, guess_device_bytes
from pytest_paddleapi.process.messages import CaseOptions, Mode

GIB = 1 << 30
OPTIONS = CaseOptions()


def of(config: str, **options: Any) -> Estimate:
    """The estimate of a config, by its operator where that can be."""
    return estimate(parse_call(config), CaseOptions(**options), quick=False, limit=60.0)


def peaks_of(rule: Callable[..., Any], config: str, seconds: float = 60.0, **options: Any) -> Peaks:
    """What following ``rule`` under the arguments of ``config`` finds."""
    call = parse_call(config)
    signature = inspect.signature(rule)
    reference = Reference(call.api, rule, signature)
    case = PreparedCase(
        call, CaseOptions(**options), reference, find_comparator(call.api), bind(call, signature), {}, ()
    )
    return fake_run(case, (0, 0), {}, ordinary, time.perf_counter() + seconds)


def measured(config: str) -> int:
    """The peak of what Paddle's CPU allocates for a config, forward and backward."""
    core = paddle.base.core
    case = prepare(parse_call(config), OPTIONS)
    gc.collect()
    core.host_memory_stat_reset_peak_value("Allocated", 0)
    before = core.host_memory_stat_current_value("Allocated", 0)
    call = PaddleCall(case, backward=case.backward)
    call.forward()
    fed = call.own_cotangents()
    chosen = [
        (value, call._fed(i, value, grad))
        for i, (value, grad) in enumerate(zip(call.flat_outputs(), fed))
        if grad is not None
    ]
    if chosen and call.inputs:
        outputs, grads = zip(*chosen)
        kept = paddle.grad(list(outputs), list(call.inputs.values()), grad_outputs=list(grads), allow_unused=True)
        assert kept
    return int(core.host_memory_stat_peak_value("Allocated", 0) - before)


# Counted by hand ------------------------------------------------------------------------------


def attention(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ w, dim=-1) @ x


ATTENTION = 'paddle.attention(Tensor([65536, 4096],"float16"), Tensor([4096, 65536],"float16"))'


def test_attention_of_one_gib_peaks_at_26_and_a_half() -> None:
    """x and w take 0.5 GiB each, the scores 65536 * 65536 * 2 bytes = 8 GiB.

    Forward: the scores and their softmax, 16 GiB; the scores are freed before the result is made.
    Backward, at its worst, in the softmax: the softmax, its gradient and the scores' gradient, 24 GiB, with the result,
    the gradient fed into it and x's first gradient (from the second product), 0.5 GiB each: 25.5 GiB, and 1 of inputs.
    """
    found = peaks_of(attention, ATTENTION)
    assert found.inputs == GIB
    assert found.forward == 16 * GIB
    assert found.inputs + found.backward == 26.5 * GIB
    assert (found.outputs_dense, found.cotangents, found.gradients_dense) == (GIB // 2, GIB // 2, GIB)


def test_without_backward_attention_peaks_in_its_forward_run() -> None:
    found = peaks_of(attention, ATTENTION, test_backward=False)
    assert (found.forward, found.backward, found.cotangents) == (16 * GIB, 0, 0)


def test_the_terms_of_a_plain_operator() -> None:
    """abs of x: x, its sign (saved, or made in the backward run), the result, what is fed into it, the gradient."""
    size = 4 << 20
    found = of('paddle.abs(Tensor([1024, 1024],"float32"))')
    assert found.way is Way.OPERATOR
    assert (found.inputs, found.outputs, found.cotangents, found.gradients) == (size, size, size, size)
    assert found.forward_extra == size
    # Result, what is fed, sign, gradient; in Paddle also the engine's copy of what is fed and a kernel's temporary.
    assert found.backward_extra == 4 * size
    assert found.paddle == 7 * size


def test_an_expanded_result_is_taken_to_be_filled() -> None:
    found = of('paddle.expand(Tensor([1, 1024],"float32"), list[1024, 1024])', test_backward=False)
    assert found.forward_extra == 0
    assert found.paddle >= found.inputs + (4 << 20)


def test_a_plain_view_takes_nothing_and_hands_its_gradient_on() -> None:
    """x, what is fed, the engine's copy of it, a temporary."""
    found = of('paddle.reshape(Tensor([1024, 1024],"float32"), list[-1])')
    assert found.forward_extra == 0
    assert found.paddle == 4 * (4 << 20)


def test_an_argument_that_is_changed_is_there_twice() -> None:
    plain, changed = (of(f'paddle.exp{end}(Tensor([1024, 1024],"float32"))', test_backward=False) for end in ("", "_"))
    assert changed.paddle - changed.inputs >= plain.inputs


def test_indices_have_the_values_that_the_case_has() -> None:
    """The length of the result is in the values: as many rows as the repeats sum to."""
    config = 'paddle.repeat_interleave(Tensor([1000, 64],"float32"), Tensor([1000],"int32"), 0)'
    rows = int(prepare(parse_call(config), OPTIONS).values["repeats"].sum())
    found = of(config)
    assert found.way is Way.OPERATOR
    assert found.outputs == rows * 64 * 4


def test_what_is_held_is_outputs_changed_arguments_and_gradients() -> None:
    size = 4 << 30
    plain = of('paddle.multiply(Tensor([1024, 1024, 1024],"float32"), Tensor([1024, 1024, 1024],"float32"))')
    assert plain.way is Way.OPERATOR
    assert (plain.held, plain.largest) == (3 * size, size)
    forward = of('paddle.exp(Tensor([1024, 1024, 1024],"float32"))', test_backward=False)
    assert forward.held == size
    in_place = of('paddle.Tensor.exp_(Tensor([1024, 1024, 1024],"float32"))')
    # The argument and the output, which are one tensor there and two copies where they are held.
    assert in_place.held == 3 * size


def test_a_pair_is_asked_for_what_its_fuller_device_takes() -> None:
    config = 'paddle.exp(Tensor([1024, 1024, 1024],"float32"))'

    def asked(mode: Mode, *, torch_on_device: bool) -> float:
        made = CaseEstimator(CaseOptions(mode=mode), torch_on_device=torch_on_device, caches_kept=False)
        return made(config)[0] / (4 << 30)

    single = asked(Mode.ACCURACY, torch_on_device=True)
    assert asked(Mode.ACCURACY_STABLE, torch_on_device=True) == single
    # One output and one gradient there: less than the first device takes.
    assert asked(Mode.ACCURACY_DUAL_GPU, torch_on_device=False) == single
    # Four of them, and the comparison.
    assert asked(Mode.ACCURACY_DUAL_GPU, torch_on_device=True) == 4 + 42 / 4
    assert asked(Mode.ACCURACY_STABLE_DUAL_GPU, torch_on_device=True) == 8 + 42 / 4


@pytest.mark.parametrize(
    "config",
    [
        'paddle.nonzero(Tensor([32768, 65536],"float32"))',
        'paddle.masked_select(Tensor([32768, 65536],"float32"), Tensor([32768, 65536],"bool"))',
        'paddle.unique(Tensor([2147483648],"int64"))',
    ],
)
def test_a_size_that_depends_on_values_is_the_largest_possible(config: str) -> None:
    found = of(config)
    assert found.way is Way.OPERATOR, found.why
    assert found.outputs >= 8 * GIB


def test_no_memory_is_taken_for_large_tensors() -> None:
    core = paddle.base.core
    before = core.host_memory_stat_current_value("Allocated", 0)
    found = of('paddle.matmul(Tensor([1000000, 1000000],"float32"), Tensor([1000000, 1000000],"float32"))')
    assert found.way is Way.OPERATOR
    assert found.inputs == 8 * 10**12
    assert core.host_memory_stat_current_value("Allocated", 0) == before


# Both sides -----------------------------------------------------------------------------------


def test_torch_first_and_then_paddle_need_the_worse_of_the_two() -> None:
    found = of('paddle.abs(Tensor([1024, 1024],"float32"))')
    assert found.device_bytes(torch_on_device=False) == found.paddle
    assert found.device_bytes(torch_on_device=True) == max(found.paddle, found.torch)
    assert found.device_bytes(torch_on_device=True, caches_kept=True) == found.paddle + found.torch


def test_without_a_torch_side_there_is_nothing_to_add() -> None:
    found = of('paddle.abs(Tensor([1024, 1024],"float32"))', mode=Mode.PADDLE_ONLY)
    assert found.torch == 0
    assert found.device_bytes(torch_on_device=True, caches_kept=True) == found.paddle


# Where the reference cannot be followed -------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ('paddle.no_such_function(Tensor([65536, 65536],"float32"))', "no reference"),
        ('paddle.matmul(Tensor([65536, 65536],"float32"), Tensor([3, 65536],"float32"))', "Error"),
        ('paddle.abs(Tensor([9223372036854775807, 65536],"float32"))', "Error"),
    ],
)
def test_shapes_answer_where_the_reference_cannot(config: str, why: str) -> None:
    found = of(config)
    assert found.way is Way.SHAPES
    assert why in found.why
    assert found.paddle == guess_device_bytes(parse_call(config), backward=True)


def test_a_rule_that_takes_too_long_is_given_up() -> None:
    def endless(x: torch.Tensor) -> torch.Tensor:
        while True:
            x = x + 1

    started = time.perf_counter()
    with pytest.raises(FakeRunError, match="too long"):
        peaks_of(endless, 'paddle.abs(Tensor([65536, 65536],"float32"))', seconds=0.2)
    assert time.perf_counter() - started < 5


def test_a_small_case_is_not_looked_at_closely() -> None:
    call = parse_call('paddle.abs(Tensor([1024, 1024],"float32"))')
    found = estimate(call, OPTIONS)
    assert found.way is Way.SHAPES
    assert found.paddle <= SMALL


def test_the_estimator_of_the_child_answers_with_bytes_and_the_way() -> None:
    estimator = CaseEstimator(OPTIONS, torch_on_device=True, caches_kept=False)
    large = 'paddle.abs(Tensor([16384, 16384],"float32"), )'
    found = of(large)
    assert estimator(large) == (max(found.paddle, found.torch), "operator")


# Measured -------------------------------------------------------------------------------------

MEASURED = [
    'paddle.abs(Tensor([1024, 1024],"float32"))',
    'paddle.exp(Tensor([1024, 1024],"float64"))',
    'paddle.add(Tensor([512, 1024],"float32"), Tensor([1024],"float32"))',
    'paddle.Tensor.__lt__(Tensor([1024, 1024],"float32"), 0.5)',
    'paddle.sum(Tensor([1024, 1024],"float32"), axis=1)',
    'paddle.matmul(Tensor([32, 133, 256],"float32"), Tensor([526, 256],"float32"), transpose_y=True)',
    'paddle.nn.functional.softmax(Tensor([64, 16384],"float32"))',
    'paddle.nn.functional.conv2d(Tensor([16, 32, 32, 32],"float32"), Tensor([32, 32, 3, 3],"float32"), padding=1)',
    'paddle.nn.functional.linear(Tensor([4096, 128],"float32"), Tensor([128, 256],"float32"), Tensor([256],"float32"))',
    'paddle.expand(Tensor([1, 512, 1, 512],"float32"), list[4, -1, -1, -1])',
    'paddle.concat(list[Tensor([512, 1024],"float32"), Tensor([512, 1024],"float32")], axis=0)',
    'paddle.split(Tensor([512, 1536],"float32"), 3, axis=-1)',
    'paddle.gather(Tensor([512, 1024],"float32"), Tensor([700],"int64"))',
    'paddle.reshape(Tensor([1024, 1024],"float32"), list[-1])',
    'paddle.conj(Tensor([1024, 1024],"float32"))',
    'paddle.nn.functional.layer_norm(Tensor([512, 1024],"float32"), 1024)',
    'paddle.nn.functional.cross_entropy(Tensor([4096, 256],"float32"), Tensor([4096, 1],"int64"), reduction="none")',
]


@pytest.mark.parametrize("config", MEASURED)
def test_what_is_admitted_covers_what_paddle_takes(config: str) -> None:
    """By the factor alone, as for large cases: the 512 MiB on top would hide everything at this size."""
    found = of(config)
    assert found.way is Way.OPERATOR, found.why
    peak = measured(config)
    assert 1.25 * found.paddle >= peak
    assert found.paddle <= 3 * peak
