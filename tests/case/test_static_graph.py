"""``--paddle-cinn``: what is called a pass, what is not, and that nothing is left of a graph."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import Any

import paddle
import pytest

from pytest_paddleapi.case import prepared as prepared_module
from pytest_paddleapi.case import static_side
from pytest_paddleapi.case.modes.static_graph import run_paddle_cinn
from pytest_paddleapi.case.prepared import PreparedCase, prepare
from pytest_paddleapi.case.runner import CaseRunner
from pytest_paddleapi.case.static_side import StaticCall
from pytest_paddleapi.config import parse_call
from pytest_paddleapi.process.messages import CaseOptions, CaseResult, Mode, RunCase, Verdict

X = 'Tensor([3, 4],"float32")'


@pytest.fixture(autouse=True)
def _on_cpu() -> Iterator[None]:
    paddle.set_device("cpu")
    yield
    static_side.release_graphs()


def options(**more: Any) -> CaseOptions:
    return CaseOptions(mode=Mode.PADDLE_CINN, threads=1, **more)


def run(config: str, **more: Any) -> CaseResult:
    return CaseRunner(options(**more)).run(RunCase(1, config), lambda stage: None)


def prepared(config: str) -> PreparedCase:
    return prepare(parse_call(config), options())


@pytest.mark.parametrize(
    ("config", "outputs", "gradients"),
    [
        (f"paddle.abs({X})", 1, 1),
        (f"paddle.split({X}, 2, axis=1)", 2, 1),
        ('paddle.unique(Tensor([20],"int64"))', 1, 0),
        (f"paddle.concat(tuple({X},{X},), axis=0)", 1, 2),
        (f"paddle.Tensor.__radd__({X}, 1.5)", 1, 1),
        (f"paddle.Tensor.matmul({X}, y={X}, transpose_y=True)", 1, 2),
        (f"paddle.Tensor.reshape(x={X}, shape=[4, 3])", 1, 1),
        # In place: what the argument would become comes back.
        (f"paddle.Tensor.add_({X}, {X})", 2, 2),
        (f'paddle.Tensor.__setitem__({X}, slice(0,2,1), Tensor([4],"float32"))', 2, 2),
        ('paddle.linalg.svd(Tensor([4, 4],"float64"))', 3, 1),
        (f"paddle.nn.functional.dropout({X})", 1, 1),
        ("paddle.rand([500])", 1, 0),
    ],
)
def test_the_graph_agrees_with_eager_paddle(config: str, outputs: int, gradients: int) -> None:
    result = run(config)
    assert result.verdict is Verdict.PASS, result.text
    measured = result.measured
    assert (measured.compared_outputs, measured.compared_gradients) == (outputs, gradients)
    assert measured.more["graph_operations"] >= 1
    assert "eager Paddle with its static graph of" in measured.notes[0] and "not compiled" in measured.notes[0]


def test_no_torch_reference_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared_module, "find_reference", lambda api: None)
    result = run(f"paddle.exp({X})")
    assert result.verdict is Verdict.PASS and result.measured.compared_gradients == 1


def test_an_api_that_paddle_has_not() -> None:
    result = run(f"paddle.no_such({X})")
    assert result.verdict is Verdict.NOT_SUPPORTED and "has no paddle.no_such" in result.text


def test_gradients_are_compared_on_demand_only() -> None:
    assert run(f"paddle.exp({X})", test_backward=False).measured.compared_gradients == 0


def test_a_wrong_value_of_the_graph_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = static_side._invoke

    def wrong(api: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return real(api, args, kwargs) * 1.01

    monkeypatch.setattr(static_side, "_invoke", wrong)
    result = run(f"paddle.exp({X})")
    assert result.verdict is Verdict.PADDLE_ACCURACY
    assert "Paddle's static graph" in result.text and "eager Paddle" in result.text
    assert "gradient of x" in result.text


def test_a_call_that_only_the_graph_refuses_is_an_error_of_it() -> None:
    result = run(f"paddle.Tensor.tolist({X})")
    assert result.verdict is Verdict.PADDLE_ERROR
    assert result.text.startswith("Paddle's static graph raised AssertionError: 'tolist' only can be called by")


def test_a_call_that_both_refuse() -> None:
    result = run('paddle.add(Tensor([2],"float32"), Tensor([3],"float32"))')
    assert result.verdict is Verdict.BOTH_ERROR
    assert "eager Paddle raised ValueError" in result.text and "Paddle's static graph raised ValueError" in result.text


def test_a_kernel_that_is_missing_is_not_supported_in_either() -> None:
    assert run('paddle.abs(Tensor([2],"float16"))').verdict is Verdict.NOT_SUPPORTED
    sparse = run('paddle.sparse.sin(Tensor([4, 4],"float32"))')
    assert sparse.verdict is Verdict.NOT_SUPPORTED and "static graph" in sparse.text


def test_only_eager_paddle_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: Any, **kwargs: Any) -> Any:
        if paddle.in_dynamic_mode():
            raise ValueError("not today")
        return paddle.exp(*args, **kwargs)

    monkeypatch.setattr("pytest_paddleapi.case.paddle_side.paddle_function", lambda api: refused)
    result = run(f"paddle.exp({X})")
    assert result.verdict is Verdict.PADDLE_ERROR
    assert "eager Paddle raised ValueError: not today" in result.text and "did not refuse" in result.text


@pytest.mark.parametrize("config", ["paddle.broadcast_shape([2], [1])", f"paddle.is_tensor({X})"])
def test_a_graph_without_an_operation_is_no_pass(config: str) -> None:
    result = run(config)
    assert result.verdict is Verdict.NOT_COMPARABLE
    assert "the static graph has no operation" in result.text


def test_a_call_that_was_run_eagerly_instead_is_no_pass() -> None:
    paddle.jit.enable_to_static(False)
    try:
        result = run(f"paddle.exp({X})")
    finally:
        paddle.jit.enable_to_static(True)
    assert result.verdict is Verdict.NOT_COMPARABLE
    assert "to_static ran the call eagerly" in result.text


def test_what_changes_the_process_is_not_called() -> None:
    result = run("paddle.set_grad_enabled(True)")
    assert result.verdict is Verdict.NOT_COMPARABLE and "is not called" in result.text


def test_what_a_graph_changes_beside_its_results_is_said_to_be_left_out() -> None:
    statistics = 'Tensor([3],"float32")'
    result = run(
        f'paddle.nn.functional.batch_norm(Tensor([2, 3, 4],"float32"), {statistics}, {statistics}, {statistics}, '
        f"{statistics}, training=True)"
    )
    assert result.verdict is Verdict.PASS, result.text
    assert any("arguments that the call changes are not compared" in note for note in result.measured.notes)


def test_both_sides_see_the_same_values_and_random_numbers() -> None:
    result = run('paddle.nn.functional.dropout(Tensor([1000],"float32"), 0.5)')
    assert result.verdict is Verdict.PASS and result.measured.max_abs_diff == 0.0
    case = prepared('paddle.bernoulli(Tensor([1000],"float32"))')
    first, second = StaticCall(case, backward=False), StaticCall(case, backward=False)
    first.forward()
    second.forward()
    assert bool((first.outputs == second.outputs).all())


def test_the_graph_is_not_what_an_earlier_case_left() -> None:
    for api in ("exp", "sin", "exp"):
        call = StaticCall(prepared(f"paddle.{api}({X})"), backward=False)
        call.forward()
        wanted = getattr(paddle, api)(paddle.to_tensor(call.case.values["x"]))
        assert bool(paddle.allclose(call.outputs, wanted))


def test_nothing_is_left_of_a_graph() -> None:
    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    home = os.path.expanduser(f"~/.cache/paddle/to_static_tmp/{os.getpid()}")
    written = os.path.exists(home) and len(os.listdir(home))
    run(f"paddle.exp({X})")
    gc.collect()
    before = threads()
    for _ in range(5):
        run_paddle_cinn(prepared(f"paddle.exp({X})"), lambda stage: None)
    assert threads() <= before + 1
    assert (os.path.exists(home) and len(os.listdir(home))) == written
