"""Message passing, segments, and the reindexing of sampled graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .arguments import as_int
from .registry import reference

_REDUCTIONS = {"sum", "mean", "max", "min"}


def reduce_rows(message: torch.Tensor, index: torch.Tensor, rows: int, reduction: str) -> torch.Tensor:
    """Row i is the reduction of the messages whose index is i; zero where there are none."""
    if reduction not in _REDUCTIONS:
        raise ValueError(f"the reduction is one of {sorted(_REDUCTIONS)}, not {reduction!r}")
    index = index.long()
    zeros = message.new_zeros((rows, *message.shape[1:]))
    if reduction in ("max", "min"):
        where = index.reshape(-1, *[1] * (message.dim() - 1)).expand_as(message)
        return zeros.scatter_reduce(0, where, message, f"a{reduction}", include_self=False)
    total = zeros.index_add(0, index, message)
    if reduction == "sum":
        return total
    counts = torch.bincount(index, minlength=rows).clamp_min(1).reshape(-1, *[1] * (message.dim() - 1))
    if message.is_floating_point() or message.is_complex():
        return total / counts.to(total.dtype)
    return torch.div(total, counts, rounding_mode="trunc").to(total.dtype)


def _segment(reduction: str) -> Any:
    def rule(data: torch.Tensor, segment_ids: torch.Tensor, name: Any = None) -> torch.Tensor:
        """The last id, the largest as they are sorted, says how many rows there are."""
        rows = int(segment_ids[-1]) + 1 if segment_ids.numel() else 0
        return reduce_rows(data, segment_ids, rows, reduction)

    return rule


for _reduction in ("sum", "mean", "max", "min"):
    reference(f"paddle.geometric.segment_{_reduction}")(_segment(_reduction))


@reference("paddle.geometric.send_u_recv")
def send_u_recv(
    x: torch.Tensor,
    src_index: torch.Tensor,
    dst_index: torch.Tensor,
    reduce_op: str = "sum",
    out_size: Any = None,
    name: Any = None,
) -> torch.Tensor:
    return reduce_rows(x[src_index.long()], dst_index, _rows(x, out_size), reduce_op)


@reference("paddle.geometric.send_ue_recv")
def send_ue_recv(
    x: torch.Tensor,
    y: torch.Tensor,
    src_index: torch.Tensor,
    dst_index: torch.Tensor,
    message_op: str = "add",
    reduce_op: str = "sum",
    out_size: Any = None,
    name: Any = None,
) -> torch.Tensor:
    message = _message(x[src_index.long()], y, message_op)
    return reduce_rows(message, dst_index, _rows(x, out_size), reduce_op)


@reference("paddle.geometric.send_uv")
def send_uv(
    x: torch.Tensor,
    y: torch.Tensor,
    src_index: torch.Tensor,
    dst_index: torch.Tensor,
    message_op: str = "add",
    name: Any = None,
) -> torch.Tensor:
    return _message(x[src_index.long()], y[dst_index.long()], message_op)


def _rows(x: torch.Tensor, out_size: Any) -> int:
    """As many as ``x`` has, unless a positive size is given."""
    size = 0 if out_size is None else as_int(out_size)
    return size if size > 0 else x.shape[0]


def _message(left: torch.Tensor, right: torch.Tensor, operation: str) -> torch.Tensor:
    """Element by element; after the axis of the edges the axes are aligned at the end."""
    rank = max(left.dim(), right.dim())
    left, right = (t.reshape(t.shape[0], *[1] * (rank - t.dim()), *t.shape[1:]) for t in (left, right))
    if operation == "add":
        return left + right
    if operation == "sub":
        return left - right
    if operation == "mul":
        return left * right
    if operation == "div":
        whole = not (left.is_floating_point() or left.is_complex())
        return torch.div(left, right, rounding_mode="trunc" if whole else None)
    raise ValueError(f"the message is one of add, sub, mul, div, not {operation!r}")


@reference("paddle.geometric.reindex_graph")
def reindex_graph(
    x: torch.Tensor,
    neighbors: torch.Tensor,
    count: torch.Tensor,
    value_buffer: torch.Tensor | None = None,
    index_buffer: torch.Tensor | None = None,
    name: Any = None,
) -> tuple[torch.Tensor, ...]:
    return reindex_heter_graph(x, [neighbors], [count])


@reference("paddle.geometric.reindex_heter_graph")
def reindex_heter_graph(
    x: torch.Tensor,
    neighbors: Sequence[torch.Tensor],
    count: Sequence[torch.Tensor],
    value_buffer: torch.Tensor | None = None,
    index_buffer: torch.Tensor | None = None,
    name: Any = None,
) -> tuple[torch.Tensor, ...]:
    """Nodes are numbered in the order in which they appear, those of ``x`` first."""
    numbers: dict[int, int] = {}
    for node in [*x.tolist(), *(node for part in neighbors for node in part.tolist())]:
        numbers.setdefault(node, len(numbers))
    sources = [numbers[node] for part in neighbors for node in part.tolist()]
    targets = [torch.repeat_interleave(torch.arange(len(part), device=x.device), part.long()) for part in count]
    return (
        torch.tensor(sources, dtype=x.dtype, device=x.device),
        torch.cat(targets).to(x.dtype),
        torch.tensor(list(numbers), dtype=x.dtype, device=x.device),
    )
