"""Message passing, segments and sampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pytest_paddleapi.case.compare.comparison import Comparison
from pytest_paddleapi.case.compare.registry import find_comparator
from pytest_paddleapi.case.prepared import prepare
from pytest_paddleapi.case.reference.registry import Reference, find_reference
from pytest_paddleapi.config import parse_call
from pytest_paddleapi.process.messages import CaseOptions, CaseResult, ToleranceOptions

from .support import check_row

TABLE = "graph"
Run = Callable[..., CaseResult]
X = torch.tensor([[0.0, 2.0, 3.0], [1.0, 4.0, 5.0], [2.0, 6.0, 7.0]])
SOURCE, TARGET = torch.tensor([0, 1, 2, 0]), torch.tensor([1, 2, 1, 0])


def rule(name: str) -> Any:
    found = find_reference(f"paddle.geometric.{name}")
    assert isinstance(found, Reference)
    return found.rule


def made(config: str) -> Any:
    return prepare(parse_call(config), CaseOptions()).values


def test_config_passes(run_case: Run, table_row: tuple[str, int, int]) -> None:
    check_row(run_case, table_row)


def test_messages_give_the_documented_examples() -> None:
    assert rule("send_u_recv")(X, SOURCE, TARGET).tolist() == [[0, 2, 3], [2, 8, 10], [1, 4, 5]]
    found = rule("send_ue_recv")(X, torch.ones(4), SOURCE, TARGET)
    assert found.tolist() == [[1, 3, 4], [4, 10, 12], [2, 5, 6]]
    y = torch.tensor([[0.0, 1.0, 2.0], [2.0, 3.0, 4.0], [4.0, 5.0, 6.0]])
    found = rule("send_uv")(X, y, SOURCE, TARGET)
    assert found.tolist() == [[2, 5, 7], [5, 9, 11], [4, 9, 11], [0, 3, 5]]


@pytest.mark.parametrize(
    ("reduction", "expected"), [("mean", [1, 4, 5]), ("max", [2, 6, 7]), ("min", [0, 2, 3]), ("sum", [2, 8, 10])]
)
def test_reductions_of_a_node_that_gets_two_messages(reduction: str, expected: list[float]) -> None:
    found = rule("send_u_recv")(X, SOURCE, TARGET, reduction, 5)
    assert found[1].tolist() == expected
    assert found[3:].tolist() == [[0, 0, 0]] * 2


def test_a_size_of_zero_is_none() -> None:
    assert rule("send_u_recv")(X, SOURCE, TARGET, "sum", 0).shape == (3, 3)


def test_segments_without_rows_are_zero() -> None:
    ids = torch.tensor([0, 0, 2])
    assert rule("segment_min")(X, ids).tolist() == [[0, 2, 3], [0, 0, 0], [2, 6, 7]]
    assert rule("segment_mean")(X, ids).tolist() == [[0.5, 3, 4], [0, 0, 0], [2, 6, 7]]


def test_reindexing_gives_the_documented_examples() -> None:
    x = torch.tensor([0, 1, 2])
    first, second = torch.tensor([8, 9, 0, 4, 7, 6, 7]), torch.tensor([0, 2, 3, 5, 1])
    found = rule("reindex_graph")(x, first, torch.tensor([2, 3, 2]))
    assert [part.tolist() for part in found] == [
        [3, 4, 0, 5, 6, 7, 6],
        [0, 0, 1, 1, 1, 2, 2],
        [0, 1, 2, 8, 9, 4, 7, 6],
    ]
    found = rule("reindex_heter_graph")(x, [first, second], [torch.tensor([2, 3, 2]), torch.tensor([1, 3, 1])])
    assert found[0].tolist() == [3, 4, 0, 5, 6, 7, 6, 0, 2, 8, 9, 1]
    assert found[2].tolist() == [0, 1, 2, 8, 9, 4, 7, 6, 3, 5]


def test_no_edge_is_drawn_twice() -> None:
    values = made(
        'paddle.geometric.send_u_recv(Tensor([5, 3],"float32"), Tensor([20],"int64"), Tensor([20],"int64"), "max")'
    )
    edges = set(zip(values["src_index"].tolist(), values["dst_index"].tolist()))
    assert len(edges) == 20
    assert {target for _, target in edges} <= set(range(5))


def test_segments_are_sorted_and_one_is_left_out() -> None:
    ids = made('paddle.geometric.segment_sum(Tensor([30, 2],"float32"), Tensor([30],"int64"))')["segment_ids"]
    assert (np.diff(ids) >= 0).all()
    assert ids[0] == 0
    assert set(range(ids[-1])) - set(ids.tolist())


def test_neighbour_counts_sum_to_the_neighbours() -> None:
    values = made('paddle.geometric.reindex_graph(Tensor([6],"int64"), Tensor([17],"int64"), Tensor([6],"int32"))')
    assert values["count"].sum() == 17
    assert len(set(values["x"].tolist())) == 6


GRAPH = {
    "row": np.array([10, 11, 12, 10, 13]),
    "colptr": np.array([0, 3, 4, 5]),
    "input_nodes": np.array([0, 2]),
    "eids": np.array([4, 3, 2, 1, 0]),
    "sample_size": 2,
    "return_eids": True,
}
GRAPH_DTYPES = (torch.int64, torch.int32, torch.int64)


def sampling_differences(
    neighbors: list[int], counts: list[int], edges: list[int], dtypes: tuple[torch.dtype, ...] = GRAPH_DTYPES
) -> list[str]:
    actual = tuple(torch.tensor(values, dtype=dtype) for values, dtype in zip((neighbors, counts, edges), dtypes))
    c = Comparison("paddle.geometric.sample_neighbors", GRAPH, actual, None, ToleranceOptions())
    find_comparator("paddle.geometric.sample_neighbors").judge(c)
    return c.findings.differences


def test_any_sample_is_right() -> None:
    assert not sampling_differences([12, 10, 13], [2, 1], [2, 4, 0])
    assert not sampling_differences([10, 11, 13], [2, 1], [4, 3, 0])


@pytest.mark.parametrize(
    ("neighbors", "counts", "edges"),
    [
        ([12, 12, 13], [2, 1], [2, 2, 0]),  # an edge twice
        ([12, 13, 13], [2, 1], [2, 0, 0]),  # a neighbour of another node
        ([12, 13], [1, 1], [2, 0]),  # too few
        ([12, 10, 13], [2, 1], [4, 2, 0]),  # edges that lead elsewhere
        ([12, 10], [2, 1], [2, 4]),  # fewer than counted
    ],
)
def test_wrong_samples_are_caught(neighbors: list[int], counts: list[int], edges: list[int]) -> None:
    assert sampling_differences(neighbors, counts, edges)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_samples_of_another_dtype_are_caught(index: int) -> None:
    dtypes = list(GRAPH_DTYPES)
    dtypes[index] = torch.int64 if index == 1 else torch.int32
    (text,) = sampling_differences([12, 10, 13], [2, 1], [2, 4, 0], tuple(dtypes))
    assert text.startswith(f"output {index}: dtype")
