"""Inputs of the graph operators of ``paddle.incubate``, as for those of ``paddle.geometric``."""

from __future__ import annotations

from . import graph
from .makers import distinct
from .registry import inputs

_HOME = "paddle.incubate."

inputs(_HOME + "segment_sum", _HOME + "segment_mean", segment_ids=graph.segment_ids)
inputs(_HOME + "segment_max", _HOME + "segment_min", data=distinct, segment_ids=graph.segment_ids)
inputs(
    _HOME + "graph_send_recv",
    x=distinct,
    src_index=graph.sources,
    dst_index=graph.targets,
    out_size=graph.more_rows,
)
inputs(
    _HOME + "graph_reindex",
    x=graph.unique_ids,
    neighbors=graph.known_and_new,
    count=graph.neighbor_counts,
    value_buffer=graph.free,
    index_buffer=graph.free,
)
inputs(
    _HOME + "graph_sample_neighbors",
    _HOME + "graph_khop_sampler",
    row=graph.any_node,
    colptr=graph.column_bounds,
    input_nodes=graph.different_nodes,
    eids=graph.numbered,
    sorted_eids=graph.numbered,
    perm_buffer=graph.numbered,
)
