"""The pytest hooks; each hands over to a room of the package.

Without a mode or a ``--paddleapi-*`` option only the first three do anything: nothing heavy is imported
and no other hook is registered.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .session import PaddleApiSession


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the options."""
    from .options.declared import add_options

    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Check the options, read the configs, and register the rest of the hooks."""
    config.addinivalue_line("markers", "paddleapi(api, dtypes, mode): a Paddle API case; set by pytest-paddleapi.")
    from .options.active import is_active

    if is_active(config):
        from .startup import start

        config.pluginmanager.register(SessionHooks(start(config)), "paddleapi-session")


# First: xdist has one of its own, and which of the two was loaded later is chance.
@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """``-n auto``: one worker per slot."""
    from .options.active import is_active

    if not is_active(config):
        return None
    from .startup import fleet_of

    return fleet_of(config).plan.workers


class SessionHooks:
    """The hooks of a session that has Paddle API cases."""

    def __init__(self, state: PaddleApiSession) -> None:
        self.state = state

    def pytest_report_header(self) -> list[str]:
        """What runs, and on what."""
        return self.state.header()

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Open the results, and start the slot while pytest collects."""
        self.state.look_at_store()
        self.state.outcomes.start()
        if self.state.runs_cases_here:
            self.state.warm_slot()

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> Generator[None, Any, Any]:
        """Config files are ours alone: the doctest plugin takes ``.txt`` arguments too."""
        others = yield
        own = self.state.collector_for(file_path, parent)
        return others if own is None else [own]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Add the configs of the command line, before anything is deselected."""
        self.state.add_command_line_items(session, items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run cases as memory allows."""
        return self.state.run_loop(session)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """A case has one report."""
        return self.state.runner.run_protocol(item, nextitem)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: Any) -> Any:
        """Reruns look as pytest-rerunfailures shows them."""
        from .reporting import teststatus

        return teststatus(report)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, Any, Any]:
        """Keep the verdict, tell the scheduler, and keep JUnit XML at one testcase a case."""
        self.state.before_report(report)
        result = yield
        self.state.after_report(report)
        return result

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Verdicts by count, and why a run stopped early."""
        self.state.summary(terminalreporter)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A run that stopped early has failed."""
        self.state.finish(session)

    def pytest_unconfigure(self) -> None:
        """End the case process; give every lease back."""
        self.state.close()

    # xdist ----------------------------------------------------------------------------------

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self, config: pytest.Config) -> None:
        """A worker that dies while it starts is started again."""
        from .scheduling.xdist_controller import retry_starts

        retry_starts(config.pluginmanager.getplugin("dsession"))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker whose child it is."""
        self.state.prepare_worker(node)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker has ended."""
        self.state.outcomes.worker_ended(node)

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config) -> Any:
        """Our scheduler asks the ledger before it hands out a case."""
        return self.state.make_scheduler()

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        """A case that took its worker down twice."""
        self.state.describe_crash(crashitem, report)
