"""What a config may call, and what it may not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import paddle
import pytest

from pytest_paddleapi.case.callables import ClosedApiError, MissingApiError, paddle_function, tensor_method
from pytest_paddleapi.process.messages import CaseResult, Mode, Verdict

CLOSED = [
    "paddle.os.system",
    "paddle.hapi.hub.os.system",
    "paddle.base.framework.os.system",
    "paddle.utils.cpp_extension.cpp_extension.os.system",
    "paddle.hub.load",
    "paddle.load",
    "paddle.save",
    "paddle.tensor.math.np.fromfile",
    "paddle.nn.functional.common.warnings.warn",
    "paddle.nn.initializer.initializer.functools.partial",
    "paddle.distributed.launch",
    "paddle.utils.try_import",
    "paddle.vision.ops.read_file",
    "paddle.vision.models.resnet18",
    "paddle.audio.load",
    "paddle.Model.load",
    "paddle.incubate.multiprocessing.reductions.init_reductions",
    "paddle.abs.__globals__",
    "paddle.__builtins__",
    "paddle.nn.__loader__.get_data",
    "paddle.abs.func_globals",
    "torch.abs",
]


@pytest.mark.parametrize("api", CLOSED)
def test_closed(api: str) -> None:
    with pytest.raises(ClosedApiError, match="is not called from a config"):
        paddle_function(api)


@pytest.mark.parametrize(
    ("api", "found"),
    [
        ("paddle.Tensor.__sub__", paddle.Tensor.__sub__),
        ("paddle.Tensor.abs", paddle.Tensor.abs),
        ("paddle.abs", paddle.abs),
        ("paddle.nn.functional.relu", paddle.nn.functional.relu),
        ("paddle.tensor.random.uniform", paddle.uniform),
        ("paddle.incubate.nn.functional.swiglu", paddle.incubate.nn.functional.swiglu),
    ],
)
def test_open(api: str, found: object) -> None:
    assert paddle_function(api) is found


def test_missing_names_are_told_what_is_near() -> None:
    with pytest.raises(MissingApiError, match=r"has no paddle\.abss; did you mean paddle\.abs"):
        paddle_function("paddle.abss")
    with pytest.raises(MissingApiError, match=r"did you mean paddle\.nn\.functional\?"):
        paddle_function("paddle.nn.functionl.relu")
    with pytest.raises(MissingApiError, match=r"has no paddle\.Tensor\.abss; did you mean paddle\.Tensor\.abs"):
        tensor_method("abss")


def test_no_mode_calls_what_is_closed(run_case: Callable[..., CaseResult], tmp_path: Path) -> None:
    victim = tmp_path / "made"
    for mode, verdict in ((Mode.PADDLE_ONLY, Verdict.NOT_COMPARABLE), (Mode.ACCURACY, Verdict.CONFIG_CONVERT)):
        for config in (
            f'paddle.os.system("touch {victim}")',
            f'paddle.hapi.hub.os.system("touch {victim}")',
            f'paddle.save(1, "{victim}")',
        ):
            result = run_case(config, mode=mode)
            assert (result.verdict, victim.exists()) == (verdict, False), result.text


@pytest.mark.parametrize(
    "before", ["paddle.set_grad_enabled(False)", "paddle.enable_static()", 'paddle.set_default_dtype("float64")']
)
def test_a_case_changes_nothing_for_the_next(run_case: Callable[..., CaseResult], before: str) -> None:
    assert run_case(before, mode=Mode.PADDLE_ONLY).verdict is Verdict.NOT_COMPARABLE
    after = run_case('paddle.exp(Tensor([3],"float32"))', mode=Mode.PADDLE_ONLY)
    assert (after.measured.compared_gradients, after.measured.compared_elements) == (1, 3)


def test_nothing_compared_is_no_pass(run_case: Callable[..., CaseResult]) -> None:
    assert run_case('paddle.is_tensor(Tensor([3],"float32"))', mode=Mode.PADDLE_ONLY).verdict is Verdict.NOT_COMPARABLE
