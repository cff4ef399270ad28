"""Where results stay until they are compared."""

from __future__ import annotations

import pytest

paddle = pytest.importorskip("paddle")
torch = pytest.importorskip("torch")

from pytest_paddleapi.case.holding import paddle_holder, received, torch_holder  # noqa: E402
from pytest_paddleapi.case.prepared import PreparedCase, prepare  # noqa: E402
from pytest_paddleapi.case.results import SideResult  # noqa: E402
from pytest_paddleapi.case.tensors import share  # noqa: E402
from pytest_paddleapi.config import parse_call  # noqa: E402
from pytest_paddleapi.process.messages import CaseOptions  # noqa: E402

#: The host stands for the second device: Paddle copies to it by the same call, and Torch knows it.
PAIR = CaseOptions(second_device="cpu")


def case_of(options: CaseOptions, config: str = 'paddle.abs(Tensor([2],"float32"))') -> PreparedCase:
    return prepare(parse_call(config), options)


DTYPES = ("bool", "uint8", "int64", "float8_e4m3fn", "float16", "bfloat16", "float32", "complex64")


@pytest.mark.parametrize("dtype", DTYPES)
def test_paddle_holds_its_own_and_torch_gets_the_same_values(dtype: str) -> None:
    value = paddle.to_tensor([[0.0, 1.0], [1.0, 0.0]]).cast(dtype)
    value.stop_gradient = False
    held = paddle_holder(case_of(PAIR))(value)
    assert isinstance(held, paddle.Tensor) and held.data_ptr() != value.data_ptr() and held.stop_gradient
    (got,) = received(SideResult([held]), "cpu").outputs
    assert got.dtype == getattr(torch, dtype) and got.shape == (2, 2)
    assert got.to(torch.complex64).tolist() == [[0, 1], [1, 0]]


def test_without_a_second_device_results_are_on_the_host_at_once() -> None:
    assert isinstance(paddle_holder(case_of(CaseOptions()))(paddle.ones([2])), torch.Tensor)
    assert paddle_holder(case_of(CaseOptions()))("text") == "text"


def test_a_view_with_strides_and_a_sparse_tensor_are_held_dense() -> None:
    hold = paddle_holder(case_of(PAIR))
    view = hold(paddle.arange(6).reshape([2, 3]).t())
    sparse = hold(paddle.sparse.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], [2, 2]))
    got = received(SideResult(view, gradients={"x": sparse}), "cpu")
    assert got.outputs.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert got.gradients["x"].tolist() == [[0, 1], [2, 0]]


def test_results_change_no_more_when_what_gave_them_does() -> None:
    value = paddle.zeros([3])
    held = paddle_holder(case_of(PAIR))(value)
    value.fill_(1.0)
    assert received(SideResult(held), "cpu").outputs.tolist() == [0, 0, 0]


def test_torch_goes_to_the_device_that_it_is_told() -> None:
    # "meta" is a device of its own that every Torch has, though one without values.
    hold = torch_holder(case_of(CaseOptions(second_device="gpu:1", second_torch_device="meta")))
    assert hold(torch.ones(3, requires_grad=True)).device.type == "meta"
    assert not torch_holder(case_of(CaseOptions()))(torch.ones(3, requires_grad=True)).requires_grad


def test_only_plain_comparisons_are_on_the_second_device() -> None:
    options = CaseOptions(second_device="gpu:1", second_torch_device="cuda:1")
    assert case_of(options).landing == "cuda:1"
    assert case_of(options, 'paddle.linalg.svd(Tensor([2, 2],"float32"))').landing == "cpu"
    assert case_of(CaseOptions()).landing == "cpu"


@pytest.mark.parametrize("dtype", DTYPES)
def test_memory_is_shared_where_both_know_the_device(dtype: str) -> None:
    held = paddle_holder(case_of(PAIR))(paddle.zeros([4]).cast(dtype))
    shared = share(held)
    assert shared.dtype == getattr(torch, dtype)
    assert shared.data_ptr() == held.data_ptr()
