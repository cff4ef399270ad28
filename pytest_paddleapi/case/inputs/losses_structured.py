"""Inputs of losses over trees, clusters, angles and sequences: labels, paths, lengths that fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...config import TensorSpec
from .makers import index_values, uniform
from .registry import Draw, InputError, inputs

_F = "paddle.nn.functional."


def several_labels(draw: Draw) -> Any:
    """Some classes of each row, each once, then -1 for the rest."""
    shape = draw.shape
    values = np.full(shape, -1, np.int64)
    if len(shape) != 2 or 0 in shape:
        return values
    classes = draw.shape_of("input")[-1]
    for row in range(shape[0]):
        count = int(draw.rng.integers(1, min(classes, shape[1]) + 1))
        values[row, :count] = draw.rng.permutation(classes)[:count]
    return values


inputs(_F + "multi_label_margin_loss", label=several_labels)


def pair_labels(draw: Draw) -> Any:
    """Few different labels, so that some samples share one."""
    return draw.rng.integers(0, max(2, draw.shape[0] // 2 if draw.shape else 2), draw.shape)


inputs(_F + "npair_loss", labels=pair_labels)


def cosines(draw: Draw) -> Any:
    return uniform(-0.8, 0.8)(draw)


def cosine_labels(draw: Draw) -> Any:
    return index_values(draw, draw.shape_of("logits")[-1])


inputs(_F + "margin_cross_entropy", logits=cosines, label=cosine_labels)


def tree_labels(draw: Draw) -> Any:
    classes = draw.arg("num_classes")
    return index_values(draw, classes if isinstance(classes, int) else 2)


def tree_paths(draw: Draw) -> Any:
    """Distinct rows of the weight on each path, which may end early with -1."""
    rows = draw.shape_of("weight")[0]
    values = np.full(draw.shape, -1, np.int64)
    if len(draw.shape) != 2 or 0 in draw.shape:
        return values
    for row in range(draw.shape[0]):
        count = int(draw.rng.integers(1, min(rows, draw.shape[1]) + 1))
        values[row, :count] = draw.rng.permutation(rows)[:count]
    return values


def tree_turns(draw: Draw) -> Any:
    turns = draw.rng.integers(0, 2, draw.shape)
    table = draw.arg("path_table")
    if isinstance(table, TensorSpec) and table.shape == draw.shape:
        return np.where(np.asarray(draw.values("path_table")) < 0, -1, turns)
    return turns


inputs(_F + "hsigmoid_loss", label=tree_labels, path_table=tree_paths, path_code=tree_turns)


def cluster_labels(draw: Draw) -> Any:
    cutoffs = draw.arg("cutoffs")
    last = cutoffs[-1] if isinstance(cutoffs, (list, tuple)) and cutoffs else 1
    if not isinstance(last, int):
        raise InputError("the last cutoff must be a number")
    return index_values(draw, last)


inputs(_F + "adaptive_log_softmax_with_loss", label=cluster_labels)


def _symbols(draw: Draw, classes: int) -> Any:
    """Symbols other than the blank, neighbours different where there are two to choose from."""
    blank = draw.arg("blank", 0)
    allowed = [c for c in range(max(classes, 1)) if c != blank] or [0]
    values = draw.rng.integers(0, len(allowed), draw.shape)
    if len(draw.shape) == 2:
        for column in range(1, draw.shape[1]):
            same = values[:, column] == values[:, column - 1]
            values[:, column] = np.where(same, (values[:, column] + 1) % len(allowed), values[:, column])
    return np.asarray(allowed)[values]


def _repeats(row: Any) -> int:
    return int((row[1:] == row[:-1]).sum())


def ctc_labels(draw: Draw) -> Any:
    return _symbols(draw, draw.shape_of("log_probs")[-1])


def step_lengths(steps_of: str, axis: int) -> Any:
    """Numbers of steps, from two thirds of what there are to all of them; the first is all of them."""

    def make(draw: Draw) -> Any:
        steps = draw.shape_of(steps_of)[axis]
        values = draw.rng.integers(max(1, steps * 2 // 3), steps + 1, draw.shape) if steps else np.zeros(draw.shape)
        flat = np.asarray(values).reshape(-1)
        if flat.size:
            flat[0] = steps
        return flat.reshape(draw.shape)

    return make


def ctc_label_lengths(draw: Draw) -> Any:
    """As many symbols as the steps can hold: each takes one, and a repeated one needs a blank between."""
    labels, steps = np.asarray(draw.values("labels")), np.asarray(draw.values("input_lengths")).reshape(-1)
    flat = np.ones(int(np.prod(draw.shape, dtype=np.int64)), np.int64)
    if labels.ndim != 2 or len(flat) > min(len(labels), len(steps)):
        return flat.reshape(draw.shape)
    for row in range(len(flat)):
        most = next(
            (k for k in range(labels.shape[1], 0, -1) if k + _repeats(labels[row, :k]) <= steps[row]),
            1,
        )
        flat[row] = draw.rng.integers(max(1, most // 2), most + 1)
    return flat.reshape(draw.shape)


inputs(
    _F + "ctc_loss",
    labels=ctc_labels,
    input_lengths=step_lengths("log_probs", 0),
    label_lengths=ctc_label_lengths,
)


def _probabilities(draw: Draw) -> Any:
    """Positive values that sum to one along the last axis."""
    values = draw.rng.random(draw.shape) + 0.1
    return values / values.sum(axis=-1, keepdims=True) if draw.shape else values


def last_axis_log_probabilities(draw: Draw) -> Any:
    return np.log(_probabilities(draw))


def rnnt_labels(draw: Draw) -> Any:
    return _symbols(draw, draw.shape_of("input")[-1])


def rnnt_label_lengths(draw: Draw) -> Any:
    shape = draw.shape_of("input")
    most = max(shape[2] - 1, 1) if len(shape) == 4 else 1
    return draw.rng.integers(max(1, most // 2), most + 1, draw.shape)


inputs(
    _F + "rnnt_loss",
    input=last_axis_log_probabilities,
    label=rnnt_labels,
    input_lengths=step_lengths("input", 1),
    label_lengths=rnnt_label_lengths,
)
