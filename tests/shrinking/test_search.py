"""The search, on failures that are known by a rule."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_paddleapi.config import Call, TensorSpec, parse_call, print_call
from pytest_paddleapi.process.messages import CaseResult
from pytest_paddleapi.results.verdicts import Verdict
from pytest_paddleapi.shrinking import Limits, Signature, shrink
from pytest_paddleapi.shrinking.edits import KINDS, weight

WRONG = Signature(Verdict.PADDLE_ACCURACY, "output 0", "values")


def failing(rule: Callable[[Call], bool]) -> Callable[[str], CaseResult]:
    """Runs that fail where the rule says so."""

    def probe(config: str) -> CaseResult:
        if rule(parse_call(config)):
            return CaseResult(1, Verdict.PADDLE_ACCURACY, "output 0: 3 of 6 elements differ (50 %)")
        return CaseResult(1, Verdict.PASS)

    return probe


def test_the_smallest_matrices_that_multiply() -> None:
    def fails(call: Call) -> bool:
        tensors = list(call.tensors())
        if len(tensors) != 2:
            return False
        x, y = tensors
        return len(x.shape) == len(y.shape) == 2 and x.shape[1] == y.shape[0] and x.shape[0] >= 3

    found = shrink(
        'paddle.matmul(Tensor([31, 64],"float32"), Tensor([64, 7],"float32"), transpose_x=False)', WRONG, failing(fails)
    )
    assert found.config == 'paddle.matmul(Tensor([3, 1],"float32"), Tensor([1, 1],"float32"))'
    assert found.complete
    assert found.elements == (31 * 64 + 64 * 7, 4)
    assert found.steps[-1].config == found.config


def test_lists_get_shorter_but_keep_what_matters() -> None:
    def fails(call: Call) -> bool:
        return sum(spec.dtype == "float64" for spec in call.tensors()) == 1 and len(list(call.tensors())) >= 2

    tensors = ",".join(f'Tensor([{n}, 4],"float{64 if n == 5 else 32}")' for n in range(1, 9))
    found = shrink(f"paddle.concat(list[{tensors}], axis=0)", WRONG, failing(fails))
    dtypes = [spec.dtype for spec in parse_call(found.config).tensors()]
    assert sorted(dtypes) == ["float32", "float64"]
    assert "axis" not in found.config


def test_another_failure_is_not_taken_for_the_same() -> None:
    def probe(config: str) -> CaseResult:
        big = next(parse_call(config).tensors()).numel > 10
        what = "output 0" if big else "gradient of x"
        return CaseResult(1, Verdict.PADDLE_ACCURACY, f"{what}: 3 of 6 elements differ (50 %)")

    found = shrink('paddle.exp(Tensor([64],"float32"))', WRONG, probe)
    assert found.config == 'paddle.exp(Tensor([11],"float32"))'


def test_the_limits_hold_and_the_best_so_far_is_given() -> None:
    runs = []

    def probe(config: str) -> CaseResult:
        runs.append(config)
        return CaseResult(1, Verdict.PADDLE_ACCURACY, "output 0: 3 of 6 elements differ (50 %)")

    config = 'paddle.add(Tensor([640, 640],"float32"), Tensor([640, 640],"float32"))'
    found = shrink(config, WRONG, probe, Limits(runs=2))
    assert (len(runs), found.runs, found.complete) == (2, 2, False)
    assert found.elements[1] < found.elements[0]
    times = iter(range(100))
    late = shrink(config, WRONG, probe, Limits(seconds=2.5), clock=lambda: next(times))
    assert (late.runs, late.complete) == (2, False)


def test_it_is_deterministic_and_tries_nothing_twice() -> None:
    def once() -> tuple[list[str], str]:
        seen: list[str] = []

        def probe(config: str) -> CaseResult:
            seen.append(config)
            return failing(lambda call: sum(spec.numel for spec in call.tensors()) >= 20)(config)

        config = 'paddle.nn.functional.conv2d(Tensor([2, 3, 9, 9],"float32"), Tensor([4, 3, 3, 3],"float32"), stride=2)'
        return seen, shrink(config, WRONG, probe).config

    first, second = once(), once()
    assert first == second
    assert len(set(first[0])) == len(first[0])


@pytest.mark.parametrize("kind", KINDS)
def test_edits_give_canonical_calls_and_leave_the_call_alone(kind: str) -> None:
    text = (
        'paddle.foo(list[Tensor([2, 3],"float32"),Tensor([9, 3],"bool")], tuple(4,9), -2.5, nan, '
        'x=Tensor([9],"int64"), axis=-1, name=None)'
    )
    call = parse_call(text)
    made = list(KINDS[kind](call))
    assert made
    assert print_call(call) == text
    for one in made:
        assert print_call(parse_call(print_call(one))) == print_call(one)
        assert all(dim > 0 for spec in one.tensors() for dim in spec.shape)


def test_weight_is_less_for_what_is_simpler() -> None:
    order = [
        "paddle.foo()",
        "paddle.foo(0)",
        "paddle.foo(1)",
        "paddle.foo(-1)",
        "paddle.foo(0.5)",
        "paddle.foo(7)",
        'paddle.foo(Tensor([],"float32"))',
        'paddle.foo(Tensor([1],"float32"))',
        'paddle.foo(Tensor([1],"float32"), 1)',
        'paddle.foo(Tensor([2],"float32"))',
    ]
    weights = [weight(parse_call(text)) for text in order]
    assert weights == sorted(weights)
    assert len(set(weights)) == len(weights)
    assert TensorSpec((2,), "float32") in list(parse_call(order[-1]).tensors())
