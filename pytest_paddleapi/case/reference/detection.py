"""Boxes of detectors: priors, coding, selection and distribution, from Paddle's documentation and the papers.

SSD priors (Liu et al. 2016), proposals of Faster R-CNN (Ren et al. 2015), pyramid levels (Lin et al. 2017,
"Feature Pyramid Networks"), matrix NMS (Wang et al. 2020, "SOLOv2"), as Paddle documents them. Selections
follow the definition step by step, so they are written with plain loops over images and classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from .registry import reference, without_reference

#: exp of a predicted scale is cut here (Detectron's BBOX_XFORM_CLIP).
LARGEST_LOG_SCALE = math.log(1000.0 / 16.0)

without_reference("paddle.vision.ops.read_file", "paddle.vision.ops.decode_jpeg", why="it reads image files")


def single(value: Any) -> float:
    """A number as Paddle's operators hold it: their float attributes are of single precision."""
    return float(torch.tensor(float(value), dtype=torch.float32))


def _numbers(value: Any) -> list[float]:
    return [single(v) for v in value] if isinstance(value, (list, tuple)) else [single(value)]


@reference("paddle.vision.ops.prior_box", no_gradient="priors depend on shapes only")
def prior_box(
    input, image, min_sizes, max_sizes=None, aspect_ratios=(1.0,), variance=(0.1, 0.1, 0.2, 0.2), flip=False,
    clip=False, steps=(0.0, 0.0), offset=0.5, min_max_aspect_ratios_order=False, name=None,
):  # fmt: skip
    """Sizes are in pixels of the image, boxes in fractions of it."""
    (rows, columns), (height, width) = input.shape[2:], image.shape[2:]
    step_w, step_h = _numbers(steps)
    offset = single(offset)
    if step_w == 0 or step_h == 0:
        step_w, step_h = width / max(columns, 1), height / max(rows, 1)
    largest = [] if max_sizes is None else _numbers(max_sizes)
    largest = largest if largest and largest[0] > 0 else []
    ratios = _expanded(_numbers(aspect_ratios), flip)
    sizes = []
    for index, small in enumerate(_numbers(min_sizes)):
        by_ratio = [(small * math.sqrt(r), small / math.sqrt(r)) for r in ratios]
        between = [(math.sqrt(small * largest[index]),) * 2] if largest else []
        if min_max_aspect_ratios_order:
            by_ratio = [(w, h) for (w, h), r in zip(by_ratio, ratios) if abs(r - 1.0) >= 1e-6]
            sizes += [(small, small), *between, *by_ratio]
        else:
            sizes += [*by_ratio, *between]
    half = torch.tensor(sizes, dtype=torch.float64).reshape(-1, 2) / 2
    x = (torch.arange(columns, dtype=torch.float64) + offset) * step_w
    y = (torch.arange(rows, dtype=torch.float64) + offset) * step_h
    center = torch.stack([x.expand(rows, columns), y[:, None].expand(rows, columns)], dim=-1)[:, :, None, :]
    extent = torch.tensor([width, height] * 2, dtype=torch.float64)
    boxes = torch.cat([center - half, center + half], dim=-1) / extent
    boxes = boxes.clamp(0.0, 1.0) if clip else boxes
    variances = torch.tensor(_numbers(variance), dtype=input.dtype).expand(boxes.shape).clone()
    return boxes.to(input.dtype), variances


def _expanded(ratios: Sequence[float], flip: bool) -> list[float]:
    """1 first, then each new ratio, and its inverse after it if asked for."""
    found = [1.0]
    for ratio in ratios:
        if all(abs(ratio - known) >= 1e-6 for known in found):
            found.append(ratio)
            if flip:
                found.append(1.0 / ratio)
    return found


@reference("paddle.vision.ops.box_coder", no_gradient="Paddle defines none for it")
def box_coder(
    prior_box, prior_box_var, target_box, code_type="encode_center_size", box_normalized=True, axis=0, name=None
):  # fmt: skip
    """Boxes relative to priors, or back; a box that is not normalised is one pixel wider than its corners say."""
    extra = 0.0 if box_normalized else 1.0
    size, center = _size_and_center(prior_box, extra)
    if isinstance(prior_box_var, torch.Tensor):
        variance = prior_box_var
    elif prior_box_var is None:
        variance = prior_box.new_ones(4)
    else:
        variance = prior_box.new_tensor(_numbers(prior_box_var))
    if code_type == "encode_center_size":
        target_size, _ = _size_and_center(target_box, extra)
        target_center = (target_box[:, :2] + target_box[:, 2:]) / 2
        shift = (target_center[:, None] - center) / size
        scale = (target_size[:, None] / size).abs().log()
        return torch.cat([shift, scale], dim=-1) / variance
    if code_type != "decode_center_size":
        raise ValueError(f"code_type {code_type!r} is not known")

    def along(values: torch.Tensor) -> torch.Tensor:
        return values if values.ndim < 2 else values[None] if axis == 0 else values[:, None]

    size, center, variance = along(size), along(center), along(variance)
    moved = variance[..., :2] * target_box[..., :2] * size + center
    scaled = (variance[..., 2:] * target_box[..., 2:]).exp() * size
    return torch.cat([moved - scaled / 2, moved + scaled / 2 - extra], dim=-1)


def _size_and_center(boxes: torch.Tensor, extra: float) -> tuple[torch.Tensor, torch.Tensor]:
    size = boxes[:, 2:] - boxes[:, :2] + extra
    return size, boxes[:, :2] + size / 2


def overlaps(boxes: torch.Tensor, others: torch.Tensor, extra: float = 0.0) -> torch.Tensor:
    """Intersection over union of each pair; ``extra`` is added to each width and height."""
    first = torch.maximum(boxes[:, None, :2], others[None, :, :2])
    last = torch.minimum(boxes[:, None, 2:], others[None, :, 2:])
    apart = ((last - first) < 0).any(-1)
    shared = (last - first + extra).prod(-1).masked_fill(apart, 0.0)
    area, other = ((b[:, 2:] - b[:, :2] + extra).prod(-1) for b in (boxes, others))
    return shared / (area[:, None] + other[None, :] - shared)


def greedy(boxes: torch.Tensor, threshold: float, extra: float = 0.0, eta: float = 1.0, most: int = -1) -> list[int]:
    """Places of the boxes that stay: in order, each that overlaps none of the kept ones by more than ``threshold``.

    With ``eta`` < 1 a threshold above 0.5 shrinks by that factor after each kept box.
    """
    kept: list[int] = []
    for place in range(len(boxes)):
        if kept and float(overlaps(boxes[place : place + 1], boxes[kept], extra).max()) > threshold:
            continue
        kept.append(place)
        if most >= 0 and len(kept) >= most:
            break
        if eta < 1 and threshold > 0.5:
            threshold *= eta
    return kept


@reference("paddle.vision.ops.nms", no_gradient="the result is indices")
def nms(boxes, iou_threshold=0.3, scores=None, category_idxs=None, categories=None, top_k=None):
    """Boxes in the order of their scores; with categories each category for itself."""
    if scores is None:
        return torch.tensor(greedy(boxes, iou_threshold), dtype=torch.int64)
    order = scores.argsort(descending=True, stable=True)
    if category_idxs is None:
        return order[greedy(boxes[order], iou_threshold)]
    kept = torch.zeros(len(boxes), dtype=torch.bool)
    for category in categories:
        members = order[category_idxs[order] == category]
        kept[members[greedy(boxes[members], iou_threshold)]] = True
    chosen = order[kept[order]]
    return chosen if top_k is None else chosen[: int(top_k)]


@reference("paddle.vision.ops.matrix_nms", no_gradient="Paddle defines none for it")
def matrix_nms(
    bboxes, scores, score_threshold, post_threshold, nms_top_k, keep_top_k, use_gaussian=False, gaussian_sigma=2.0,
    background_label=0, normalized=True, return_index=False, return_rois_num=True, name=None,
):  # fmt: skip
    """Scores decay with the overlap with better boxes, relative to how those overlap with still better ones."""
    batch, classes, count = scores.shape
    rows, indices, counts = [], [], []
    for image in range(batch):
        found = []
        for label in range(classes):
            if label != background_label:
                found += _decayed(
                    bboxes[image], scores[image, label], label, score_threshold, post_threshold, nms_top_k,
                    gaussian_sigma if use_gaussian else None, 0.0 if normalized else 1.0,
                )  # fmt: skip
        found.sort(key=lambda item: -item[1])
        found = found[:keep_top_k] if keep_top_k > -1 else found
        counts.append(len(found))
        for label, score, place in found:
            rows.append(torch.cat([bboxes.new_tensor([label, score]), bboxes[image, place]]))
            indices.append(image * count + place)
    out = torch.stack(rows) if rows else bboxes.new_zeros((0, 6))
    index = torch.tensor(indices, dtype=torch.int32).reshape(-1, 1) if return_index else None
    return out, torch.tensor(counts, dtype=torch.int32) if return_rois_num else None, index


def _decayed(
    boxes: torch.Tensor, scores: torch.Tensor, label: int, floor: float, after: float, most: int,
    sigma: float | None, extra: float,
) -> list[tuple[int, float, int]]:  # fmt: skip
    """(label, decayed score, place) of one class's boxes that stay above ``after``."""
    places = (scores > floor).nonzero().reshape(-1)
    places = places[scores[places].argsort(descending=True, stable=True)]
    places = places[:most] if most > -1 else places
    if not len(places):
        return []
    overlap = overlaps(boxes[places], boxes[places], extra).tril(-1)
    compensation = overlap.amax(1)
    if sigma is None:
        decay = (1 - overlap) / (1 - compensation)[None, :]
    else:
        decay = ((compensation[None, :] ** 2 - overlap**2) * sigma).exp()
    better = torch.ones_like(decay).tril(-1).bool()
    decay = torch.where(better, decay, torch.ones_like(decay)).amin(1).clamp(max=1.0)
    new = scores[places] * decay
    return [(label, float(s), int(p)) for s, p in zip(new, places) if float(s) > after]


@reference("paddle.vision.ops.distribute_fpn_proposals", no_gradient="Paddle defines none for it")
def distribute_fpn_proposals(
    fpn_rois, min_level, max_level, refer_level, refer_scale, pixel_offset=False, rois_num=None, name=None
):  # fmt: skip
    """Level floor(log2(sqrt(area) / scale) + level of the scale), image by image within each level."""
    size = fpn_rois[:, 2:] - fpn_rois[:, :2]
    area = (size + (1.0 if pixel_offset else 0.0)).prod(1).masked_fill((size < 0).any(1), 0.0)
    level = (torch.log2(area.sqrt() / refer_scale + 1e-6) + refer_level).floor().clamp(min_level, max_level)
    counts = torch.tensor([len(fpn_rois)]) if rois_num is None else rois_num.reshape(-1).long()
    image = torch.arange(len(counts)).repeat_interleave(counts)
    places = [(level == k).nonzero().reshape(-1) for k in range(min_level, max_level + 1)]
    restore = torch.cat(places).argsort().to(torch.int32).reshape(-1, 1)
    per_level = [torch.bincount(image[p], minlength=len(counts)).to(torch.int32) for p in places]
    return [fpn_rois[p] for p in places], restore, None if rois_num is None else per_level


@reference("paddle.vision.ops.generate_proposals", no_gradient="Paddle defines none for it")
def generate_proposals(
    scores, bbox_deltas, img_size, anchors, variances, pre_nms_top_n=6000, post_nms_top_n=1000, nms_thresh=0.5,
    min_size=0.1, eta=1.0, pixel_offset=False, return_rois_num=False, name=None,
):  # fmt: skip
    if not scores.dtype == bbox_deltas.dtype == anchors.dtype == variances.dtype:
        raise TypeError("scores, corrections, anchors and variances should have one dtype (float32 is documented)")
    rois, chances, counts = [], [], []
    for image in range(scores.shape[0]):
        boxes, score = proposal_candidates(
            scores[image], bbox_deltas[image], img_size[image], anchors, variances, pre_nms_top_n, min_size,
            pixel_offset,
        )  # fmt: skip
        if not len(boxes):
            # No proposal is worth anything: Paddle gives one empty box, so that later layers have something.
            boxes, score = scores.new_zeros((1, 4)), scores.new_zeros(1)
        elif nms_thresh > 0:
            kept = greedy(boxes, nms_thresh, 1.0 if pixel_offset else 0.0, eta, post_nms_top_n or -1)
            boxes, score = boxes[kept], score[kept]
        rois.append(boxes)
        chances.append(score[:, None])
        counts.append(len(boxes))
    return torch.cat(rois), torch.cat(chances), torch.tensor(counts, dtype=torch.int32) if return_rois_num else None


def proposal_candidates(
    scores: torch.Tensor, deltas: torch.Tensor, size: torch.Tensor, anchors: torch.Tensor, variances: torch.Tensor,
    most: int, min_size: float, pixel_offset: bool,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """The decoded boxes of one image, best score first, cut to the image, without those that are too small."""
    extra = 1.0 if pixel_offset else 0.0
    score = scores.permute(1, 2, 0).reshape(-1)
    delta = deltas.permute(1, 2, 0).reshape(-1, 4)
    order = score.argsort(descending=True, stable=True)
    order = order[:most] if 0 < most < len(order) else order
    score, delta = score[order], delta[order]
    anchor, variance = anchors.reshape(-1, 4)[order], variances.reshape(-1, 4)[order]
    extent = anchor[:, 2:] - anchor[:, :2] + extra
    center = anchor[:, :2] + 0.5 * extent
    moved = variance[:, :2] * delta[:, :2] * extent + center
    scaled = (variance[:, 2:] * delta[:, 2:]).clamp(max=LARGEST_LOG_SCALE).exp() * extent
    boxes = torch.cat([moved - scaled / 2, moved + scaled / 2 - extra], dim=1)
    height, width = size.to(boxes.dtype)
    limit = torch.stack([width, height, width, height]) - extra
    boxes = torch.minimum(boxes, limit).clamp(min=0)
    final = boxes[:, 2:] - boxes[:, :2] + extra
    kept = (final >= max(float(min_size), 1.0)).all(1)
    if pixel_offset:
        middle = boxes[:, :2] + final / 2
        kept &= (middle <= torch.stack([width, height])).all(1)
    return boxes[kept], score[kept]
