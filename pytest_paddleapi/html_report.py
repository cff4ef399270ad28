"""``--paddleapi-report``: the HTML file that a session leaves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .config.manifest import Manifest
from .keeping import Keeping
from .options.model import RunOptions
from .reports import Choice, ReportError, check_path, collect, page_data, write_report
from .results.errors import ResultsError
from .results.reading import ResultsReader

__all__ = ["HtmlReport"]


class HtmlReport:
    """Writes the file from the results folder, in the controller or the only process.

    It shows the cases of this session. Where ``--paddleapi-resume`` or ``--paddleapi-retest`` left some out because of
    what the folder holds, their results are shown with them.
    """

    def __init__(self, options: RunOptions, manifest: Manifest, keeping: Keeping) -> None:
        self._options = options
        self._manifest = manifest
        self._keeping = keeping
        self._said = ""

    def check(self) -> None:
        """Make sure at the start that the file can be written at the end; only where results are kept, or will be.

        Raises:
            pytest.UsageError: it cannot, or nothing is kept that could be shown.
        """
        path = self._options.report
        if path is None or not self._keeping.keeps:
            return
        if self._keeping.place is None:
            raise pytest.UsageError(
                f"--paddleapi-report shows what is kept, and {'; '.join(self._keeping.header())}; "
                "give --paddleapi-results=DIR"
            )
        try:
            check_path(path)
        except ReportError as exc:
            raise pytest.UsageError(f"--paddleapi-report: {exc}") from None

    def write(self) -> None:
        """Write the file. What goes wrong stands in the summary: the verdicts are kept, and pytest's to tell."""
        path, place = self._options.report, self._keeping.place
        if path is None or place is None:
            return
        folder, session = place
        try:
            size = write_report(path, page_data(collect(folder, self._choice(session))))
        except (ReportError, ResultsError) as exc:
            self._said = (
                f"WARNING: --paddleapi-report: {exc}. To write it later: python -m pytest_paddleapi report {folder}"
            )
        else:
            self._said = f"report: {path} ({size / 1e6:.1f} MB)"

    def lines(self) -> Iterator[str]:
        """What the summary says."""
        if self._said:
            yield self._said

    def _choice(self, session: int) -> Choice:
        if not (self._options.resume or self._options.retest) or self._keeping.place is None:
            return Choice(sessions=[session])
        with ResultsReader(self._keeping.place[0]) as reader:
            sessions = {one["id"]: one["conditions"] for one in reader.sessions()}
        alike = [number for number, conditions in sessions.items() if conditions == sessions[session]]
        return Choice(sessions=alike, configs={case.canonical for case in self._manifest.cases})
