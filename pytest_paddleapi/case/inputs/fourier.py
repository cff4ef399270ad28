"""Values for short-time Fourier transforms."""

from __future__ import annotations

from .makers import uniform
from .registry import inputs

# Away from zero everywhere, so that overlapping windows never add up to nothing (the NOLA condition).
inputs("paddle.signal.stft", "paddle.signal.istft", window=uniform(0.4, 1.6))
