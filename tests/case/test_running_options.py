"""Where kernels run, inputs are drawn and results compared, and mixed precision: every combination, on the CPU."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import paddle
import pytest
import torch

from pytest_paddleapi.case.amp import Watch, coarsest, in_one_dtype, paddle_amp, torch_amp
from pytest_paddleapi.case.compare.tolerance import Tolerance, mixed_tolerance
from pytest_paddleapi.case.estimate import estimate
from pytest_paddleapi.case.generators import generator
from pytest_paddleapi.case.prepared import prepare
from pytest_paddleapi.case.runner import CaseRunner
from pytest_paddleapi.case.tensors import land
from pytest_paddleapi.config import parse_call
from pytest_paddleapi.process.messages import CaseOptions, CaseResult, RunCase, Verdict

BACKENDS = ("numpy", "torch", "paddle")
MATMUL = 'paddle.matmul(Tensor([32, 64],"float32"), Tensor([64, 32],"float32"))'
CONFIGS = (
    MATMUL,
    'paddle.nn.functional.softmax(Tensor([8, 64],"float32"))',
    'paddle.gather(Tensor([8, 4],"float32"), Tensor([5],"int64"))',
    'paddle.nn.functional.conv2d(Tensor([1, 3, 8, 8],"float32"), Tensor([4, 3, 3, 3],"float32"))',
    'paddle.argsort(Tensor([20],"float64"))',
    'paddle.linalg.cholesky(Tensor([4, 4],"float64"))',
    'paddle.Tensor.add_(Tensor([2, 3],"complex64"), Tensor([3],"complex64"))',
    'paddle.nn.functional.dropout(Tensor([1000],"float32"))',
    'paddle.concat(tuple(Tensor([0, 4],"int32"), Tensor([2, 4],"int32"),))',
)


@pytest.fixture(autouse=True)
def _on_cpu() -> None:
    paddle.set_device("cpu")


def run(config: str, **options: Any) -> CaseResult:
    return CaseRunner(CaseOptions(threads=1, **options)).run(RunCase(1, config), lambda stage: None)


@pytest.mark.parametrize(
    ("test_cpu", "gpu_mode", "amp", "backend"),
    list(itertools.product((False, True), (False, True), (False, True), BACKENDS)),
)
def test_all_combinations_run(test_cpu: bool, gpu_mode: bool, amp: bool, backend: str) -> None:
    for config in CONFIGS:
        result = run(config, test_cpu=test_cpu, gpu_mode=gpu_mode, amp=amp, input_backend=backend)
        assert result.verdict is Verdict.PASS, (config, result.text)
        assert result.measured.compared_outputs


@pytest.mark.parametrize("backend", BACKENDS)
def test_values_depend_on_config_and_seed_alone(backend: str) -> None:
    def values(config: str, **more: Any) -> Any:
        return prepare(parse_call(config), CaseOptions(input_backend=backend, **more)).values["x"]

    first = values(MATMUL)
    torch.rand(3)
    paddle.seed(77)
    values(CONFIGS[1])
    assert np.array_equal(first, values(MATMUL))
    assert not np.array_equal(first, values(MATMUL, seed=1))
    other = CaseOptions(input_backend=BACKENDS[BACKENDS.index(backend) - 1])
    assert not np.array_equal(first, prepare(parse_call(MATMUL), other).values["x"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_draws_what_it_is_asked_for(backend: str) -> None:
    rng = generator(CaseOptions(input_backend=backend), [5, 6])
    unit = rng.random((200, 100), dtype=np.float32)
    assert unit.dtype == np.float32 and 0 <= unit.min() < 0.01 and 0.99 < unit.max() < 1
    assert abs(float(unit.mean()) - 0.5) < 0.02
    assert rng.random() != rng.random()
    spread = rng.uniform(-3.0, 5.0, 20000)
    assert -3 <= spread.min() < -2.9 and 4.9 < spread.max() < 5
    normal = rng.standard_normal(20000)
    assert abs(float(normal.mean())) < 0.05 and abs(float(normal.std()) - 1) < 0.05
    shifted = rng.normal(10.0, 0.1, (4, 5))
    assert shifted.shape == (4, 5) and abs(float(shifted.mean()) - 10) < 0.2
    whole = rng.integers(-3, 4, (1000,))
    assert set(np.unique(whole)) == set(range(-3, 4))
    assert set(np.unique(rng.integers(2, size=100))) == {0, 1}
    assert rng.integers(-(2**62), 2**62, 10).dtype == np.int64
    assert rng.integers(0, 2**64 - 1, 10, dtype=np.uint64).dtype == np.uint64
    order = rng.permutation(50)
    assert sorted(order) == list(range(50)) and not np.array_equal(order, np.arange(50))
    assert rng.permutation(0).size == 0
    whole[0] = 1  # writable


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_draws_go_on_and_generators_do_not_disturb_each_other(backend: str) -> None:
    options = CaseOptions(input_backend=backend)
    alone = generator(options, [1])
    wanted = [alone.random(5), alone.random(5)]
    first, second = generator(options, [1]), generator(options, [2])
    found = [first.random(5)]
    second.random(7)
    found.append(first.random(5))
    assert np.array_equal(wanted, found) and not np.array_equal(*wanted)


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_input_rules_rule_whatever_draws(backend: str) -> None:
    rows = {
        'paddle.nn.functional.cross_entropy(Tensor([6, 5],"float32"), Tensor([6],"int64"))': ("label", 0, 4),
        'paddle.gather(Tensor([8, 4],"float32"), Tensor([50],"int32"))': ("index", -8, 7),
    }
    for config, (name, low, high) in rows.items():
        array = prepare(parse_call(config), CaseOptions(input_backend=backend)).values[name]
        assert low <= array.min() and array.max() <= high


def test_gpu_mode_keeps_results_where_torch_computes() -> None:
    plain = prepare(parse_call('paddle.exp(Tensor([2],"float32"))'), CaseOptions(gpu_mode=True, torch_device="cuda:0"))
    assert plain.landing == "cuda:0"
    # Only the plain comparison is made for any device.
    judged = prepare(parse_call(CONFIGS[4]), CaseOptions(gpu_mode=True, torch_device="cuda:0"))
    assert judged.landing == "cpu"
    assert prepare(parse_call(CONFIGS[4]), CaseOptions(torch_device="cuda:0")).landing == "cpu"


def test_a_result_lands_on_another_device_of_torch() -> None:
    landed = land(paddle.ones([2, 3], "bfloat16"), "meta")
    assert landed.device.type == "meta" and landed.dtype == torch.bfloat16 and landed.shape == (2, 3)


# Mixed precision -----------------------------------------------------------------------------------------------------


def test_each_side_says_what_it_computed_in() -> None:
    options, watch = CaseOptions(amp=True), Watch()
    with torch_amp(options, watch):
        assert torch.matmul(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.bfloat16
    assert watch.lowered == torch.bfloat16
    with torch_amp(options, watch):
        torch.exp(torch.ones(2))
    assert watch.lowered is None
    # Paddle's has no effect on the CPU, whatever is asked for, and says nothing on the terminal.
    with paddle_amp(options, watch):
        assert paddle.matmul(paddle.ones([2, 2]), paddle.ones([2, 2])).dtype == paddle.float32
    assert watch.lowered is None


def test_without_the_option_nothing_is_lowered() -> None:
    watch = Watch()
    with torch_amp(CaseOptions(), watch):
        assert torch.matmul(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.float32
    assert watch.lowered is None


def test_results_of_two_dtypes_are_compared_in_the_coarser_and_at_its_tolerance() -> None:
    result = run(MATMUL, amp=True)
    assert result.verdict is Verdict.PASS, result.text
    assert "for bfloat16" in (result.measured.tolerance or "")
    assert result.measured.max_abs_diff and result.measured.max_abs_diff > 1e-4


def test_a_case_that_nothing_was_lowered_in_keeps_its_tolerance() -> None:
    result = run(CONFIGS[1], amp=True)
    assert result.verdict is Verdict.PASS and "float16" not in (result.measured.tolerance or "")


@pytest.mark.parametrize("factor", [0.0, 0.7, -1.0])
def test_a_wrong_result_is_found_under_mixed_precision(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    wrong = "pytest_paddleapi.case.paddle_side.paddle_function"
    monkeypatch.setattr(wrong, lambda api: lambda *args, **kwargs: paddle.matmul(*args, **kwargs) * factor)
    result = run(MATMUL, amp=True)
    assert result.verdict is Verdict.PADDLE_ACCURACY, result.measured


def test_the_coarser_dtype() -> None:
    assert coarsest(torch.float32, torch.float16) == torch.float16
    assert coarsest(torch.bfloat16, torch.float16) == torch.bfloat16
    assert coarsest(None, torch.float16) == torch.float16
    assert coarsest(None, None) is None


def test_only_pairs_that_differ_are_rounded() -> None:
    one, half = torch.ones(2), torch.ones(2, dtype=torch.bfloat16)
    left, right = in_one_dtype([one, {"a": one}, 3], [half, {"a": one}, 3])
    assert [left[0].dtype, right[0].dtype, left[1]["a"].dtype] == [torch.bfloat16, torch.bfloat16, torch.float32]
    # Another structure, and wider dtypes, are left to the comparison.
    assert in_one_dtype([one], one) == ([one], one)
    wide = torch.ones(2, dtype=torch.float64)
    assert in_one_dtype(wide, half)[0].dtype == torch.float64


def test_the_room_for_rounded_inputs_goes_by_the_largest_result() -> None:
    narrow = Tolerance(1e-4, 0.16, "table")
    wider = mixed_tolerance(narrow, torch.tensor([0.0, -8.0, float("inf")]), torch.bfloat16)
    assert wider.atol == pytest.approx(4 * 2**-7 * 8) and "one side computed in bfloat16" in wider.source
    assert mixed_tolerance(narrow, torch.tensor([1, 2]), torch.bfloat16) is narrow
    assert mixed_tolerance(Tolerance(0.0, 0.0, "bitwise"), torch.ones(1), torch.bfloat16).atol == 0


def test_rounding_of_inputs_stays_within_that_room() -> None:
    torch.manual_seed(0)
    for terms in (1, 16, 256, 4096):
        x, y = torch.randn(64, terms), torch.randn(terms, 64)
        exact = x @ y
        apart = (x.bfloat16().float() @ y.bfloat16().float() - exact).abs().max()
        assert apart < 0.5 * mixed_tolerance(Tolerance(0.0, 0.0, ""), exact, torch.bfloat16).atol


# What it takes -------------------------------------------------------------------------------------------------------


def test_estimates_know_what_the_options_take() -> None:
    call = parse_call('paddle.exp(Tensor([64, 1048576],"float32"))')
    size = 64 << 22

    def of(**options: Any) -> Any:
        return estimate(call, CaseOptions(**options), quick=False, limit=60.0)

    plain, on_cpu, mode, amp = of(), of(test_cpu=True), of(gpu_mode=True), of(amp=True)
    assert on_cpu.paddle == 0 and on_cpu.torch == plain.torch
    # Two results, two gradients and eight temporaries.
    assert mode.torch >= 12 * size > plain.torch
    assert mode.device_bytes(torch_on_device=True, caches_kept=True) == mode.paddle + mode.torch
    assert amp.paddle == plain.paddle + size and amp.torch == plain.torch + size
