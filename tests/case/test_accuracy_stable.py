"""``--accuracy-stable``: real APIs that give the same twice, and some that do not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_paddleapi.process.messages import CaseOptions, CaseResult, Mode, ToleranceOptions, Verdict
from pytest_paddleapi.process.supervisor import Supervisor

ALL = "paddle-torch, paddle-paddle, torch-torch"


@pytest.fixture
def run(run_case: Callable[..., CaseResult]) -> Callable[[str], CaseResult]:
    return lambda config: run_case(config, mode=Mode.ACCURACY_STABLE)


@pytest.fixture(scope="module")
def unsteady() -> Iterator[Callable[[str], CaseResult]]:
    """Runs a config with the references of ``unsteady_runner.py``."""
    path = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
    supervisor = Supervisor(
        CaseOptions(mode=Mode.ACCURACY_STABLE, threads=1),
        runner="unsteady_runner:UnsteadyRunner",
        environment={"PYTHONPATH": path},
    )
    yield lambda config: supervisor.run(config, timeout=120.0).result
    supervisor.close()


@pytest.mark.parametrize(
    ("config", "outputs", "gradients"),
    [
        ('paddle.add(Tensor([2, 3],"float32"), Tensor([3],"float32"))', 1, 2),
        ('paddle.Tensor.add_(Tensor([4, 5],"float32"), Tensor([4, 5],"float32"))', 2, 2),
        ('paddle.topk(Tensor([4, 50],"float64"), 3)', 2, 1),
        ('paddle.reshape(Tensor([4, 50],"bfloat16"), list[200])', 1, 1),
        ('paddle.divide(Tensor([0, 3],"float32"), Tensor([3],"float32"))', 1, 2),
        # Random values: the seed decides.
        ("paddle.rand([100])", 1, 0),
        ("paddle.randperm(50)", 1, 0),
        ('paddle.nn.functional.dropout(Tensor([20, 30],"float32"), p=0.5)', 1, 1),
        # Uninitialised ones: the form is all that two runs have in common.
        ("paddle.empty([3, 100000])", 1, 0),
    ],
)
def test_what_gives_the_same_twice_passes(
    run: Callable[[str], CaseResult], config: str, outputs: int, gradients: int
) -> None:
    result = run(config)
    assert result.verdict is Verdict.PASS, result.text
    assert (result.measured.compared_outputs, result.measured.compared_gradients) == (outputs, gradients)
    assert result.measured.more == {"comparisons": ALL}


@pytest.mark.parametrize(
    ("config", "what"),
    [
        # Their kernels for the CPU take std::random_device, whatever paddle.seed says.
        (
            'paddle.geometric.sample_neighbors(Tensor([90],"int64"),Tensor([10],"int64"),Tensor([9],"int64"),3)',
            "output[0]",
        ),
        ('paddle.nn.functional.class_center_sample(Tensor([20],"int64"), 1000, 400)', "output[1]"),
    ],
)
def test_an_api_that_ignores_the_seed_is_unstable(run: Callable[[str], CaseResult], config: str, what: str) -> None:
    result = run(config)
    assert result.verdict is Verdict.PADDLE_UNSTABLE
    assert result.text.startswith(f"paddle-paddle: {what}: ")
    assert "elements differ" in result.text and "first run" in result.text
    assert result.text.endswith("failed comparisons: paddle-paddle")
    assert result.measured.more["failed_comparisons"] == "paddle-paddle"


def test_a_difference_between_frameworks_alone_is_one_of_accuracy(run_case: Callable[..., CaseResult]) -> None:
    # Sums in another order: never the same bits in both frameworks, always the same in one of them.
    config = 'paddle.logsumexp(Tensor([7, 1000],"float32"))'
    result = run_case(config, mode=Mode.ACCURACY_STABLE, tolerance=ToleranceOptions(kind="bitwise"))
    assert result.verdict is Verdict.PADDLE_ACCURACY
    assert result.text.startswith("paddle-torch: ")
    assert "(second runs)" not in result.text
    assert result.measured.more == {"comparisons": ALL, "failed_comparisons": "paddle-torch"}


def test_errors_are_those_of_the_first_run(run: Callable[[str], CaseResult]) -> None:
    both = run('paddle.matmul(Tensor([2, 3],"float32"), Tensor([2, 3],"float32"))')
    assert both.verdict is Verdict.BOTH_ERROR
    assert run('paddle.no_such_api(Tensor([2],"float32"))').verdict is Verdict.CONFIG_CONVERT


def test_torch_that_differs_from_itself_is_named(unsteady: Callable[[str], CaseResult]) -> None:
    result = unsteady('paddle.abs(Tensor([2, 3],"float32"))')
    assert result.verdict is Verdict.PADDLE_UNSTABLE
    assert result.text.startswith("torch-torch: output 0: ")
    assert "gradient of x" in result.text
    assert result.measured.more["failed_comparisons"] == "torch-torch"


def test_a_second_run_that_fails_is_unstable(unsteady: Callable[[str], CaseResult]) -> None:
    result = unsteady('paddle.exp(Tensor([2, 3],"float32"))')
    if result.verdict is Verdict.TORCH_ERROR:  # an odd number of runs before: its first one fails
        result = unsteady('paddle.exp(Tensor([2, 4],"float32"))')
    assert result.verdict is Verdict.PADDLE_UNSTABLE
    assert result.text.startswith("torch-torch: the first run gave a result, the second one did not: Torch raised ")
    assert "not twice" in result.text
    assert result.measured.more["failed_comparisons"] == "torch-torch"


def test_each_run_starts_from_the_same_inputs(unsteady: Callable[[str], CaseResult]) -> None:
    result = unsteady('paddle.square(Tensor([2, 3],"float32"))')
    # What the reference does to its argument is not what Paddle is given, and not seen by the second run.
    assert result.measured.more["comparisons"] == ALL
    assert "torch-torch:" not in result.text and "paddle-paddle:" not in result.text
