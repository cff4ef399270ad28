"""Losses over trees and clusters of classes, over angles, and over several labels at once."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from .loss import reduced
from .registry import reference


def _paths(label: torch.Tensor, classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inner nodes and turns on the way to each class in a complete binary tree; -1 after the end.

    Class c is node c + ``classes`` of a heap; its ancestors' numbers are its leading bits.
    """
    codes = label.reshape(-1).long() + classes
    depth = int(2 * classes - 1).bit_length() - 1
    nodes, turns = [], []
    for bit in range(depth):
        ancestor = codes >> (bit + 1)
        nodes.append(torch.where(ancestor > 0, ancestor - 1, -1))
        turns.append((codes >> bit) & 1)
    return torch.stack(nodes, 1), torch.stack(turns, 1)


@reference("paddle.nn.functional.hsigmoid_loss")
def hsigmoid_loss(
    input,
    label,
    num_classes,
    weight,
    bias=None,
    path_table=None,
    path_code=None,
    is_sparse=False,
    name=None,
):
    """Morin and Bengio, Hierarchical Probabilistic Neural Network Language Model, 2005: the sum over the path
    of ``softplus(s) - turn * s`` with ``s`` cut off at +-40. A place that a shorter path leaves free counts as a
    score of zero, so log 2: in Paddle's kernel and in the NumPy reference of its tests alike."""
    if num_classes < 2:
        raise ValueError(f"at least two classes, not {num_classes}")
    if path_table is None:
        nodes, turns = _paths(label, num_classes)
    else:
        nodes, turns = path_table.long(), path_code.long()
    on_path = (nodes >= 0).long().cumprod(1).bool()
    places = nodes.clamp(min=0)
    score = torch.einsum("nld,nd->nl", weight[places], input)
    if bias is not None:
        score = score + bias.reshape(-1)[places]
    score = (score * on_path).clamp(-40.0, 40.0)
    loss = F.softplus(score, threshold=1e9) - (turns == 1).to(score.dtype) * score
    return loss.sum(1, keepdim=True)


@reference("paddle.nn.functional.adaptive_log_softmax_with_loss")
def adaptive_log_softmax_with_loss(input, label, head_weight, tail_weights, cutoffs, head_bias=None, name=None):
    """Grave et al., Efficient softmax approximation for GPUs, 2017: log probabilities of the labels, and
    the mean of their negatives."""
    batched = label.ndim > 0
    if input.ndim != label.ndim + 1 or label.ndim > 1 or (batched and input.shape[0] != label.shape[0]):
        raise ValueError(f"label {list(label.shape)} does not fit input {list(input.shape)}")
    x, y = (input, label.long()) if batched else (input.unsqueeze(0), label.long().unsqueeze(0))
    edges = [0, *(int(c) for c in cutoffs)]
    if y.numel() and (y.min() < 0 or y.max() >= edges[-1]):
        raise ValueError(f"labels must be in [0, {edges[-1]})")
    head = x @ head_weight if head_bias is None else x @ head_weight + head_bias
    head_logs = F.log_softmax(head, 1)
    parts: list[Any] = [head_logs[:, : edges[1]]]
    for index in range(len(edges) - 2):
        tail = x @ tail_weights[index][0] @ tail_weights[index][1]
        parts.append(F.log_softmax(tail, 1) + head_logs[:, edges[1] + index].unsqueeze(1))
    output = torch.cat(parts, 1).gather(1, y.unsqueeze(1)).squeeze(1)
    loss = (-output).mean()
    return (output if batched else output.squeeze(0)), loss


@reference("paddle.nn.functional.multi_label_margin_loss")
def multi_label_margin_loss(input, label, reduction="mean", name=None):
    """Labels count up to the first -1; every pair of a named and another class has a hinge."""
    if input.ndim != 2 or label.ndim != 2:
        raise ValueError("input and label need two axes")
    label = label.long()
    if label.numel() and (label.min() < -1 or label.max() >= input.shape[1]):
        raise ValueError("labels must be classes, or -1")
    counts = (label != -1).cumprod(1).bool()
    named = torch.zeros_like(input, dtype=torch.bool)
    for column in range(label.shape[1]):
        rows = counts[:, column].nonzero().squeeze(1)
        named[rows, label[rows, column]] = True
    target = input.gather(1, label.clamp(min=0))
    hinge = torch.relu(1 - target.unsqueeze(2) + input.unsqueeze(1))
    hinge = hinge * counts.unsqueeze(2) * ~named.unsqueeze(1)
    return reduced(hinge.sum((1, 2)) / max(input.shape[1], 1), reduction)


@reference("paddle.nn.functional.npair_loss")
def npair_loss(anchor, positive, labels, l2_reg=0.002):
    """Sohn, Improved Deep Metric Learning with Multi-class N-pair Loss Objective, 2016, and a quarter of the
    mean squared lengths times ``l2_reg``."""
    if anchor.numel() == 0 or positive.numel() == 0:
        raise ValueError("anchor and positive must not be empty")
    flat = labels.reshape(-1)
    target = (flat.unsqueeze(1) == flat.unsqueeze(0)).to(torch.float32)
    target = target / target.sum(1, keepdim=True)
    lengths = anchor.square().sum(1).mean() + positive.square().sum(1).mean()
    entropy = -(target * F.log_softmax(anchor @ positive.T, -1)).sum(-1)
    return lengths * 0.25 * l2_reg + (target * entropy.unsqueeze(1)).sum(0).mean()


@reference("paddle.nn.functional.margin_cross_entropy", constant=("label",))
def margin_cross_entropy(
    logits,
    label,
    margin1=1.0,
    margin2=0.5,
    margin3=0.0,
    scale=64.0,
    group=None,
    return_softmax=False,
    reduction="mean",
):
    """``cos(margin1 * angle + margin2) - margin3`` in place of the label's cosine, then softmax of all times
    ``scale`` (Deng et al., ArcFace, 2018)."""
    if logits.shape[-1] == 0:
        raise ValueError("logits need at least one class")
    if label.ndim == logits.ndim - 1:
        label = label.unsqueeze(-1)
    if label.ndim != logits.ndim:
        raise ValueError(f"label {list(label.shape)} does not fit logits {list(logits.shape)}")
    dtype = logits.dtype
    x = logits.float() if dtype == torch.float16 else logits
    hit = torch.zeros_like(x, dtype=torch.bool).scatter(-1, label.long(), True)
    angle = torch.acos(torch.where(hit, x, torch.zeros_like(x)))
    x = torch.where(hit, torch.cos(margin1 * angle + margin2) - margin3, x) * scale
    logarithms = F.log_softmax(x, -1)
    loss = reduced(-logarithms.gather(-1, label.long()), reduction).to(dtype)
    return (loss, logarithms.exp().detach().to(dtype)) if return_softmax else loss
