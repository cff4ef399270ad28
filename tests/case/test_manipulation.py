"""Shape manipulation: views, joining and splitting, rearrangements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from pytest_paddleapi.case.reference.registry import NoEquivalent, find_reference
from pytest_paddleapi.process.messages import CaseResult, Verdict

TABLE = "manipulation"

REFUSED = """
paddle.flatten(Tensor([2, 3, 4],"float32"), 2, 1)
paddle.Tensor.item(Tensor([2, 3],"float32"))
paddle.Tensor.__len__(Tensor([],"float32"))
paddle.concat(list[Tensor([2],"float32"),Tensor([2],"float64"),])
paddle.concat(list[Tensor([0],"float32"),Tensor([2, 3],"float32"),])
paddle.split(Tensor([6, 4],"float32"), 4)
paddle.split(Tensor([6, 4],"float32"), list[4,4,])
paddle.chunk(Tensor([5, 4],"float32"), 2)
paddle.vsplit(Tensor([6],"float32"), 2)
paddle.unstack(Tensor([2, 3],"float32"), axis=1, num=2)
paddle.roll(Tensor([3, 4],"float32"), list[1,2,], axis=0)
paddle.repeat_interleave(Tensor([3, 2],"float32"), 0, 0)
paddle.matrix_transpose(Tensor([3],"float32"))
"""


def test_config_passes(run_case: Callable[..., CaseResult], table_row: tuple[str, int, int]) -> None:
    config, outputs, gradients = table_row
    result = run_case(config)

    assert result.verdict is Verdict.PASS, result.text
    assert (result.measured.compared_outputs, result.measured.compared_gradients) == (outputs, gradients)


@pytest.mark.parametrize("config", REFUSED.strip().splitlines())
def test_what_paddle_documents_as_wrong_is_refused_by_both(run_case: Callable[..., CaseResult], config: str) -> None:
    result = run_case(config)

    assert result.verdict is Verdict.BOTH_ERROR, result.text


def rule(api: str) -> Callable[..., object]:
    found = find_reference(api)
    assert hasattr(found, "rule")
    return found.rule


def counting(*shape: int) -> torch.Tensor:
    return torch.arange(int(np.prod(shape)), dtype=torch.float32).reshape(shape)


@pytest.mark.parametrize(
    ("api", "args", "expected"),
    [
        # 0 copies an axis, -1 takes the rest (the documentation's own examples).
        ("paddle.reshape", (counting(2, 4, 6), [-1, 0, 3, 2]), counting(2, 4, 3, 2)),
        ("paddle.reshape", (counting(2, 4, 6), 6, 8), counting(6, 8)),
        ("paddle.unsqueeze", (counting(2), [0, -1]), counting(1, 2, 1)),
        ("paddle.unsqueeze", (counting(2, 3), [2, 0]), counting(1, 2, 3, 1)),
        ("paddle.squeeze", (counting(1, 3, 1, 5), [0, 2, 3]), counting(3, 5)),
        ("paddle.tile", (counting(2), [2, 2]), torch.tensor([[0.0, 1, 0, 1], [0, 1, 0, 1]])),
        ("paddle.expand", (counting(2, 1), [-1, 3]), torch.tensor([[0.0, 0, 0], [1, 1, 1]])),
        # 4 bytes are one float32.
        ("paddle.as_strided", (counting(4, 6), [2, 2], [6, 1], 4), torch.tensor([[1.0, 2], [7, 8]])),
        ("paddle.unfold", (counting(5), 0, 3, 2), torch.tensor([[0.0, 1, 2], [2, 3, 4]])),
        ("paddle.as_complex", (torch.tensor([[1.0, 2.0]]),), torch.tensor([1 + 2j])),
        ("paddle.roll", (counting(2, 3), 1), torch.tensor([[5.0, 0, 1], [2, 3, 4]])),
        ("paddle.rot90", (counting(2, 2),), torch.tensor([[1.0, 3], [0, 2]])),
        ("paddle.crop", (counting(3, 3), [2, -1], [1, 1]), torch.tensor([[4.0, 5], [7, 8]])),
        ("paddle.slice", (counting(4, 3), [0, 1], [-3, 0], [3, 100]), torch.tensor([[3.0, 4, 5], [6, 7, 8]])),
        # [8, 7, 6] is case 2 of the documentation of strided_slice, counted from 0 here.
        ("paddle.strided_slice", (counting(2, 4), [0, 1], [1, 3], [2, 0], [1, -1]), torch.tensor([[7.0, 6, 5]])),
        ("paddle.strided_slice", (counting(4), [0], [-1], [-5], [-1]), torch.tensor([3.0, 2, 1, 0])),
        ("paddle.repeat_interleave", (counting(2), torch.tensor([1, 2])), torch.tensor([0.0, 1, 1])),
        ("paddle.shard_index", (torch.tensor([[16], [1]]), 20, 2, 0), torch.tensor([[-1], [1]])),
        ("paddle.select_scatter", (torch.zeros(2, 2), torch.ones(2), 1, -1), torch.tensor([[0.0, 1], [0, 1]])),
        ("paddle.combinations", (counting(3),), torch.tensor([[0.0, 1], [0, 2], [1, 2]])),
        ("paddle.cartesian_prod", ([counting(2), counting(1) + 5],), torch.tensor([[0.0, 5], [1, 5]])),
        ("paddle.increment", (torch.tensor([3]), 1.7), torch.tensor([4])),
        (
            "paddle.multiplex",
            ([counting(2, 1), counting(2, 1) + 10], torch.tensor([[1], [0]])),
            torch.tensor([[10.0], [1]]),
        ),
    ],
)
def test_reference_gives_the_documented_value(api: str, args: tuple[object, ...], expected: torch.Tensor) -> None:
    result = rule(api)(*args)

    assert isinstance(result, torch.Tensor)
    torch.testing.assert_close(result, expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("api", "numpy_function", "args"),
    [
        ("paddle.moveaxis", np.moveaxis, ([0, 1], [-1, 0])),
        ("paddle.transpose", np.transpose, ([2, 0, 1],)),
        ("paddle.flip", np.flip, ([0, 2],)),
        ("paddle.rot90", np.rot90, (3, (0, 2))),
        ("paddle.roll", np.roll, ([1, -2], [0, 2])),
        ("paddle.diagonal", np.diagonal, (1, 2, 0)),
        ("paddle.swapaxes", np.swapaxes, (0, 2)),
    ],
)
def test_reference_agrees_with_numpy(api: str, numpy_function: Callable[..., object], args: tuple[object, ...]) -> None:
    x = counting(2, 3, 4)

    result = rule(api)(x, *args)

    np.testing.assert_array_equal(result.numpy(), numpy_function(x.numpy(), *args))


@pytest.mark.parametrize(
    ("api", "numpy_function"),
    [
        ("paddle.hstack", np.hstack),
        ("paddle.vstack", np.vstack),
        ("paddle.dstack", np.dstack),
        ("paddle.column_stack", np.column_stack),
    ],
)
def test_stacks_agree_with_numpy_for_vectors_and_matrices(api: str, numpy_function: Callable[..., object]) -> None:
    for tensors in ([counting(3), counting(3) + 9], [counting(3, 2), counting(3, 2) + 9]):
        result = rule(api)(tensors)

        np.testing.assert_array_equal(result.numpy(), numpy_function([tensor.numpy() for tensor in tensors]))


@pytest.mark.parametrize("cuts", [3, [2, 5], [3, -1, 5, 2, 16]])
def test_tensor_split_agrees_with_numpy(cuts: int | list[int]) -> None:
    x = counting(7)

    parts = rule("paddle.tensor_split")(x, cuts)

    expected = np.array_split(x.numpy(), cuts)
    assert [part.tolist() for part in parts] == [part.tolist() for part in expected]


@pytest.mark.parametrize(("shape", "wrap"), [((7, 3), False), ((7, 3), True), ((3, 7), False), ((3, 3, 3), True)])
def test_fill_diagonal_agrees_with_numpy(shape: tuple[int, ...], wrap: bool) -> None:
    x = counting(*shape)
    expected = x.numpy().copy()
    np.fill_diagonal(expected, -1, wrap=wrap)

    rule("paddle.Tensor.fill_diagonal_")(x, -1, 0, wrap)

    np.testing.assert_array_equal(x.numpy(), expected)


def test_fill_diagonal_below_the_main_one_reaches_its_end() -> None:
    x = torch.zeros(7, 3)

    rule("paddle.Tensor.fill_diagonal_")(x, 1, -1)

    assert x.nonzero().tolist() == [[1, 0], [2, 1], [3, 2]]


def test_vector_to_parameters_changes_the_tensors_in_turn() -> None:
    first, second = torch.zeros(2, 2), torch.zeros(3)

    assert rule("paddle.nn.utils.vector_to_parameters")(counting(8), [first, second]) is None

    assert (first.tolist(), second.tolist()) == ([[0, 1], [2, 3]], [4, 5, 6])


def test_set_takes_shape_strides_and_an_offset_in_bytes() -> None:
    x = torch.zeros(20)

    rule("paddle.Tensor.set_")(x, counting(2, 3), [2], [2], 4)

    assert x.tolist() == [1, 3]


def test_set_beyond_the_storage_has_no_reference() -> None:
    with pytest.raises(NoEquivalent, match="beyond the storage"):
        rule("paddle.Tensor.set_")(torch.zeros(20), torch.zeros(15, 0), [20], [2], 0)


def test_gradient_of_overlapping_windows_adds_up() -> None:
    # Each inner element lies in two windows: its gradient is the sum of both.
    x = counting(4).requires_grad_(True)
    weights = torch.tensor([[1.0, 2], [4, 8], [16, 32]])
    rule("paddle.unfold")(x, 0, 2, 1).backward(weights)

    assert x.grad is not None
    assert x.grad.tolist() == [1, 2 + 4, 8 + 16, 32]
