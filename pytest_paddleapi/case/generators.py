"""Where the random numbers of inputs come from: NumPy, Torch or Paddle (``--paddleapi-input-backend``).

Rules draw from a :class:`numpy.random.Generator` whatever the backend, so that they rule shapes and ranges alike.
For Torch and Paddle it is one whose bulk draws (uniform and normal floats, integers, permutations) are made by the
framework; the few other methods stay NumPy's, from the same seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import paddle
import torch

from ..process.messages import CaseOptions
from .inputs.registry import numpy_generator

Array = np.ndarray[Any, Any]


def generator(options: CaseOptions, seed: Sequence[int]) -> np.random.Generator:
    """A generator whose numbers depend on the backend that ``options`` name, its device and ``seed`` only."""
    if options.input_backend == "torch":
        return DrawnGenerator(seed, TorchSource(seed, options.torch_device if options.gpu_mode else "cpu"))
    if options.input_backend == "paddle":
        return DrawnGenerator(seed, PaddleSource(seed))
    return numpy_generator(seed)


class Source(Protocol):
    """What a framework is asked to draw; everything comes as a NumPy array on the host."""

    def unit(self, shape: tuple[int, ...], dtype: str) -> Array:
        """Uniform floats in [0, 1)."""

    def normal(self, shape: tuple[int, ...]) -> Array:
        """Standard normal doubles."""

    def whole(self, low: int, high: int, shape: tuple[int, ...]) -> Array | None:
        """Integers in [low, high); None where the framework has none so large."""

    def order(self, count: int) -> Array:
        """A permutation of 0 ... count - 1."""


def _word(seed: Sequence[int]) -> int:
    """One word, of 63 bits, that stands for the whole seed."""
    return int(np.random.SeedSequence(list(seed)).generate_state(1, np.uint64)[0] >> np.uint64(1))


class TorchSource:
    """Draws with a generator of its own, on ``device``."""

    def __init__(self, seed: Sequence[int], device: str) -> None:
        self._device = device
        self._generator = torch.Generator(device=device)
        self._generator.manual_seed(_word(seed))

    def unit(self, shape: tuple[int, ...], dtype: str) -> Array:
        kind = getattr(torch, dtype)
        return _array(torch.rand(shape, dtype=kind, device=self._device, generator=self._generator))

    def normal(self, shape: tuple[int, ...]) -> Array:
        return _array(torch.randn(shape, dtype=torch.float64, device=self._device, generator=self._generator))

    def whole(self, low: int, high: int, shape: tuple[int, ...]) -> Array | None:
        if not -(2**63) <= low < high < 2**63:
            return None
        return _array(torch.randint(low, high, shape, device=self._device, generator=self._generator))

    def order(self, count: int) -> Array:
        return _array(torch.randperm(count, device=self._device, generator=self._generator))


class PaddleSource:
    """Draws on Paddle's device. Paddle draws from one generator a device, so each draw sets the seed anew: rules may
    ask for another argument's values between two draws of theirs."""

    def __init__(self, seed: Sequence[int]) -> None:
        self._seed = tuple(seed)
        self._draws = 0

    def _next(self) -> None:
        paddle.seed(_word((*self._seed, self._draws)) % (1 << 31))
        self._draws += 1

    def unit(self, shape: tuple[int, ...], dtype: str) -> Array:
        self._next()
        return _below_one(_array(paddle.rand(list(shape), dtype)))

    def normal(self, shape: tuple[int, ...]) -> Array:
        self._next()
        return _array(paddle.randn(list(shape), "float64"))

    def whole(self, low: int, high: int, shape: tuple[int, ...]) -> Array | None:
        if not -(2**31) <= low < high < 2**31:  # the bounds are ints of C
            return None
        self._next()
        return _array(paddle.randint(low, high, list(shape), "int64"))

    def order(self, count: int) -> Array:
        self._next()
        return _array(paddle.randperm(count, "int64"))


def _array(tensor: Any) -> Array:
    """A writable array of the tensor's values."""
    array = (tensor.cpu() if isinstance(tensor, torch.Tensor) else tensor).numpy()
    return np.array(array) if not array.flags.writeable else array


def _below_one(values: Array) -> Array:
    """Paddle's uniform numbers may round up to 1, where rules count on less."""
    return np.minimum(values, np.nextafter(values.dtype.type(1), values.dtype.type(0)))


class DrawnGenerator(np.random.Generator):
    """NumPy's generator, with bulk draws by a :class:`Source`."""

    def __init__(self, seed: Sequence[int], source: Source) -> None:
        super().__init__(np.random.PCG64(list(seed)))
        self._source = source

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Uniform in [0, 1); see :meth:`numpy.random.Generator.random`."""
        if size is None or out is not None:
            return super().random(size, dtype, out)
        return self._source.unit(_shape(size), np.dtype(dtype).name)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Uniform in [low, high); see :meth:`numpy.random.Generator.uniform`."""
        if size is None:
            return super().uniform(low, high, size)
        return self._source.unit(_shape(size), "float64") * (high - low) + low

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Standard normal; see :meth:`numpy.random.Generator.standard_normal`."""
        if size is None or out is not None or dtype is not np.float64:
            return super().standard_normal(size, dtype, out)
        return self._source.normal(_shape(size))

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Normal; see :meth:`numpy.random.Generator.normal`."""
        if size is None:
            return super().normal(loc, scale, size)
        return self._source.normal(_shape(size)) * scale + loc

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: Any = False
    ) -> Any:
        """Integers in [low, high); see :meth:`numpy.random.Generator.integers`."""
        first, last = (0, low) if high is None else (low, high)
        scalars = all(isinstance(bound, (int, np.integer)) for bound in (first, last))
        if size is None or endpoint or dtype is not np.int64 or not scalars or first >= last:
            return super().integers(low, high, size, dtype, endpoint)
        drawn = self._source.whole(int(first), int(last), _shape(size))
        return super().integers(low, high, size) if drawn is None else drawn

    def permutation(self, x: Any, axis: int = 0) -> Any:
        """A permutation of a count; see :meth:`numpy.random.Generator.permutation`."""
        return self._source.order(int(x)) if isinstance(x, (int, np.integer)) else super().permutation(x, axis)


def _shape(size: Any) -> tuple[int, ...]:
    return (int(size),) if isinstance(size, (int, np.integer)) else tuple(int(n) for n in size)
