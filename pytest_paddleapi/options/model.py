"""Everything that the command line asks for, checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ..devices.selection import DeviceOptions
from ..numbers import Numbers
from ..process.messages import CaseOptions, Mode
from ..process.sanitizer import Sanitizer
from ..results.baseline import Baseline
from ..results.verdicts import Verdict
from ..sharding import Shard
from .defaults import DEFAULT_TIMEOUT
from .performance import PerformanceOptions

__all__ = ["RunOptions"]


@dataclass(frozen=True)
class RunOptions:
    """What the user asked for, checked. ``case`` is what the case processes need of it."""

    case: CaseOptions
    patterns: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    timeout: float = DEFAULT_TIMEOUT
    unsupported_fails: bool = False
    memory_limit: int | None = None
    ledger: Path | None = None
    pressure_timeout: float = 600.0
    stall_timeout: float | None = None
    progress: float = 60.0
    baseline_file: Path | None = None
    baseline: Baseline | None = None
    update_baseline: bool = False
    results: Path | None = None
    resume: bool = False
    retest: tuple[Verdict, ...] = ()
    report: Path | None = None
    dump: Path | None = None
    shrink: bool = False
    shard: Shard | None = None
    #: A folder of results, :data:`~..sharding.BY_SIZE`, or nothing.
    shard_costs: str | Path | None = None
    device: str = "auto"
    devices: DeviceOptions = field(default_factory=DeviceOptions)
    numbers: Numbers = field(default_factory=Numbers)
    sanitizer: Sanitizer | None = None
    performance: PerformanceOptions = field(default_factory=PerformanceOptions)

    @property
    def mode(self) -> Mode:
        return self.case.mode
