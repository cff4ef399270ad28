"""The times of a session in pytest's header and summary, and their comparison with an earlier session's."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from .config.manifest import Case
from .options.model import RunOptions
from .options.workers import cores
from .process.messages import Mode
from .results.comparing import SERIES, Change, Comparison, OldTimes, Series, compare, read_times, series_of
from .results.errors import ResultsError
from .results.verdicts import Verdict

__all__ = ["Performance"]

#: Characters of a config in a table.
_WIDTH = 100


@dataclass(order=True)
class _Row:
    """A line of a table, by what it is sorted by."""

    rank: float
    number: int
    text: str = field(compare=False)
    values: tuple[float | None, ...] = field(compare=False)


class _Greatest:
    """Keeps the rows of the greatest rank, whatever comes."""

    def __init__(self, lines: int) -> None:
        self._lines = lines
        self._heap: list[_Row] = []

    def add(self, row: _Row) -> None:
        """Take it, and let go of the least where there are too many."""
        if len(self._heap) < self._lines:
            heapq.heappush(self._heap, row)
        elif self._heap:
            heapq.heappushpop(self._heap, row)

    def rows(self) -> list[_Row]:
        """The greatest first."""
        return sorted(self._heap, reverse=True)


class Performance:
    """What a session in a performance mode tells of its times; in another mode nothing.

    Raises:
        pytest.UsageError: the earlier session cannot be compared with.
    """

    def __init__(self, options: RunOptions, *, controls: bool) -> None:
        self._options = options.performance
        self._mode = options.mode
        self._threads = options.case.threads or 1
        self._old = self._read() if controls and self._options.compare is not None else None
        self._new: dict[str, dict[str, Series]] = {}
        self._timed = 0
        self._slowest = _Greatest(self._options.lines)
        self._worst = _Greatest(self._options.lines)
        self._ratios = [0, 0, 0]

    def _read(self) -> OldTimes:
        assert self._options.compare is not None
        try:
            return read_times(self._options.compare, _comparable(self._mode))
        except ResultsError as exc:
            raise pytest.UsageError(f"--paddleapi-compare: {exc}") from None

    def header(self, workers: int, groups: int, kind: str) -> Iterator[str]:
        """What disturbs times that can be seen before anything runs."""
        if not self._mode.is_performance:
            return
        if kind == "cpu" and workers > 1:
            yield (
                f"WARNING: {workers} workers share the CPU's caches and memory, and disturb each other's times; leave "
                "out -n, or give -n0"
            )
        elif workers > groups:
            yield f"WARNING: {workers} workers share {groups} devices, and disturb each other's times: give -n{groups}"
        busy = os.getloadavg()[0]
        if busy > 0.5 * cores():
            yield (
                f"WARNING: the load of this host is {busy:.1f} on {cores()} cores: other programs will disturb the "
                "times"
            )
        if self._old is not None:
            old = self._old.session
            yield f"compared with session {old['id']} of {self._options.compare}, {old['paddle']} on {old['host']}"

    def add(self, case: Case, properties: Mapping[str, Any]) -> None:
        """Take the final report of a case."""
        if not self._mode.is_performance or properties.get("verdict") != Verdict.PASS.value:
            return
        series = series_of(properties)
        if not series:
            return
        self._timed += 1
        if self._old is not None:
            self._new[case.canonical] = series
        values = tuple(series[name].median if name in series else None for name in SERIES)
        text = case.printable_text
        self._slowest.add(_Row(sum(value or 0.0 for value in values), -self._timed, text, values))
        ratio = properties.get("ratio")
        if isinstance(ratio, (int, float)):
            self._ratios[0 if ratio < 0.9 else 1 if ratio <= 1.1 else 2] += 1
            parts = tuple(properties.get(f"{name}_ratio") for name in ("forward", "backward"))
            self._worst.add(_Row(ratio, -self._timed, text, (ratio, *parts)))

    def lines(self) -> Iterator[str]:
        """For the summary."""
        if not self._timed:
            return
        yield f"timed: {self._timed} {'case' if self._timed == 1 else 'cases'}"
        if any(self._ratios):
            fast, like, slow = self._ratios
            yield f"Paddle's time by Torch's: {fast} under 0.9, {like} from 0.9 to 1.1, {slow} over 1.1"
        yield from self._slowest_lines()
        if worst := self._worst.rows():
            yield "worst ratios, Paddle's time by Torch's:"
            yield _columns(("both", "forward", "backward"), "config")
            yield from (_columns([_number(value) for value in row.values], row.text) for row in worst)
        if self._old is not None:
            yield from self._compared(self._old)

    def _slowest_lines(self) -> Iterator[str]:
        rows = self._slowest.rows()
        if not rows:
            return
        shown = [place for place, name in enumerate(SERIES) if any(row.values[place] is not None for row in rows)]
        yield "slowest, medians in ms:"
        yield _columns([SERIES[place].replace("_", " ") for place in shown], "config")
        yield from (_columns([_number(row.values[place]) for place in shown], row.text) for row in rows)

    def _compared(self, old: OldTimes) -> Iterator[str]:
        found = compare(old.times, self._new, self._options.change)
        yield f"compared with session {old.session['id']} of {self._options.compare}:"
        yield from _conditions(found, old, self._threads)
        lines = self._options.lines
        for changes, word in ((found.slower, "slower"), (found.faster, "faster")):
            yield f"  {len(changes)} times became {word}{':' if changes and lines else ''}"
            yield from (_change_line(change) for change in changes[:lines])
            if lines and len(changes) > lines:
                yield f"    ... and {len(changes) - lines} more (--paddleapi-timing-lines)"


def _comparable(mode: Mode) -> list[str]:
    """The modes that time the same: one that times both frameworks goes with each."""
    both = Mode.PADDLE_TORCH_PERFORMANCE
    return [other.value for other in Mode if other.is_performance and (other is mode or both in (other, mode))]


def _conditions(found: Comparison, old: OldTimes, threads: int) -> Iterator[str]:
    yield (
        f"  {found.series} times of {found.configs} configs are in both; {found.only_old} configs are only there, "
        f"{found.only_new} only here"
    )
    if found.disturbed:
        yield (
            f"  {found.disturbed} of these times were disturbed in one of the sessions and are not judged: more "
            "--paddleapi-timing-seconds finds more moments in which the core is free"
        )
    if found.series == found.disturbed:
        return
    if found.drift_removed:
        yield (
            f"  all others together changed by a factor of {found.drift:.3f} (median), which is taken out; what is not "
            f"changed differs by {100 * found.noise:.1f} % (typical)"
        )
    else:
        yield f"  too few for telling the machine's drift and noise: {100 * found.noise:.0f} % are taken for noise"
    if found.drift_removed and not 0.95 <= found.drift <= 1.05:
        yield "  WARNING: that is much: another machine or load, or a change that all calls share"
    if old.threads and old.threads != threads:
        yield f"  WARNING: cases had {old.threads} CPU threads then, {threads} now"


def _change_line(change: Change) -> str:
    times = f"{change.old_ms:.4g} -> {change.new_ms:.4g} ms"
    name = change.series.replace("_", " ")
    return f"    x {1 + change.change:.2f}  {name}  {times}  (q {change.q:.1g})  {_short(change.config)}"


def _columns(values: list[str] | tuple[str, ...], text: str) -> str:
    return "  ".join(f"{value:>15}" for value in values) + f"  {_short(text)}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _short(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."
