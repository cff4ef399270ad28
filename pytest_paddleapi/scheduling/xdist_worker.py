"""The worker's loop under xdist.

xdist's own loop does not start a test before it knows the next one. A case that was admitted must start
at once, and the next one is not known before there is memory for it; so this loop stands in for it.
Of xdist's internals it uses ``WorkerInteractor`` with its ``channel``, ``sendevent`` and ``item_index``.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import pytest

#: The command that carries a dispatch; the rest are xdist's.
RUN_COMMAND = "paddleapi_run"
#: The session is paused: end the case process.
SUSPEND_COMMAND = "paddleapi_suspend"
#: How often a worker without a case looks after its lease.
_REST_SECONDS = 0.5
_NEEDED = ("channel", "sendevent", "config")


def find_interactor(config: pytest.Config) -> Any:
    """xdist's worker plugin.

    Raises:
        pytest.UsageError: this xdist is built otherwise than the versions that are supported.
    """
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            missing = [name for name in _NEEDED if not hasattr(plugin, name)]
            if missing:
                break
            return plugin
    raise pytest.UsageError(
        "the installed pytest-xdist is built differently from 3.6 to 3.8 (no WorkerInteractor with "
        f"{', '.join(_NEEDED)}); install one of these, or run with -n0"
    )


class WorkerLoop:
    """Runs what the controller sends, one command at a time."""

    def __init__(
        self,
        interactor: Any,
        is_case: Callable[[Any], bool],
        begin: Callable[[dict[str, Any]], None],
        may_follow: Callable[[int], bool],
        suspend: Callable[[], None],
        rest: Callable[[], None] | None = None,
    ) -> None:
        self.interactor = interactor
        self.is_case = is_case
        #: Told of each dispatch before its item's protocol runs.
        self.begin = begin
        #: Whether the attempt with this token was the last one, and passed.
        self.may_follow = may_follow
        #: Ends the slot's process until the next case.
        self.suspend = suspend
        #: Called again and again while there is nothing to do.
        self.rest = rest
        self.commands: queue.SimpleQueue[tuple[str, dict[str, Any]]] = queue.SimpleQueue()
        self._waiting: deque[tuple[str, dict[str, Any]]] = deque()

    def _receive(self, command: Any) -> None:
        # Runs in execnet's thread. The end of the channel arrives as the string below.
        self.commands.put(("shutdown", {}) if command == "closed" else command)

    def following(self, token: int) -> int | None:
        """The position of the case that may begin once the attempt with this token has passed, if it is known."""
        while not self.commands.empty():
            self._waiting.append(self.commands.get())
        if self._waiting:
            name, data = self._waiting[0]
            if name == RUN_COMMAND and data["after"] == token:
                return int(data["index"])
        return None

    def run(self, session: pytest.Session) -> None:
        """Serve the controller until it says that there is no more, or the session stops."""
        self.interactor.channel.setcallback(self._receive, endmarker="closed")
        while not (session.shouldfail or session.shouldstop):
            name, data = self._next()
            if name == "shutdown":
                return
            if name == RUN_COMMAND:
                if data["after"] and not self.may_follow(data["after"]):
                    continue  # the controller has put it back, for the same reason
                self.begin(data)
                self._protocol(session, data["index"], None)
            elif name == SUSPEND_COMMAND:
                self.suspend()
            elif name == "runtests":
                self._ordinary(session, data["indices"])

    def _next(self) -> tuple[str, dict[str, Any]]:
        if self._waiting:
            return self._waiting.popleft()
        while True:
            try:
                return self.commands.get(timeout=None if self.rest is None else _REST_SECONDS)
            except queue.Empty:
                assert self.rest is not None
                self.rest()

    def _ordinary(self, session: pytest.Session, indices: Sequence[int]) -> None:
        for place, index in enumerate(indices):
            if session.shouldfail or session.shouldstop:
                return
            following = indices[place + 1] if place + 1 < len(indices) else self._anchor(session)
            self._protocol(session, index, following)

    def _anchor(self, session: pytest.Session) -> int | None:
        """A case as the next item: it shares only the session with an ordinary test, so that
        fixtures of the session stay and all others are torn down."""
        return next((i for i, item in enumerate(session.items) if self.is_case(item)), None)

    def _protocol(self, session: pytest.Session, index: int, following: int | None) -> None:
        item = session.items[index]
        self.interactor.item_index = index
        start = time.perf_counter()
        session.config.hook.pytest_runtest_protocol(
            item=item, nextitem=None if following is None else session.items[following]
        )
        self.interactor.sendevent("runtest_protocol_complete", item_index=index, duration=time.perf_counter() - start)
