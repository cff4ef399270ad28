"""Sampling on graphs in ``paddle.incubate``."""

from __future__ import annotations

import numpy as np

from .comparison import Comparison
from .graph import same_dtype, sampled_neighbors
from .registry import comparator

comparator(
    "paddle.incubate.graph_sample_neighbors",
    meaning="as many neighbours as asked for, each edge at most once; all of them where they are not sampled",
    needs_reference=False,
)(sampled_neighbors)


@comparator("paddle.incubate.graph_khop_sampler", meaning="edges of the graph only", needs_reference=False)
def graph_khop_sampler(c: Comparison) -> None:
    """Every returned edge, in the original numbers, is one of the graph's; the input nodes are found again."""
    outputs = [t.numpy().reshape(-1) for t in c.actual_leaves()]
    wanted = 5 if c.argument("return_eids", False) else 4
    if len(outputs) != wanted:
        c.differs("structure", f"{wanted} tensors are promised, {len(outputs)} were returned")
        return
    for index in range(wanted):
        same_dtype(c, index, np.asarray(c.argument("row")))
    source, destination, nodes, places = outputs[:4]
    c.count(outputs=len(outputs), elements=sum(o.size for o in outputs))
    ends = np.asarray(c.argument("colptr")).reshape(-1)
    row = np.asarray(c.argument("row")).reshape(-1)
    if source.size != destination.size or (source.size and max(source.max(), destination.max()) >= nodes.size):
        c.differs("output 0", "the ends of the edges do not fit the sampled nodes")
        return
    for s, d in zip(nodes[source], nodes[destination]):
        if s not in row[ends[d] : ends[d + 1]]:
            c.differs("output 0", f"the graph has no edge from {s} to {d}")
            return
    if not np.array_equal(nodes[places], np.asarray(c.argument("input_nodes")).reshape(-1)):
        c.differs("output 3", "does not lead back to the input nodes")
