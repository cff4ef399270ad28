"""Subscripts, gathering and scattering, masks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from pytest_paddleapi.case.compare.comparison import Comparison
from pytest_paddleapi.case.compare.registry import find_comparator
from pytest_paddleapi.case.prepared import prepare
from pytest_paddleapi.case.reference.registry import find_reference
from pytest_paddleapi.config import parse_call
from pytest_paddleapi.process.messages import CaseOptions, CaseResult, ToleranceOptions, Verdict

TABLE = "indexing"

REFUSED = """
paddle.Tensor.__getitem__(Tensor([],"float32"), 0)
paddle.Tensor.__getitem__(Tensor([3, 4],"float32"), tuple(0,0,0))
paddle.Tensor.__setitem__(Tensor([3, 4, 5],"float32"), 0, Tensor([2, 5],"float32"))
paddle.gather(Tensor([5, 4],"float32"), Tensor([2, 2],"int64"))
paddle.where(Tensor([3],"bool"), Tensor([3],"int64"), Tensor([3],"float32"))
paddle.nonzero(Tensor([],"float32"))
paddle.take(Tensor([0, 4],"float64"), Tensor([5, 8],"int64"), mode="wrap", )
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


INDEX = torch.tensor([2, 0])

#: Subscripts for a tensor of shape [3, 4, 5] that NumPy reads in the same way.
SUBSCRIPTS = [
    0,
    (-1, Ellipsis, 2),
    (slice(None), None, slice(None, None, -2)),
    (slice(5, 0, -1), 0),
    slice(0, 3, -1),
    ([0, 2], [1, 3]),
    ([0, 2], slice(None), [1, 3]),
    (slice(None, None, -1), [0, 3], slice(4, 0, -3)),
    [[0, 1], [1, 2]],
    [True, False, True],
    INDEX,
    (slice(None), INDEX, slice(1, 3)),
    (None, [0, 1], [1, 2]),
    ([0, 1], None, [1, 2]),
    (Ellipsis, [[0], [4]]),
    [],
    True,
]


@pytest.mark.parametrize("item", SUBSCRIPTS, ids=repr)
def test_reading_agrees_with_numpy(item: object) -> None:
    x = counting(3, 4, 5)

    np.testing.assert_array_equal(rule("paddle.Tensor.__getitem__")(x, item).numpy(), x.numpy()[in_numpy(item)])


@pytest.mark.parametrize("item", SUBSCRIPTS, ids=repr)
def test_writing_agrees_with_numpy(item: object) -> None:
    x = counting(3, 4, 5)
    expected = x.numpy().copy()
    value = -1 - counting(*expected[in_numpy(item)].shape)
    expected[in_numpy(item)] = value.numpy()

    rule("paddle.Tensor.__setitem__")(x, item, value)

    np.testing.assert_array_equal(x.numpy(), expected)


def in_numpy(item: object) -> object:
    """The subscript for NumPy, where an empty list has to be told to hold integers."""
    if isinstance(item, tuple):
        return tuple(in_numpy(part) for part in item)
    if isinstance(item, torch.Tensor):
        return item.numpy()
    return np.array([], dtype=int) if isinstance(item, list) and not item else item


def test_an_integer_drops_its_axis_before_index_tensors_are_looked_at() -> None:
    # NumPy moves the axis of the list to the front here; Paddle and Torch do not.
    assert rule("paddle.Tensor.__getitem__")(counting(3, 4, 5), (0, slice(None), [1, 2])).shape == (4, 2)


def test_a_written_value_is_cast_to_the_dtype_of_the_tensor() -> None:
    x = torch.zeros(2, dtype=torch.int32)

    rule("paddle.Tensor.__setitem__")(x, 0, 2.7)

    assert x.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("api", "args", "expected"),
    [
        # The examples of the documentation of scatter, scatter_nd_add (both cases) and put_along_axis.
        (
            "paddle.scatter",
            ([[1.0, 1], [2, 2], [3, 3]], torch.tensor([2, 1, 0, 1]), [[1.0, 1], [2, 2], [3, 3], [4, 4]], False),
            [[3.0, 3], [6, 6], [1, 1]],
        ),
        (
            "paddle.scatter_nd_add",
            ([0.0, 1, 2, 3, 4, 5], torch.tensor([[1], [2], [3], [1]]), [9.0, 10, 11, 12]),
            [0.0, 22, 12, 14, 4, 5],
        ),
        (
            "paddle.scatter_nd_add",
            (
                [[65.0, 17], [-14, -25]],
                torch.zeros(2, 0, dtype=torch.int64),
                [[[-1.0, -2], [1, 2]], [[3, 4], [-3, -4]]],
            ),
            [[67.0, 19], [-16, -27]],
        ),
        ("paddle.gather_nd", ([[1.0, 2], [3, 4]], torch.tensor([[0, 1], [-1, 0]])), [2.0, 3]),
        ("paddle.gather", ([[1.0, 2], [3, 4]], torch.tensor([1, -2]), 1), [[2.0, 1], [4, 3]]),
        ("paddle.gather", ([[1.0, 2], [3, 4]], torch.tensor(1)), [3.0, 4]),
        ("paddle.gather", ([[1.0, 2], [3, 4]], 1, torch.tensor([[1], [0]])), [[2.0], [3]]),
        ("paddle.index_sample", ([[1.0, 2, 3], [4, 5, 6]], torch.tensor([[0, 2], [1, 1]])), [[1.0, 3], [5, 5]]),
        ("paddle.index_add", ([0.0, 0, 0], torch.tensor([0, 0, -1]), 0, [1.0, 2, 4], 2), [6.0, 0, 8]),
        ("paddle.index_fill", ([1.0, 2, 3], torch.tensor([-1, 0]), 0, 9), [9.0, 2, 9]),
        ("paddle.take", ([[0.0, 1], [2, 3]], torch.tensor([[5, -1]]), "wrap"), [[1.0, 3]]),
        ("paddle.take", ([[0.0, 1], [2, 3]], torch.tensor([[5, -1]]), "clip"), [[3.0, 0]]),
        ("paddle.take_along_axis", ([[1.0, 2], [3, 4]], torch.tensor([[1]]), 0), [[3.0, 4]]),
        ("paddle.take_along_axis", ([[1.0, 2], [3, 4]], torch.tensor([[1]]), 0, False), [[3.0]]),
        ("paddle.put_along_axis", ([[1.0, 2], [3, 4]], torch.tensor([[0]]), 9.0, 0), [[9.0, 9], [3, 4]]),
        (
            "paddle.put_along_axis",
            ([[6.0, 2]], torch.tensor([[0, 0]]), [[2.0, 4]], 1, "mean", True),
            [[4.0, 2]],
        ),
        (
            "paddle.put_along_axis",
            ([[6.0, 2]], torch.tensor([[0, 0]]), [[2.0, 4]], 1, "mean", False),
            [[3.0, 2]],
        ),
        ("paddle.put_along_axis", ([[6.0, 2]], torch.tensor([[0, 0]]), [[2.0, 4]], 1, "mul", False), [[8.0, 2]]),
        ("paddle.put_along_axis", ([[1.0, 2]], torch.tensor([[0, 0]]), [[2.0, 4]], 1, "amax"), [[4.0, 2]]),
        (
            "paddle.masked_scatter",
            ([[0.0, 0], [0, 0]], torch.tensor([True, False]), [5.0, 6, 7]),
            [[5.0, 0], [6, 0]],
        ),
        ("paddle.masked_fill", ([0.0, 1], torch.tensor([[True, False], [False, True]]), 7), [[7.0, 1], [0, 7]]),
        ("paddle.where", (torch.tensor([True, False]), [1.0, 2], 7.5), [1.0, 7.5]),
    ],
)
def test_reference_gives_the_documented_value(api: str, args: tuple[object, ...], expected: list[object]) -> None:
    result = rule(api)(*(torch.tensor(arg) if isinstance(arg, list) else arg for arg in args))

    torch.testing.assert_close(result, torch.tensor(expected), rtol=0, atol=0)


def values_of(config: str) -> dict[str, object]:
    return dict(prepare(parse_call(config), CaseOptions()).values)


def test_indices_cover_first_and_last_and_count_from_the_end() -> None:
    index = values_of('paddle.gather(Tensor([5, 4],"float32"), Tensor([40],"int64"))')["index"]

    assert {0, 4} <= set(np.asarray(index) % 5)
    assert np.asarray(index).min() < 0


def test_overwritten_rows_are_named_once() -> None:
    index = values_of('paddle.scatter(Tensor([50, 4],"float32"), Tensor([50],"int64"), Tensor([50, 4],"float32"))')[
        "index"
    ]

    assert len(set(np.asarray(index) % 50)) == 50


def test_rows_that_must_repeat_are_written_with_the_same_values() -> None:
    made = values_of('paddle.scatter(Tensor([3, 2],"float32"), Tensor([9],"int64"), Tensor([9, 2],"float32"))')
    rows = np.asarray(made["index"]) % 3
    updates = np.asarray(made["updates"])

    assert all(len(np.unique(updates[rows == row], axis=0)) == 1 for row in range(3))


def test_a_pair_of_index_tensors_names_no_element_twice() -> None:
    item = 'tuple(Tensor([12],"int64"),Tensor([12],"int64"))'
    made = values_of(f'paddle.Tensor.__setitem__(Tensor([3, 4],"float32"), {item}, Tensor([12],"float32"))')

    first, second = made["item"]  # type: ignore[misc]
    assert len(set(zip(first % 3, second % 4))) == 12


@pytest.mark.parametrize(
    ("item", "value", "place", "trues"),
    [
        ('Tensor([8, 9],"bool")', 'Tensor([31, 2],"float32")', 0, 31),
        ('tuple(slice(None,None,None),Tensor([9],"bool"))', 'Tensor([8, 5, 2],"float32")', 1, 5),
        ('tuple(Tensor([8],"bool"),slice(None,None,None),Tensor([1],"int64"))', 'Tensor([6, 9],"float32")', 0, 6),
        ('tuple(Tensor([8],"bool"),Tensor([4],"int64"))', 'Tensor([],"float32")', 0, 4),
    ],
)
def test_a_mask_has_as_many_true_as_the_value_has_rows(item: str, value: str, place: int, trues: int) -> None:
    made = values_of(f'paddle.Tensor.__setitem__(Tensor([8, 9, 2],"float32"), {item}, {value})')["item"]

    mask = made[place] if isinstance(made, tuple) else made
    assert int(np.sum(mask)) == trues


def judged(api: str, arguments: dict[str, object], actual: object, expected: object, **more: object) -> list[str]:
    comparison = Comparison(api, arguments, actual, expected, ToleranceOptions(), **more)  # type: ignore[arg-type]
    find_comparator(api).judge(comparison)
    return comparison.findings.differences


def test_a_wrong_element_of_a_written_tensor_is_found() -> None:
    arguments = {"x": np.zeros(3, np.float32), "index": np.array([0, 0]), "axis": 0, "value": np.ones(2, np.float32)}

    assert judged("paddle.index_add", arguments, torch.tensor([2.001, 0, 0]), torch.tensor([2.0, 0, 0]))
    assert not judged("paddle.index_add", arguments, torch.tensor([2.0, 0, 0]), torch.tensor([2.0, 0, 0]))


def test_of_values_written_over_one_another_any_may_have_the_gradient_and_one_must() -> None:
    def differences(index: list[int], *gradient: float) -> list[str]:
        arguments = {"x": np.zeros(3, np.float32), "item": np.array(index), "value": np.ones(2, np.float32)}
        actual, expected = torch.tensor(gradient).float(), torch.tensor([0.0, 1])
        gradients = {"actual_gradients": {"value": actual}, "expected_gradients": {"value": expected}}
        return judged("paddle.Tensor.__setitem__", arguments, None, None, **gradients)

    assert not differences([1, 1], 1, 0)
    assert not differences([1, 1], 0, 1)
    assert not differences([1, 1], 1, 1)
    assert differences([1, 1], 0, 0)
    assert differences([1, 1], 0.5, 1)
    assert differences([0, 1], 1, 0)


def test_places_along_an_axis_are_told_apart() -> None:
    arguments = {"arr": np.zeros((2, 2), np.float32), "indices": np.array([[0, 1], [-2, 0]]), "axis": 0}
    expected = torch.tensor([[1.0, 2], [1, 3]])

    def differences(actual: list[list[float]]) -> list[str]:
        given = {"values": torch.tensor(actual).float()}
        gradients = {"actual_gradients": given, "expected_gradients": {"values": expected}}
        return judged("paddle.put_along_axis", arguments, None, None, **gradients)

    assert not differences([[0, 2], [1, 3]])
    assert differences([[0, 2], [0, 3]])
    assert differences([[1, 0], [1, 3]])


def test_a_gradient_over_many_uses_is_as_exact_as_its_sum_and_no_more() -> None:
    def differences(error: float) -> list[str]:
        expected = {"x": torch.tensor([10.0])}
        actual = {"x": torch.tensor([10.0 + error])}
        return judged(
            "paddle.expand",
            {"x": np.ones(1, np.float32)},
            torch.ones(10_000),
            torch.ones(10_000),
            actual_gradients=actual,
            expected_gradients=expected,
            cotangents=(torch.ones(10_000),),
        )

    assert not differences(1e-3)
    assert differences(1e-1)
