"""Statistical tests for random results, each with a false-alarm bound that holds for every sample size.

No test here relies on an asymptotic approximation: the bounds are those of Hoeffding (1963, theorem 1,
the relative-entropy form) for proportions, Massart (1990, the DKW inequality with constant 2) for
distribution functions, Laurent and Massart (2000, lemma 1) for sums of squares, and the normal
distribution itself for means of normal scores. Each single check of a correct result fails with a
probability of at most :data:`ALPHA`; a case makes fewer than 50 of them, so the rate of false alarms
stays under 1e-6 per case.

Results of any distribution are first turned into independent uniform numbers by the probability
integral transform (see ``laws.py``), so that one set of tests, :func:`uniform_problems`, serves them all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

Array = np.ndarray[Any, Any]

#: The largest probability that one check fails a correct result.
ALPHA = 1e-8
#: Statistics are taken over at most so many values; more would find only differences of under 0.1 %.
LARGEST_SAMPLE = 1 << 20
#: Two-sided quantile of the normal distribution: P(|Z| > 5.74) = 0.95e-8 < ALPHA.
_NORMAL_QUANTILE = 5.74
#: Uniform numbers are kept this far from 0 and 1 when they become normal scores: results of float32
#: generators are multiples of 2**-24 and do reach 0.
_SCORE_MARGIN = 2.0**-25


def proportion_problem(hits: int, trials: int, probability: float, what: str) -> str | None:
    """Whether ``hits`` of ``trials`` independent events of mean probability ``probability`` are plausible.

    The events may have different probabilities: Hoeffding's bound exp(-n KL(observed || mean)) holds for
    their mean. Twice it bounds both sides.
    """
    if trials == 0:
        return None
    observed = hits / trials
    if 2.0 * math.exp(-trials * _relative_entropy(observed, probability)) >= ALPHA:
        return None
    return (
        f"{what}: {hits} of {trials} = {observed:.6g} where {probability:.6g} is expected "
        f"(Hoeffding: by chance less often than {ALPHA:g})"
    )


def _relative_entropy(observed: float, expected: float) -> float:
    """KL divergence of two Bernoulli distributions; infinite where the observed one is impossible."""
    total = 0.0
    for a, b in ((observed, expected), (1.0 - observed, 1.0 - expected)):
        if a > 0.0:
            if b <= 0.0:
                return math.inf
            total += a * math.log(a / b)
    return max(total, 0.0)


def hit_problems(hit: torch.Tensor, probability: float, what: str) -> list[str]:
    """Checks that ``hit`` (bool) holds independent events of one probability.

    Beside the overall rate: the rate in each eighth of the flattened tensor, and along each axis how
    often neighbours (pairs that do not overlap, so that they are independent) agree. A mask that is
    shared along an axis, or that follows a pattern, agrees too often or too seldom.
    """
    flat = hit.reshape(-1)
    parts = flat.tensor_split(8) if flat.numel() >= 64 else (flat,)
    counts = [int(part.count_nonzero()) for part in parts]
    found = [proportion_problem(sum(counts), hit.numel(), probability, what)]
    for index, (part, count) in enumerate(zip(parts, counts)):
        found.append(proportion_problem(count, part.numel(), probability, f"{what}, part {index + 1}/{len(parts)}"))
    both = probability**2 + (1.0 - probability) ** 2
    for label, left, right in _neighbours(_head(hit)):
        agree = int((left == right).count_nonzero())
        found.append(proportion_problem(agree, left.numel(), both, f"{what}, equal neighbours along {label}"))
    return [problem for problem in found if problem]


def _head(values: torch.Tensor) -> torch.Tensor:
    """The first rows of a large tensor, about as many values as the statistics take."""
    if values.numel() <= LARGEST_SAMPLE or not values.ndim:
        return values
    rows = max(2, LARGEST_SAMPLE * values.shape[0] // values.numel())
    return values.narrow(0, 0, min(rows, values.shape[0]))


def _neighbours(values: torch.Tensor) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """Pairs (2k, 2k + 1) along each axis, and the two halves of the flattened tensor."""
    for axis in range(values.ndim):
        pairs = values.shape[axis] // 2
        if pairs:
            left = values.narrow(axis, 0, 2 * pairs)
            yield f"axis {axis}", *(left.unflatten(axis, (pairs, 2)).select(axis + 1, side) for side in (0, 1))
    flat = values.reshape(-1)
    half = flat.numel() // 2
    if half:
        yield "the halves", flat[:half], flat[half : 2 * half]


def varying_hit_problems(hit: torch.Tensor, probability: torch.Tensor, what: str) -> list[str]:
    """The same for events of different probabilities, by groups of similar probability.

    Events of probability 0 or 1 are decided; the others are put in ten groups in the order of their
    probability, so that a result that ignores it differs in the outer groups.
    """
    hit, p = hit.reshape(-1), probability.reshape(-1).double()
    problems = []
    if bool(hit[p <= 0].any()):
        problems.append(f"{what}: {int(hit[p <= 0].sum())} events of probability 0 happened")
    if not bool(hit[p >= 1].all()):
        problems.append(f"{what}: {int((~hit[p >= 1]).sum())} events of probability 1 did not happen")
    open_ = (p > 0) & (p < 1)
    hit, p = hit[open_], p[open_]
    order = p.argsort(stable=True)
    groups = (order,) if order.numel() < 100 else (order, *order.tensor_split(10))
    for index, group in enumerate(groups):
        label = what if index == 0 else f"{what}, tenth {index} by probability"
        found = proportion_problem(int(hit[group].sum()), group.numel(), float(p[group].mean()), label)
        if found:
            problems.append(found)
    return problems


def sample_positions(count: int) -> slice:
    """Which of ``count`` flattened values the statistics look at: a contiguous run, so that it has neighbours."""
    return slice(0, min(count, LARGEST_SAMPLE))


def uniform_problems(u: Array, what: str, shape: tuple[int, ...] | None = None) -> list[str]:
    """Checks that ``u`` holds independent numbers, uniform on [0, 1].

    The distribution function (DKW), mean and variance of the normal scores (sharper than DKW for
    shifts and scales), and the agreement of neighbours along each axis of ``shape``.
    """
    flat = np.asarray(u, np.float64).reshape(-1)
    count = flat.size
    if count == 0:
        return []
    if np.isnan(flat).any():
        return [f"{what}: {int(np.isnan(flat).sum())} of {count} values are NaN"]
    found = [_distribution_problem(flat, what), *_score_problems(flat, what)]
    above = torch.from_numpy(flat >= 0.5)
    if shape is not None and math.prod(shape) == count:
        above = above.reshape(shape)
    for label, left, right in _neighbours(above):
        agree = int((left == right).count_nonzero())
        found.append(
            proportion_problem(agree, left.numel(), 0.5, f"{what}, neighbours on one side of the median along {label}")
        )
    return [problem for problem in found if problem]


def _distribution_problem(u: Array, what: str) -> str | None:
    """Massart: P(sup |F_n - F| > eps) <= 2 exp(-2 n eps^2)."""
    count = u.size
    ordered = np.sort(u)
    steps = np.arange(count + 1) / count
    distance = float(max((steps[1:] - ordered).max(), (ordered - steps[:-1]).max()))
    bound = math.sqrt(math.log(2.0 / ALPHA) / (2.0 * count))
    if distance <= bound:
        return None
    return (
        f"{what}: the distribution of {count} values is {distance:.4g} away from the promised one, "
        f"by chance at most {bound:.4g} (DKW, {ALPHA:g})"
    )


def _score_problems(u: Array, what: str) -> Iterator[str]:
    count = u.size
    clipped = torch.from_numpy(np.clip(u, _SCORE_MARGIN, 1.0 - _SCORE_MARGIN))
    scores = torch.special.ndtri(clipped)
    mean = float(scores.mean()) * math.sqrt(count)
    if abs(mean) > _NORMAL_QUANTILE:
        yield f"{what}: the mean of {count} normal scores is {mean:.3g} standard errors away from 0"
    # Laurent and Massart: P(chi2 - n >= 2 sqrt(n t) + 2 t) <= exp(-t), P(n - chi2 >= 2 sqrt(n t)) <= exp(-t).
    squares = float((scores * scores).sum())
    t = math.log(2.0 / ALPHA)
    if not count - 2.0 * math.sqrt(count * t) <= squares <= count + 2.0 * math.sqrt(count * t) + 2.0 * t:
        yield f"{what}: the variance of {count} normal scores is {squares / count:.4g} where 1 is expected"


def repetition_problem(values: Array, what: str) -> str | None:
    """Whether far too many values repeat, for continuous results with at least 24 bits.

    Of n <= 2**20 draws from 2**24 equally likely values at most n/32 are expected to repeat; the number
    of different values changes by at most one with each draw, so by McDiarmid's inequality fewer than
    n/2 different ones have a probability below exp(-2 (0.46 n)^2 / n) < ALPHA for n >= 64.
    """
    count = values.size
    if count < 64:
        return None
    different = np.unique(values).size
    if different >= count / 2:
        return None
    return f"{what}: only {different} of {count} values differ from each other"
