"""Graphs: edges, segments, and adjacency in compressed columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...config import TensorSpec
from .makers import index_values, nonzero, ordinary
from .registry import Draw, inputs


def segment_ids(draw: Draw) -> Any:
    """Ascending from 0, some with several rows, and one left out where there is room."""
    count = draw.shape[0] if draw.shape else 0
    ids = np.sort(draw.rng.integers(0, max(count // 2, 1), count))
    if count:
        ids = ids - ids[0]
    if count > 4:
        ids[count // 2 :] += 1
    return ids.reshape(draw.shape)


def _count(draw: Draw) -> int:
    return int(np.prod(draw.shape, dtype=np.int64))


def _result_rows(draw: Draw) -> int:
    """Rows of the result: those of ``x``, or fewer or more where ``out_size`` says so."""
    size = draw.arg("out_size")
    return size if isinstance(size, int) and size > 0 else draw.shape_of("x")[0]


def sources(draw: Draw) -> Any:
    """Rows of ``x`` that edges come from, none of them more often than there are rows to go to."""
    nodes, rows, count = draw.shape_of("x")[0], _result_rows(draw), _count(draw)
    if count > nodes * rows:
        return index_values(draw, nodes)
    return (draw.rng.permutation(nodes * rows)[:count] // rows).reshape(draw.shape)


def sources_to_y(draw: Draw) -> Any:
    return index_values(draw, draw.shape_of("x")[0])


def _targets(draw: Draw, rows: int) -> Any:
    """Nodes that edges go to. No edge twice where there are enough pairs, so that no maximum has a tie."""
    source = draw.values("src_index").reshape(-1)
    if rows <= 0:
        return index_values(draw, rows)
    target = np.zeros(len(source), np.int64)
    for node in np.unique(source):
        edges = np.flatnonzero(source == node)
        order = np.concatenate([draw.rng.permutation(rows) for _ in range(-(-len(edges) // rows))])
        target[edges] = order[: len(edges)]
    return target.reshape(draw.shape)


def targets(draw: Draw) -> Any:
    return _targets(draw, _result_rows(draw))


def targets_in_y(draw: Draw) -> Any:
    return _targets(draw, draw.shape_of("y")[0])


def more_rows(draw: Draw) -> Any:
    """A size of the result with one row that no edge reaches."""
    return np.full(draw.shape, draw.shape_of("x")[0] + 1)


def divisor(draw: Draw) -> Any:
    """Values that can be divided by; far enough from zero where they are."""
    values = np.asarray(nonzero(draw))
    if draw.arg("message_op") == "div" and values.dtype.kind == "f":
        return values + np.sign(values) * 0.3
    return values


def column_bounds(draw: Draw) -> Any:
    """Ascending from 0 to the number of edges, with nodes of all degrees."""
    edges = int(np.prod(draw.shape_of("row"), dtype=np.int64))
    inner = np.sort(draw.rng.integers(0, edges + 1, max(_count(draw) - 2, 0)))
    return np.concatenate([[0], inner, [edges]])[-_count(draw) :].reshape(draw.shape)


def _nodes(draw: Draw) -> int:
    return int(np.prod(draw.shape_of("colptr"), dtype=np.int64)) - 1


def any_node(draw: Draw) -> Any:
    return index_values(draw, max(_nodes(draw), 1))


def different_nodes(draw: Draw) -> Any:
    return index_values(draw, max(_nodes(draw), 1), unique=True)


def numbered(draw: Draw) -> Any:
    """Numbers of the edges, in disorder."""
    return draw.rng.permutation(_count(draw)).reshape(draw.shape)


def free(draw: Draw) -> Any:
    """An empty hash table."""
    return np.full(draw.shape, -1)


def unique_ids(draw: Draw) -> Any:
    return (draw.rng.permutation(2 * _count(draw) + 1)[: _count(draw)]).reshape(draw.shape)


def known_and_new(draw: Draw) -> Any:
    """Neighbours among the ids of ``x`` and beyond."""
    limit = 2 * int(np.prod(draw.shape_of("x"), dtype=np.int64)) + 5
    return draw.rng.integers(0, limit, draw.shape)


def neighbor_counts(draw: Draw) -> Any:
    """Counts that sum to the number of neighbours (of the same position, in lists)."""
    neighbors = draw.arg("neighbors")
    if not isinstance(neighbors, TensorSpec):
        neighbors = neighbors[draw.path[1]]
    total, rows = neighbors.numel, _count(draw)
    if rows == 0:
        return np.zeros(draw.shape)
    bounds = np.sort(draw.rng.integers(0, total + 1, rows - 1))
    return np.diff(np.concatenate([[0], bounds, [total]])).reshape(draw.shape)


inputs(*(f"paddle.geometric.segment_{name}" for name in ("sum", "mean", "max", "min")), segment_ids=segment_ids)
inputs("paddle.geometric.send_u_recv", src_index=sources, dst_index=targets, out_size=more_rows)
inputs("paddle.geometric.send_ue_recv", src_index=sources, dst_index=targets, out_size=more_rows, y=divisor)
inputs("paddle.geometric.send_uv", src_index=sources_to_y, dst_index=targets_in_y, y=divisor, x=ordinary)
inputs(
    "paddle.geometric.reindex_graph",
    "paddle.geometric.reindex_heter_graph",
    x=unique_ids,
    neighbors=known_and_new,
    count=neighbor_counts,
    value_buffer=free,
    index_buffer=free,
)
inputs(
    "paddle.geometric.sample_neighbors",
    "paddle.geometric.weighted_sample_neighbors",
    row=any_node,
    colptr=column_bounds,
    input_nodes=different_nodes,
    eids=numbered,
    perm_buffer=numbered,
    edge_weight=lambda draw: draw.rng.uniform(0.1, 2.0, draw.shape),
)
