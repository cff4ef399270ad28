"""The cases of the packing simulation: what each is thought to need, what it truly needs, and how long it runs.

**Estimates** are the project's own (from shapes, or from the operator, see :mod:`packing`). The other policy's is the
sum of the sizes of the inputs.

**True peak** = estimate / ratio, and the ratio is drawn for each case: half of the ratios lie below 1.5, half above, as
measured; 0.5 % lie between 0.36 and 0.8, where a lease of estimate x 1.25 is too small; the rest is log-normal to both
sides of the median, up to 7.5.

**Seconds** = 20 ms (launch, messages) + bytes moved / 1 TB/s; a case moves its true peak 4 times (forward, backward,
both frameworks), 20 times where the operator computes much on each byte (products, convolutions, attention).

**Memory** is taken in equal steps over the run. With caching allocators off a living process gives it back at once, and
what it takes for that is :data:`RELEASE_SECONDS`: ``prompt``, a few milliseconds of collecting garbage, as with a call
that frees device memory before it returns; or ``slow``, a driver that takes its time. A dead process's memory takes as
long as with the slow one in both.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_paddleapi.gpu_admission import MeasuredBytes

GIB, MIB = 1 << 30, 1 << 20
#: Of the ratio estimate / measured peak.
MEDIAN, LEAST, MOST = 1.5, 0.36, 7.5
#: Below this ratio the lease is too small; and how many cases are.
TOO_SMALL, TOO_SMALL_SHARE = 0.8, 0.005
#: Standard deviations of the ratio's logarithm, below and above the median.
BELOW, ABOVE = 0.22, 0.5
OVERHEAD_SECONDS, BYTES_PER_SECOND = 0.02, 1e12
PASSES, HEAVY_PASSES = 4, 20
HEAVY = ("matmul", "conv", "attention", "einsum", "linear", "bmm", "mm", "dot", "linalg", "fft")
#: Seconds from the end of a case until its memory is free; and from the death of a process.
RELEASE_SECONDS = {"prompt": (0.0, 0.05), "slow": (0.2, 3.0)}
DEATH_SECONDS = (0.2, 3.0)
#: By how much runs of one case differ in their peak at most, and what a measured one is multiplied with
#: (``results/learned.py``).
RUNS_DIFFER, LEARNED_FACTOR = 0.03, 1.1
#: A case that takes less than this takes it in one step, any other in this many.
ONE_STEP, STEPS = 64 * MIB, 4
#: Start of a case process: loading, then preparing its device (one at a time on each), and its context.
LOAD_SECONDS, PREPARE_SECONDS, CONTEXT_BYTES = 4.0, 1.0, 500 * MIB


@dataclass(frozen=True, slots=True)
class Line:
    """One config: the estimate, the sum of its inputs, and how often it moves its bytes."""

    estimate: int
    inputs: int
    passes: int


@dataclass(frozen=True, slots=True)
class SimulatedCase:
    """What the schedulers know (``estimate``, ``inputs``) and what is true (bytes, seconds)."""

    estimate: int
    inputs: int
    peak: int
    seconds: float
    release: float

    @property
    def rectangle(self) -> float:
        """Byte-seconds of its peak from its start until that is given back."""
        return self.peak * (self.seconds + self.release)

    @property
    def memory_seconds(self) -> float:
        """Byte-seconds that it holds: in steps over its run, all of it from its end until it is given back."""
        steps = step_count(self.peak)
        held = sum(k / steps for k in range(1, steps + 1)) / (steps + 1)
        return self.peak * (self.seconds * held + self.release)


def step_count(peak: int) -> int:
    """In how many steps a case takes its memory."""
    return 1 if peak < ONE_STEP else STEPS


def passes_of(api: str) -> int:
    """How often an API moves the bytes of its peak."""
    return HEAVY_PASSES if any(word in api for word in HEAVY) else PASSES


def ratio_of(rng: random.Random) -> float:
    """One estimate / measured peak."""
    if rng.random() < TOO_SMALL_SHARE:
        return math.exp(rng.uniform(math.log(LEAST), math.log(TOO_SMALL)))
    deviation = rng.gauss(0, 1)
    ratio = MEDIAN * math.exp(deviation * (BELOW if deviation < 0 else ABOVE))
    return min(MOST, max(TOO_SMALL, ratio))


def draw_cases(
    lines: Sequence[Line], count: int, seed: int, *, release: str = "prompt", learned: bool = False
) -> list[SimulatedCase]:
    """``count`` cases: every line once in random order, and again from the start while there are too few.

    ``learned``: the estimate is what an earlier run has measured, with what is added to it.
    """
    found = []
    for number, line in enumerate(_endless(lines, seed)):
        if number == count:
            break
        rng = random.Random(seed * 1_000_003 + number)
        peak = int(line.estimate / ratio_of(rng))
        seconds = OVERHEAD_SECONDS + peak * line.passes / BYTES_PER_SECOND
        back = rng.uniform(*RELEASE_SECONDS[release])
        estimate = line.estimate
        if learned:
            estimate = MeasuredBytes(peak * rng.uniform(1 - RUNS_DIFFER, 1 + RUNS_DIFFER) * LEARNED_FACTOR)
        found.append(SimulatedCase(estimate, line.inputs, peak, seconds, back))
    return found


def _endless(lines: Sequence[Line], seed: int) -> Iterator[Line]:
    rng = random.Random(seed)
    while lines:
        yield from rng.sample(lines, len(lines))


@dataclass(frozen=True)
class Bounds:
    """Seconds below which no schedule can end, whatever it knows.

    ``slots``: every slot runs cases from the moment at which its process can be ready. ``memory``: every byte of
    every device is in use all the time from the first possible moment. ``longest``: the longest case, after a start.

    ``whole`` holds for those who keep a case's peak free for it as long as it runs, which is what any promise means: of
    cases of which no two go together (the peaks of any two are more than a device has) one runs at a time.

    ``leases`` holds for those only who keep to the leases: a case takes its lease from the start on and its peak until
    that is back; and of cases of which no two go together (the peak of each and the lease of any other are more than
    a device can give) one starts on a device when the memory of the last is back.
    """

    slots: float
    memory: float
    longest: float
    whole: float
    leases: float

    @property
    def least(self) -> float:
        """The bound of the makespan: the largest of those that hold for everybody."""
        return max(self.slots, self.memory, self.longest)

    @property
    def kind(self) -> str:
        """Which of them it is."""
        return max(("slots", "memory", "longest"), key=lambda name: float(getattr(self, name)))


def bounds_of(
    cases: Sequence[SimulatedCase], needs: Sequence[int], devices: int, workers: int, total: int, usable: int
) -> Bounds:
    """The bounds for ``cases``, which need leases of ``needs`` bytes, on devices of ``total`` bytes."""
    first = LOAD_SECONDS + PREPARE_SECONDS
    work = sum(case.seconds for case in cases)
    # A context goes with every slot, but one may wait for the end before it starts: it is left out.
    area = sum(case.memory_seconds for case in cases)
    promised = sum(need * case.seconds + case.peak * case.release for case, need in zip(cases, needs))
    # The last releases on the devices are after the end.
    after = max((case.release for case in cases), default=0.0)
    alone = _most_alone(cases, needs, usable) / devices
    return Bounds(
        slots=_time_of(work / devices, workers),
        memory=first + max(0.0, area / (devices * total) - after),
        longest=first + max((case.seconds for case in cases), default=0.0),
        whole=first
        + max(
            0.0,
            sum(case.rectangle for case in cases) / (devices * total) - after,
            _most_alone(cases, [case.peak for case in cases], total) / devices - after,
        ),
        leases=first + max(0.0, promised / (devices * usable) - after, alone - after),
    )


def _most_alone(cases: Sequence[SimulatedCase], needs: Sequence[int], usable: int) -> float:
    """Seconds from start to release of those cases of which no two go together; the largest such sum that is found."""
    return max(
        sum(c.seconds + c.release for c, need in zip(cases, needs) if need >= part and c.peak > usable - part)
        for part in (usable * k // 40 for k in range(41))
    )


def _time_of(work: float, workers: int) -> float:
    """When ``workers`` slots of a device, ready one after another, have done ``work`` seconds together."""
    for ready in range(1, workers + 1):
        # With ``ready`` slots at work: T such that the sum of T - start over them is the work.
        starts = sum(LOAD_SECONDS + PREPARE_SECONDS * (k + 1) for k in range(ready))
        time = (work + starts) / ready
        if ready == workers or time <= LOAD_SECONDS + PREPARE_SECONDS * (ready + 1):
            return time
    raise ValueError("no workers")
