"""The graph operators of ``paddle.incubate``: forerunners of those in ``paddle.geometric``."""

from __future__ import annotations

from .graph import reduce_rows, reindex_heter_graph, send_u_recv
from .registry import reference

_HOME = "paddle.incubate."


def _segments(data, segment_ids, reduction):
    rows = int(segment_ids[-1]) + 1 if segment_ids.numel() else 0
    return reduce_rows(data, segment_ids, rows, reduction)


@reference(_HOME + "segment_sum")
def segment_sum(data, segment_ids, name=None):
    return _segments(data, segment_ids, "sum")


@reference(_HOME + "segment_mean")
def segment_mean(data, segment_ids, name=None):
    return _segments(data, segment_ids, "mean")


@reference(_HOME + "segment_max")
def segment_max(data, segment_ids, name=None):
    return _segments(data, segment_ids, "max")


@reference(_HOME + "segment_min")
def segment_min(data, segment_ids, name=None):
    return _segments(data, segment_ids, "min")


@reference(_HOME + "graph_send_recv")
def graph_send_recv(x, src_index, dst_index, pool_type="sum", out_size=None, name=None):
    return send_u_recv(x, src_index, dst_index, pool_type, out_size)


@reference(_HOME + "graph_reindex")
def graph_reindex(
    x, neighbors, count, value_buffer=None, index_buffer=None, flag_buffer_hashtable=False, name=None
):  # fmt: skip
    return reindex_heter_graph(x, [neighbors], [count])
