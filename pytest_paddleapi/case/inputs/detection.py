"""Inputs of detection operators: valid boxes, counts that sum, distinct scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from .makers import distinct, integers, ordinary, uniform
from .registry import Draw, inputs


def box_counts(of: str) -> Any:
    """Numbers of boxes per image that sum to the number of boxes in argument ``of``."""

    def make(draw: Draw) -> Any:
        total = draw.shape_of(of)[0]
        images = int(np.prod(draw.shape, dtype=np.int64))
        if images == 0:
            return np.zeros(draw.shape)
        cuts = np.sort(draw.rng.integers(0, total + 1, images - 1))
        return np.diff(np.concatenate([[0], cuts, [total]])).reshape(draw.shape)

    return make


def boxes_in(draw: Draw, height: float, width: float, smallest: float = 1.0, step: float = 0.125) -> Any:
    """Corners (x1, y1, x2, y2) with x1 < x2 and y1 < y2 inside the image.

    On a grid of ``step``: bins that end at whole pixels then do so in any arithmetic, not just in one.
    """
    count = int(np.prod(draw.shape[:-1], dtype=np.int64))
    low, size = draw.rng.random((count, 2)), draw.rng.random((count, 2)) ** 2
    limits = np.array([width, height], np.float64)
    smallest_size = np.minimum(smallest, limits / 2)
    first = np.floor(low * (limits - smallest_size) / step) * step
    room = limits - first
    extent = np.ceil(np.maximum(smallest_size, size * room) / step) * step
    last = np.minimum(first + extent, np.floor(limits / step) * step)
    last = np.maximum(last, first + step)
    return np.concatenate([first, last], axis=1).reshape(draw.shape)


def regions(draw: Draw) -> Any:
    """Boxes for pooling: in the coordinates of an image that is 1 / ``spatial_scale`` times the feature map."""
    height, width = draw.shape_of("x")[-2:]
    scale = draw.arg("spatial_scale", 1.0)
    scale = float(scale) if isinstance(scale, (int, float)) and scale else 1.0
    return boxes_in(draw, max(height, 1) / scale, max(width, 1) / scale)


inputs("paddle.vision.ops.roi_align", boxes=regions, boxes_num=box_counts("boxes"))
inputs("paddle.vision.ops.roi_pool", x=distinct, boxes=regions, boxes_num=box_counts("boxes"))
inputs("paddle.vision.ops.psroi_pool", boxes=regions, boxes_num=box_counts("boxes"))
inputs("paddle.vision.ops.deform_conv2d", mask=uniform(0.0, 1.0))


def pyramid_boxes(draw: Draw) -> Any:
    """Boxes whose sizes spread over the levels of a feature pyramid, none at the border of a level."""
    levels = [draw.arg(name, default) for name, default in (("min_level", 2), ("max_level", 5), ("refer_level", 4))]
    low, high, middle = (v if isinstance(v, int) else 3 for v in levels)
    scale = draw.arg("refer_scale", 224)
    scale = float(scale) if isinstance(scale, (int, float)) else 224.0
    count = int(np.prod(draw.shape[:-1], dtype=np.int64))
    level = draw.rng.integers(low - 1, high + 2, count) + draw.rng.uniform(0.1, 0.9, count)
    side = scale * 2.0 ** (level - middle)
    aspect = draw.rng.uniform(0.5, 2.0, count)
    first = draw.rng.uniform(0, 400, (count, 2))
    sizes = np.stack([side * np.sqrt(aspect), side / np.sqrt(aspect)], axis=1)
    return np.concatenate([first, first + sizes], axis=1).reshape(draw.shape)


inputs("paddle.vision.ops.distribute_fpn_proposals", fpn_rois=pyramid_boxes, rois_num=box_counts("fpn_rois"))


def ranks(draw: Draw) -> Any:
    """Scores in (0, 1), all different."""
    count = int(np.prod(draw.shape, dtype=np.int64))
    return ((draw.rng.permutation(count) + 1.0) / (count + 1.0)).reshape(draw.shape)


def unit_boxes(draw: Draw) -> Any:
    """Boxes inside the unit square, so crowded that many overlap (64 times larger where they are not normalised)."""
    size = 1.0 if draw.arg("normalized", True) else 64.0
    return boxes_in(draw, size, size, smallest=size * 0.05, step=size / 4096)


def anchors(draw: Draw) -> Any:
    """Anchors of several sizes and shapes, centered on the places of the score map (H, W, A) in its image."""
    count = int(np.prod(draw.shape[:-1], dtype=np.int64))
    rows, columns, per_place = _score_map(draw)
    height, width = _image_size(draw)
    if count != rows * columns * per_place or not count:
        return boxes_in(draw, height, width).reshape(draw.shape)
    y = (np.arange(rows) + 0.5) * (height / rows)
    x = (np.arange(columns) + 0.5) * (width / columns)
    sides = min(height, width) * np.geomspace(0.06, 0.5, per_place)
    ratio = np.resize([0.7, 1.0, 1.4], per_place)
    half_w, half_h = sides * np.sqrt(ratio) / 2, sides / np.sqrt(ratio) / 2
    cy, cx, _ = np.meshgrid(y, x, sides, indexing="ij")
    return np.stack([cx - half_w, cy - half_h, cx + half_w, cy + half_h], axis=-1).reshape(draw.shape)


def _score_map(draw: Draw) -> tuple[int, int, int]:
    shape = draw.shape_of("scores")
    return (shape[2], shape[3], shape[1]) if len(shape) == 4 else (1, 1, 1)


def _image_size(draw: Draw) -> tuple[float, float]:
    rows, columns, _ = _score_map(draw)
    return 8.0 * max(rows, 2) + 3.0, 8.0 * max(columns, 2) + 5.0


def image_sizes(draw: Draw) -> Any:
    """Heights and widths of images, about eight pixels for each place of the score map."""
    return np.broadcast_to(np.array(_image_size(draw)), draw.shape)


def small(draw: Draw) -> Any:
    """Box corrections: shifts and logarithms of scales."""
    return 0.5 * np.asarray(ordinary(draw))


inputs(
    "paddle.vision.ops.generate_proposals",
    scores=ranks,
    bbox_deltas=small,
    img_size=image_sizes,
    anchors=anchors,
    variances=uniform(0.5, 1.0),
)
inputs("paddle.vision.ops.matrix_nms", bboxes=unit_boxes, scores=ranks)
inputs(
    "paddle.vision.ops.nms",
    boxes=lambda draw: boxes_in(draw, 60.0, 60.0, smallest=10.0),
    scores=ranks,
    category_idxs=lambda draw: _category(draw),
)
inputs("paddle.vision.ops.box_coder", prior_box=lambda draw: _coded_boxes(draw), target_box=lambda draw: _targets(draw),
       prior_box_var=uniform(0.1, 0.5))  # fmt: skip


def _category(draw: Draw) -> Any:
    given = draw.arg("categories")
    known = [c for c in given if isinstance(c, int)] if isinstance(given, (list, tuple)) else []
    return draw.rng.choice(known or [0, 1, 2], draw.shape)


def _coded_boxes(draw: Draw) -> Any:
    size = 1.0 if draw.arg("box_normalized", True) else 64.0
    return boxes_in(draw, size, size, smallest=size * 0.1, step=size / 4096)


def _targets(draw: Draw) -> Any:
    """Boxes to encode, or corrections to decode."""
    encode = draw.arg("code_type", "encode_center_size") == "encode_center_size"
    return _coded_boxes(draw) if encode else ordinary(draw)


def raw_predictions(draw: Draw) -> Any:
    """Network outputs that spread wide enough for the threshold of confidence to matter."""
    return 3.0 * np.asarray(ordinary(draw))


inputs("paddle.vision.ops.yolo_box", x=raw_predictions, img_size=integers(200, 700))


def truth_boxes(draw: Draw) -> Any:
    """Centers and sizes in [0, 1], inside the image; every fourth box is absent (zero size), but never all.

    Several boxes of an image may share a cell of the grid, as labels of crowded images do.
    """
    shape = draw.shape[:-1]
    center, size = draw.rng.uniform(0.1, 0.9, (*shape, 2)), draw.rng.uniform(0.03, 0.6, (*shape, 2))
    absent = draw.rng.random(shape) < 0.25
    if absent.size:
        absent.flat[0] = False
    size[absent] = 0.0
    return np.concatenate([center, size], axis=-1)


def truth_labels(draw: Draw) -> Any:
    """Classes below ``class_num``."""
    count = draw.arg("class_num")
    return draw.rng.integers(0, count if isinstance(count, int) else 2, draw.shape)


inputs("paddle.vision.ops.yolo_loss", gt_box=truth_boxes, gt_label=truth_labels, gt_score=uniform(0.2, 1.0))
