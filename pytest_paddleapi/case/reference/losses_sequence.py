"""Losses over alignments of sequences."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from .loss import reduced
from .registry import reference


class _ScaledGradient(torch.autograd.Function):
    """The identity, whose gradient is multiplied by a factor."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: Any) -> torch.Tensor:
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return grads[0] * ctx.factor, None


def _scaled_gradient(x: torch.Tensor, factor: Any) -> torch.Tensor:
    return _ScaledGradient.apply(x, factor)  # type: ignore[no-any-return,no-untyped-call]


@reference("paddle.nn.functional.ctc_loss")
def ctc_loss(
    log_probs,
    labels,
    input_lengths,
    label_lengths,
    blank=0,
    reduction="mean",
    norm_by_times=False,
    zero_infinity=False,
):
    """Takes unscaled scores: Warp-CTC makes the softmax itself. The mean is of each loss over its label's
    length. ``norm_by_times`` divides the gradient by the number of steps, not the loss."""
    scores = log_probs
    if norm_by_times:
        scores = _scaled_gradient(scores, 1.0 / input_lengths.to(scores.dtype).reshape(1, -1, 1))
    loss = F.ctc_loss(
        F.log_softmax(scores, -1),
        labels.long(),
        input_lengths.long().reshape(-1),
        label_lengths.long().reshape(-1),
        blank,
        "none",
        zero_infinity,
    )
    if reduction == "mean":
        return (loss / label_lengths.reshape(-1).to(loss.dtype)).mean()
    return reduced(loss, reduction)


@reference("paddle.nn.functional.rnnt_loss")
def rnnt_loss(
    input,
    label,
    input_lengths,
    label_lengths,
    blank=0,
    fastemit_lambda=0.001,
    reduction="mean",
    name=None,
):
    """Graves, Sequence Transduction with Recurrent Neural Networks, 2012, section 2.4. The input holds log
    probabilities. FastEmit (Yu et al., 2021, equation 9) adds ``fastemit_lambda`` of the gradient of every
    emission, and changes no loss."""
    losses = []
    for n in range(input.shape[0]):
        steps, length = int(input_lengths[n]), int(label_lengths[n])
        logs = input[n, :steps, : length + 1]
        stay = logs[..., blank]
        index = label[n, :length].long().reshape(1, -1, 1).expand(steps, -1, 1)
        emit = _scaled_gradient(logs[:, :length].gather(2, index).squeeze(2), 1.0 + fastemit_lambda)
        row = [stay.new_zeros(())]
        for u in range(length):
            row.append(row[-1] + emit[0, u])
        for t in range(1, steps):
            following = [row[0] + stay[t - 1, 0]]
            for u in range(1, length + 1):
                paths = torch.stack([row[u] + stay[t - 1, u], following[-1] + emit[t, u - 1]])
                following.append(torch.logsumexp(paths, 0))
            row = following
        losses.append(-(row[-1] + stay[steps - 1, length]))
    loss = torch.stack(losses)
    return loss.sum() / input.shape[0] if reduction == "mean" else reduced(loss, reduction)
