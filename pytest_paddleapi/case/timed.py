"""What timing one framework's side of a case gives, and what the two sides share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..process import fatal
from ..process.messages import Stage, TimingOptions
from .prepared import PreparedCase
from .results import error_text, first_line
from .tensors import leaves
from .timing import Clock, SameCall, Timing, measure, rounded

#: Bytes of arguments that may be made ahead for calls that use them up: little beside what every lease has to spare.
_MOST_AHEAD = 16 << 20


@dataclass
class TimedSide:
    """The times of one framework by ``forward`` and ``backward``; the latter is missing where there is none."""

    #: ``paddle`` or ``torch``.
    framework: str
    times: dict[str, Timing] = field(default_factory=dict)
    #: Of its allocator on the device while it was timed; None where that is not counted.
    peak_bytes: int | None = None
    notes: list[str] = field(default_factory=list)
    more: dict[str, int | float | str] = field(default_factory=dict)

    def total(self, parts: tuple[str, ...]) -> float:
        """Seconds of these parts together."""
        return sum(self.times[part].median for part in parts)

    def properties(self) -> dict[str, int | float | str]:
        """As properties of the item."""
        found = dict(self.more)
        for part, timing in self.times.items():
            found.update(timing.properties(f"{self.framework}_{part}"))
        if self.peak_bytes is not None:
            found[f"{self.framework}_peak_bytes"] = self.peak_bytes
        return found

    def imprecise(self, precision: float) -> list[str]:
        """A note on each time that was disturbed, or did not get as precise as was asked for."""
        found = []
        for part, timing in self.times.items():
            if timing.slowdown is not None and not timing.quiet:
                found.append(f"{self.framework} {part}: disturbed, the core was {timing.slowdown:.2g} times slower")
            elif timing.width > precision:
                found.append(
                    f"{self.framework} {part}: the median is known to {100 * timing.width:.2g} % only, "
                    f"after {timing.samples} samples"
                )
        return found


def fresh_calls(case: PreparedCase) -> int:
    """How many sets of arguments may be there at a time."""
    size = sum(value.nbytes for _, value in leaves(dict(case.values)) if isinstance(value, np.ndarray))
    return max(1, _MOST_AHEAD // max(1, size))


def time_backward(side: TimedSide, run: Callable[[], object], clock: Clock, options: TimingOptions) -> None:
    """Time a backward run whose graph is kept, so that it can run again.

    Raises:
        Exception: what its first run raises, or an error that is the device's.
    """
    run()
    try:
        side.times["backward"] = measure(SameCall(run), clock, options)
    except Exception as exc:
        stage = Stage.PADDLE if side.framework == "paddle" else Stage.REFERENCE
        if fatal.classify(f"{type(exc).__name__}: {exc}", stage) is not None:
            raise
        # It ran once. Some operators free what they saved, whatever they are asked for.
        side.notes.append(f"{side.framework} backward not timed: it cannot be repeated ({first_line(error_text(exc))})")


def ratios(paddle: TimedSide, torch: TimedSide) -> dict[str, int | float | str]:
    """Paddle's time as a multiple of Torch's, of each part that both have and of these together (``ratio``)."""
    parts = tuple(part for part in paddle.times if part in torch.times and torch.times[part].median > 0)
    found: dict[str, int | float | str] = {
        f"{part}_ratio": rounded(paddle.times[part].median / torch.times[part].median) for part in parts
    }
    if parts:
        found["ratio"] = rounded(paddle.total(parts) / torch.total(parts))
    return found
