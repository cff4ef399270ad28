"""What a session makes of its baseline: who passes against it, whom it no longer names, and the file's next form."""

from __future__ import annotations

from collections.abc import Iterator

from .config.manifest import Case, Manifest
from .options.model import RunOptions
from .results.baseline import Baseline, Known, write_baseline
from .results.verdicts import Outcome, Verdict, outcome_of

#: So many cases are named in a line of the summary.
_NAMED = 10


class KnownVerdicts:
    """Collects final verdicts in the controller. Does nothing without ``--paddleapi-baseline``."""

    def __init__(self, options: RunOptions, manifest: Manifest) -> None:
        self._options = options
        self._manifest = manifest
        self._outcomes: dict[str, Known | None] = {}
        self._passed: list[str] = []
        self._written = ""

    def add(self, case: Case, verdict: Verdict) -> None:
        """A final verdict has come."""
        baseline = self._options.baseline
        if baseline is None:
            return
        listed = baseline.entries.get(case.canonical)
        if listed is not None and verdict is Verdict.PASS:
            self._passed.append(case.printable_text)
        outcome = outcome_of(verdict, unsupported_fails=self._options.unsupported_fails)
        keeps = outcome in (Outcome.FAILED, Outcome.ERROR) or (listed is not None and listed.verdict is verdict)
        # A tab would end the config's column.
        text = case.canonical if "\t" in case.text else case.text
        self._outcomes[case.canonical] = Known(text, verdict) if keeps else None

    def update(self) -> None:
        """Rewrite the file where ``--paddleapi-update-baseline`` asks for it."""
        baseline, file = self._options.baseline, self._options.baseline_file
        if not self._options.update_baseline or baseline is None or file is None:
            return
        updated = baseline.updated(self._outcomes)
        try:
            write_baseline(file, updated)
        except OSError as exc:
            self._written = f"--paddleapi-update-baseline: {file} could not be written: {exc.strerror}"
        else:
            self._written = f"baseline {file}: {_changes(baseline, updated)}"

    def lines(self) -> Iterator[str]:
        """What the summary says."""
        baseline = self._options.baseline
        if baseline is None:
            return
        if self._passed:
            yield f"{len(self._passed):8}  in the baseline, but passed:"
            yield from _named(self._passed)
        cases = {case.canonical for case in self._manifest.cases}
        stale = [known.config for canonical, known in baseline.entries.items() if canonical not in cases]
        if stale:
            yield f"{len(stale):8}  in the baseline, but no config of this session:"
            yield from _named(stale)
        if self._written:
            yield self._written


def _named(configs: list[str]) -> Iterator[str]:
    for config in configs[:_NAMED]:
        yield f"          {config[:150]}{'...' if len(config) > 150 else ''}"
    if len(configs) > _NAMED:
        yield f"          ... and {len(configs) - _NAMED} more"


def _changes(old: Baseline, new: Baseline) -> str:
    added = sum(canonical not in old.entries for canonical in new.entries)
    removed = sum(canonical not in new.entries for canonical in old.entries)
    changed = sum(
        canonical in old.entries and known.verdict is not old.entries[canonical].verdict
        for canonical, known in new.entries.items()
    )
    return f"{len(new.entries)} entries, {added} added, {removed} removed, {changed} changed"
