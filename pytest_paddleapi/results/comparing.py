"""Which times have changed from one session to another, and which only seem to.

A *series* is one time of one case, such as the forward run in Paddle, known by its median with a confidence interval
and by its quantiles. For each series that both sessions have, with ``d`` the logarithm of new by old median:

0. *Disturbed* series, for which a core of the host did the work and was busy with something else all the time in either
   session (``slowdown``), are counted, not judged: they were seen to be 60 times longer without any change.
1. *Drift*: the median of all ``d`` is what the machine did (another clock frequency, a neighbour), and is subtracted.
2. *Noise*: a median is not only uncertain by its interval within a session. It also differs from session to session
   though nothing has changed, and calls of like length differ alike: by the placement of memory if they are short, by
   their share of a core if they are long. So the scale of ``d`` is taken from the series themselves, for each from
   those that are nearest to it in length, as their median absolute deviation, which a few real changes do not move.
   Where that is less than its own intervals say, those count. This needs most series to be unchanged.
3. *Test*: ``d`` in units of that scale has, without a change, a distribution with somewhat heavier tails than the
   normal one; Student's with 6 degrees of freedom stands for it.
4. *Many tests*: by Benjamini and Hochberg's procedure, at most :data:`FALSE_DISCOVERIES` of what is named is expected
   to be false.
5. *Size*: a change must also be as large as the caller asks, in the median and in the 10th percentile. A real change
   moves the whole distribution; a busy machine its upper part.

With fewer than :data:`LEAST_FOR_DRIFT` series there is nothing to tell drift and noise from: none is subtracted, and
:data:`FEW_NOISE` is taken for the scale.
"""

from __future__ import annotations

import bisect
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from ..config.canonical import canonical_text
from ..config.errors import ConfigSyntaxError
from .errors import ResultsError
from .reading import ResultsReader
from .schema import FILE_NAME

__all__ = [
    "SERIES",
    "Change",
    "Comparison",
    "OldTimes",
    "Series",
    "compare",
    "read_times",
    "series_of",
]

SERIES = ("paddle_forward", "paddle_backward", "torch_forward", "torch_backward")
#: Of the changes that are named, the share that may be none.
FALSE_DISCOVERIES = 0.02
LEAST_FOR_DRIFT = 20
#: Relative; medians of the same calls in two sessions on a busy machine were seen to differ by as much.
FEW_NOISE = 0.1
#: No machine repeats itself better than this.
_LEAST_NOISE = 0.005
#: Series of like length that the noise of one is taken from.
_NEIGHBOURS = 40
#: A median absolute deviation of normal values is this share of their standard deviation.
_MAD = 0.6744898
_NORMAL_95 = 1.959964
#: Fewer samples have no confidence interval, only a range, which is narrower.
_LEAST_SAMPLES = 6
#: Even. Fewer name less: with 4, of 20 changes by 40 % among 200 times that scatter by 3 % none was named, with 8 four
#: unchanged times of 52 were, on a busy machine.
_DEGREES = 6

#: By canonical config, and by the name of the series.
Times = Mapping[str, Mapping[str, "Series"]]


class Series(NamedTuple):
    """Milliseconds: the median, its 95 % confidence interval, the 10th percentile; the number of samples, and how much
    slower than at its best the core was (1: undisturbed)."""

    median: float
    low: float
    high: float
    p10: float
    samples: int
    slowdown: float = 1.0

    @property
    def error(self) -> float:
        """The standard error of the median's logarithm, within the session."""
        if self.low <= 0:
            return 1.0
        error = math.log(self.high / self.low) / (2 * _NORMAL_95)
        return error if self.samples >= _LEAST_SAMPLES else 2 * error


class Change(NamedTuple):
    """A series that has changed. ``change`` is a share of the old time, without the drift; ``q`` the least false
    discovery rate at which it would be named."""

    config: str
    series: str
    old_ms: float
    new_ms: float
    change: float
    q: float


@dataclass(frozen=True)
class Comparison:
    """What two sessions have in common, and what changed; ``slower`` and ``faster`` with the greatest change first."""

    slower: tuple[Change, ...] = ()
    faster: tuple[Change, ...] = ()
    #: Series in both, and configs.
    series: int = 0
    configs: int = 0
    #: New by old, the median of the judged series: subtracted, if there were enough of them.
    drift: float = 1.0
    drift_removed: bool = False
    #: What an unchanged series differs by between the sessions, as a share (the median over all).
    noise: float = 0.0
    #: Of the series, those that were disturbed in one of the sessions, and are not judged.
    disturbed: int = 0
    only_old: int = 0
    only_new: int = 0


@dataclass(frozen=True)
class OldTimes:
    """An earlier session: its row, its times, and the CPU threads that a case had (0: unknown)."""

    session: Mapping[str, Any]
    times: Times
    threads: int


def series_of(properties: Mapping[str, Any]) -> dict[str, Series]:
    """The series that a case's properties hold, as the performance modes write them."""
    found = {}
    for name in SERIES:
        values = [properties.get(f"{name}_{part}") for part in ("ms", "ms_low", "ms_high", "ms_p10", "samples")]
        if all(isinstance(value, (int, float)) and math.isfinite(value) for value in values):
            median, low, high, p10, samples = values
            if median > 0:  # type: ignore[operator]
                slowdown = properties.get(f"{name}_slowdown") or 1.0
                found[name] = Series(median, low, high, p10, int(samples), slowdown)  # type: ignore[arg-type]
    return found


def read_times(path: Path, modes: Iterable[str]) -> OldTimes:
    """The times of the last session in one of these modes that has some, from a results folder or its SQLite file.

    Raises:
        ResultsError: it cannot be read, or there is none.
    """
    if path.is_file() and path.name != FILE_NAME:
        raise ResultsError(path.parent, f"{path.name} is no results file: it must be called {FILE_NAME}")
    folder = path.parent if path.is_file() else path
    wanted = set(modes)
    with ResultsReader(folder) as reader:
        for session in reversed(reader.sessions()):
            if session["mode"] not in wanted:
                continue
            times: dict[str, dict[str, Series]] = {}
            threads = 0
            for attempt in reader.attempts(session=session["id"], verdicts=("pass",)):
                extra = attempt.get("extra", {})
                if series := series_of(extra):
                    times[_canonical(attempt["config"])] = series
                    threads = int(extra.get("threads", threads))
            if times:
                return OldTimes(session, times, threads)
    raise ResultsError(folder, f"{FILE_NAME} has no session with times in the mode {' or '.join(sorted(wanted))}")


def _canonical(config: str) -> str:
    try:
        return canonical_text(config)
    except ConfigSyntaxError:  # written with characters that do not print
        return config


def compare(old: Times, new: Times, least_change: float) -> Comparison:
    """Name what changed by the share ``least_change`` at least; see the module for how."""
    common = [config for config in new if config in old]
    pairs = [
        (config, name, old[config][name], series)
        for config in common
        for name, series in new[config].items()
        if name in old[config]
    ]
    quiet = [pair for pair in pairs if pair[2].slowdown == pair[3].slowdown == 1.0]
    counted = Comparison(
        configs=len(common),
        series=len(pairs),
        disturbed=len(pairs) - len(quiet),
        only_old=len(old) - len(common),
        only_new=len(new) - len(common),
    )
    if not quiet:
        return counted
    moved = [math.log(after.median / before.median) for _, _, before, after in quiet]
    enough = len(quiet) >= LEAST_FOR_DRIFT
    drift = statistics.median(moved)
    centre = drift if enough else 0.0
    errors = [math.hypot(before.error, after.error) for _, _, before, after in quiet]
    lengths = [math.log(before.median * after.median) for _, _, before, after in quiet]
    scatter = _scatter(lengths, [value - centre for value in moved]) if enough else [FEW_NOISE] * len(quiet)
    # The scatter has the errors of typical series in it; one that is less sure than its neighbours has its own.
    scales = [max(around, error, _LEAST_NOISE) for around, error in zip(scatter, errors)]
    qs = _adjusted([_two_sided((value - centre) / scale) for value, scale in zip(moved, scales)])
    changes = []
    for (config, name, before, after), value, q in zip(quiet, moved, qs):
        change = math.expm1(value - centre)
        low_end = after.p10 / before.p10 / math.exp(centre) - 1 if before.p10 > 0 else 0.0
        if q <= FALSE_DISCOVERIES and _at_least(change, least_change) and _at_least(low_end, least_change, change):
            changes.append(Change(config, name, before.median, after.median, change, q))
    return replace(
        counted,
        slower=tuple(sorted((c for c in changes if c.change > 0), key=lambda c: -c.change)),
        faster=tuple(sorted((c for c in changes if c.change < 0), key=lambda c: c.change)),
        drift=math.exp(drift),
        drift_removed=enough,
        noise=math.expm1(statistics.median(scales)),
    )


def _at_least(change: float, least: float, sign: float | None = None) -> bool:
    """Slower by the share ``least``, or as much faster: 5 % are a factor of 1.05 either way."""
    size = math.log1p(change) if change > -1 else -math.inf
    return abs(size) >= math.log1p(least) and (sign is None or (size > 0) == (sign > 0))


def _scatter(lengths: Sequence[float], values: Sequence[float]) -> list[float]:
    """For each value the scale of those that are nearest to it in length, itself among them."""
    order = sorted(range(len(values)), key=lengths.__getitem__)
    # Of those with fewer neighbours on one side, more on the other count.
    count = min(_NEIGHBOURS, len(order))
    found = [0.0] * len(values)
    window: list[float] = sorted(abs(values[i]) for i in order[:count])
    start = 0
    for place, index in enumerate(order):
        wanted = min(max(0, place - count // 2), len(order) - count)
        while start < wanted:
            window.pop(bisect.bisect_left(window, abs(values[order[start]])))
            bisect.insort(window, abs(values[order[start + count]]))
            start += 1
        found[index] = statistics.median(window) / _MAD
    return found


def _two_sided(t: float) -> float:
    """The probability that Student's t with an even number of degrees of freedom is as far from 0 as this.

    With ``v`` degrees and ``s = t / sqrt(v + t**2)`` it is 1 - s * (1 + c/2 + c**2 * 1*3/(2*4) + ...), ``v / 2`` terms,
    where c = 1 - s**2 (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.4).
    """
    t = abs(t)
    if math.isinf(t):
        return 0.0
    if t > 50:  # the difference from 1 has no digits left; the tail's leading term has
        half = (_DEGREES - 1) / 2
        constant = math.exp(math.lgamma(half + 1) - math.lgamma(_DEGREES / 2)) / math.sqrt(_DEGREES * math.pi)
        return float(2 * constant * _DEGREES**half * t ** (-_DEGREES))
    s = t / math.sqrt(_DEGREES + t * t)
    c = _DEGREES / (_DEGREES + t * t)
    term, total = 1.0, 1.0
    for number in range(1, _DEGREES // 2):
        term *= c * (2 * number - 1) / (2 * number)
        total += term
    return max(0.0, 1 - s * total)


def _adjusted(ps: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's adjusted p-values, in the given order."""
    order = sorted(range(len(ps)), key=ps.__getitem__, reverse=True)
    found, least = [1.0] * len(ps), 1.0
    for place, index in enumerate(order):
        rank = len(ps) - place
        least = min(least, ps[index] * len(ps) / rank)
        found[index] = least
    return found
