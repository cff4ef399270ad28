"""A process with a watchdog: ``watchdog_program.py SCENARIO FOLDER``; each ends, or hangs, in its own way.

The limits of those that hang are fractions of a second. What the watchdog asks of its owner goes into files of FOLDER.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from pytest_paddleapi.scheduling.watchdog import Watchdog, WatchdogTimes, ledger_command

TIMES = WatchdogTimes(limit=0.5, grace=0.7, part=0.5, memory=10.0)
#: Where the main thread must be in time, on a busy machine too.
PATIENT = WatchdogTimes(limit=0.5, grace=30.0)
SHORT = WatchdogTimes(limit=0.5, grace=0.5, part=0.5, memory=0.5)


class Owner:
    """What a session is to its watchdog."""

    def __init__(self, folder: Path, times: WatchdogTimes = TIMES, memory: list[str] | None = None) -> None:
        self.folder = folder
        self.stopped = ""
        # A scenario may replace them.
        self.describe: Callable[[], str] = lambda: "slot0 busy with paddle.abs"
        self.kill: Callable[[str], object] = self._note_kill
        self.stop: Callable[[str], object] = self._set_flag
        folder.joinpath("ledger").mkdir(parents=True)
        self.watchdog = Watchdog(
            times,
            describe=lambda: self.describe(),
            kill=lambda reason: self.kill(reason),
            stop=lambda reason: self.stop(reason),
            memory_command=memory or ledger_command(folder / "ledger", "cpu"),
        )

    def _note_kill(self, reason: str) -> None:
        with open(self.folder / "killed", "a") as file:
            file.write(f"{reason}\n")

    def _set_flag(self, reason: str) -> None:
        self.stopped = reason
        (self.folder / "stopped").touch()

    def begin(self) -> None:
        self.watchdog.start()
        self.watchdog.beat()


def sleep(owner: Owner) -> None:
    owner.begin()
    while True:
        time.sleep(60)


def sleep_with_short_limits(owner: Owner) -> None:
    sleep(Owner(owner.folder / "other", SHORT))


def lock(owner: Owner) -> None:
    owner.begin()
    held = threading.Lock()
    held.acquire()
    held.acquire()


def never_returns_from_c(owner: Owner) -> None:
    """And keeps the interpreter lock: ``PyDLL`` does not give it back for the call."""
    faulthandler.enable()
    Owner(owner.folder / "other", SHORT).begin()
    ctypes.PyDLL(None).sleep(600)


def comes_back(owner: Owner) -> None:
    owner = Owner(owner.folder / "other", PATIENT)
    owner.begin()
    while not owner.stopped:
        time.sleep(0.01)
    owner.watchdog.finished()
    sys.exit(1)


def comes_back_late(owner: Owner) -> None:
    """After the alarm, within the grace; and is not ended when that is over."""
    owner = Owner(owner.folder / "other", WatchdogTimes(limit=0.5, grace=2.0))
    owner.begin()
    while not (owner.folder / "killed").exists():
        time.sleep(0.01)
    owner.watchdog.beat()  # too late: the run ends all the same
    time.sleep(0.3)
    owner.watchdog.finished()
    time.sleep(2.5)
    sys.exit(1)


def goes_on(owner: Owner) -> None:
    """Beats come often enough, for longer than the limit."""
    owner = Owner(owner.folder / "other", WatchdogTimes(limit=2.0))
    owner.begin()
    for _ in range(60):
        time.sleep(0.05)
        owner.watchdog.beat()
    owner.watchdog.finished()


def has_nothing_to_do(owner: Owner) -> None:
    owner.begin()
    owner.watchdog.beat(active=False)
    time.sleep(1.5)
    owner.watchdog.finished()


def has_not_begun(owner: Owner) -> None:
    owner.watchdog.start()
    time.sleep(1.5)
    owner.watchdog.finished()


def is_switched_off(owner: Owner) -> None:
    off = Owner(owner.folder / "off", WatchdogTimes(None))
    off.begin()
    assert threading.active_count() == 1
    time.sleep(1.0)
    off.watchdog.finished()


def callbacks_hang(owner: Owner) -> None:
    def hang(*_: object) -> str:
        time.sleep(600)
        return ""

    owner.describe = owner.kill = owner.stop = hang
    sleep(owner)


def callbacks_fail(owner: Owner) -> None:
    def fail(*_: object) -> str:
        raise RuntimeError("dictionary changed size during iteration")

    owner.describe = owner.kill = owner.stop = fail
    sleep(owner)


def memory_hangs(owner: Owner) -> None:
    command = ["sh", "-c", f"echo $$ > '{owner.folder / 'pid'}'; exec sleep 100"]
    sleep(Owner(owner.folder / "other", SHORT, command))


def in_pytest(owner: Owner) -> None:
    """A test hangs while pytest captures; the loop's owner sets it free, and pytest ends by itself."""
    owner = Owner(owner.folder / "other", PATIENT)
    test = owner.folder / "test_hangs.py"
    test.write_text("def test_hangs(pytestconfig):\n    print('hidden')\n    pytestconfig.hang()\n")
    free = threading.Event()

    class Plugin:
        def pytest_configure(self, config: pytest.Config) -> None:
            config.hang = free.wait  # type: ignore[attr-defined]

        def pytest_runtestloop(self, session: pytest.Session) -> None:
            owner.begin()

        def pytest_runtest_teardown(self, item: pytest.Item) -> None:
            owner.watchdog.finished()
            raise item.session.Failed(owner.stopped)

    owner.kill = lambda reason: free.set()
    sys.exit(pytest.main([str(test), "-p", "no:cacheprovider", "-p", "no:paddleapi", "-q"], plugins=[Plugin()]))


def hangs_in_pytest(owner: Owner) -> None:
    """The same, and nothing sets it free."""
    test = owner.folder / "test_hangs.py"
    test.write_text("import time\ndef test_hangs():\n    print('hidden')\n    time.sleep(600)\n")

    class Plugin:
        def pytest_runtestloop(self, session: pytest.Session) -> None:
            owner.begin()

    sys.exit(pytest.main([str(test), "-p", "no:cacheprovider", "-p", "no:paddleapi", "-q"], plugins=[Plugin()]))


def leaves_nothing(owner: Owner) -> None:
    """Prints the process of last resort while it watches, and the descriptors that are open before and after."""
    before = len(os.listdir("/proc/self/fd"))
    owner.begin()
    time.sleep(0.1)
    children = [child.pid for child in psutil.Process().children()]
    owner.watchdog.finished()
    owner.watchdog.finished()
    print(len(os.listdir("/proc/self/fd")) - before, *children)


def is_watched_for_long(owner: Owner) -> None:
    """Prints the id of the process of last resort, and goes on for a while."""
    times = WatchdogTimes(limit=30.0)
    owner = Owner(owner.folder / "other", times)
    owner.begin()
    print(psutil.Process().children()[0].pid, flush=True)
    time.sleep(2.0)
    owner.watchdog.finished()


if __name__ == "__main__":
    globals()[sys.argv[1]](Owner(Path(sys.argv[2])))
