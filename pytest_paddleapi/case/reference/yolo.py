"""YOLOv3 (Redmon and Farhadi 2018, arXiv 1804.02767): decoded predictions, and the loss, as Paddle documents them."""

from __future__ import annotations

import torch

from .detection import single
from .registry import reference


def _planes(x: torch.Tensor, anchors: int, values: int) -> torch.Tensor:
    """(N, anchors, values, H, W)."""
    batch, channels, height, width = x.shape
    if channels != anchors * values:
        raise ValueError(f"{channels} channels for {anchors} anchors with {values} values each")
    return x.reshape(batch, anchors, values, height, width)


def _decoded(
    planes: torch.Tensor, sizes: torch.Tensor, downsample: tuple[float, float], scale: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Center x, y and width, height in fractions of the network's input."""
    height, width = planes.shape[-2:]
    scale = single(scale)
    bias = -0.5 * (scale - 1.0)
    column, row = torch.arange(width, dtype=planes.dtype), torch.arange(height, dtype=planes.dtype)[:, None]
    x = (planes[:, :, 0].sigmoid() * scale + bias + column) / max(width, 1)
    y = (planes[:, :, 1].sigmoid() * scale + bias + row) / max(height, 1)
    w = planes[:, :, 2].exp() * sizes[:, 0, None, None] / downsample[1]
    h = planes[:, :, 3].exp() * sizes[:, 1, None, None] / downsample[0]
    return x, y, w, h


@reference("paddle.vision.ops.yolo_box", no_gradient="Paddle defines none for it")
def yolo_box(
    x, img_size, anchors, class_num, conf_thresh, downsample_ratio, clip_bbox=True, name=None, scale_x_y=1.0,
    iou_aware=False, iou_aware_factor=0.5,
):  # fmt: skip
    """Boxes in pixels of each image, and scores; both are zero where the confidence is too low."""
    sizes = torch.tensor([float(a) for a in anchors], dtype=x.dtype).reshape(-1, 2)
    count = len(sizes)
    overlap = x[:, :count] if iou_aware else None
    planes = _planes(x[:, count:] if iou_aware else x, count, 5 + class_num)
    batch, height, width = x.shape[0], x.shape[-2], x.shape[-1]
    confidence = planes[:, :, 4].sigmoid()
    iou_aware_factor = single(iou_aware_factor)
    if overlap is not None:
        confidence = confidence ** (1.0 - iou_aware_factor) * overlap.sigmoid() ** iou_aware_factor
    certain = confidence >= single(conf_thresh)
    cx, cy, w, h = _decoded(planes, sizes, (downsample_ratio * height, downsample_ratio * width), scale_x_y)
    image_h, image_w = (img_size[:, i].to(x.dtype).reshape(-1, 1, 1, 1) for i in (0, 1))
    cx, w, cy, h = cx * image_w, w * image_w, cy * image_h, h * image_h
    left, top, right, bottom = cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2
    if clip_bbox:
        left, top = left.clamp(min=0), top.clamp(min=0)
        right, bottom = torch.minimum(right, image_w - 1), torch.minimum(bottom, image_h - 1)
    boxes = torch.stack([left, top, right, bottom], dim=-1) * certain[..., None]
    scores = (planes[:, :, 5:].sigmoid() * (confidence * certain)[:, :, None]).movedim(2, -1)
    total = count * height * width
    return boxes.reshape(batch, total, 4), scores.reshape(batch, total, class_num)


def _overlap(a: list[torch.Tensor], b: list[torch.Tensor]) -> torch.Tensor:
    """Intersection over union of boxes given by centers and sizes."""

    def along(center: int, size: int) -> torch.Tensor:
        first = torch.maximum(a[center] - a[size] / 2, b[center] - b[size] / 2)
        last = torch.minimum(a[center] + a[size] / 2, b[center] + b[size] / 2)
        return last - first

    wide, tall = along(0, 2), along(1, 3)
    shared = torch.where((wide < 0) | (tall < 0), 0.0, wide * tall)
    return shared / (a[2] * a[3] + b[2] * b[3] - shared)


def _cross_entropy(logit: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.binary_cross_entropy_with_logits(logit, target, reduction="none")


@reference("paddle.vision.ops.yolo_loss", constant=("gt_box", "gt_score"))
def yolo_loss(
    x, gt_box, gt_label, anchors, anchor_mask, class_num, ignore_thresh, downsample_ratio, gt_score=None,
    use_label_smooth=True, name=None, scale_x_y=1.0,
):  # fmt: skip
    """Location, objectness and class losses of each image.

    Labels are smoothed by min(1 / classes, 1 / 40), as in Paddle's kernel and the tests of the operator (the
    text of the documentation leaves the 1 / 40 out).
    """
    sizes = torch.tensor([float(a) for a in anchors], dtype=x.dtype).reshape(-1, 2)
    mask = [int(a) for a in anchor_mask]
    planes = _planes(x, len(mask), 5 + class_num)
    batch, _, _, height, width = planes.shape
    extent = float(downsample_ratio * height)
    smooth = min(1.0 / class_num, 1.0 / 40) if use_label_smooth else 0.0
    present = (gt_box[..., 2] > 1e-6) & (gt_box[..., 3] > 1e-6)
    with torch.no_grad():
        predicted = [v[..., None] for v in _decoded(planes, sizes[mask], (extent, extent), scale_x_y)]
        truth = [gt_box[:, None, None, None, :, i].to(x.dtype) for i in range(4)]
        best = torch.where(present[:, None, None, None, :], _overlap(predicted, truth), 0.0)
        best = best.amax(-1) if best.shape[-1] else best.sum(-1)
    # What the objectness should be: a weight for a positive, 0 for a negative, -1 to be ignored.
    objectness = torch.where(best > single(ignore_thresh), -1.0, 0.0).to(x.dtype)
    loss = [x.new_zeros(()) for _ in range(batch)]
    for image in range(batch):
        for k in range(gt_box.shape[1]):
            if not bool(present[image, k]):
                continue
            cx, cy, w, h = gt_box[image, k].to(x.dtype)
            zero = torch.zeros(len(sizes), dtype=x.dtype)
            shapes = [zero, zero, sizes[:, 0] / extent, sizes[:, 1] / extent]
            anchor = int(_overlap([zero, zero, w.expand_as(zero), h.expand_as(zero)], shapes).argmax())
            if anchor not in mask:
                continue
            weight = x.new_ones(()) if gt_score is None else gt_score[image, k].to(x.dtype)
            column, row, place = int(cx * width), int(cy * height), mask.index(anchor)
            cell = planes[image, place, :, row, column]
            larger = (2.0 - w * h) * weight
            location = _cross_entropy(cell[0], cx * width - column) + _cross_entropy(cell[1], cy * height - row)
            location = location + (cell[2] - torch.log(w * extent / sizes[anchor, 0])).abs()
            location = location + (cell[3] - torch.log(h * extent / sizes[anchor, 1])).abs()
            target = torch.full((class_num,), smooth, dtype=x.dtype)
            target[int(gt_label[image, k])] = 1.0 - smooth
            loss[image] = loss[image] + location * larger + _cross_entropy(cell[5:], target).sum() * weight
            objectness[image, place, row, column] = weight
    logit = planes[:, :, 4]
    positive = _cross_entropy(logit, torch.ones_like(logit)) * objectness
    negative = _cross_entropy(logit, torch.zeros_like(logit))
    certain = torch.where(objectness > 1e-5, positive, torch.where(objectness > -0.5, negative, 0.0))
    return torch.stack(loss) + certain.sum((1, 2, 3)) if batch else x.sum((1, 2, 3))
