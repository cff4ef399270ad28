"""Sorting, searching, unique elements, and masks of sequence lengths."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from pytest_paddleapi.case.compare.comparison import Comparison
from pytest_paddleapi.case.compare.registry import find_comparator
from pytest_paddleapi.case.prepared import prepare
from pytest_paddleapi.case.reference.registry import NoEquivalent, find_reference
from pytest_paddleapi.config import parse_call
from pytest_paddleapi.process.messages import CaseOptions, CaseResult, ToleranceOptions, Verdict

TABLE = "sorting"

REFUSED = """
paddle.topk(Tensor([3, 8],"float32"), 9)
paddle.topk(Tensor([3, 8],"float32"), 0)
paddle.kthvalue(Tensor([3, 8],"float32"), 9)
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


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_unique_agrees_with_numpy(axis: int | None) -> None:
    x = np.array([[2, 1, 2], [1, 1, 1], [2, 1, 2]])

    found = rule("paddle.unique")(torch.from_numpy(x), True, True, True, axis)

    expected = np.unique(x, True, True, True, axis)
    for actual, wanted in zip(found, expected):
        np.testing.assert_array_equal(actual.numpy(), wanted.reshape(actual.shape))


def test_unique_gives_its_indices_in_the_asked_dtype() -> None:
    _, index = rule("paddle.unique")(torch.tensor([3, 1]), return_index=True, dtype="int32")

    assert index.dtype is torch.int32


def test_unique_consecutive_keeps_the_first_of_each_run() -> None:
    found, inverse, counts = rule("paddle.unique_consecutive")(torch.tensor([1, 1, 2, 1]), True, True)

    assert (found.tolist(), inverse.tolist(), counts.tolist()) == ([1, 2, 1], [0, 0, 1, 2], [2, 1, 1])


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted_agrees_with_numpy(right: bool) -> None:
    boundaries, values = np.array([1.0, 2, 2, 5]), np.array([0.0, 1, 2, 4, 5, 6])

    found = rule("paddle.searchsorted")(torch.from_numpy(boundaries), torch.from_numpy(values), right=right)

    np.testing.assert_array_equal(found.numpy(), np.searchsorted(boundaries, values, "right" if right else "left"))


def test_isin_agrees_with_numpy() -> None:
    found = rule("paddle.isin")(torch.tensor([[1, 2], [3, 4]]), torch.tensor([2, 4, 9]), invert=True)

    np.testing.assert_array_equal(found.numpy(), np.isin([[1, 2], [3, 4]], [2, 4, 9], invert=True))


def test_kthvalue_is_the_kth_smallest() -> None:
    values, indices = rule("paddle.kthvalue")(torch.tensor([[3.0, 1, 2]]), 2, 1, True)

    assert (values.tolist(), indices.tolist()) == ([[2.0]], [[2]])


def test_mode_is_the_most_frequent_element() -> None:
    values, _ = rule("paddle.mode")(torch.tensor([[2.0, 1, 2], [3, 3, 1]]))

    assert values.tolist() == [2, 3]


@pytest.mark.parametrize(
    ("api", "shape"), [("paddle.argmax", (0, 3)), ("paddle.argmin", (0, 3)), ("paddle.mode", (3, 0))]
)
def test_what_an_empty_axis_leaves_open_has_no_reference(api: str, shape: tuple[int, int]) -> None:
    with pytest.raises(NoEquivalent, match="empty axis"):
        rule(api)(torch.zeros(shape), axis=shape.index(0))


def test_sequence_mask_is_as_long_as_the_largest_length() -> None:
    found = rule("paddle.nn.functional.sequence_mask")(torch.tensor([3, 1, 0]))

    assert found.tolist() == [[1, 1, 1], [1, 0, 0], [0, 0, 0]]
    assert found.dtype is torch.int64


def test_gather_tree_gives_the_example_of_the_documentation() -> None:
    ids = torch.tensor([[[2, 2], [6, 1]], [[3, 9], [6, 1]], [[0, 1], [9, 0]]])
    parents = torch.tensor([[[0, 0], [1, 1]], [[1, 0], [1, 0]], [[0, 0], [0, 1]]])

    found = rule("paddle.nn.functional.gather_tree")(ids, parents)

    assert found.tolist() == [[[2, 2], [1, 6]], [[3, 3], [6, 1]], [[0, 1], [9, 0]]]


def judged(api: str, x: list[object], actual: object, expected: object, **arguments: object) -> list[str]:
    gradients = {name: arguments.pop(name) for name in list(arguments) if name.endswith("gradients")}
    given = {"x": np.array(x), **arguments}
    comparison = Comparison(api, given, actual, expected, ToleranceOptions(), **gradients)  # type: ignore[arg-type]
    find_comparator(api).judge(comparison)
    return comparison.findings.differences


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values)


TIED = [1.0, 3.0, 3.0, 0.0]


def test_argsort_may_order_ties_either_way_and_nothing_else() -> None:
    expected = ints(3, 0, 1, 2)

    assert not judged("paddle.argsort", TIED, ints(3, 0, 2, 1), expected)
    assert judged("paddle.argsort", TIED, ints(0, 3, 1, 2), expected)
    assert judged("paddle.argsort", TIED, ints(3, 0, 1, 1), expected)
    assert judged("paddle.argsort", TIED, ints(3, 0, 1, 4), expected)


def test_a_stable_argsort_has_one_order() -> None:
    assert judged("paddle.argsort", TIED, ints(3, 0, 2, 1), ints(3, 0, 1, 2), stable=True)


def test_argmax_may_name_any_of_the_largest() -> None:
    assert not judged("paddle.argmax", TIED, torch.tensor(2), torch.tensor(1))
    assert judged("paddle.argmax", TIED, torch.tensor(0), torch.tensor(1))
    assert judged("paddle.argmax", TIED, torch.tensor(1, dtype=torch.int32), torch.tensor(1))


def doubles(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_topk_compares_values_exactly_and_looks_where_the_indices_point() -> None:
    expected = (doubles(3, 3), ints(1, 2))

    assert not judged("paddle.topk", TIED, (doubles(3, 3), ints(2, 1)), expected, k=2)
    assert judged("paddle.topk", TIED, (doubles(3, 1), ints(2, 0)), expected, k=2)
    assert judged("paddle.topk", TIED, (doubles(3, 3), ints(2, 0)), expected, k=2)
    assert judged("paddle.topk", TIED, (doubles(3, 3), ints(2, 2)), expected, k=2)


def test_topk_without_order_is_put_in_order_first() -> None:
    swapped, expected = (doubles(1, 3), ints(0, 1)), (doubles(3, 1), ints(1, 0))

    assert not judged("paddle.topk", TIED[:2], swapped, expected, k=2, sorted=False)
    assert judged("paddle.topk", TIED[:2], swapped, expected, k=2)


def test_kthvalue_may_name_any_element_with_its_value() -> None:
    expected = (doubles(3).reshape(()), torch.tensor(1))

    assert not judged("paddle.kthvalue", TIED, (doubles(3).reshape(()), torch.tensor(2)), expected, k=3)
    assert judged("paddle.kthvalue", TIED, (doubles(3).reshape(()), torch.tensor(0)), expected, k=3)


def test_mode_may_be_any_of_the_most_frequent_values() -> None:
    x = [1.0, 1.0, 2.0, 2.0, 3.0]
    expected = (doubles(1).reshape(()), torch.tensor(0))

    assert not judged("paddle.mode", x, (doubles(2).reshape(()), torch.tensor(3)), expected)
    assert judged("paddle.mode", x, (doubles(3).reshape(()), torch.tensor(4)), expected)
    assert judged("paddle.mode", x, (doubles(2).reshape(()), torch.tensor(0)), expected)


def test_sort_gradients_may_be_swapped_among_ties_only() -> None:
    ordered = doubles(0, 1, 3, 3)

    def differences(*gradient: float) -> list[str]:
        actual, expected = {"x": doubles(*gradient)}, {"x": doubles(20, 30, 40, 10)}
        return judged("paddle.sort", TIED, ordered, ordered, actual_gradients=actual, expected_gradients=expected)

    assert not differences(20, 40, 30, 10)
    assert differences(40, 20, 30, 10)
    assert differences(20, 35, 35, 10)


def values_of(config: str) -> dict[str, object]:
    return dict(prepare(parse_call(config), CaseOptions()).values)


def test_values_to_sort_have_no_ties() -> None:
    x = np.asarray(values_of('paddle.sort(Tensor([40, 50],"float32"))')["x"])

    assert len(np.unique(x)) == 2000


def test_half_of_the_looked_up_values_are_boundaries() -> None:
    made = values_of('paddle.searchsorted(Tensor([9],"float32"), Tensor([400],"float32"))')

    share = np.isin(made["values"], made["sorted_sequence"]).mean()
    assert 0.3 < share < 0.7
    assert (np.diff(np.asarray(made["sorted_sequence"])) > 0).all()


@pytest.mark.parametrize("shape", ["[1]", "[2]", "[3, 4]"])
def test_a_mask_has_true_and_where_there_is_room_false(shape: str) -> None:
    mask = np.asarray(values_of(f'paddle.masked_select(Tensor({shape},"float32"), Tensor({shape},"bool"))')["mask"])

    assert mask.any()
    assert mask.size == 1 or not mask.all()
