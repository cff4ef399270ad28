"""What comes of a session's cases: counted, kept, and told at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from .config.manifest import Case, Manifest
from .estimates import Estimates
from .fleet import Placement
from .goldens import Goldens
from .html_report import HtmlReport
from .keeping import Keeping
from .known import KnownVerdicts
from .options.model import RunOptions
from .performance import Performance
from .progress import Progress, ProgressRules
from .results.verdicts import Verdict
from .shrink_failures import FailureShrinker
from .tally import Tally

__all__ = ["VERY_QUIET", "Outcomes"]

#: pytest's verbosity with -qq: nothing is said of the run but why it stopped.
VERY_QUIET = -2
#: In what a worker of xdist tells the controller at its end.
_SANITIZER_NOTES = "paddleapi_sanitizer"


class Outcomes:
    """The verdicts of one session, in the controller or the only process; in a worker only what is left out.

    ``devices`` are the models of the session's devices; ``controls`` is false in a worker; ``estimates`` gives the
    session's, to be asked for when the first failure is shrunk.
    """

    def __init__(
        self,
        config: pytest.Config,
        options: RunOptions,
        manifest: Manifest,
        placement: Placement,
        devices: Iterable[str],
        *,
        controls: bool,
        estimates: Callable[[], Estimates],
    ) -> None:
        self._config = config
        self._options = options
        self._manifest = manifest
        self.tally = Tally()
        self.known = KnownVerdicts(options, manifest)
        self.performance = Performance(options, controls=controls)
        self.shrinker = FailureShrinker(options, placement, estimates)
        self.keeping = Keeping(config, options, manifest, placement.kind, devices)
        self.golden = Goldens(options)
        self.html = HtmlReport(options, manifest, self.keeping)
        #: What sanitizers said, here and in workers, that belongs to no case.
        self.sanitizer_notes: list[str] = []
        rules = ProgressRules.at_least(options.progress)
        self.progress = Progress(rules, self.keeping.recorded_seconds) if options.progress else None

    def start(self) -> None:
        """Open what is written to.

        Raises:
            pytest.UsageError: the results folder, or the report's file, cannot be used.
        """
        self.keeping.start()
        self.html.check()

    def add(self, case: Case, report: pytest.TestReport, verdict: Verdict) -> None:
        """Count a final verdict."""
        self.golden.count(report)
        self.tally.add(case.api, verdict.value, failed=report.failed)
        if self.progress is not None:
            self.progress.add(case.canonical, failed=report.failed)
        self.known.add(case, verdict)
        if self._options.shrink and report.failed:
            self.shrinker.add(case.canonical, verdict)
        self.performance.add(case, dict(report.user_properties))

    def summary(self, terminal: Any, quarantined: Mapping[str, str]) -> None:
        """Verdicts by count, the worst APIs, what was written; nothing of that with -qq."""
        if self._config.pluginmanager.hasplugin("dsession"):
            # The workers have deselected them, and xdist tells nobody. Other plugins look through what stands here.
            gone = [SimpleNamespace(nodeid=f"{case.file}::{case.name}") for case in self.keeping.left_out()]
            if gone:
                terminal.stats.setdefault("deselected", []).extend(gone)
        if self._config.option.verbose > VERY_QUIET:
            if self.tally:
                terminal.section("Paddle API verdicts")
            for line in self._lines(quarantined):
                terminal.line(line)
        if self.sanitizer_notes:
            terminal.section("Paddle API sanitizer: what belongs to no case", yellow=True)
            for note in self.sanitizer_notes:
                terminal.line(note)
        if times := list(self.performance.lines()):
            terminal.section("Paddle API times")
        for line in times:
            terminal.line(line)

    def _lines(self, quarantined: Mapping[str, str]) -> Iterator[str]:
        yield from self.tally.lines()
        if self._manifest.skipped:
            yield f"{self._manifest.skipped:8}  lines were no config, such as {self._manifest.skipped_samples[0]}"
        yield from self.tally.worst()
        for group, why in quarantined.items():
            yield f"quarantined: {group}: {why}"
        yield from self.known.lines()
        yield from self.keeping.lines()
        yield from self.html.lines()
        yield from self.golden.lines()
        if xml := getattr(self._config.option, "xmlpath", None):
            yield f"JUnit XML: {xml}"

    def shrink(self, terminal: Any) -> None:
        """Make what failed small, where that was asked for."""
        if self._options.shrink and self.shrinker.failed:
            terminal.section("Paddle API failures, made small")
            for line in self.shrinker.lines():
                terminal.line(line)

    def finish_worker(self, notes: Iterable[str]) -> None:
        """Take over what this process's sanitizer said, and tell the controller."""
        self.sanitizer_notes += notes
        if hasattr(self._config, "workerinput"):
            self._config.workeroutput[_SANITIZER_NOTES] = self.sanitizer_notes  # type: ignore[attr-defined]

    def worker_ended(self, node: Any) -> None:
        """Take over what the sanitizer of a worker said; one that died has not told it."""
        self.sanitizer_notes += getattr(node, "workeroutput", {}).get(_SANITIZER_NOTES, [])

    def finish(self, exit_status: int) -> None:
        """Write what is left to write."""
        self.keeping.finish(exit_status)
        self.html.write()
