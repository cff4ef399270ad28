"""Values for losses: probabilities, log-probabilities, labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...config import FLOATING
from .makers import index_values, one_of, ordinary, uniform
from .registry import Draw, inputs

_open_unit = uniform(0.05, 0.95)
_positive = uniform(0.1, 2.0)


def _log_probabilities(axis: int) -> Any:
    def make(draw: Draw) -> Any:
        scores = draw.rng.standard_normal(draw.shape)
        where = axis if draw.shape else None
        return scores - np.log(np.exp(scores).sum(axis=where, keepdims=True)) if draw.shape else scores

    return make


def _soft(draw: Draw, axis: int) -> Any:
    values = draw.rng.random(draw.shape) + 0.05
    return values / values.sum(axis=axis, keepdims=True)


def class_label(scores: str) -> Any:
    """Class indices below the extent of the class axis of ``scores``, some of them ignored; or soft labels."""

    def make(draw: Draw) -> Any:
        shape = draw.shape_of(scores)
        axis = draw.arg("axis", -1)
        axis = axis if isinstance(axis, int) and shape else -1
        if draw.arg("soft_label", False) or draw.dtype in FLOATING:
            return _soft(draw, axis) if draw.shape else np.ones(())
        labels = index_values(draw, int(shape[axis]) if shape else 1)
        ignored = draw.arg("ignore_index", -100)
        # One ignored label in eight, where the call names one and others are left.
        if isinstance(ignored, int) and "ignore_index" in draw.call.arguments and labels.size > 2:
            labels = np.where(draw.rng.random(labels.shape) < 0.125, ignored, labels)
            labels.reshape(-1)[0] = 0 if ignored != 0 else min(1, int(shape[axis]) - 1)
        return labels

    return make


def _scores(draw: Draw) -> Any:
    if draw.arg("use_softmax", True):
        return ordinary(draw)
    axis = draw.arg("axis", -1)
    return _soft(draw, axis if isinstance(axis, int) else -1)


inputs("paddle.nn.functional.binary_cross_entropy", input=_open_unit, label=_open_unit, weight=_positive)
inputs(
    "paddle.nn.functional.binary_cross_entropy_with_logits", label=_open_unit, weight=_positive, pos_weight=_positive
)
inputs("paddle.nn.functional.sigmoid_focal_loss", label=one_of([0, 1]), normalizer=uniform(1.0, 8.0))
inputs("paddle.nn.functional.log_loss", input=_open_unit, label=_open_unit)
inputs("paddle.nn.functional.cross_entropy", input=_scores, label=class_label("input"), weight=_positive)
inputs("paddle.nn.functional.softmax_with_cross_entropy", label=class_label("logits"))
inputs("paddle.nn.functional.margin_ranking_loss", label=one_of([-1, 1]))
inputs("paddle.nn.functional.hinge_embedding_loss", label=one_of([-1, 1]))
inputs("paddle.nn.functional.soft_margin_loss", label=one_of([-1, 1]))
inputs("paddle.nn.functional.cosine_embedding_loss", label=one_of([-1, 1]))
inputs("paddle.nn.functional.multi_label_soft_margin_loss", label=one_of([0, 1]), weight=_positive)
inputs("paddle.nn.functional.gaussian_nll_loss", variance=_positive)
inputs("paddle.nn.functional.poisson_nll_loss", input=_positive, label=_positive)


def _row_label(draw: Draw) -> Any:
    shape = draw.shape_of("input")
    classes = int(shape[1]) if len(shape) > 1 else int(shape[0]) if shape else 1
    # Without a class there is no valid label; what the call makes of that is for the frameworks to say.
    return index_values(draw, classes) if classes else np.zeros(draw.shape)


inputs("paddle.nn.functional.nll_loss", input=_log_probabilities(1), label=_row_label, weight=_positive)
inputs("paddle.nn.functional.multi_margin_loss", label=_row_label, weight=_positive)
inputs("paddle.nn.functional.dice_loss", input=_open_unit, label=class_label("input"))


def _target(draw: Draw) -> Any:
    values = _soft(draw, -1) if draw.shape else np.full((), 0.5)
    return np.log(values) if draw.arg("log_target", False) else values


inputs("paddle.nn.functional.kl_div", input=_log_probabilities(-1), label=_target)
