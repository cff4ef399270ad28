"""Layers on images, embeddings, padding and resampling, against NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.ndimage import map_coordinates

from pytest_paddleapi.case.compare.comparison import Comparison
from pytest_paddleapi.case.compare.registry import find_comparator
from pytest_paddleapi.case.inputs.makers import ordinary
from pytest_paddleapi.case.inputs.registry import CallValues, find_inputs
from pytest_paddleapi.config import TensorSpec
from pytest_paddleapi.process.messages import CaseResult, ToleranceOptions

from .support import check_row, numbers
from .support import functional_rule as rule

TABLE = "vision_layers"
_F = "paddle.nn.functional."
Run = Callable[..., CaseResult]


def test_config_passes(run_case: Run, table_row: tuple[str, int, int]) -> None:
    check_row(run_case, table_row)


# Padding -----------------------------------------------------------------------------------------


def test_pad_of_all_axes_starts_left_or_right() -> None:
    x = numbers(2, 3)
    pad = rule("pad")
    np.testing.assert_allclose(pad(x, [1, 0, 0, 2]), np.pad(x, ((1, 0), (0, 2))))
    np.testing.assert_allclose(pad(x, [1, 0, 0, 2], pad_from_left_axis=False), np.pad(x, ((0, 2), (1, 0))))
    np.testing.assert_allclose(pad(x, [1, 2]), np.pad(x, ((0, 0), (1, 2))))


@pytest.mark.parametrize(
    ("mode", "numpy_mode"), [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap"), ("constant", None)]
)
def test_pad_of_an_image_starts_at_its_width(mode: str, numpy_mode: str | None) -> None:
    x = numbers(1, 2, 4, 5)
    pairs = ((0, 0), (0, 0), (0, 3), (1, 2))
    expected = np.pad(x, pairs, mode=numpy_mode) if numpy_mode else np.pad(x, pairs, constant_values=7)
    np.testing.assert_allclose(rule("pad")(x, [1, 2, 0, 3], mode, 7.0), expected)
    last = rule("pad")(x.permute(0, 2, 3, 1), torch.tensor([1, 2, 0, 3]), mode, 7.0, "NHWC")
    np.testing.assert_allclose(last.permute(0, 3, 1, 2), expected)


def test_a_reflection_must_be_smaller_than_the_axis() -> None:
    with pytest.raises(ValueError, match="smaller"):
        rule("pad")(numbers(1, 1, 3), [3, 0], "reflect")


def test_zeropad2d_is_left_right_top_bottom() -> None:
    x = numbers(1, 1, 2, 2)
    np.testing.assert_allclose(rule("zeropad2d")(x, [1, 0, 2, 3])[0, 0], np.pad(x[0, 0], ((2, 3), (1, 0))))


# Resampling --------------------------------------------------------------------------------------


def places(size: int, out: int, corners: bool, align_mode: int) -> Any:
    index = np.arange(out)
    if corners:
        return index * (size - 1) / (out - 1)
    scale = size / out
    return index * scale if align_mode else np.maximum((index + 0.5) * scale - 0.5, 0)


@pytest.mark.parametrize(("corners", "align_mode"), [(True, 0), (False, 0), (False, 1)])
def test_bilinear_resampling_is_scipys_at_paddles_places(corners: bool, align_mode: int) -> None:
    x = numbers(1, 1, 5, 4)
    grid = np.meshgrid(places(5, 8, corners, align_mode), places(4, 3, corners, align_mode), indexing="ij")
    expected = map_coordinates(x[0, 0].numpy(), grid, order=1, mode="nearest")
    found = rule("interpolate")(x, [8, 3], None, "bilinear", corners, align_mode)
    np.testing.assert_allclose(found[0, 0], expected, atol=1e-5)


def test_nearest_takes_the_floor() -> None:
    x = torch.arange(5.0).reshape(1, 1, 1, 5)
    found = rule("interpolate")(x, [1, 3], mode="nearest")
    assert found.flatten().tolist() == [0, 1, 3]
    assert rule("upsample")(x, scale_factor=[1, 2]).flatten().tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_cubic_resampling_of_an_impulse_is_keys_kernel() -> None:
    x = torch.zeros(1, 1, 12, 12, dtype=torch.float64)
    x[0, 0, :, 5] = 1.0
    found = rule("interpolate")(x, [24, 24], mode="bicubic")[0, 0, 12]
    # The kernel with a = -0.75 at distances 1.75, 1.25, 0.75, 0.25 and back.
    half = [-0.03515625, -0.10546875, 0.26171875, 0.87890625]
    np.testing.assert_allclose(found[7:15], [*half, *reversed(half)], atol=1e-6)


def test_a_given_scale_counts_even_where_it_gives_no_whole_size() -> None:
    x = torch.arange(5.0).double().reshape(1, 1, 5)
    given = rule("interpolate")(x, scale_factor=1.5, mode="linear")
    again = rule("interpolate")(x, scale_factor=1.5, mode="linear", recompute_scale_factor=True)
    np.testing.assert_allclose(given[0, 0, 1:6], (np.arange(1, 6) + 0.5) / 1.5 - 0.5, atol=1e-6)
    np.testing.assert_allclose(again[0, 0, 1:6], (np.arange(1, 6) + 0.5) * 5 / 7 - 0.5, atol=1e-6)


def test_area_is_the_mean_of_adaptive_windows() -> None:
    x = numbers(1, 1, 4)
    np.testing.assert_allclose(rule("interpolate")(x, [2], mode="area")[0, 0], x[0, 0].reshape(2, 2).mean(1))


def test_grid_sample_in_pixels() -> None:
    x = numbers(1, 1, 4, 5)
    pixels = np.array([[0.25, 1.5], [2.75, 3.4]])  # (x, y)
    for corners in (True, False):
        sizes = np.array([5, 4])
        grid = 2 * pixels / (sizes - 1) - 1 if corners else (2 * pixels + 1) / sizes - 1
        found = rule("grid_sample")(x, torch.from_numpy(grid).reshape(1, 1, 2, 2), align_corners=corners)
        expected = map_coordinates(x[0, 0].numpy(), pixels[:, ::-1].T, order=1, mode="constant")
        np.testing.assert_allclose(found.flatten()[:1], expected[:1])


def test_affine_grid_of_the_identity() -> None:
    theta = torch.tensor([[[1.0, 0, 0], [0, 1, 0]]])
    grid = rule("affine_grid")(theta, [1, 1, 2, 3])
    np.testing.assert_allclose(grid[0, :, :, 0], [[-1, 0, 1]] * 2)
    half = rule("affine_grid")(theta, torch.tensor([1, 1, 2, 3]), align_corners=False)
    np.testing.assert_allclose(half[0, 0, :, 0], [-2 / 3, 0, 2 / 3], atol=1e-6)


# Rearrangements ----------------------------------------------------------------------------------


@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
def test_pixel_unshuffle_undoes_pixel_shuffle(data_format: str) -> None:
    x = numbers(2, 8, 3, 12) if data_format == "NCHW" else numbers(2, 8, 3, 12).permute(0, 2, 3, 1)
    wide = rule("pixel_shuffle")(x, 2, data_format)
    assert torch.equal(rule("pixel_unshuffle")(wide, 2, data_format), x)
    first = wide if data_format == "NCHW" else wide.permute(0, 3, 1, 2)
    source = x if data_format == "NCHW" else x.permute(0, 3, 1, 2)
    assert first[1, 1, 3, 4] == source[1, 1 * 4 + 1 * 2 + 0, 1, 2]


def test_channel_shuffle_takes_one_of_each_group() -> None:
    x = torch.arange(6.0).reshape(1, 6, 1, 1)
    assert rule("channel_shuffle")(x, 3).flatten().tolist() == [0, 2, 4, 1, 3, 5]


def test_temporal_shift_moves_a_share_of_the_channels_each_way() -> None:
    x = torch.arange(1.0, 13).reshape(3, 4, 1, 1)
    found = rule("temporal_shift")(x, 3, 0.25).reshape(3, 4)
    assert found.tolist() == [[0, 6, 3, 4], [1, 10, 7, 8], [5, 0, 11, 12]]


def test_unfold_pads_top_left_bottom_right() -> None:
    x = numbers(1, 1, 3, 3)
    padded = np.pad(x[0, 0], ((1, 0), (2, 1)))
    blocks = [padded[i : i + 2, j : j + 2].reshape(-1) for i in range(3) for j in range(5)]
    np.testing.assert_allclose(rule("unfold")(x, 2, 1, [1, 2, 0, 1])[0].T, blocks)


def test_fold_adds_up_what_unfold_repeats() -> None:
    x = numbers(1, 2, 4, 5)
    blocks = rule("unfold")(x, [2, 3], 1, [1, 0])
    times = rule("fold")(rule("unfold")(torch.ones_like(x), [2, 3], 1, [1, 0]), [4, 5], [2, 3], 1, [1, 0])
    torch.testing.assert_close(rule("fold")(blocks, [4, 5], [2, 3], 1, [1, 0]), x * times)


# Common layers -----------------------------------------------------------------------------------


def test_linear_has_its_weight_as_inputs_by_outputs() -> None:
    x, weight, bias = numbers(2, 3), numbers(3, 4, seed=1), numbers(4, seed=2)
    np.testing.assert_allclose(rule("linear")(x, weight, bias), x.numpy() @ weight.numpy() + bias.numpy())


def test_bilinear_by_loops() -> None:
    a, b, weight = numbers(2, 3), numbers(2, 4, seed=1), numbers(5, 3, 4, seed=2)
    expected = [[a[n].numpy() @ weight[o].numpy() @ b[n].numpy() for o in range(5)] for n in range(2)]
    np.testing.assert_allclose(rule("bilinear")(a, b, weight), expected)


def test_embedding_reads_the_padding_row_as_zeros() -> None:
    weight = numbers(4, 2).requires_grad_(True)
    out = rule("embedding")(torch.tensor([[0, 3], [1, 0]]), weight, -1)
    assert out[0, 1].tolist() == [0, 0]
    out.sum().backward()
    assert weight.grad is not None
    assert weight.grad[:, 0].tolist() == [2, 1, 0, 0]


def test_embedding_shortens_long_rows_in_the_weight() -> None:
    weight = torch.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]])
    rule("embedding")(torch.tensor([0, 1]), weight, max_norm=1.0)
    np.testing.assert_allclose(weight, [[0.6, 0.8], [0.3, 0.4], [6, 8]], atol=1e-6)


def test_one_hot_counts_classes_where_it_must() -> None:
    assert rule("one_hot")(torch.tensor([2, 0])).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert rule("one_hot")(torch.tensor([[1]]), torch.tensor([4])).shape == (1, 1, 4)


def test_label_smooth_mixes_in_the_prior() -> None:
    label, prior = torch.tensor([[0.0, 1.0]]), torch.tensor([[0.25, 0.75]])
    np.testing.assert_allclose(rule("label_smooth")(label), [[0.05, 0.95]], rtol=1e-6)
    np.testing.assert_allclose(rule("label_smooth")(label, prior, 0.2), [[0.05, 0.95]], rtol=1e-6)


def test_similarity_and_distance() -> None:
    a, b = numbers(3, 4), numbers(3, 4, seed=1)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    np.testing.assert_allclose(rule("cosine_similarity")(a, b), (a * b).numpy().sum(1) / lengths)
    expected = np.linalg.norm(a.numpy() - b.numpy() + 1e-3, 3, axis=1, keepdims=True)
    np.testing.assert_allclose(rule("pairwise_distance")(a, b, 3, 1e-3, True), expected)


# Inputs and comparators --------------------------------------------------------------------------


@pytest.mark.parametrize("corners", [True, False])
def test_sampling_grids_stay_off_the_pixels(corners: bool) -> None:
    arguments = {
        "x": TensorSpec((1, 1, 8, 5), "float32"),
        "grid": TensorSpec((1, 20, 10, 2), "float64"),
        "align_corners": corners,
    }
    grid = CallValues("", arguments, find_inputs(_F + "grid_sample"), ordinary, (1,)).value("grid")
    sizes = np.array([5, 8])
    pixels = (grid + 1) / 2 * (sizes - 1) if corners else ((grid + 1) * sizes - 1) / 2
    fraction = pixels % 1
    assert ((fraction > 0.05) & (fraction < 0.95) & (abs(fraction - 0.5) > 0.05)).all()
    assert (pixels < 0).any()
    assert (pixels[..., 1] > 7).any()


def test_the_padding_row_is_among_the_rows_that_are_read() -> None:
    arguments = {
        "x": TensorSpec((4, 4), "int64"),
        "weight": TensorSpec((100, 2), "float32"),
        "padding_idx": 50,
    }
    rows = CallValues("", arguments, find_inputs(_F + "embedding"), ordinary, (1,)).value("x")
    assert {0, 50, 99} <= set(rows.flatten().tolist())


def test_reflections_are_drawn_smaller_than_their_axis() -> None:
    arguments = {"x": TensorSpec((1, 1, 2, 9), "float32"), "pad": TensorSpec((4,), "int32"), "mode": "reflect"}
    for seed in range(20):
        amounts = CallValues("", arguments, find_inputs(_F + "pad"), ordinary, (seed,)).value("pad")
        assert amounts.max() > 0
        assert amounts[2:].max() < 2


def test_resampling_may_be_off_by_the_rounding_of_places_only() -> None:
    x = np.ones((1, 1, 500, 500), np.float64)
    expected = torch.ones(1, 1, 1000, 1000, dtype=torch.float64)
    for error, passes in ((5e-5, True), (5e-3, False)):
        c = Comparison(
            api=_F + "interpolate",
            arguments={"x": x, "mode": "bilinear"},
            actual=expected + error,
            expected=expected,
            tolerances=ToleranceOptions(),
        )
        find_comparator(c.api).judge(c)
        assert bool(c.findings.differences) is not passes
    c = Comparison(_F + "interpolate", {"x": x, "mode": "nearest"}, expected + 5e-5, expected, ToleranceOptions())
    find_comparator(c.api).judge(c)
    assert c.findings.differences
