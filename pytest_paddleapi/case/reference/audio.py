"""``paddle.audio.functional``: mel scales (Slaney's and HTK's), filter banks, decibels, DCT and windows.

Windows follow their definitions as ``scipy.signal.windows`` documents them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..dtypes import torch_dtype
from .registry import reference

_HOME = "paddle.audio.functional."
#: Slaney's scale: linear up to 1000 Hz, 15 mels there, then 27 steps for each factor of 6.4.
_LINEAR, _CORNER, _STEP = 200.0 / 3.0, 1000.0, math.log(6.4) / 27.0


@reference(_HOME + "hz_to_mel")
def hz_to_mel(freq, htk=False):
    if not isinstance(freq, torch.Tensor):
        return float(hz_to_mel(torch.tensor(float(freq), dtype=torch.float64), htk))
    if htk:
        return 2595.0 * torch.log10(1.0 + freq / 700.0)
    above = _CORNER / _LINEAR + torch.log(freq.clamp(min=_CORNER) / _CORNER) / _STEP
    return torch.where(freq > _CORNER, above, freq / _LINEAR)


@reference(_HOME + "mel_to_hz")
def mel_to_hz(mel, htk=False):
    if not isinstance(mel, torch.Tensor):
        return float(mel_to_hz(torch.tensor(float(mel), dtype=torch.float64), htk))
    if htk:
        return 700.0 * (10.0 ** (mel / 2595.0) - 1.0)
    corner = _CORNER / _LINEAR
    above = _CORNER * torch.exp(_STEP * (mel.clamp(min=corner) - corner))
    return torch.where(mel > corner, above, mel * _LINEAR)


def _mel_frequencies(n_mels: int, f_min: float, f_max: float, htk: bool) -> torch.Tensor:
    low, high = hz_to_mel(f_min, htk), hz_to_mel(f_max, htk)
    return mel_to_hz(torch.linspace(low, high, n_mels, dtype=torch.float64), htk)


@reference(_HOME + "mel_frequencies")
def mel_frequencies(n_mels=64, f_min=0.0, f_max=11025.0, htk=False, dtype="float32"):
    return _mel_frequencies(n_mels, f_min, f_max, htk).to(torch_dtype(dtype))


@reference(_HOME + "fft_frequencies")
def fft_frequencies(sr, n_fft, dtype="float32"):
    return torch.linspace(0, sr / 2.0, 1 + n_fft // 2, dtype=torch.float64).to(torch_dtype(dtype))


@reference(_HOME + "compute_fbank_matrix")
def compute_fbank_matrix(sr, n_fft, n_mels=64, f_min=0.0, f_max=None, htk=False, norm="slaney", dtype="float32"):
    """Triangles between neighbouring mel frequencies, of equal area (slaney) or of equal norm."""
    bins = torch.linspace(0, sr / 2.0, 1 + n_fft // 2, dtype=torch.float64)
    mels = _mel_frequencies(n_mels + 2, f_min, sr / 2.0 if f_max is None else f_max, htk)
    rising = (bins - mels[:-2, None]) / (mels[1:-1] - mels[:-2])[:, None]
    falling = (mels[2:, None] - bins) / (mels[2:] - mels[1:-1])[:, None]
    weights = torch.minimum(rising, falling).clamp(min=0)
    if norm == "slaney":
        weights = weights * (2.0 / (mels[2:] - mels[:-2]))[:, None]
    elif isinstance(norm, (int, float)):
        weights = torch.nn.functional.normalize(weights, p=float(norm), dim=-1)
    return weights.to(torch_dtype(dtype))


@reference(_HOME + "power_to_db")
def power_to_db(spect, ref_value=1.0, amin=1e-10, top_db=80.0):
    if amin <= 0 or ref_value <= 0 or (top_db is not None and top_db < 0):
        raise ValueError("amin and ref_value should be positive, top_db not negative")
    decibel = 10.0 * torch.log10(spect.clamp(min=amin)) - 10.0 * math.log10(max(ref_value, amin))
    return decibel if top_db is None else torch.maximum(decibel, decibel.max() - top_db)


@reference(_HOME + "create_dct")
def create_dct(n_mfcc, n_mels, norm="ortho", dtype="float32"):
    place, order = torch.arange(n_mels, dtype=torch.float64)[:, None], torch.arange(n_mfcc, dtype=torch.float64)
    matrix = torch.cos(math.pi / n_mels * (place + 0.5) * order)
    if norm is None:
        matrix = matrix * 2.0
    elif norm == "ortho":
        matrix = matrix * torch.where(order == 0, math.sqrt(1.0 / n_mels), math.sqrt(2.0 / n_mels))
    else:
        raise ValueError(f"norm {norm!r} is not known")
    return matrix.to(torch_dtype(dtype))


# Windows: each gives the symmetric window of ``m`` points --------------------------------------------


def _cosines(m: int, weights: Sequence[float]) -> torch.Tensor:
    angle = torch.linspace(-math.pi, math.pi, m, dtype=torch.float64)
    return torch.stack([a * torch.cos(k * angle) for k, a in enumerate(weights)]).sum(0)


def _offsets(m: int) -> torch.Tensor:
    return torch.arange(m, dtype=torch.float64) - (m - 1) / 2.0


def _triang(m: int) -> torch.Tensor:
    return 1.0 - (_offsets(m) / ((m + m % 2) / 2.0)).abs()


def _bohman(m: int) -> torch.Tensor:
    x = torch.linspace(-1, 1, m, dtype=torch.float64).abs()
    window = (1 - x) * torch.cos(math.pi * x) + torch.sin(math.pi * x) / math.pi
    window[0] = window[-1] = 0.0
    return window


def _tukey(m: int, alpha: float = 0.5) -> torch.Tensor:
    if alpha <= 0:
        return torch.ones(m, dtype=torch.float64)
    if alpha >= 1:
        return _cosines(m, (0.5, 0.5))
    n = torch.arange(m, dtype=torch.float64)
    edge = torch.minimum(n, m - 1 - n)
    rise = 0.5 * (1 + torch.cos(math.pi * (2.0 * edge / alpha / (m - 1) - 1)))
    return torch.where(edge <= int(alpha * (m - 1) / 2.0), rise, 1.0)


def _kaiser(m: int, beta: float) -> torch.Tensor:
    ratio = (_offsets(m) / ((m - 1) / 2.0)).clamp(-1, 1)
    scale = torch.special.i0(torch.tensor(float(beta), dtype=torch.float64))
    return torch.special.i0(beta * torch.sqrt(1 - ratio**2)) / scale


def _exponential(m: int, center: float | None = None, tau: float = 1.0) -> torch.Tensor:
    middle = (m - 1) / 2.0 if center is None else center
    return torch.exp(-(torch.arange(m, dtype=torch.float64) - middle).abs() / tau)


def _taylor(m: int, nbar: int = 4, sll: float = 30, norm: bool = True) -> torch.Tensor:
    """Carrara, Goodman and Majewski 1995, "Spotlight Synthetic Aperture Radar", appendix D."""
    a = math.acosh(10 ** (sll / 20)) / math.pi
    spread = nbar**2 / (a**2 + (nbar - 0.5) ** 2)
    order = torch.arange(1, nbar, dtype=torch.float64)
    factors = []
    for k in range(nbar - 1):
        top = (-1) ** k * (1 - order[k] ** 2 / spread / (a**2 + (order - 0.5) ** 2)).prod()
        others = torch.cat([order[:k], order[k + 1 :]])
        factors.append(top / (2 * (1 - order[k] ** 2 / others**2).prod()))
    weights = torch.stack(factors)

    def at(x: torch.Tensor) -> torch.Tensor:
        return 1 + 2 * (weights[:, None] * torch.cos(2 * math.pi * order[:, None] * x / m)).sum(0)

    window = at(_offsets(m))
    return window / at(torch.zeros(1, dtype=torch.float64)) if norm else window


_WINDOWS: dict[str, Callable[..., torch.Tensor]] = {
    "hann": lambda m: _cosines(m, (0.5, 0.5)),
    "hamming": lambda m: _cosines(m, (0.54, 0.46)),
    "general_hamming": lambda m, alpha: _cosines(m, (alpha, 1.0 - alpha)),
    "general_cosine": _cosines,
    "blackman": lambda m: _cosines(m, (0.42, 0.50, 0.08)),
    "nuttall": lambda m: _cosines(m, (0.3635819, 0.4891775, 0.1365995, 0.0106411)),
    "bartlett": lambda m: 1.0 - (_offsets(m) / ((m - 1) / 2.0)).abs(),
    "triang": _triang,
    "bohman": _bohman,
    "cosine": lambda m: torch.sin(math.pi / m * (torch.arange(m, dtype=torch.float64) + 0.5)),
    "gaussian": lambda m, std: torch.exp(-0.5 * (_offsets(m) / std) ** 2),
    "general_gaussian": lambda m, p, sig: torch.exp(-0.5 * (_offsets(m) / sig).abs() ** (2 * p)),
    "kaiser": _kaiser,
    "exponential": _exponential,
    "tukey": _tukey,
    "taylor": _taylor,
}
_NEED_PARAMETERS = ("gaussian", "exponential", "kaiser")


@reference(_HOME + "get_window")
def get_window(window, win_length, fftbins=True, dtype="float64"):
    """A window of one name; periodic ones (``fftbins``) are symmetric ones of one point more, without it."""
    name, *parameters = window if isinstance(window, tuple) else (window,)
    if name not in _WINDOWS or (isinstance(window, str) and name in _NEED_PARAMETERS):
        raise ValueError(f"window {window!r} is not known, or needs parameters")
    if int(win_length) != win_length or win_length < 0:
        raise ValueError(f"win_length {win_length} should be a whole number from 0 on")
    if win_length <= 1:
        return torch.ones(win_length, dtype=torch_dtype(dtype))
    points: torch.Tensor = _WINDOWS[name](win_length + 1 if fftbins else win_length, *parameters)
    return (points[:-1] if fftbins else points).to(torch_dtype(dtype))


def window_names() -> list[Any]:
    """The names that :func:`get_window` knows; for tests."""
    return sorted(_WINDOWS)
