"""Random tensors: judged by form, support and distribution (see ``laws.py``), gradients by definition."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..reference.random_creation import random_range
from ..reference.storage import glorot_limit
from ..tensors import to_torch
from . import laws
from .comparison import Comparison
from .laws import Law, law_problems
from .registry import comparator

#: By the API's last name: the law of the result.
_LAWS: dict[str, Callable[[Comparison], Law]] = {
    "rand": lambda c: laws.uniform(0.0, 1.0),
    "rand_like": lambda c: laws.uniform(0.0, 1.0),
    "uniform": lambda c: laws.uniform(float(c.argument("min", 0)), float(c.argument("max", 1.0))),
    "uniform_": lambda c: laws.uniform(
        float(c.argument("from", c.argument("min", 0))), float(c.argument("to", c.argument("max", 1.0)))
    ),
    "randn": lambda c: laws.normal(0.0, 1.0),
    "randn_like": lambda c: laws.normal(0.0, 1.0),
    "standard_normal": lambda c: laws.normal(0.0, 1.0),
    "gaussian": lambda c: laws.normal(*_mean_and_std(c, 0.0, 1.0)),
    "gaussian_": lambda c: laws.normal(*_mean_and_std(c, 0.0, 1.0)),
    "normal": lambda c: laws.normal(*_mean_and_std(c, 0.0, 1.0)),
    "normal_": lambda c: laws.normal(*_mean_and_std(c, 0.0, 1.0)),
    "log_normal": lambda c: laws.log_normal(*_mean_and_std(c, 1.0, 2.0)),
    "log_normal_": lambda c: laws.log_normal(*_mean_and_std(c, 1.0, 2.0)),
    "randint": lambda c: laws.integers(*_range(c)),
    "randint_like": lambda c: laws.integers(*_range(c)),
    "random_": lambda c: laws.integers(
        *random_range(c.actual_leaves()[0].dtype, c.argument("from_", 0), c.argument("to"))
    ),
    "exponential_": lambda c: laws.exponential(float(c.argument("lambd", c.argument("lam", 1.0)))),
    "cauchy_": lambda c: laws.cauchy(float(c.argument("loc", 0)), float(c.argument("scale", 1))),
    "geometric_": lambda c: laws.geometric(_number(c.argument("probs"))),
    "poisson": lambda c: laws.poisson(_number(c.argument("x"))),
    "standard_gamma": lambda c: laws.gamma(_number(c.argument("x"))),
    "create_parameter": lambda c: _parameter_law(c),
    "binomial": lambda c: laws.binomial(_number(c.argument("count")), _number(c.argument("prob"))),
}


def _number(value: Any) -> Any:
    """A parameter as a number or a float64 array (of the value that the frameworks were given)."""
    return value.astype(np.float64) if isinstance(value, np.ndarray) else value


def _mean_and_std(c: Comparison, mean: float, std: float) -> tuple[Any, Any]:
    """Complex means: ``c.actual`` is judged by its parts, which have one parameter each (see :func:`_parts`)."""
    center, spread = c.argument("mean", mean), _number(c.argument("std", std))
    if isinstance(center, np.ndarray):
        center = center.astype(np.complex128 if np.iscomplexobj(center) else np.float64)
        spread = np.reshape(spread, center.shape) if isinstance(spread, np.ndarray) else spread
    return center, spread


def _parameter_law(c: Comparison) -> Law:
    limit = 0.0 if c.argument("is_bias", False) else glorot_limit(list(c.actual_leaves()[0].shape))
    return laws.uniform(-limit, limit)


def _range(c: Comparison) -> tuple[int, int]:
    low, high = int(c.argument("low", 0)), c.argument("high")
    return (0, low) if high is None else (low, int(high))


@comparator(
    "paddle.rand",
    "paddle.rand_like",
    "paddle.uniform",
    "paddle.tensor.random.uniform",
    "paddle.uniform_",
    "paddle.Tensor.uniform_",
    "paddle.randn",
    "paddle.randn_like",
    "paddle.standard_normal",
    "paddle.tensor.random.standard_normal",
    "paddle.tensor.random.gaussian",
    "paddle.tensor.gaussian",
    "paddle.normal",
    "paddle.normal_",
    "paddle.log_normal",
    "paddle.log_normal_",
    "paddle.randint",
    "paddle.randint_like",
    "paddle.Tensor.random_",
    "paddle.Tensor.exponential_",
    "paddle.cauchy_",
    "paddle.geometric_",
    "paddle.poisson",
    "paddle.standard_gamma",
    "paddle.binomial",
    "paddle.create_parameter",
    meaning="shape, dtype, support and distribution of the random values",
)
def random_values(c: Comparison) -> None:
    """One random tensor of a known law."""
    if not random_form(c):
        return
    law = _LAWS[c.api.rpartition(".")[2]](c)
    for name, values, part in _parts(c.actual_leaves()[0], law):
        for problem in law_problems(part, values, name):
            c.differs("output 0", problem)
    if "log_normal" in c.api or c.api.rpartition(".")[2] == "normal":
        _reparametrised_gradients(c, law)
    else:
        zero_gradients(c)


def random_form(c: Comparison) -> bool:
    """Structure, dtype and shape, and for calls in place that the argument holds the result; counts the output."""
    c.changed_judged = True
    if not c.same_structure():
        return False
    fine = True
    pairs = zip(c.actual_leaves(), c.expected_leaves())
    for index, (actual, expected) in enumerate(pairs):
        fine &= c.same_form(f"output {index}", actual, expected)
        c.count(outputs=1, elements=actual.numel() if isinstance(actual, torch.Tensor) else 1)
    for name, value in c.actual_changed.items():
        result = c.actual_leaves()[0]
        if not isinstance(result, torch.Tensor) or not _same_bits(value, result):
            c.differs(f"changed argument {name}", "does not hold what the call returned")
            fine = False
    return fine


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and bool(torch.equal(a, b) or ((a == b) | (a != a)).all())


def zero_gradients(c: Comparison) -> None:
    """The values do not depend on any input, so that every gradient is zero."""
    for name, gradient in c.actual_gradients.items():
        c.pair(f"gradient of {name}", gradient, torch.zeros_like(gradient))
        c.count(gradients=1)


def _parts(values: torch.Tensor, law: Law) -> list[tuple[str, torch.Tensor, Law]]:
    """Real values with their law; of complex normal values both parts, each with half the variance.

    Paddle follows the usual definition of the complex normal distribution, E|z - mean|^2 = std^2.
    """
    if values.dtype is torch.bool or (values.dtype.itemsize == 1 and values.is_floating_point()):
        values = values.float()
    if not values.is_complex():
        return [("values", values, law)]
    mean, std = law.parameters
    half = np.asarray(std, np.float64) / math.sqrt(2.0)
    return [
        ("real parts", values.real, laws.normal(np.real(mean), half)),
        ("imaginary parts", values.imag, laws.normal(np.imag(mean), half)),
    ]


def _reparametrised_gradients(c: Comparison, law: Law) -> None:
    """mean + std * z, with ``z`` recovered from the output itself; exp of it for the log-normal law."""
    output, fed = c.actual_leaves()[0], c.cotangents[0] if c.cotangents else None
    if fed is None:
        return zero_gradients(c)
    wide = torch.complex128 if output.is_complex() else torch.float64
    value, cotangent = output.to(wide), fed.to(wide)
    mean, std = (torch.as_tensor(np.asarray(p)) for p in law.parameters)
    if law.name == "log-normal":
        cotangent, value = cotangent * value, value.log()
    for name, gradient in c.actual_gradients.items():
        if name == "mean":
            expected = cotangent
        elif name == "std":
            noise = (value - mean) / std
            expected = (cotangent * noise.conj()).real if output.is_complex() else cotangent * noise
        else:
            expected = torch.zeros(gradient.shape)
        tolerance = c.tolerance(gradient.dtype)
        if gradient.dtype not in (torch.float64, torch.complex128):
            tolerance = tolerance.at_least(1e-4, 1e-4, "the noise is recovered from the rounded output")
        c.pair(f"gradient of {name}", gradient, expected.reshape(gradient.shape).to(gradient.dtype), tolerance)
        c.count(gradients=1)
    return None


@comparator("paddle.bernoulli", "paddle.bernoulli_", meaning="0 or 1, each with its own probability")
def bernoulli(c: Comparison) -> None:
    """Zeros and ones with the asked rate."""
    from .statistics_checks import hit_problems, varying_hit_problems

    if not random_form(c):
        return
    output = c.actual_leaves()[0]
    probability = c.argument("p")
    if probability is None:
        probability = 0.5 if c.api.endswith("_") else c.argument("x")
    hit = output == 1
    if not bool((hit | (output == 0)).all()):
        c.differs("output 0", f"{int((~(hit | (output == 0))).sum())} of {output.numel()} values are neither 0 nor 1")
    elif isinstance(probability, np.ndarray):
        each = to_torch(probability).double().expand(output.shape)
        for problem in varying_hit_problems(hit, each, "ones"):
            c.differs("output 0", problem)
    else:
        for problem in hit_problems(hit, float(probability), "ones"):
            c.differs("output 0", problem)
    zero_gradients(c)


@comparator("paddle.randperm", meaning="each number once, in an order without pattern")
def randperm(c: Comparison) -> None:
    """A permutation whose Lehmer code is uniform."""
    from .statistics_checks import uniform_problems

    if not random_form(c):
        return
    values = c.actual_leaves()[0].double().numpy()
    if not np.array_equal(np.sort(values), np.arange(values.size)):
        c.differs("output 0", f"is no permutation of 0 to {values.size - 1}")
        return
    # Entry i, counted among those that are not used yet, is uniform on 0 .. n - 1 - i and independent of the others.
    head = values[:1000]
    used = np.tril(head[:, None] > head[None, :], -1).sum(axis=1)
    noise = np.random.Generator(np.random.PCG64(20240229)).random(head.size)
    u = (head - used + noise) / (values.size - np.arange(head.size))
    for problem in uniform_problems(u, "order"):
        c.differs("output 0", problem)


@comparator("paddle.multinomial", meaning="indices, drawn with their weights one after the other")
def multinomial(c: Comparison) -> None:
    """With or without replacement: each draw, given those before it, has the law of the remaining weights."""
    from .statistics_checks import uniform_problems

    if not random_form(c):
        return
    drawn = c.actual_leaves()[0]
    weights = to_torch(c.argument("x")).double().numpy()
    rows = weights.reshape(-1, weights.shape[-1]).copy()
    indices = drawn.reshape(len(rows), -1).numpy()
    if indices.size == 0:
        return
    if indices.min() < 0 or indices.max() >= rows.shape[1]:
        c.differs("output 0", f"indices from {indices.min()} to {indices.max()} of {rows.shape[1]} categories")
        return
    replacement = bool(c.argument("replacement", False))
    noise = np.random.Generator(np.random.PCG64(20240229)).random(indices.shape)
    u = np.empty(indices.shape)
    every = np.arange(len(rows))
    if replacement:
        total = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(rows, axis=1)], axis=1)
        chosen = np.take_along_axis(rows, indices, axis=1)
        u[:] = (np.take_along_axis(total, indices, axis=1) + noise * chosen) / total[:, -1:]
        impossible = int((chosen <= 0).sum())
    else:
        impossible = 0
        for k in range(indices.shape[1]):
            chosen = rows[every, indices[:, k]]
            impossible += int((chosen <= 0).sum())
            below = np.where(np.arange(rows.shape[1]) < indices[:, k, None], rows, 0.0).sum(axis=1)
            u[:, k] = (below + noise[:, k] * chosen) / np.maximum(rows.sum(axis=1), 1e-300)
            rows[every, indices[:, k]] = 0.0
    if impossible:
        why = "have weight 0" if replacement else "have weight 0 or were drawn before"
        c.differs("output 0", f"{impossible} of {indices.size} drawn indices {why}")
        return
    for problem in uniform_problems(u, "indices", u.shape):
        c.differs("output 0", problem)
