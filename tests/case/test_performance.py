"""The performance modes on real calls, on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_paddleapi.process.messages import CaseResult, Mode, TimingOptions, Verdict

Run = Callable[..., CaseResult]
TIMING = TimingOptions(seconds=0.02, precision=0.5)
BOTH = {"mode": Mode.PADDLE_TORCH_PERFORMANCE, "timing": TIMING}
PADDLE = {"mode": Mode.PADDLE_PERFORMANCE, "timing": TIMING}
TORCH = {"mode": Mode.TORCH_PERFORMANCE, "timing": TIMING}
SOFTMAX = 'paddle.nn.functional.softmax(Tensor([64, 64],"float32"))'


def test_both_frameworks_forward_and_backward_with_ratios(run_case: Run) -> None:
    result = run_case(SOFTMAX, **BOTH)
    assert result.verdict is Verdict.PASS, result.text
    more = result.measured.more
    for name in ("paddle_forward", "paddle_backward", "torch_forward", "torch_backward"):
        low, median, high = (more[f"{name}_{part}"] for part in ("ms_low", "ms", "ms_high"))
        assert 0 < low <= median <= high < 1000
        assert more[f"{name}_samples"] >= 3
    assert more["forward_ratio"] == pytest.approx(more["paddle_forward_ms"] / more["torch_forward_ms"], rel=1e-4)
    both = (more["paddle_forward_ms"] + more["paddle_backward_ms"]) / (
        more["torch_forward_ms"] + more["torch_backward_ms"]
    )
    assert more["ratio"] == pytest.approx(both, rel=1e-4)
    assert (more["torch_call"], more["threads"]) == ("direct", 1)
    assert result.measured.peak_bytes is not None


def test_a_larger_call_takes_longer(run_case: Run) -> None:
    small, large = (
        run_case(f'paddle.matmul(Tensor([{n}, {n}],"float32"), Tensor([{n}, {n}],"float32"))', **BOTH).measured.more
        for n in (32, 512)
    )
    for name in ("paddle_forward_ms", "paddle_backward_ms", "torch_forward_ms", "torch_backward_ms"):
        assert large[name] > 5 * small[name]


@pytest.mark.parametrize(
    ("options", "framework", "other"),
    [(PADDLE, "paddle", "torch"), (TORCH, "torch", "paddle")],
    ids=["paddle", "torch"],
)
def test_one_framework_alone(run_case: Run, options: dict[str, object], framework: str, other: str) -> None:
    more = run_case(SOFTMAX, **options).measured.more
    assert f"{framework}_forward_ms" in more
    assert f"{framework}_backward_ms" in more
    assert not [name for name in more if name.startswith(f"{other}_f") or "ratio" in name]


def test_no_backward_where_none_is_wanted_or_there_is_none(run_case: Run) -> None:
    assert "paddle_backward_ms" not in run_case(SOFTMAX, **PADDLE, test_backward=False).measured.more
    assert "paddle_backward_ms" not in run_case('paddle.argmax(Tensor([8, 8],"float32"))', **PADDLE).measured.more


@pytest.mark.parametrize(
    "config",
    [
        'paddle.Tensor.exp_(Tensor([64],"float32"))',
        'paddle.Tensor.__setitem__(Tensor([8],"float32"), 0, 1.0)',
        'paddle.grad(Tensor([4],"float32"),Tensor([4],"float32"))',
        'paddle.sparse.sin(Tensor([8, 8],"float32"))',
    ],
)
def test_calls_that_use_up_their_arguments_get_new_ones(run_case: Run, config: str) -> None:
    result = run_case(config, **BOTH)
    assert result.verdict is Verdict.PASS, result.text
    assert result.measured.more["paddle_forward_samples"] >= 3


def test_growing_values_show_whether_arguments_are_new(run_case: Run) -> None:
    # With one tensor for all calls, exp(exp(exp(x))) is infinite soon and its gradient is none; a time is no proof,
    # so the inputs themselves are looked at.
    from pytest_paddleapi.case.prepared import prepare
    from pytest_paddleapi.case.timed_paddle import _forward
    from pytest_paddleapi.config import parse_call
    from pytest_paddleapi.process.messages import CaseOptions

    call = _forward(prepare(parse_call('paddle.Tensor.exp_(Tensor([64],"float32"))'), CaseOptions()))
    first, second = (call.batch(1)().numpy() for _ in range(2))
    assert (first == second).all()


def test_a_composed_reference_says_so(run_case: Run) -> None:
    more = run_case('paddle.sparse.sin(Tensor([8, 8],"float32"))', **TORCH).measured.more
    assert more["torch_call"] == "composed"


@pytest.mark.parametrize(
    ("config", "verdicts"),
    [
        ('paddle.add(Tensor([2],"float32"), Tensor([3],"float32"))', ("paddle_error", "torch_error", "both_error")),
        ('paddle.no_such_function(Tensor([2],"float32"))', ("not_supported", "config_convert", "config_convert")),
        ('paddle.abs(Tensor([2],"float16"))', ("not_supported", "pass", "not_supported")),
    ],
)
def test_failures_have_the_verdicts_of_other_modes(run_case: Run, config: str, verdicts: tuple[str, ...]) -> None:
    found = tuple(run_case(config, **options).verdict.value for options in (PADDLE, TORCH, BOTH))
    assert found == verdicts
