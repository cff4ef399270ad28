"""Detection operators whose results need more than element by element comparison."""

from __future__ import annotations

import torch

from ..reference.detection import overlaps, proposal_candidates
from ..tensors import to_torch
from .comparison import Comparison
from .registry import comparator, elementwise
from .sums import compare_sums

comparator("paddle.vision.ops.deform_conv2d", meaning="sums of products, to the size of the whole")(compare_sums)

#: Overlaps this close to the threshold may fall on either side: they come of some ten roundings.
_UNDECIDED = 1e-4


@comparator("paddle.vision.ops.generate_proposals", meaning="the greedy choice, where overlaps decide it clearly")
def generate_proposals(c: Comparison) -> None:
    """Equal to the reference; or else each candidate kept or dropped as the boxes kept before it demand.

    One overlap that falls on the other side of the threshold by rounding changes all that follows, so a
    result that differs is judged step by step.
    """
    if _agrees(c):
        return elementwise(c)
    if not c.same_structure():
        return None
    rois, chances, counts = c.actual_leaves()
    c.count(outputs=3, elements=rois.numel() + chances.numel())
    per_image = _counts(c, counts, rois, chances)
    if per_image is None:
        return None
    start = 0
    for image, count in enumerate(per_image):
        part = slice(start, start + count)
        _judge_image(c, image, rois[part], chances[part].reshape(-1))
        start += count
    c.note("overlaps within 1e-4 of the threshold were left to Paddle's decision")
    return None


def _agrees(c: Comparison) -> bool:
    pairs = list(zip(c.actual_leaves(), c.expected_leaves()))
    return all(
        isinstance(a, torch.Tensor)
        and isinstance(e, torch.Tensor)
        and a.shape == e.shape
        and a.dtype == e.dtype
        and bool(torch.allclose(a.double(), e.double(), rtol=1e-3, atol=1e-2))
        for a, e in pairs
    )


def _counts(c: Comparison, counts: object, rois: torch.Tensor, chances: torch.Tensor) -> list[int] | None:
    expected = c.expected_leaves()
    images = to_torch(c.argument("scores")).shape[0]
    if not isinstance(counts, torch.Tensor) or counts.dtype != torch.int32 or counts.numel() != images:
        c.differs("output 2", f"should be int32 counts of {images} images")
        return None
    per_image = [int(n) for n in counts]
    if rois.dtype != expected[0].dtype or chances.dtype != expected[1].dtype:
        c.differs("output 0", f"dtype {rois.dtype} and {chances.dtype} where {expected[0].dtype} is expected")
    elif list(rois.shape) != [sum(per_image), 4] or list(chances.shape) != [sum(per_image), 1]:
        c.differs("output 0", f"shapes {list(rois.shape)} and {list(chances.shape)} for {per_image} boxes")
    else:
        return per_image
    return None


def _judge_image(c: Comparison, image: int, rois: torch.Tensor, chances: torch.Tensor) -> None:
    """Match the result with its candidates by score, then replay the choice."""
    given = {name: to_torch(c.argument(name)) for name in ("scores", "bbox_deltas", "img_size", "anchors", "variances")}
    offset = bool(c.argument("pixel_offset", False))
    boxes, scores = proposal_candidates(
        given["scores"][image], given["bbox_deltas"][image], given["img_size"][image], given["anchors"],
        given["variances"], int(c.argument("pre_nms_top_n", 6000)), float(c.argument("min_size", 0.1)), offset,
    )  # fmt: skip
    place = {float(s): i for i, s in enumerate(scores)}
    where = [place.get(float(s), -1) for s in chances]
    if min(where, default=0) < 0 or where != sorted(set(where)):
        c.differs("output 1", f"scores of image {image} are not those of different candidates in falling order")
        return
    if not c.pair(f"output 0, image {image}", rois, boxes[where]):
        return
    threshold, eta = float(c.argument("nms_thresh", 0.5)), float(c.argument("eta", 1.0))
    most = int(c.argument("post_nms_top_n", 1000))
    kept: list[int] = []
    chosen = set(where)
    for candidate in range(len(boxes)):
        if most > 0 and len(kept) >= most:
            break
        worst = float(overlaps(boxes[candidate : candidate + 1], boxes[kept], float(offset)).max()) if kept else 0.0
        if (candidate in chosen) != (worst <= threshold) and abs(worst - threshold) > _UNDECIDED:
            did = "kept" if candidate in chosen else "dropped"
            c.differs("output 0", f"image {image}: candidate {candidate} was {did}, its largest overlap is {worst:.6g}")
            return
        if candidate in chosen:
            kept.append(candidate)
            if eta < 1 and threshold > 0.5:
                threshold *= eta
    if len(kept) != len(where):
        c.differs("output 0", f"image {image}: {len(where)} boxes where at most {most} are asked for")
