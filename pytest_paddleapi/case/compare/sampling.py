"""Nucleus sampling: what is drawn must be of the likeliest, and its value its own."""

from __future__ import annotations

import torch

from ..tensors import to_torch
from .comparison import Comparison
from .registry import comparator


@comparator(
    "paddle.tensor.top_p_sampling",
    "paddle.Tensor.top_p_sampling",
    meaning="one index a row, of those whose likelier ones have less than the mass ps; its own value",
    needs_reference=False,
)
def top_p_sampling(c: Comparison) -> None:
    """Truncated sampling draws from the smallest set of likeliest entries with a mass of at least ``ps`` (Holtzman et
    al. 2020, "The curious case of neural text degeneration"): before a drawn entry, by size, lies less than that.
    A threshold, or ``non-truncated``, leaves the place open, and only index and value are checked."""
    outputs = c.actual_leaves()
    if len(outputs) < 2 or not all(isinstance(value, torch.Tensor) for value in outputs[:2]):
        c.differs("structure", f"scores and indices should be returned, here are {len(outputs)} values")
        return
    scores, ids = outputs[:2]
    x, ps = to_torch(c.argument("x")), to_torch(c.argument("ps")).double().reshape(-1)
    rows, width = x.shape
    for name, value, dtype in (("output 0", scores, x.dtype), ("output 1", ids, torch.int64)):
        if list(value.shape) != [rows, 1] or value.dtype is not dtype:
            c.differs(name, f"{value.dtype} of shape {list(value.shape)}, {dtype} of shape {[rows, 1]} is promised")
            return
    c.count(outputs=2, elements=2 * rows)
    wild = (ids < 0) | (ids >= width)
    if bool(wild.any()):
        c.differs("output 1", f"index {int(ids[wild][0])} of {width} entries")
        return
    c.pair("output 0", scores, x.gather(1, ids))
    if c.argument("mode", "truncated") != "truncated" or c.argument("threshold") is not None:
        c.note("the place of what was drawn was not checked")
        return
    exact = x.double()
    likelier = torch.where(exact > exact.gather(1, ids), exact, 0.0).sum(1)
    # Sums of a row in its own precision may be off by a unit an entry.
    beyond = likelier > ps.clamp(max=1.0) + width * torch.finfo(x.dtype).eps
    if bool(beyond.any()):
        row = int(beyond.nonzero()[0])
        c.differs(
            "output 1",
            f"row {row}: index {int(ids[row])} lies behind a mass of {float(likelier[row]):.6g}, "
            f"ps is {float(ps[row]):.6g}",
        )
