"""One browser for all tests of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_paddleapi.reports import collect, page_data, write_report
from pytest_paddleapi.results.rows import Attempt

from .chromium import Chromium, Page, find_chromium
from .stores import write


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    program = find_chromium()
    if program is None:
        pytest.skip("the report's page is tested in Chromium, which is not installed (apt-get install chromium)")
    browser = Chromium(program, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def page(chromium: Chromium) -> Iterator[Page]:
    """A new page; at its end nothing may have failed in it, and nobody may have been asked for anything."""
    opened = chromium.page()
    opened.look()
    yield opened
    assert [error for error in opened.errors if not opened.expected or opened.expected not in error] == []
    asked = {event["request"]["url"] for event in opened.happened("Network.requestWillBeSent")}
    assert asked <= opened.opened
    opened.close()


@pytest.fixture
def report(tmp_path: Path) -> Callable[..., Path]:
    """The report of a session that ends with these attempts, ``since`` a session with those."""

    def make(*attempts: Attempt, since: tuple[Attempt, ...] | None = None) -> Path:
        earlier = None if since is None else write(tmp_path / "earlier", *since)
        write_report(
            file := tmp_path / "report.html", page_data(collect(write(tmp_path / "now", *attempts), None, earlier))
        )
        return file

    return make
