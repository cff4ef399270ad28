"""Losses of ``paddle.nn.functional``. Definitions are those of Paddle's documentation."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from .registry import reference


def reduced(loss, reduction):
    """``mean``, ``sum`` or ``none``.

    Raises:
        ValueError: any other word.
    """
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ValueError(f"reduction must be mean, sum or none, not {reduction!r}")


# Paddle's kernels differentiate these losses by the prediction and the weight of elements only.
@reference("paddle.nn.functional.binary_cross_entropy", constant=("label",))
def binary_cross_entropy(input, label, weight=None, reduction="mean", name=None):
    """Logarithms are cut at -100."""
    loss = F.binary_cross_entropy(input, label, reduction="none")
    return reduced(loss if weight is None else loss * weight, reduction)


@reference("paddle.nn.functional.binary_cross_entropy_with_logits", constant=("label", "pos_weight"))
def binary_cross_entropy_with_logits(logit, label, weight=None, reduction="mean", pos_weight=None, name=None):
    """With weights of elements and of positive answers."""
    loss = F.binary_cross_entropy_with_logits(logit, label, reduction="none", pos_weight=pos_weight)
    return reduced(loss if weight is None else loss * weight, reduction)


@reference("paddle.nn.functional.mse_loss")
def mse_loss(input, label, reduction="mean", name=None):
    """Broadcasts."""
    return reduced((input - label) ** 2, reduction)


@reference("paddle.nn.functional.l1_loss")
def l1_loss(input, label, reduction="mean", name=None):
    """Broadcasts."""
    return reduced((input - label).abs(), reduction)


@reference("paddle.nn.functional.square_error_cost")
def square_error_cost(input, label):
    """Not reduced."""
    return (input - label) ** 2


@reference("paddle.nn.functional.smooth_l1_loss")
def smooth_l1_loss(input, label, reduction="mean", delta=1.0, is_huber=True, name=None):
    """Huber's loss; without ``is_huber`` divided by delta."""
    error = (input - label).abs()
    loss = torch.where(error < delta, 0.5 * error**2, delta * error - 0.5 * delta**2)
    return reduced(loss if is_huber else loss / delta, reduction)


@reference("paddle.nn.functional.kl_div")
def kl_div(input, label, reduction="mean", log_target=False, name=None):
    """``input`` holds log-probabilities."""
    return F.kl_div(input, label, reduction=reduction, log_target=log_target)


@reference("paddle.nn.functional.log_loss")
def log_loss(input, label, epsilon=1e-4, name=None):
    """``-label log(input + e) - (1 - label) log(1 - input + e)``."""
    return -label * torch.log(input + epsilon) - (1 - label) * torch.log(1 - input + epsilon)


@reference("paddle.nn.functional.margin_ranking_loss")
def margin_ranking_loss(input, other, label, margin=0.0, reduction="mean", name=None):
    """``max(0, -label (input - other) + margin)``."""
    return reduced(torch.relu(-label * (input - other) + margin), reduction)


@reference("paddle.nn.functional.soft_margin_loss")
def soft_margin_loss(input, label, reduction="mean", name=None):
    """``log(1 + exp(-label input))``."""
    return reduced(F.softplus(-label.to(input.dtype) * input), reduction)


@reference("paddle.nn.functional.hinge_embedding_loss")
def hinge_embedding_loss(input, label, margin=1.0, reduction="mean", name=None):
    """``input`` where the label is 1, ``max(0, margin - input)`` where it is -1."""
    zero = torch.zeros_like(input)
    loss = torch.where(label == 1.0, input, zero) + torch.where(label == -1.0, torch.relu(margin - input), zero)
    return reduced(loss, reduction)


@reference("paddle.nn.functional.cosine_embedding_loss")
def cosine_embedding_loss(input1, input2, label, margin=0, reduction="mean", name=None):
    """Labels are 1 or -1."""
    return F.cosine_embedding_loss(input1, input2, label, margin=margin, reduction=reduction)


@reference("paddle.nn.functional.triplet_margin_loss")
def triplet_margin_loss(
    input, positive, negative, margin=1.0, p=2.0, epsilon=1e-6, swap=False, reduction="mean", name=None
):
    """Distances by the p-norm."""
    return F.triplet_margin_loss(input, positive, negative, margin, p, epsilon, swap, reduction=reduction)


@reference("paddle.nn.functional.triplet_margin_with_distance_loss")
def triplet_margin_with_distance_loss(
    input, positive, negative, distance_function=None, margin=1.0, swap=False, reduction="mean", name=None
):
    """The Euclidean distance by default."""
    return F.triplet_margin_with_distance_loss(
        input, positive, negative, distance_function=distance_function, margin=margin, swap=swap, reduction=reduction
    )


@reference("paddle.nn.functional.multi_label_soft_margin_loss", constant=("weight",))
def multi_label_soft_margin_loss(input, label, weight=None, reduction="mean", name=None):
    """The mean over classes, then the reduction."""
    return F.multilabel_soft_margin_loss(input, label, weight, reduction=reduction)


@reference("paddle.nn.functional.multi_margin_loss")
def multi_margin_loss(input, label, p=1, margin=1.0, weight=None, reduction="mean", name=None):
    """``sum over other classes of w[label] * max(0, margin - x[label] + x[i]) ** p / classes``."""
    if input.shape[0] != label.shape[0]:
        raise ValueError(f"{input.shape[0]} samples, {label.shape[0]} labels")
    if input.numel() == 0:
        return F.multi_margin_loss(input, label.reshape(-1).long(), p, margin, weight, reduction=reduction)
    label = label.reshape(-1, 1).long()
    distance = torch.relu(margin - input.gather(1, label) + input) ** p
    if weight is not None:
        distance = distance * weight.reshape(-1)[label]
    others = torch.ones_like(distance).scatter(1, label, 0.0)
    return reduced((distance * others).sum(1) / input.shape[1], reduction)


@reference("paddle.nn.functional.poisson_nll_loss")
def poisson_nll_loss(input, label, log_input=True, full=False, epsilon=1e-8, reduction="mean", name=None):
    """With Stirling's term on request."""
    return F.poisson_nll_loss(input, label, log_input=log_input, full=full, eps=epsilon, reduction=reduction)


@reference("paddle.nn.functional.gaussian_nll_loss")
def gaussian_nll_loss(input, label, variance, full=False, epsilon=1e-6, reduction="mean", name=None):
    """With the constant term on request."""
    return F.gaussian_nll_loss(input, label, variance, full=full, eps=epsilon, reduction=reduction)


@reference("paddle.nn.functional.sigmoid_focal_loss", constant=("label",))
def sigmoid_focal_loss(logit, label, normalizer=None, alpha=0.25, gamma=2.0, reduction="sum", name=None):
    """Lin et al., 2017; divided by ``normalizer`` where it is given."""
    crossed = F.binary_cross_entropy_with_logits(logit, label, reduction="none")
    probability = torch.sigmoid(logit)
    hit = probability * label + (1 - probability) * (1 - label)
    weight = alpha * label + (1 - alpha) * (1 - label)
    loss = weight * (1 - hit) ** gamma * crossed
    return reduced(loss if normalizer is None else loss / normalizer, reduction)


@reference("paddle.nn.functional.dice_loss")
def dice_loss(input, label, epsilon=0.00001, name=None):
    """``1 - 2 |X n Y| / (|X| + |Y|)`` over each sample, then the mean."""
    hot = F.one_hot(label.squeeze(-1).long(), input.shape[-1]).to(input.dtype)
    axes = list(range(1, input.dim()))
    inside = (input * hot).sum(axes)
    return (1 - 2 * inside / (input.sum(axes) + hot.sum(axes) + epsilon)).mean()


@reference("paddle.nn.functional.nll_loss", constant=("weight",))
def nll_loss(input, label, weight=None, ignore_index=-100, reduction="mean", name=None):
    """``input`` holds log-probabilities; classes are axis 1."""
    return F.nll_loss(input, label.long(), weight, ignore_index=ignore_index, reduction=reduction)


def _log_probabilities(input, axis, use_softmax):
    return F.log_softmax(input, axis) if use_softmax else torch.log(input.clamp(min=1e-38))


def _hard_label(input, label, axis):
    """The label without its axis of one."""
    return label.squeeze(axis) if label.dim() == input.dim() else label


# Through a soft label Paddle differentiates the weighting, not the entropy: no gradient to compare with.
@reference("paddle.nn.functional.cross_entropy", constant=("label", "weight"))
def cross_entropy(
    input, label, weight=None, ignore_index=-100, reduction="mean", soft_label=False, axis=-1, use_softmax=True,
    label_smoothing=0.0, name=None,
):  # fmt: skip
    """Soft labels weigh each class; a mean with weights is over the weights of what is not ignored.

    Without weights Paddle documents the mean over all samples. For an ``ignore_index`` of 0 or more it
    counts those that are not ignored.
    """
    axis %= input.dim()
    classes = input.shape[axis]
    logs = _log_probabilities(input, axis, use_softmax)
    if label_smoothing > 0:
        if not soft_label:
            hard = _hard_label(input, label, axis).long()
            label = F.one_hot(hard, classes).movedim(-1, axis).to(input.dtype)
        label = label_smooth_along(label, axis, label_smoothing)
        soft_label = True
    if soft_label:
        loss = -(label * logs).sum(axis, keepdim=True)
        scale = None
        if weight is not None:
            shape = [-1 if i == axis else 1 for i in range(input.dim())]
            scale = (label * weight.reshape(shape)).sum(axis, keepdim=True)
            loss = loss * scale
        if reduction == "mean" and scale is not None:
            return loss.sum() / scale.sum()
        return reduced(loss, reduction)
    kept_axis = label.dim() == input.dim()
    hard = _hard_label(input, label, axis).long()
    valid = hard != ignore_index
    chosen = hard.where(valid, torch.zeros_like(hard))
    loss = -logs.gather(axis, chosen.unsqueeze(axis)).squeeze(axis)
    loss = loss.where(valid, torch.zeros_like(loss))
    factor = valid.to(input.dtype)
    if weight is not None:
        factor = weight[chosen] * factor
        loss = loss * factor
    if reduction == "mean":
        if loss.numel() == 0 or (weight is None and ignore_index < 0):
            return loss.mean()
        total = factor.sum()
        return loss.sum() / torch.where(total == 0, torch.ones_like(total), total)
    if reduction == "sum":
        return loss.sum()
    return loss.unsqueeze(axis) if kept_axis else loss


def label_smooth_along(label, axis, epsilon):
    """Uniform smoothing over the classes of ``axis``."""
    return (1 - epsilon) * label + epsilon / label.shape[axis]


@reference("paddle.nn.functional.softmax_with_cross_entropy", constant=("label",))
def softmax_with_cross_entropy(
    logits, label, soft_label=False, ignore_index=-100, numeric_stable_mode=True, return_softmax=False, axis=-1
):
    """Not reduced; the axis of classes stays, with extent one."""
    axis %= logits.dim()
    logs = F.log_softmax(logits, axis)
    if soft_label:
        loss = -(label * logs).sum(axis, keepdim=True)
    else:
        hard = label.long() if label.dim() == logits.dim() else label.long().unsqueeze(axis)
        valid = hard != ignore_index
        loss = -logs.gather(axis, hard.where(valid, torch.zeros_like(hard)))
        loss = loss.where(valid, torch.zeros_like(loss))
    # The softmax is an intermediate result to Paddle: no gradient flows through it.
    return (loss, torch.exp(logs).detach()) if return_softmax else loss
