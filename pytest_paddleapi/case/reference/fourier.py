"""Discrete Fourier transforms, short-time transforms and framing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..dtypes import torch_dtype
from .registry import reference

Transform = Callable[..., torch.Tensor]


#: Transforms whose sums may run over an axis of extent 0, and whether they keep half of the last spectrum.
_HALVED = {torch.fft.fftn: False, torch.fft.ifftn: False, torch.fft.rfftn: True, torch.fft.ihfftn: True}


def _transform(
    transform: Transform, x: torch.Tensor, s: Sequence[int] | None, axes: Sequence[int] | None, norm: str
) -> torch.Tensor:
    axes = list(range(x.dim())) if axes is None else list(axes)
    if s is not None:
        axes = axes[-len(s) :] if len(s) < len(axes) else axes
    elif transform in _HALVED and any(x.shape[axis] == 0 for axis in axes):
        # Torch refuses; a sum over nothing is 0, and the spectrum of 0 points has 0 // 2 + 1 one-sided frequencies.
        shape = list(x.shape)
        if _HALVED[transform]:
            shape[axes[-1]] = shape[axes[-1]] // 2 + 1
        return torch.zeros(shape, dtype=torch.promote_types(x.dtype, torch.complex64), device=x.device)
    return transform(x, s=s, dim=axes, norm=norm)


def _one_axis(transform: Transform) -> Transform:
    def rule(
        x: torch.Tensor,
        n: int | None = None,
        axis: int = -1,
        norm: str = "backward",
        name: Any = None,
        *,
        out: Any = None,
    ) -> torch.Tensor:
        return _transform(transform, x, None if n is None else [n], [axis], norm)

    return rule


def _two_axes(transform: Transform) -> Transform:
    def rule(
        x: torch.Tensor,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = (-2, -1),
        norm: str = "backward",
        name: Any = None,
        *,
        out: Any = None,
    ) -> torch.Tensor:
        if x.dim() < 2 or (s is not None and len(s) != 2) or (axes is not None and len(axes) != 2):
            raise ValueError(f"two axes are transformed, s is {s!r} and axes {axes!r} of {x.dim()}")
        return _transform(transform, x, s, axes, norm)

    return rule


def _many_axes(transform: Transform) -> Transform:
    def rule(
        x: torch.Tensor,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
        norm: str = "backward",
        name: Any = None,
        *,
        out: Any = None,
    ) -> torch.Tensor:
        if s is not None and axes is not None and len(s) != len(axes):
            raise ValueError(f"s {s!r} and axes {axes!r} have different lengths")
        return _transform(transform, x, s, axes, norm)

    return rule


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _of_many = getattr(torch.fft, f"{_name}n")
    reference(f"paddle.fft.{_name}", constant=("out",))(_one_axis(_of_many))
    reference(f"paddle.fft.{_name}2", constant=("out",))(_two_axes(_of_many))
    reference(f"paddle.fft.{_name}n", constant=("out",))(_many_axes(_of_many))


def _frequencies(frequencies: Transform) -> Transform:
    def rule(
        n: int,
        d: float = 1.0,
        dtype: Any = None,
        name: Any = None,
        *,
        out: Any = None,
        device: Any = None,
        requires_grad: bool = False,
    ) -> torch.Tensor:
        if n * d == 0:
            raise ValueError(f"n and d are not zero, they are {n} and {d}")
        return frequencies(n, d=d, dtype=torch_dtype(dtype) or torch.float32)

    return rule


reference("paddle.fft.fftfreq", constant=("out",))(_frequencies(torch.fft.fftfreq))
reference("paddle.fft.rfftfreq", constant=("out",))(_frequencies(torch.fft.rfftfreq))


@reference("paddle.fft.fftshift")
def fftshift(x: torch.Tensor, axes: int | Sequence[int] | None = None, name: Any = None) -> torch.Tensor:
    return torch.fft.fftshift(x, dim=axes)


@reference("paddle.fft.ifftshift")
def ifftshift(x: torch.Tensor, axes: int | Sequence[int] | None = None, name: Any = None) -> torch.Tensor:
    return torch.fft.ifftshift(x, dim=axes)


@reference("paddle.signal.frame")
def frame(x: torch.Tensor, frame_length: int, hop_length: int, axis: int = -1, name: Any = None) -> torch.Tensor:
    """``[..., frame_length, frames]`` for the last axis, ``[frames, frame_length, ...]`` for the first."""
    _check_axis(axis)
    if not 0 < frame_length <= x.shape[axis] or hop_length <= 0:
        raise ValueError(f"frames of {frame_length} every {hop_length} do not fit into {x.shape[axis]}")
    frames = x.unfold(axis, frame_length, hop_length)
    if axis == -1:
        return frames.mT
    return frames.movedim(-1, 1)


@reference("paddle.signal.overlap_add")
def overlap_add(x: torch.Tensor, hop_length: int, axis: int = -1, name: Any = None) -> torch.Tensor:
    """The inverse layout of :func:`frame`: what overlaps is added."""
    _check_axis(axis)
    if axis == 0:
        return overlap_add(x.movedim(0, -1).movedim(0, -2), hop_length).movedim(-1, 0)
    length, count = x.shape[-2:]
    if not 0 < hop_length <= length:
        raise ValueError(f"hop_length lies between 1 and {length}, it is {hop_length}")
    where = torch.arange(length, device=x.device).unsqueeze(1) + hop_length * torch.arange(count, device=x.device)
    result = x.new_zeros((*x.shape[:-2], (count - 1) * hop_length + length))
    return result.index_add(-1, where.reshape(-1), x.reshape(*x.shape[:-2], -1))


def _check_axis(axis: int) -> None:
    if axis not in (0, -1):
        raise ValueError(f"axis is 0 or -1, not {axis}")


@reference("paddle.signal.stft")
def stft(
    x: torch.Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: torch.Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    name: Any = None,
) -> torch.Tensor:
    """One side of the spectrum by default, unless the signal or the window is complex."""
    if window is None:
        window = torch.ones(n_fft if win_length is None else win_length, dtype=x.real.dtype, device=x.device)
    return torch.stft(
        x,
        n_fft,
        hop_length=hop_length,
        win_length=win_length,
        window=window,
        center=center,
        pad_mode=pad_mode,
        normalized=normalized,
        onesided=onesided,
        return_complex=True,
    )


@reference("paddle.signal.istft")
def istft(
    x: torch.Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: torch.Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool = True,
    length: int | None = None,
    return_complex: bool = False,
    name: Any = None,
) -> torch.Tensor:
    if window is None:
        window = torch.ones(n_fft if win_length is None else win_length, dtype=x.real.dtype, device=x.device)
    return torch.istft(
        x,
        n_fft,
        hop_length=hop_length,
        win_length=win_length,
        window=window,
        center=center,
        normalized=normalized,
        onesided=onesided,
        length=length,
        return_complex=return_complex,
    )
