"""Options of the performance modes, and what they cannot be combined with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ..process.messages import Mode, TimingOptions

__all__ = [
    "PerformanceOptions",
    "add_performance_options",
    "check_torch_device",
    "decisive_timing",
    "performance_options",
    "timing_options",
]

_DEFAULTS = TimingOptions()
_LINES = 10
#: Per cent; a change that nobody would act on is no news, however sure it is.
_CHANGE = 5.0


@dataclass(frozen=True)
class PerformanceOptions:
    """How the summary shows times. ``compare`` is an earlier session's results, ``change`` a share, such as 0.05."""

    lines: int = _LINES
    compare: Path | None = None
    change: float = _CHANGE / 100


def add_performance_options(parser: pytest.Parser) -> None:
    """Register them."""
    group = parser.getgroup("paddleapi performance", "Paddle API cases: performance modes")
    group.addoption(
        "--paddleapi-timing-seconds",
        type=float,
        default=None,
        metavar="S",
        help=f"Seconds that one measurement takes at most: forward and backward are one each (default: "
        f"{_DEFAULTS.seconds:g}).",
    )
    group.addoption(
        "--paddleapi-timing-precision",
        type=float,
        default=None,
        metavar="PERCENT",
        help="A measurement ends earlier once the 95 %% confidence interval of the median is narrower than this "
        f"(default: {100 * _DEFAULTS.precision:g}).",
    )
    group.addoption(
        "--paddleapi-timing-lines",
        type=int,
        default=None,
        metavar="N",
        help=f"Lines of each table of times in the summary (default: {_LINES}; 0: no tables).",
    )
    group.addoption(
        "--paddleapi-compare",
        default=None,
        metavar="OLD",
        help="Results folder, or its SQLite file, of an earlier session in a performance mode: the summary names what "
        "became slower and faster since.",
    )
    group.addoption(
        "--paddleapi-compare-change",
        type=float,
        default=None,
        metavar="PERCENT",
        help=f"A change smaller than this is not named (default: {_CHANGE:g}).",
    )


def timing_options(config: pytest.Config, mode: Mode) -> TimingOptions:
    """When a time is known well enough.

    Raises:
        pytest.UsageError: a number is out of range, or an option belongs to another mode.
    """
    option = config.option
    given = {
        "--paddleapi-timing-seconds": option.paddleapi_timing_seconds,
        "--paddleapi-timing-precision": option.paddleapi_timing_precision,
        "--paddleapi-timing-lines": option.paddleapi_timing_lines,
        "--paddleapi-compare": option.paddleapi_compare,
        "--paddleapi-compare-change": option.paddleapi_compare_change,
    }
    if not mode.is_performance:
        if wrong := [flag for flag, value in given.items() if value is not None]:
            raise pytest.UsageError(f"{wrong[0]} is for a performance mode: give one of {', '.join(_flags())} with it")
        return _DEFAULTS
    _check("--paddleapi-timing-seconds", option.paddleapi_timing_seconds, 0.001, 3600)
    _check("--paddleapi-timing-precision", option.paddleapi_timing_precision, 0.01, 100)
    _check("--paddleapi-timing-lines", option.paddleapi_timing_lines, 0, 1_000_000)
    _check("--paddleapi-compare-change", option.paddleapi_compare_change, 0, 1000)
    if option.paddleapi_compare_change is not None and option.paddleapi_compare is None:
        raise pytest.UsageError("--paddleapi-compare-change has nothing to compare with: give --paddleapi-compare=OLD")
    seconds, percent = option.paddleapi_timing_seconds, option.paddleapi_timing_precision
    return TimingOptions(
        seconds=_DEFAULTS.seconds if seconds is None else seconds,
        precision=_DEFAULTS.precision if percent is None else percent / 100,
    )


def performance_options(config: pytest.Config) -> PerformanceOptions:
    """What the summary shows, of options that :func:`timing_options` has checked.

    Raises:
        pytest.UsageError: there is nothing where ``--paddleapi-compare`` looks.
    """
    option = config.option
    old = option.paddleapi_compare
    path = None
    if old is not None:
        path = config.invocation_params.dir / Path(old).expanduser()
        if not old.strip() or not path.exists():
            raise pytest.UsageError(
                f"--paddleapi-compare={old}: there is no such file or folder; give the --paddleapi-results folder of "
                "an earlier session, or the SQLite file in it"
            )
    return PerformanceOptions(
        lines=_LINES if option.paddleapi_timing_lines is None else option.paddleapi_timing_lines,
        compare=path,
        change=(_CHANGE if option.paddleapi_compare_change is None else option.paddleapi_compare_change) / 100,
    )


def decisive_timing(timing: TimingOptions) -> Iterator[str]:
    """The options that are not at their default, as they are typed."""
    if timing.seconds != _DEFAULTS.seconds:
        yield f"--paddleapi-timing-seconds={timing.seconds:g}"
    if timing.precision != _DEFAULTS.precision:
        yield f"--paddleapi-timing-precision={100 * timing.precision:g}"


def check_torch_device(mode: Mode, kind: str, torch_devices: Iterable[str]) -> None:
    """Torch can only be timed where it computes on the device that is tested.

    Raises:
        pytest.UsageError: it would compute on the host.
    """
    needs_torch = mode in (Mode.TORCH_PERFORMANCE, Mode.PADDLE_TORCH_PERFORMANCE)
    if needs_torch and kind != "cpu" and "cpu" in torch_devices:
        raise pytest.UsageError(
            f"--{mode.value} would time Torch on the host's CPU, because Torch does not know {kind} devices: give "
            "--paddle-gpu-performance, or --paddleapi-device=cpu to time both on the CPU"
        )


def _flags() -> list[str]:
    return [f"--{mode.value}" for mode in Mode if mode.is_performance]


def _check(flag: str, value: float | None, least: float, most: float) -> None:
    # Negated, so that nan is refused too.
    if value is not None and not least <= value <= most:
        raise pytest.UsageError(f"{flag}={value:g} is out of range: it must be at least {least:g} and at most {most:g}")
