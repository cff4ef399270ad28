"""One JUnit testcase per case, although its reports are unusual.

pytest's writer closes a testcase when it sees a teardown report, and makes an empty testcase of a
report that is neither passed, failed nor skipped. Cases send one report, and reruns.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from _pytest.junitxml import xml_key


def complete(config: pytest.Config, report: pytest.TestReport) -> None:
    """Bring the writer's state in order after it has seen one of our reports."""
    writer: Any = config.stash.get(xml_key, None)
    if writer is None:
        return
    if is_rerun(report):
        _forget(writer, report)
        return
    closing = copy.copy(report)
    closing.when = "teardown"
    closing.outcome = "passed"
    closing.longrepr = None
    closing.duration = 0.0
    writer.pytest_runtest_logreport(closing)


def is_rerun(report: Any) -> bool:
    """True for the report of an attempt that is not the last; pytest's types know no such outcome."""
    return bool(report.outcome == "rerun")


def _forget(writer: Any, report: pytest.TestReport) -> None:
    """Take back the empty testcase that the writer opened for a rerun."""
    reporter = writer.node_reporter(report)
    for key in [key for key, value in writer.node_reporters.items() if value is reporter]:
        del writer.node_reporters[key]
    writer.node_reporters_ordered.remove(reporter)
