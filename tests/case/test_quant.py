"""Quantised weights and audio functions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pytest_paddleapi.case.compare.comparison import Comparison
from pytest_paddleapi.case.compare.registry import find_comparator
from pytest_paddleapi.case.reference import audio, quantization
from pytest_paddleapi.process.messages import CaseResult, ToleranceOptions, Verdict

Run = Callable[..., CaseResult]
DTYPES = {"f2": "float16", "b2": "bfloat16", "f4": "float32", "f8": "float64", "i1": "int8"}


def _written_out(text: str) -> str:
    return "paddle." + re.sub(r"\b([fbi][1248])(\[[\d,]*\])", lambda m: f'Tensor({m[2]},"{DTYPES[m[1]]}")', text)


PASSING = [
    # config, compared outputs, compared gradients
    ('nn.quant.weight_quantize(f2[64,128], "weight_only_int8", 80)', 2, 0),
    ('nn.quant.weight_quantize(b2[64,128], "weight_only_int4", 80)', 2, 0),
    ('nn.quant.weight_quantize(f2[128,64], "llm.int8", 80)', 2, 0),
    ('nn.quant.weight_quantize(f2[128,64], "weight_only_int8", arch=75, group_size=64)', 2, 0),
    ('nn.quant.weight_quantize(f2[64,0], "weight_only_int8", 75)', 2, 0),
    ("audio.functional.hz_to_mel(f4[20])", 1, 1),
    ("audio.functional.hz_to_mel(f8[20], True)", 1, 1),
    ("audio.functional.hz_to_mel(440.0)", 1, 0),
    ("audio.functional.mel_to_hz(f4[20])", 1, 1),
    ("audio.functional.mel_to_hz(f8[20], htk=True)", 1, 1),
    ('audio.functional.mel_frequencies(40, 20.0, 8000.0, True, "float64")', 1, 0),
    ("audio.functional.fft_frequencies(16000, 512)", 1, 0),
    ("audio.functional.compute_fbank_matrix(16000, 512)", 1, 0),
    ('audio.functional.compute_fbank_matrix(22050, 1024, 80, 20.0, 8000.0, True, 2.0, "float64")', 1, 0),
    ("audio.functional.power_to_db(f4[20,3])", 1, 1),
    ("audio.functional.power_to_db(f8[20,3], 0.5, 0.01, 20.0)", 1, 1),
    ("audio.functional.create_dct(13, 40)", 1, 0),
    ('audio.functional.create_dct(13, 40, None, "float64")', 1, 0),
    ('audio.functional.get_window("hann", 1)', 1, 0),
    ('audio.functional.get_window("hamming", 400, False, "float32")', 1, 0),
    ('audio.functional.get_window("triang", 16)', 1, 0),
    ('audio.functional.get_window(tuple("exponential",10,3.0,), 33)', 1, 0),
    ('audio.functional.get_window(("general_gaussian",1.5,7), 33)', 1, 0),
]


@pytest.mark.parametrize(("config", "outputs", "gradients"), PASSING)
def test_paddle_agrees_with_the_definition(run_case: Run, config: str, outputs: int, gradients: int) -> None:
    result = run_case(_written_out(config))
    assert result.verdict is Verdict.PASS, result.text
    assert (result.measured.compared_outputs, result.measured.compared_gradients) == (outputs, gradients)


@pytest.mark.parametrize(
    "config",
    [
        "nn.quant.weight_only_linear(f2[2,64], i1[32,64], weight_scale=f2[32])",
        "nn.quant.llm_int8_linear(f2[2,64], i1[32,64], None, f4[32])",
        "nn.quant.weight_dequantize(i1[32,64], f2[32])",
    ],
)
def test_a_missing_kernel_is_no_failure(run_case: Run, config: str) -> None:
    assert run_case(_written_out(config)).verdict in (Verdict.NOT_SUPPORTED, Verdict.NOT_COMPARABLE)


@pytest.mark.parametrize("window", ["kaiser", "rectangle"])
def test_windows_that_do_not_exist_are_refused_by_both(run_case: Run, window: str) -> None:
    assert run_case(f'paddle.audio.functional.get_window("{window}", 33)').verdict is Verdict.BOTH_ERROR


# Quantisation ---------------------------------------------------------------------------------------

X = torch.tensor([[127.0, -2.0], [63.5, 1.0], [-1.4, 0.5]], dtype=torch.float16)


def test_codes_and_scales_by_hand() -> None:
    codes, scales = quantization.weight_quantize(X, "llm.int8", 80)
    torch.testing.assert_close(scales, torch.tensor([1.0, 2.0 / 127]))
    assert codes.tolist() == [[127, 64, -1], [-127, 64, 32]]
    codes, scales = quantization.weight_quantize(X, "weight_only_int8", 80)
    assert scales.dtype is torch.float16
    groups = quantization.scales(torch.arange(256.0).reshape(128, 2), 127.0, 64)
    torch.testing.assert_close(groups, torch.tensor([[126 / 127, 1.0], [254 / 127, 255 / 127]]))


def test_four_bits_share_a_byte() -> None:
    assert quantization.packed(torch.tensor([[1, -1], [-8, 7]], dtype=torch.int8)).tolist() == [[-127, 127]]


def _differences(algo: str, change: Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]) -> Any:
    x = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float16)
    expected = quantization.weight_quantize(torch.from_numpy(x), algo, 80)
    api = "paddle.nn.quant.weight_quantize"
    comparison = Comparison(api, {"x": x, "algo": algo}, change(*expected), expected, ToleranceOptions())
    find_comparator(api).judge(comparison)
    return comparison.findings.differences


def _stored(codes: torch.Tensor, scales: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As a kernel may store them: unsigned and in another order."""
    unsigned = (codes.to(torch.int32) + 128).to(torch.uint8).view(torch.int8)
    return unsigned.reshape(-1).flip(0).reshape(codes.shape), scales


def test_the_order_of_codes_does_not_matter_but_their_values_do() -> None:
    assert _differences("weight_only_int8", _stored) == []
    assert "sorted codes" in _differences("weight_only_int8", lambda codes, scales: (codes, scales))[0]
    assert "output 1" in _differences("weight_only_int8", lambda codes, scales: _stored(codes, scales * 1.1))[0]
    assert "output 0" in _differences("llm.int8", lambda codes, scales: (codes.flip(0), scales))[0]


# Audio ----------------------------------------------------------------------------------------------


def test_slaneys_scale() -> None:
    # Numbers of librosa's documentation.
    assert audio.hz_to_mel(60.0) == pytest.approx(0.9)
    torch.testing.assert_close(audio.hz_to_mel(torch.tensor([110.0, 220.0, 440.0])), torch.tensor([1.65, 3.3, 6.6]))
    assert audio.mel_to_hz(3.0) == pytest.approx(200.0)
    assert audio.hz_to_mel(6400.0) == pytest.approx(15.0 + 27.0)
    assert audio.mel_to_hz(audio.hz_to_mel(5000.0, True), True) == pytest.approx(5000.0)


def test_filters_are_triangles_of_one_area() -> None:
    weights = audio.compute_fbank_matrix(16000, 4096, 10, dtype="float64")
    torch.testing.assert_close(weights.sum(1) * (16000 / 4096), torch.ones(10, dtype=torch.float64), atol=0.02, rtol=0)
    assert bool((weights >= 0).all())


def test_decibels() -> None:
    out = audio.power_to_db(torch.tensor([1.0, 0.1, 1e-12]), top_db=25.0)
    torch.testing.assert_close(out, torch.tensor([0.0, -10.0, -25.0]))


def test_the_cosine_transform_is_orthogonal() -> None:
    matrix = audio.create_dct(8, 8, dtype="float64")
    torch.testing.assert_close(matrix.t() @ matrix, torch.eye(8, dtype=torch.float64))


PARAMETERS: dict[str, tuple[Any, ...]] = {
    "gaussian": (7.0,),
    "general_gaussian": (1.5, 7.0),
    "kaiser": (6.0,),
    "exponential": (None, 3.0),
    "general_hamming": (0.6,),
    "general_cosine": ([0.4, 0.5, 0.1],),
}


@pytest.mark.parametrize("fftbins", [True, False])
@pytest.mark.parametrize("length", [32, 33])
@pytest.mark.parametrize("name", audio.window_names())
def test_windows_agree_with_scipys(name: str, length: int, fftbins: bool) -> None:
    windows = pytest.importorskip("scipy.signal.windows")
    parameters = PARAMETERS.get(name, ())
    expected = windows.get_window((name, *parameters) if parameters else name, length, fftbins=fftbins)
    ours = audio.get_window((name, *parameters), length, fftbins)
    np.testing.assert_allclose(ours.numpy(), expected, atol=1e-12)
