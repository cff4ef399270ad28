"""Sampled neighbours by what sampling promises."""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch

from .comparison import Comparison
from .registry import comparator


@comparator(
    "paddle.geometric.sample_neighbors",
    "paddle.geometric.weighted_sample_neighbors",
    meaning="as many neighbours as asked for, each edge at most once; all of them where they are not sampled",
    needs_reference=False,
)
def sampled_neighbors(c: Comparison) -> None:
    row, bounds, nodes = (np.asarray(c.argument(name)).reshape(-1) for name in ("row", "colptr", "input_nodes"))
    size = c.argument("sample_size", -1)
    outputs = c.actual_leaves()
    wanted = 3 if c.argument("return_eids", False) else 2
    if len(outputs) != wanted or not all(isinstance(value, torch.Tensor) for value in outputs):
        c.differs("structure", f"{wanted} tensors should be returned, here are {len(outputs)}")
        return
    degrees = bounds[nodes + 1] - bounds[nodes]
    counts = degrees if size < 0 else np.minimum(degrees, size)
    c.pair("output 1, counts", outputs[1].long(), torch.from_numpy(counts.astype(np.int64)))
    c.count(outputs=wanted)
    if outputs[0].numel() != int(counts.sum()):
        c.differs("output 0", f"{outputs[0].numel()} neighbours, the counts sum to {int(counts.sum())}")
        return
    same_dtype(c, 0, row)
    if outputs[1].dtype is not torch.int32:
        # Undocumented, but so the operator declares it, whatever the dtype of the graph.
        c.differs("output 1", f"dtype {outputs[1].dtype}, counts are int32")
    if wanted == 3:
        same_dtype(c, 2, np.asarray(c.argument("eids")))
    found = outputs[0].numpy().reshape(-1)
    edges = outputs[2].numpy().reshape(-1) if wanted == 3 else None
    start = 0
    for node, count in zip(nodes, counts):
        here = slice(bounds[node], bounds[node + 1])
        part = slice(start, start + count)
        start += int(count)
        _part_of(c, f"output 0, neighbours of node {node}", found[part], row[here])
        if edges is not None:
            ids = np.asarray(c.argument("eids")).reshape(-1)
            _part_of(c, f"output 2, edges of node {node}", edges[part], ids[here])
            place = {int(edge): int(end) for edge, end in zip(ids[here], row[here])}
            if [place.get(int(edge)) for edge in edges[part]] != found[part].tolist():
                c.differs(f"output 2, edges of node {node}", "they do not lead to the neighbours in output 0")
        c.count(elements=int(count))


def same_dtype(c: Comparison, index: int, like: np.ndarray) -> None:
    """Check that an output has the dtype of an argument."""
    found = c.actual_leaves()[index].dtype
    if str(found).removeprefix("torch.") != like.dtype.name:
        c.differs(f"output {index}", f"dtype {found}, that of the graph is {like.dtype}")


def _part_of(c: Comparison, what: str, found: np.ndarray, allowed: np.ndarray) -> None:
    surplus = Counter(found.tolist()) - Counter(allowed.tolist())
    if surplus:
        c.differs(what, f"{sorted(surplus.elements())} are not among {allowed.tolist()}, or not as often")
