"""Random tensors: ``paddle.rand``, ``paddle.normal``, ``Tensor.uniform_`` and so on.

The values are Torch's own random ones: what is compared is the form, and what each API promises about
its distribution (``compare/random_creation.py``).
"""

from __future__ import annotations

from typing import Any

import torch

from ..dtypes import torch_dtype
from .registry import reference, without_reference

_DISTRIBUTIONS = """
    Bernoulli Beta Binomial Categorical Cauchy Chi2 ContinuousBernoulli Dirichlet Exponential Gamma Geometric Gumbel
    Laplace LKJCholesky LogNormal Multinomial MultivariateNormal Normal Poisson StudentT Uniform kl_divergence
    register_kl
"""
without_reference(
    *(f"paddle.distribution.{name}" for name in _DISTRIBUTIONS.split()),
    why="it takes or makes distribution objects, which a config cannot write",
)


def shape_list(shape: Any) -> list[int]:
    """A shape as Paddle takes it: a number, a list that may hold 0-D tensors, or a tensor."""
    if isinstance(shape, torch.Tensor):
        return [int(n) for n in shape.reshape(-1)]
    if isinstance(shape, (list, tuple)):
        return [int(n) for n in shape]
    return [int(shape)]


def _creation(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[int], torch.dtype]:
    """Shape and dtype of a call that also takes the extents one by one: ``rand(2, 3)``."""
    given = dict(kwargs)
    if "size" in given:
        given["shape"] = given.pop("size")
    if args and isinstance(args[0], int) and not isinstance(args[0], bool):
        given["shape"] = list(args)
        args = ()
    given.update(zip(("shape", "dtype", "name"), args))
    return shape_list(given["shape"]), torch_dtype(given.get("dtype")) or torch.get_default_dtype()


def _filled_normal(shape: list[int], dtype: torch.dtype, mean: Any = 0.0, std: float = 1.0) -> torch.Tensor:
    """Complex normal values have half the variance in each part, as in Torch.

    Raises:
        ValueError: a complex mean whose parts differ, which Paddle does not take.
    """
    if isinstance(mean, complex) and mean.real != mean.imag:
        raise ValueError(f"the parts of a complex mean should be equal, {mean} is given")
    return torch.randn(shape, dtype=dtype) * std + mean


@reference("paddle.rand")
def rand(*args, **kwargs):
    shape, dtype = _creation(args, kwargs)
    return torch.rand(shape, dtype=dtype)


@reference("paddle.randn")
def randn(*args, **kwargs):
    shape, dtype = _creation(args, kwargs)
    return _filled_normal(shape, dtype)


@reference("paddle.standard_normal", "paddle.tensor.random.standard_normal")
def standard_normal(shape, dtype=None, name=None, *, out=None, device=None, requires_grad=False):
    return _filled_normal(shape_list(shape), torch_dtype(dtype) or torch.get_default_dtype())


@reference("paddle.tensor.random.gaussian", "paddle.tensor.gaussian")
def gaussian(
    shape, mean=0.0, std=1.0, seed=0, dtype=None, name=None, *, out=None, device=None, requires_grad=False
):  # fmt: skip
    return _filled_normal(shape_list(shape), torch_dtype(dtype) or torch.get_default_dtype(), mean, std)


@reference("paddle.uniform", "paddle.tensor.random.uniform")
def uniform(
    shape, dtype=None, min=0, max=1.0, seed=0, name=None, *, out=None, device=None, requires_grad=False
):  # fmt: skip
    dtype = torch_dtype(dtype) or torch.get_default_dtype()
    return torch.rand(shape_list(shape), dtype=dtype) * (float(max) - float(min)) + float(min)


@reference("paddle.rand_like")
def rand_like(input, name=None, *, dtype=None, device=None, requires_grad=False):
    dtype = torch_dtype(dtype) or input.dtype
    computed = dtype if dtype.itemsize > 1 else torch.float32
    return torch.rand(input.shape, dtype=computed).to(dtype)


@reference("paddle.randn_like")
def randn_like(x, dtype=None, name=None, *, device=None, requires_grad=False):
    return torch.randn(x.shape, dtype=torch_dtype(dtype) or x.dtype)


@reference("paddle.normal", "paddle.tensor.random.normal")
def normal(mean=0.0, std=1.0, shape=None, name=None, *, out=None):
    """``mean`` gives shape and dtype if it is a tensor, else ``std``, else ``shape``."""
    if isinstance(mean, torch.Tensor):
        scale = std.to(mean.dtype).reshape(mean.shape) if isinstance(std, torch.Tensor) else std
        return torch.randn(mean.shape, dtype=mean.dtype) * scale + mean
    kind = torch.complex64 if isinstance(mean, complex) else torch.get_default_dtype()
    if isinstance(std, torch.Tensor):
        kind = torch.complex64 if isinstance(mean, complex) else std.dtype
        return torch.randn(std.shape, dtype=kind) * std + mean
    return _filled_normal(shape_list(shape), kind, mean, std)


@reference("paddle.log_normal", "paddle.tensor.random.log_normal")
def log_normal(mean=1.0, std=2.0, shape=None, name=None):
    return normal(mean, std, shape).exp()


@reference("paddle.randint")
def randint(low=0, high=None, shape=(1,), dtype=None, name=None):
    first, last = (0, low) if high is None else (low, high)
    return torch.randint(first, last, shape_list(shape), dtype=torch_dtype(dtype) or torch.int64)


@reference("paddle.randint_like")
def randint_like(x, low=0, high=None, dtype=None, name=None):
    first, last = (0, low) if high is None else (low, high)
    return torch.randint(first, last, x.shape).to(torch_dtype(dtype) or x.dtype)


@reference("paddle.randperm")
def randperm(n, dtype="int64", name=None, *, out=None, device=None, requires_grad=False, pin_memory=False):
    return torch.randperm(n).to(torch_dtype(dtype) or torch.int64)


@reference("paddle.bernoulli")
def bernoulli(x, p=None, name=None):
    return torch.bernoulli(x.detach() if p is None else torch.full_like(x, p))


@reference("paddle.poisson", no_gradient="a sample of a discrete distribution has none")
def poisson(x, name=None):
    return torch.poisson(x)


@reference("paddle.standard_gamma", no_gradient="Paddle defines none for it")
def standard_gamma(x, name=None):
    return torch._standard_gamma(x)


@reference("paddle.binomial", no_gradient="a sample of a discrete distribution has none")
def binomial(count, prob, name=None):
    count, prob = torch.broadcast_tensors(count.to(torch.float64), prob.to(torch.float64))
    return torch.binomial(count, prob).to(torch.int64)


@reference("paddle.multinomial", no_gradient="a sample of a discrete distribution has none")
def multinomial(x, num_samples=1, replacement=False, name=None, *, out=None):
    count = int(num_samples)
    return torch.multinomial(x.double(), count, replacement=replacement)


# In place ---------------------------------------------------------------------------------------


@reference("paddle.normal_", "paddle.tensor.random.gaussian_")
def normal_(x, mean=0.0, std=1.0, name=None):
    with torch.no_grad():
        sample = _filled_normal(list(x.shape), x.dtype, mean, std)
    return x.mul_(0).add_(sample)


@reference("paddle.Tensor.uniform_", "paddle.uniform_", "paddle.tensor.random.uniform_")
def uniform_(x, min=0, max=1.0, seed=0, name=None, **aliases):
    """``from`` and ``to`` are other names of ``min`` and ``max``."""
    low, high = float(aliases.get("from", min)), float(aliases.get("to", max))
    if low >= high:
        raise ValueError(f"[{low}, {high}) is empty")
    return x.uniform_(low, high)


@reference("paddle.Tensor.exponential_", "paddle.tensor.random.exponential_")
def exponential_(x, lam=1.0, name=None, *, lambd=None):
    return x.exponential_(lam if lambd is None else lambd)


@reference("paddle.geometric_", constant=("probs",))
def geometric_(x, probs, name=None):
    """Numbers of trials up to the first success, 1, 2, ..., as in Torch."""
    if not isinstance(probs, torch.Tensor):
        return x.geometric_(probs)
    with torch.no_grad():
        sample = (torch.rand_like(x).log_() / torch.log1p(-probs.to(x.dtype))).ceil_()
    return x.mul_(0).add_(sample)


@reference("paddle.cauchy_")
def cauchy_(x, loc=0, scale=1, name=None):
    return x.cauchy_(float(loc), float(scale))


@reference("paddle.log_normal_")
def log_normal_(x, mean=1.0, std=2.0, name=None):
    return x.log_normal_(mean, std)


@reference("paddle.bernoulli_", constant=("p",))
def bernoulli_(x, p=0.5, name=None):
    return x.bernoulli_(p)


@reference("paddle.Tensor.random_", "paddle.tensor.random.random_")
def random_(x, from_=0, to=None, *, generator=None):
    low, high = random_range(x.dtype, from_, to)
    with torch.no_grad():
        sample = torch.randint(low, high, x.shape).to(x.dtype)
    return x.mul_(0).add_(sample)


def random_range(dtype: torch.dtype, low: int, high: int | None) -> tuple[int, int]:
    """The range of ``Tensor.random_``: without bounds all whole numbers that the dtype holds exactly."""
    if high is not None:
        return low, high
    if low:
        return 0, low
    if dtype.is_floating_point:
        return 0, int(2 / torch.finfo(dtype).eps)
    return 0, torch.iinfo(dtype).max
