"""Detection operators: whole cases against Paddle, and the definitions against hand-computed numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pytest_paddleapi.case.compare.comparison import Comparison
from pytest_paddleapi.case.compare.registry import find_comparator
from pytest_paddleapi.case.inputs.detection import box_counts, regions
from pytest_paddleapi.case.inputs.makers import ordinary
from pytest_paddleapi.case.inputs.registry import CallValues, Draw, find_inputs
from pytest_paddleapi.case.reference import deformable, detection, roi, yolo
from pytest_paddleapi.config import TensorSpec
from pytest_paddleapi.process.messages import CaseResult, ToleranceOptions, Verdict

Run = Callable[..., CaseResult]

OPS = "paddle.vision.ops."
PASSING = [
    # arguments (with f4[2,3] for Tensor([2,3],"float32") and so on), compared outputs, compared gradients
    ('roi_align(f4[2,3,20,30], f4[7,4], i4[2], 7, 0.25, 2, False)', 1, 1),
    ('roi_align(f8[2,3,20,30], f8[7,4], i4[2], (3,5))', 1, 1),
    ('roi_align(f4[2,3,20,30], f4[0,4], i4[2], 7)', 1, 1),
    ('roi_pool(f4[2,3,20,30], f4[7,4], i4[2], (4,3), 0.25)', 1, 1),
    ('psroi_pool(f8[2,30,20,30], f8[7,4], i4[2], (5,2), 0.5)', 1, 1),
    ('deform_conv2d(f8[2,4,8,9], f8[2,36,6,7], f8[6,2,3,3], f8[6], 1, 0, 1, 2, 2, f8[2,18,6,7])', 1, 5),
    ('deform_conv2d(f4[2,4,8,9], f4[2,8,6,5], f4[6,4,2,2], stride=(1,2), padding=[0,1], dilation=(2,1))', 1, 3),
    ('prior_box(f4[1,3,6,9], f4[1,3,60,90], [2.0,4.0], [5.0,10.0], [2.0,3.0], flip=True, clip=True)', 2, 0),
    (
        ('prior_box(f8[1,3,6,9], f8[1,3,60,90], [2.0,4.0], [5.0,10.0], [2.0], steps=[8.0,7.0], offset=0.3,'
        ' min_max_aspect_ratios_order=True)'), 2, 0,
    ),
    ('prior_box(f4[1,3,0,9], f4[1,3,60,90], 4.0)', 2, 0),
    ('box_coder(f8[5,4], [0.1,0.1,0.2,0.2], f8[7,4], box_normalized=False)', 1, 0),
    ('box_coder(f4[5,4], f4[5,4], f4[7,5,4], "decode_center_size")', 1, 0),
    ('box_coder(f4[7,4], f4[7,4], f4[7,5,4], "decode_center_size", False, 1)', 1, 0),
    ('nms(f4[50,4])', 1, 0),
    ('nms(f8[50,4], 0.5, f8[50])', 1, 0),
    ('nms(f4[50,4], 0.5, f4[50], i8[50], [0,1,2,5], 10)', 1, 0),
    ('matrix_nms(f4[2,60,4], f4[2,4,60], 0.1, 0.05, 40, 20)', 3, 0),
    ('matrix_nms(f8[2,60,4], f8[2,4,60], 0.1, 0.05, 40, 20, True, 2.0, -1, False, True, True)', 3, 0),
    ('distribute_fpn_proposals(f4[50,4], 2, 5, 4, 224, rois_num=i4[3])', 9, 0),
    ('distribute_fpn_proposals(f4[0,4], 2, 5, 4, 224, rois_num=i4[3])', 9, 0),
    (
        ('generate_proposals(f4[2,3,10,12], f4[2,12,10,12], f4[2,2], f4[10,12,3,4], f4[10,12,3,4],'
        ' return_rois_num=True)'), 3, 0,
    ),
    (
        ('generate_proposals(f8[2,3,10,12], f8[2,12,10,12], f8[2,2], f8[360,4], f8[360,4], 200, 30, 0.7, 4.0, 0.9,'
        ' True, True)'), 3, 0,
    ),
    ('yolo_box(f4[2,14,8,8], i4[2,2], [10,13,16,30], 2, 0.01, 8)', 2, 0),
    ('yolo_box(f8[2,16,8,6], i4[2,2], [10,13,16,30], 2, 0.5, 8, False, None, 1.2, True, 0.4)', 2, 0),
    (
        ('yolo_loss(f8[2,14,8,8], f8[2,6,4], i4[2,6], [10,13,16,30], [0,1], 2, 0.2, 8, gt_score=f8[2,6],'
        ' scale_x_y=1.2)'), 1, 1,
    ),
    ('yolo_loss(f4[2,14,8,8], f4[2,6,4], i4[2,6], [10,13,16,30], [0,1], 2, 0.7, 8, use_label_smooth=False)', 1, 1),
]  # fmt: skip


DTYPES = {"f2": "float16", "f4": "float32", "f8": "float64", "i4": "int32", "i8": "int64"}


def _written_out(text: str) -> str:
    return re.sub(r"\b([fi][248])(\[[\d,]*\])", lambda m: f'Tensor({m[2]},"{DTYPES[m[1]]}")', text)


@pytest.mark.parametrize(("config", "outputs", "gradients"), PASSING)
def test_paddle_agrees_with_the_definition(run_case: Run, config: str, outputs: int, gradients: int) -> None:
    result = run_case(OPS + _written_out(config))
    assert result.verdict is Verdict.PASS, result.text
    assert (result.measured.compared_outputs, result.measured.compared_gradients) == (outputs, gradients)
    assert result.measured.compared_elements or "[1,3,0,9]" in config


def test_reading_files_has_no_reference(run_case: Run) -> None:
    assert run_case(OPS + 'read_file("a.jpg")').verdict is Verdict.CONFIG_CONVERT


def test_proposals_of_mixed_dtypes_are_refused_by_both(run_case: Run) -> None:
    config = "generate_proposals(f2[1,3,8,9], f2[1,12,8,9], f4[1,2], f4[216,4], f4[216,4], return_rois_num=True)"
    assert run_case(OPS + _written_out(config)).verdict is Verdict.BOTH_ERROR


# Inputs -------------------------------------------------------------------------------------------


def test_boxes_are_valid_and_counts_sum() -> None:
    arguments = {
        "x": TensorSpec((3, 2, 20, 30), "float32"),
        "boxes": TensorSpec((40, 4), "float32"),
        "boxes_num": TensorSpec((3,), "int32"),
        "spatial_scale": 0.25,
    }
    makers = {"boxes": regions, "boxes_num": box_counts("boxes")}
    values = CallValues("", arguments, makers, ordinary, (5,)).all_values()
    boxes = values["boxes"]
    assert (boxes[:, :2] < boxes[:, 2:]).all()
    assert boxes.min() >= 0
    assert boxes[:, 2].max() <= 120
    assert boxes[:, 3].max() <= 80
    assert values["boxes_num"].sum() == 40
    assert np.ptp(boxes[:, 2] - boxes[:, 0]) > 20


# Definitions against numbers worked out by hand -----------------------------------------------------


def _t(*values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_roi_align_of_a_ramp_gives_the_centers_of_its_bins() -> None:
    ramp = torch.arange(10.0, dtype=torch.float64).expand(1, 1, 8, 10)
    boxes, count = _t([1.0, 1.0, 5.0, 5.0]), torch.tensor([1])
    # Bins of width 2 from 1 and 3; half a pixel to the left where aligned.
    aligned = roi.roi_align(ramp, boxes, count, 2)
    assert aligned[0, 0].tolist() == [[1.5, 3.5], [1.5, 3.5]]
    plain = roi.roi_align(ramp, boxes, count, 2, aligned=False)
    assert plain[0, 0].tolist() == [[2.0, 4.0], [2.0, 4.0]]
    assert roi.roi_align(ramp, boxes * 2, count, 2, spatial_scale=0.5)[0, 0].tolist() == aligned[0, 0].tolist()


def test_roi_align_has_the_gradient_of_its_own_forward() -> None:
    x = torch.rand(1, 2, 6, 7, dtype=torch.float64, requires_grad=True)
    boxes, count = _t([0.5, 1.0, 1.2, 1.5], [0.0, 0.0, 7.0, 6.0]), torch.tensor([2])
    assert torch.autograd.gradcheck(lambda v: roi.roi_align(v, boxes, count, 3), (x,))


def test_roi_pool_takes_the_largest_value_of_each_bin() -> None:
    x = torch.arange(16.0, dtype=torch.float64).reshape(1, 1, 4, 4)
    out = roi.roi_pool(x, _t([0.0, 0.0, 2.0, 3.0]), torch.tensor([1]), 2)
    # Columns 0-2 and rows 0-3: bins of 1.5 columns overlap in column 1.
    assert out[0, 0].tolist() == [[5.0, 6.0], [13.0, 14.0]]


def test_psroi_pool_averages_each_bin_in_its_own_channel() -> None:
    x = torch.stack([torch.full((4, 4), float(k), dtype=torch.float64) for k in range(8)])[None]
    out = roi.psroi_pool(x, _t([0.0, 0.0, 3.0, 3.0]), torch.tensor([1]), 2)
    assert out[0].tolist() == [[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0], [6.0, 7.0]]]


def test_deformable_convolution_without_offsets_is_a_convolution() -> None:
    x, weight = torch.rand(2, 4, 6, 7, dtype=torch.float64), torch.rand(6, 2, 3, 3, dtype=torch.float64)
    offset = torch.zeros(2, 18, 4, 5, dtype=torch.float64)
    plain = torch.nn.functional.conv2d(x, weight, groups=2)
    torch.testing.assert_close(deformable.deform_conv2d(x, offset, weight, groups=2), plain)
    half = torch.full((2, 9, 4, 5), 0.5, dtype=torch.float64)
    torch.testing.assert_close(deformable.deform_conv2d(x, offset, weight, groups=2, mask=half), plain / 2)


def test_an_offset_moves_rows_first() -> None:
    x = torch.arange(12.0, dtype=torch.float64).reshape(1, 1, 3, 4)
    weight = torch.ones(1, 1, 1, 1, dtype=torch.float64)
    offset = torch.zeros(1, 2, 3, 4, dtype=torch.float64)
    offset[:, 0] = 1.0
    assert deformable.deform_conv2d(x, offset, weight)[0, 0].tolist() == [[4, 5, 6, 7], [8, 9, 10, 11], [0, 0, 0, 0]]


def test_prior_boxes_of_one_place() -> None:
    image = torch.zeros(1, 3, 10, 20)
    boxes, variances = detection.prior_box(torch.zeros(1, 3, 1, 2), image, [4.0], [9.0], [4.0])
    # Centers (5, 5) and (15, 5); ratio 1, then ratio 4 (8 x 2), then sqrt(4 * 9) = 6.
    pixels = (boxes[0, 0] * torch.tensor([20.0, 10.0, 20.0, 10.0])).tolist()
    assert pixels == [[3, 3, 7, 7], [1, 4, 9, 6], [2, 2, 8, 8]]
    assert variances.shape == (1, 2, 3, 4)


def test_decoding_undoes_encoding() -> None:
    priors, targets = _t([0.1, 0.1, 0.5, 0.7], [0.2, 0.3, 0.9, 0.8]), _t([0.0, 0.2, 0.4, 0.9])
    code = detection.box_coder(priors, [0.1, 0.1, 0.2, 0.2], targets)
    assert code.shape == (1, 2, 4)
    # Center shift (0.2 - 0.3) / 0.4 / 0.1 and scale log(0.4 / 0.4) / 0.2 of the first prior.
    torch.testing.assert_close(code[0, 0, [0, 2]], _t(-2.5, 0.0), atol=1e-6, rtol=1e-6)
    back = detection.box_coder(priors, [0.1, 0.1, 0.2, 0.2], code, "decode_center_size")
    torch.testing.assert_close(back, targets.expand(1, 2, 4), atol=1e-6, rtol=1e-6)


def test_overlaps_and_the_greedy_choice() -> None:
    boxes = _t([0, 0, 2, 2], [1, 0, 3, 2], [5, 5, 6, 6], [0, 0, 2, 1])
    torch.testing.assert_close(detection.overlaps(boxes[:1], boxes), _t([1.0, 1 / 3, 0.0, 0.5]))
    assert detection.greedy(boxes, 0.4) == [0, 1, 2]
    assert detection.greedy(boxes, 0.3) == [0, 2]
    assert detection.greedy(boxes, 0.6, most=2) == [0, 1]
    kept = detection.nms(boxes, 0.4, _t(0.1, 0.9, 0.5, 0.2))
    assert kept.tolist() == [1, 2, 3]
    by_class = detection.nms(boxes, 0.4, _t(0.1, 0.9, 0.5, 0.2), torch.tensor([0, 1, 0, 2]), [0, 1, 2], 3)
    assert by_class.tolist() == [1, 2, 3]


def test_matrix_nms_decays_scores() -> None:
    boxes, scores = _t([[0, 0, 2, 2], [1, 0, 3, 2], [5, 5, 6, 6]]), _t([[0.9, 0.6, 0.5]])
    out, counts, _ = detection.matrix_nms(boxes, scores, 0.1, 0.0, -1, -1, background_label=-1)
    # The second overlaps the first by 1/3, which overlaps nothing better: 0.6 * (1 - 1/3) = 0.4.
    torch.testing.assert_close(out[:, 1], _t(0.9, 0.5, 0.4))
    assert counts.tolist() == [3]
    soft, _, index = detection.matrix_nms(
        boxes, scores, 0.1, 0.0, -1, -1, True, 2.0, background_label=-1, return_index=True
    )
    torch.testing.assert_close(soft[:, 1], _t(0.9, 0.5, 0.6 * math.exp(-2.0 / 9)).sort(descending=True).values)
    assert sorted(index.reshape(-1).tolist()) == [0, 1, 2]


def test_levels_of_a_pyramid() -> None:
    rois = _t([0, 0, 224, 224], [0, 0, 113, 113], [0, 0, 56, 57], [0, 0, 900, 900], [0, 0, 300, 200])
    multi, restore, per_level = detection.distribute_fpn_proposals(rois, 2, 5, 4, 224, rois_num=torch.tensor([2, 3]))
    assert [len(m) for m in multi] == [1, 1, 2, 1]
    torch.testing.assert_close(torch.cat(multi)[restore.reshape(-1).long()], rois)
    assert [p.tolist() for p in per_level] == [[0, 1], [1, 0], [1, 1], [0, 1]]


def test_one_yolo_box() -> None:
    x = torch.zeros(1, 7, 1, 2, dtype=torch.float64)
    x[0, 4, 0, 1] = -20.0  # no confidence at the second place
    boxes, scores = yolo.yolo_box(x, torch.tensor([[60, 80]]), [8, 16], 2, 0.1, 32, clip_bbox=False)
    # Center (0.25, 0.5) of 80 x 60; size 8 / 64 and 16 / 32 of it.
    assert boxes[0, 0].tolist() == [15.0, 15.0, 25.0, 45.0]
    assert scores[0].tolist() == [[0.25, 0.25], [0.0, 0.0]]
    assert boxes[0, 1].tolist() == [0.0] * 4


def test_one_yolo_loss() -> None:
    x = torch.zeros(1, 7, 1, 1, dtype=torch.float64)
    truth, label = _t([[0.5, 0.5, 0.25, 0.5]]), torch.tensor([[1]])
    loss = yolo.yolo_loss(x, truth, label, [8, 16], [0], 2, 0.7, 32, use_label_smooth=False)
    # The anchor has just the size of the box: six cross entropies of ln 2, those of x and y weighted by 2 - 1/8.
    assert loss.item() == pytest.approx((2 * 1.875 + 1 + 2) * math.log(2))


# The comparator of proposals ------------------------------------------------------------------------


def _proposals(change: Callable[[list[torch.Tensor]], None]) -> list[str]:
    rng = np.random.default_rng(3)
    spec = {
        "scores": TensorSpec((1, 3, 8, 9), "float64"),
        "bbox_deltas": TensorSpec((1, 12, 8, 9), "float64"),
        "img_size": TensorSpec((1, 2), "float64"),
        "anchors": TensorSpec((216, 4), "float64"),
        "variances": TensorSpec((216, 4), "float64"),
    }
    api = OPS + "generate_proposals"
    values = CallValues(api, spec, find_inputs(api), ordinary, (int(rng.integers(100)),)).all_values()
    tensors = [torch.from_numpy(v.copy()) for v in values.values()]
    expected = list(detection.generate_proposals(*tensors, return_rois_num=True))
    actual = [t.clone() for t in expected]
    change(actual)
    comparison = Comparison(api, values, tuple(actual), tuple(expected), ToleranceOptions())
    find_comparator(api).judge(comparison)
    return comparison.findings.differences


def test_the_same_proposals_agree() -> None:
    assert _proposals(lambda result: None) == []


def test_a_missing_proposal_is_caught() -> None:
    def drop(result: list[torch.Tensor]) -> None:
        result[0], result[1], result[2] = result[0][1:], result[1][1:], result[2] - 1

    assert "was dropped" in _proposals(drop)[0]


def test_a_moved_proposal_is_caught() -> None:
    def move(result: list[torch.Tensor]) -> None:
        result[0][2] += 3.0

    assert _proposals(move)


def test_scores_out_of_order_are_caught() -> None:
    def swap(result: list[torch.Tensor]) -> None:
        result[0], result[1] = result[0].flip(0), result[1].flip(0)

    assert "falling order" in _proposals(swap)[0]


def test_draws_do_not_depend_on_the_call() -> None:
    holder = CallValues("", {"x": TensorSpec((1, 1, 4, 4), "float32")}, {}, ordinary, ())
    spec = TensorSpec((3, 4), "float32")
    first, second = (regions(Draw(holder, spec, ("boxes",), np.random.Generator(np.random.PCG64(1)))) for _ in range(2))
    np.testing.assert_array_equal(first, second)
