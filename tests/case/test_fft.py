"""Fourier transforms and short-time Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pytest_paddleapi.case.reference.registry import Reference, find_reference
from pytest_paddleapi.process.messages import CaseResult

from .support import check_row

TABLE = "fourier"
Run = Callable[..., CaseResult]


def rule(api: str) -> Any:
    found = find_reference(api)
    assert isinstance(found, Reference)
    return lambda *args, **kwargs: found.rule(*args, **kwargs).resolve_conj()


def signal(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape)


def spectrum(*shape: int) -> np.ndarray[Any, Any]:
    return signal(*shape) + 1j * signal(*shape, seed=1)


def test_config_passes(run_case: Run, table_row: tuple[str, int, int]) -> None:
    check_row(run_case, table_row)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_one_axis_is_numpys(name: str, norm: str) -> None:
    x = signal(3, 6) if name in ("rfft", "ihfft") else spectrum(3, 6)
    for n, axis in ((None, -1), (4, 0), (9, 1)):
        expected = getattr(np.fft, name)(x, n, axis, norm)
        np.testing.assert_allclose(rule(f"paddle.fft.{name}")(torch.from_numpy(x), n, axis, norm), expected, atol=1e-12)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_many_axes_are_scipys(name: str) -> None:
    from scipy import fft

    x = signal(3, 4, 6) if name in ("rfft", "ihfft") else spectrum(3, 4, 6)
    for s, axes in ((None, (0, 2)), ((3, 5), (1, 2)), (None, None)):
        expected = getattr(fft, f"{name}n")(x, s, axes)
        np.testing.assert_allclose(rule(f"paddle.fft.{name}n")(torch.from_numpy(x), s, axes), expected, atol=1e-12)
        if axes is not None:
            found = rule(f"paddle.fft.{name}2")(torch.from_numpy(x), s, axes)
            np.testing.assert_allclose(found, expected, atol=1e-12)


def test_sums_over_nothing_are_zero() -> None:
    assert rule("paddle.fft.fft")(torch.zeros(3, 0)).shape == (3, 0)
    found = rule("paddle.fft.rfft")(torch.zeros(3, 0, dtype=torch.float64))
    assert found.dtype == torch.complex128
    assert found.tolist() == [[0], [0], [0]]


def test_frequencies_are_numpys() -> None:
    for n, d in ((5, 1.0), (8, 0.25)):
        np.testing.assert_allclose(rule("paddle.fft.fftfreq")(n, d, "float64"), np.fft.fftfreq(n, d))
        np.testing.assert_allclose(rule("paddle.fft.rfftfreq")(n, d, "float64"), np.fft.rfftfreq(n, d))
    assert rule("paddle.fft.fftfreq")(5).dtype == torch.float32


def test_frames_are_laid_out_as_paddle_documents() -> None:
    x = torch.arange(8)
    assert rule("paddle.signal.frame")(x, 4, 2).tolist() == [[0, 2, 4], [1, 3, 5], [2, 4, 6], [3, 5, 7]]
    assert rule("paddle.signal.frame")(x, 4, 2, 0).tolist() == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7]]
    assert rule("paddle.signal.frame")(torch.zeros(8, 2), 4, 2, 0).shape == (3, 4, 2)


def test_overlap_add_gives_the_documented_examples() -> None:
    found = rule("paddle.signal.overlap_add")(torch.arange(16).reshape(8, 2), 2)
    assert found.tolist() == [0, 2, 5, 9, 13, 17, 21, 25, 13, 15]
    found = rule("paddle.signal.overlap_add")(torch.arange(16).reshape(2, 8), 2, 0)
    assert found.tolist() == [0, 1, 10, 12, 14, 16, 18, 20, 14, 15]


def test_stft_is_the_transform_of_windowed_frames() -> None:
    x, window = signal(50), np.hanning(12) + 0.1
    found = rule("paddle.signal.stft")(torch.from_numpy(x), 16, 5, 12, torch.from_numpy(window), center=False)
    padded = np.pad(window, 2)
    frames = np.stack([x[start : start + 16] * padded for start in range(0, 50 - 15, 5)], -1)
    np.testing.assert_allclose(found, np.fft.rfft(frames, axis=0), atol=1e-12)


def test_istft_inverts_stft() -> None:
    x = signal(64)
    window = torch.from_numpy(np.hanning(16) + 0.1)
    spectra = rule("paddle.signal.stft")(torch.from_numpy(x), 16, 4, window=window, normalized=True)
    found = rule("paddle.signal.istft")(spectra, 16, 4, window=window, normalized=True)
    np.testing.assert_allclose(found, x, atol=1e-12)


def test_a_wrong_normalisation_is_caught() -> None:
    from pytest_paddleapi.case.compare.comparison import Comparison
    from pytest_paddleapi.case.compare.registry import find_comparator
    from pytest_paddleapi.process.messages import ToleranceOptions

    x = torch.from_numpy(signal(16))
    c = Comparison("paddle.fft.fft", {}, torch.fft.fft(x, norm="ortho"), torch.fft.fft(x), ToleranceOptions())
    find_comparator("paddle.fft.fft").judge(c)
    assert c.findings.differences
