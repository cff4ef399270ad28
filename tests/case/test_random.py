"""Random results: correct ones pass with the right counts, and wrong kernels are caught."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pytest_paddleapi.case.compare import laws
from pytest_paddleapi.case.compare.comparison import Comparison
from pytest_paddleapi.case.compare.laws import Law, incomplete_beta, law_problems
from pytest_paddleapi.case.compare.registry import find_comparator
from pytest_paddleapi.case.compare.statistics_checks import hit_problems, proportion_problem, varying_hit_problems
from pytest_paddleapi.process.messages import CaseResult, ToleranceOptions, Verdict

Run = Callable[..., CaseResult]

PASSING = [
    # config, compared outputs, compared gradients
    ('paddle.rand(list[30,40,])', 1, 0),
    ("paddle.rand(2, 3)", 1, 0),
    ('paddle.rand(shape=Tensor([3],"int32"))', 1, 0),
    ('paddle.rand(list[Tensor([],"int64"),3,], "float64")', 1, 0),
    ("paddle.rand(list[0,3,])", 1, 0),
    ('paddle.randn(list[300,40,], dtype="bfloat16")', 1, 0),
    ('paddle.randn(list[300,40,], dtype="complex64")', 1, 0),
    ("paddle.standard_normal(list[300,40,])", 1, 0),
    ('paddle.uniform(list[300,40,], "float16", -3, 5.5)', 1, 0),
    ("paddle.uniform(shape=list[30,4,], min=1.0, max=1.0)", 1, 0),
    ('paddle.rand_like(Tensor([300,4],"float32"), dtype="float64")', 1, 0),
    ('paddle.randn_like(Tensor([300,4],"float32"))', 1, 0),
    ('paddle.randint_like(Tensor([300,4],"bool"), 0, 2)', 1, 0),
    ('paddle.randint_like(Tensor([300,4],"float32"), 5, dtype=Dtype(int64))', 1, 0),
    ('paddle.randint(-4, 10, list[100,50,], "int32")', 1, 0),
    ("paddle.randint(10)", 1, 0),
    ('paddle.randperm(5000, "int32")', 1, 0),
    ("paddle.randperm(0)", 1, 0),
    ('paddle.normal(Tensor([50,2],"float32"), Tensor([100],"float32"))', 1, 2),
    ('paddle.normal(1.0, Tensor([100],"float64"))', 1, 1),
    ("paddle.normal(complex(1,1), 2.0, list[1000,])", 1, 0),
    ('paddle.normal(Tensor([50,2],"complex64"), Tensor([100],"float32"))', 1, 2),
    ("paddle.normal(1.0, 0.0, list[8,12,])", 1, 0),
    ('paddle.log_normal(Tensor([50,2],"float32"), Tensor([50,2],"float32"))', 1, 2),
    ('paddle.bernoulli(Tensor([100,30],"float64"))', 1, 0),
    ('paddle.bernoulli(Tensor([100,30],"float32"), p=0.3)', 1, 0),
    ('paddle.binomial(Tensor([100,30],"int64"), Tensor([30],"float64"))', 1, 0),
    ('paddle.poisson(Tensor([100,30],"float32"))', 1, 0),
    ('paddle.standard_gamma(Tensor([100,30],"float32"))', 1, 0),
    ('paddle.multinomial(Tensor([300,7],"float64"), 3)', 1, 0),
    ('paddle.multinomial(Tensor([30],"float32"), 500, True)', 1, 0),
    ('paddle.Tensor.normal_(Tensor([300,7],"complex128"), complex(1,1), 3.0)', 1, 1),
    ('paddle.Tensor.uniform_(Tensor([300,7],"float64"), -5.0, 10.0)', 1, 1),
    ('paddle.Tensor.exponential_(Tensor([300,7],"float64"), lam=3.0)', 1, 1),
    ('paddle.Tensor.cauchy_(Tensor([300,7],"float64"), 1.0, 3)', 1, 1),
    ('paddle.Tensor.log_normal_(Tensor([300,7],"float32"))', 1, 1),
    ('paddle.Tensor.bernoulli_(Tensor([300,7],"float32"), Tensor([7],"float32"))', 1, 1),
    ('paddle.Tensor.random_(Tensor([300,7],"int32"), 3, 10)', 1, 0),
    ('paddle.Tensor.random_(Tensor([300,7],"float32"))', 1, 1),
    ('paddle.nn.functional.dropout(Tensor([100,20],"float32"))', 1, 1),
    ('paddle.nn.functional.dropout(Tensor([100,20],"float64"), 0.3, mode="downscale_in_infer")', 1, 1),
    ('paddle.nn.functional.dropout(Tensor([100,20,7],"float32"), 0.3, list[0,2,])', 1, 1),
    ('paddle.nn.functional.dropout(Tensor([100,20],"float32"), p=0.0, training=True)', 1, 1),
    ('paddle.nn.functional.dropout(Tensor([100,20],"float32"), p=1.0)', 1, 1),
    ('paddle.nn.functional.dropout(Tensor([100,20],"float32"), 0.4, training=False, mode="downscale_in_infer")', 1, 1),
    ('paddle.nn.functional.dropout(Tensor([100,20],"float16"), 0.1, training=False)', 1, 1),
    ('paddle.nn.functional.dropout(Tensor([100,20],"float32"), p=Tensor([1],"float32"))', 1, 1),
    ('paddle.nn.functional.dropout(Tensor([100,20],"float32"), p=Tensor([],"float32"), axis=0)', 1, 1),
    ('paddle.nn.functional.dropout(Tensor([100,20],"float32"), 0.2, inplace=True)', 1, 1),
    ('paddle.nn.functional.dropout(Tensor([100,0],"float32"), 0.2)', 1, 1),
    ('paddle.nn.functional.dropout1d(Tensor([100,7],"float32"), 0.2)', 1, 1),
    ('paddle.nn.functional.dropout2d(Tensor([20,4,3,7],"float32"), 0.2, data_format="NHWC")', 1, 1),
    ('paddle.nn.functional.dropout3d(Tensor([20,7,3,4,2],"float32"), 0.2)', 1, 1),
    ('paddle.nn.functional.alpha_dropout(Tensor([20,40],"float32"), 0.2)', 1, 1),
    ('paddle.nn.functional.feature_alpha_dropout(Tensor([20,40,3],"float32"), 0.2)', 1, 1),
    ('paddle.incubate.nn.functional.fused_dropout_add(Tensor([20,50],"float32"), Tensor([20,50],"float32"))', 1, 2),
    ('paddle.nn.functional.rrelu(Tensor([200,50],"float64"))', 1, 1),
    ('paddle.nn.functional.rrelu(Tensor([2,3],"float32"), 0.3, 0.300000009)', 1, 1),
    ('paddle.nn.functional.rrelu(Tensor([200,50],"float32"), 0.1, 0.9, False)', 1, 1),
    ('paddle.nn.functional.gumbel_softmax(Tensor([200,5],"float32"))', 1, 1),
    ('paddle.nn.functional.gumbel_softmax(Tensor([5,200],"float64"), 3.0, True, axis=0)', 1, 1),
    ('paddle.nn.functional.class_center_sample(Tensor([50],"int64"), 1000, 300)', 2, 0),
]  # fmt: skip


@pytest.mark.parametrize(("config", "outputs", "gradients"), PASSING)
def test_correct_random_results_pass(run_case: Run, config: str, outputs: int, gradients: int) -> None:
    result = run_case(config)
    assert result.verdict is Verdict.PASS, result.text
    assert (result.measured.compared_outputs, result.measured.compared_gradients) == (outputs, gradients)


@pytest.mark.parametrize(
    "config",
    [
        'paddle.nn.functional.dropout(Tensor([10,20],"float32"), 0.3, axis=2)',
        'paddle.nn.functional.dropout(Tensor([10,20],"float32"), 1.2)',
        'paddle.nn.functional.dropout(Tensor([10,20],"float32"), 0.2, mode="foo")',
        'paddle.nn.functional.dropout2d(Tensor([10,20],"float32"), 0.2)',
    ],
)
def test_calls_that_mean_nothing_are_refused_by_both(run_case: Run, config: str) -> None:
    assert run_case(config).verdict is Verdict.BOTH_ERROR


def test_many_seeds_raise_no_false_alarm(run_case: Run) -> None:
    config = 'paddle.nn.functional.dropout(Tensor([64,65],"float32"), 0.1, axis=None, training=True)'
    assert {run_case(config, seed=seed).verdict for seed in range(40)} == {Verdict.PASS}


# Wrong kernels ------------------------------------------------------------------------------------


def _differences(
    api: str, arguments: dict[str, Any], actual: torch.Tensor, gradient: torch.Tensor | None = None
) -> list[str]:
    """What the comparator of ``api`` says of one float output, fed with gradients of one."""
    comparison = Comparison(
        api=api,
        arguments=arguments,
        actual=actual,
        expected=torch.zeros_like(actual),
        tolerances=ToleranceOptions(),
        cotangents=(torch.ones_like(actual),),
    )
    if gradient is not None:
        comparison.actual_gradients = {"x": gradient}
        comparison.expected_gradients = {"x": torch.zeros_like(gradient)}
    find_comparator(api).judge(comparison)
    return comparison.findings.differences


DROPOUT = "paddle.nn.functional.dropout"
X = np.random.default_rng(3).uniform(0.5, 2.0, (100, 20)).astype(np.float32)
MASK = torch.from_numpy(np.random.default_rng(4).random((100, 20)) >= 0.3)


def _dropped(mask: torch.Tensor, scale: float = 1 / 0.7) -> torch.Tensor:
    return torch.from_numpy(X) * scale * mask


def test_a_correct_mask_and_its_gradient_pass() -> None:
    assert _differences(DROPOUT, {"x": X, "p": 0.3}, _dropped(MASK), MASK.float() / 0.7) == []


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (_dropped(MASK, 1.0), "neither kept nor dropped"),
        (_dropped(torch.ones_like(MASK)), "2000 of 2000"),
        (_dropped(torch.zeros_like(MASK)), "0 of 2000"),
        (_dropped(torch.from_numpy(np.random.default_rng(4).random((100, 20)) >= 0.6)), "kept elements"),
        (_dropped(torch.arange(2000).reshape(100, 20) % 10 < 7), "equal neighbours"),
        (_dropped(torch.arange(2000).reshape(100, 20) < 1400), "part 8/8"),
        (_dropped(MASK[:1].expand(100, 20)), "equal neighbours along axis 0"),
        (_dropped(MASK[:, :1].expand(100, 20)), "equal neighbours along axis 1"),
    ],
    ids=[
        "no scaling",
        "all kept",
        "all dropped",
        "wrong rate",
        "pattern",
        "tail dropped",
        "shared rows",
        "shared cols",
    ],
)
def test_wrong_dropout_kernels_are_caught(output: torch.Tensor, text: str) -> None:
    assert any(text in line for line in _differences(DROPOUT, {"x": X, "p": 0.3}, output))


def test_a_mask_that_should_be_shared_must_be() -> None:
    assert "not shared" in _differences(DROPOUT, {"x": X, "p": 0.3, "axis": 0}, _dropped(MASK))[0]
    assert _differences(DROPOUT, {"x": X, "p": 0.3, "axis": 0}, _dropped(MASK[:, :1].expand(100, 20))) == []


def test_a_gradient_of_another_mask_is_caught() -> None:
    found = _differences(DROPOUT, {"x": X, "p": 0.3}, _dropped(MASK), MASK.flip(0).float() / 0.7)
    assert found
    assert found[0].startswith("gradient of x")


def test_alpha_dropout_with_zeros_is_caught() -> None:
    found = _differences("paddle.nn.functional.alpha_dropout", {"x": X, "p": 0.3}, _dropped(MASK))
    assert "neither kept nor dropped" in found[0]


def test_rrelu_with_one_slope_for_all_is_caught() -> None:
    x = -X
    found = _differences("paddle.nn.functional.rrelu", {"x": x, "lower": 0.1, "upper": 0.3}, torch.from_numpy(x) * 0.2)
    assert any("slopes" in line for line in found)
    slopes = torch.from_numpy(np.random.default_rng(5).uniform(0.1, 0.3, x.shape).astype(np.float32))
    arguments = {"x": x, "lower": 0.1, "upper": 0.3}
    assert _differences("paddle.nn.functional.rrelu", arguments, torch.from_numpy(x) * slopes, slopes) == []


def test_gumbel_softmax_without_noise_is_caught() -> None:
    y = torch.from_numpy(X).double().softmax(-1)
    assert _differences("paddle.nn.functional.gumbel_softmax", {"x": X.astype(np.float64)}, y)


def test_multinomial_without_weights_is_caught() -> None:
    weights = np.tile(np.array([0.7, 0.1, 0.1, 0.1]), (500, 1))
    drawn = torch.from_numpy(np.random.default_rng(1).integers(0, 4, (500, 1)))
    assert _differences("paddle.multinomial", {"x": weights, "num_samples": 1}, drawn)


def test_multinomial_that_repeats_without_replacement_is_caught() -> None:
    found = _differences(
        "paddle.multinomial", {"x": np.ones((500, 4)), "num_samples": 2}, torch.zeros((500, 2), dtype=torch.int64)
    )
    assert "drawn before" in found[0]


@pytest.mark.parametrize("order", [np.arange(500), np.roll(np.arange(500), 100), np.arange(500)[::-1].copy()])
def test_permutations_with_a_pattern_are_caught(order: np.ndarray[Any, Any]) -> None:
    assert _differences("paddle.randperm", {"n": 500}, torch.from_numpy(order))


# The tests and laws themselves --------------------------------------------------------------------

RNG = np.random.default_rng(11)
SAMPLES: list[tuple[Law, Any]] = [
    (laws.normal(1.0, 2.0), RNG.normal(1.0, 2.0, 5000)),
    (laws.log_normal(0.0, 1.0), RNG.lognormal(0.0, 1.0, 5000)),
    (laws.uniform(-1.0, 3.0), RNG.uniform(-1.0, 3.0, 5000)),
    (laws.exponential(3.0), RNG.exponential(1 / 3.0, 5000)),
    (laws.cauchy(1.0, 2.0), 1.0 + 2.0 * RNG.standard_cauchy(5000)),
    (laws.gamma(2.5), RNG.gamma(2.5, 1.0, 5000)),
    (laws.poisson(3.3), RNG.poisson(3.3, 5000).astype(float)),
    (laws.binomial(20, 0.3), RNG.binomial(20, 0.3, 5000).astype(float)),
    (laws.geometric(0.2), RNG.geometric(0.2, 5000).astype(float)),
    (laws.integers(-3, 9), RNG.integers(-3, 9, 5000).astype(float)),
]


@pytest.mark.parametrize(("law", "sample"), SAMPLES, ids=[law.name for law, _ in SAMPLES])
def test_numpys_samples_follow_their_law(law: Law, sample: np.ndarray[Any, Any]) -> None:
    assert law_problems(law, torch.from_numpy(sample), "values") == []
    if not law.discrete:
        assert law_problems(law, torch.from_numpy(sample).float(), "values") == []
        assert law_problems(law, torch.from_numpy(sample).bfloat16(), "values") == []


@pytest.mark.parametrize(("law", "sample"), SAMPLES, ids=[law.name for law, _ in SAMPLES])
def test_samples_of_another_scale_do_not(law: Law, sample: np.ndarray[Any, Any]) -> None:
    wrong = np.round(sample * 0.5) if law.discrete else sample * 1.3
    assert law_problems(law, torch.from_numpy(wrong), "values")


@pytest.mark.parametrize(
    ("law", "values"),
    [
        (laws.normal(0.0, 1.0), np.full(100, 0.3)),
        (laws.uniform(0.0, 1.0), np.linspace(0.001, 0.999, 200)),
        (laws.uniform(0.0, 1.0), np.tile(RNG.random(20), 50)),
        (laws.uniform(0.0, 1.0), np.array([0.2, math.nan])),
        (laws.poisson(3.0), np.array([1.5, 2.0])),
        (laws.geometric(0.3), np.array([0.0, 2.0])),
    ],
    ids=["constant", "ladder", "repeated", "nan", "broken", "outside"],
)
def test_values_without_randomness_do_not(law: Law, values: np.ndarray[Any, Any]) -> None:
    assert law_problems(law, torch.from_numpy(values), "values")


def test_distribution_functions_agree_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(2)
    a, b, x = rng.uniform(0.1, 300, 500), rng.uniform(0.1, 300, 500), rng.random(500)
    np.testing.assert_allclose(incomplete_beta(a, b, x), stats.beta.cdf(x, a, b), atol=1e-10)
    k = rng.integers(-1, 30, 500).astype(float)
    n, p, rate = rng.integers(0, 30, 500).astype(float), rng.choice([0.0, 0.3, 1.0], 500), rng.uniform(0.1, 20, 500)
    np.testing.assert_allclose(laws.binomial(n, p).cdf(k, n, p), stats.binom.cdf(k, n, p), atol=1e-12)
    np.testing.assert_allclose(laws.poisson(rate).cdf(k, rate), stats.poisson.cdf(k, rate), atol=1e-12)
    np.testing.assert_allclose(laws.gamma(a).cdf(a * x, a), stats.gamma.cdf(a * x, a), atol=1e-10)


def test_the_bound_on_proportions_is_hoeffdings() -> None:
    # exp(-n KL(0.6 || 0.5)) with KL = 0.6 ln 1.2 + 0.4 ln 0.8 = 0.0201355: twice it is 1e-8 at n = 949.
    assert proportion_problem(564, 940, 0.5, "hits") is None
    assert proportion_problem(576, 960, 0.5, "hits") is not None
    assert proportion_problem(1, 10**9, 0.0, "hits") is not None
    assert proportion_problem(0, 0, 0.5, "hits") is None


def test_events_of_their_own_probability_are_told_from_those_of_the_mean() -> None:
    p = torch.linspace(0, 1, 4000)
    right = torch.from_numpy(np.random.default_rng(1).random(4000)) < p
    mean = torch.from_numpy(np.random.default_rng(1).random(4000)) < 0.5
    assert varying_hit_problems(right, p, "ones") == []
    assert varying_hit_problems(mean, p, "ones")
    assert hit_problems(mean, 0.5, "ones") == []
