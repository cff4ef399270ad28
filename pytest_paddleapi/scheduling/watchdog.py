"""A thread that ends a run in which nothing moves: no dispatch and no verdict for too long.

It calls nothing that can hang. What might (telling the slots' states, writing to a stderr that nobody reads, asking
the driver for memory) runs in daemon threads that it waits for with a limit and then leaves behind, the memory in a
child process besides. What a thread cannot see to, because no thread runs while a C call keeps Python's global
interpreter lock, a tiny process does: :mod:`~pytest_paddleapi.scheduling.last_resort`.

Everything is written to a copy of file descriptor 2 as it was when the watchdog was made: pytest replaces
``sys.stderr``, and the descriptor too, while tests run.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import last_resort
from .stall import Beat, StallClock, Step, stall_limit

__all__ = ["EXIT_CODE", "Watchdog", "WatchdogTimes", "ledger_command", "stall_limit"]

#: Of a process whose main thread did not come back.
EXIT_CODE = 2

_NAME = "paddleapi watchdog"


@dataclass(frozen=True, slots=True)
class WatchdogTimes:
    """Seconds. ``limit`` as of :func:`~pytest_paddleapi.scheduling.stall.stall_limit`; None switches it all off."""

    limit: float | None
    #: From the alarm to the end of the process, for a main thread that does not come back.
    grace: float = 60.0
    #: For each part of the report, all of which are ready at once unless something hangs.
    part: float = 5.0
    #: For the child that reads the devices' memory.
    memory: float = 10.0


def ledger_command(folder: Path | None, device: str = "auto", seconds: float = WatchdogTimes(None).memory) -> list[str]:
    """What to run for the devices' memory: who holds what on this host, within ``seconds`` less a start-up.

    Args:
        folder: the ledger's, None for the user's own.
        device: the kind of device, as ``--paddleapi-device`` has it.
        seconds: the limit after which the command is killed.
    """
    # Not the current folder first on the path: people work in checkouts that hold a folder ``paddle``.
    safe_path = ["-P"] if sys.version_info >= (3, 11) else []
    where = [] if folder is None else [f"--ledger={folder}"]
    limits = [f"--device={device}", f"--limit={seconds * 0.7:g}"]
    return [sys.executable, *safe_path, "-m", "pytest_paddleapi", "ledger", "--format=text", *limits, *where]


class Watchdog:
    """Watches the beats of one run. Made where file descriptor 2 is still the real one, in the main thread.

    Args:
        times: its limits.
        describe: the state of every slot, as lines for people; called once, in another thread.
        kill: kills the slots; called once with the reason, in another thread.
        stop: asks the main thread to end the run with exit code 1; called once with the reason. It only sets a flag.
        memory_command: prints the devices' memory, see :func:`ledger_command`.
    """

    def __init__(
        self,
        times: WatchdogTimes,
        *,
        describe: Callable[[], str],
        kill: Callable[[str], None],
        stop: Callable[[str], None],
        memory_command: Sequence[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._times = times
        self._describe = describe
        self._kill = kill
        self._stop = stop
        self._memory_command = list(memory_command)
        self._clock = clock
        self._beat: Beat | None = None
        self._finished = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to watch; does nothing where the limit is off. The first :meth:`beat` starts the clock.

        Raises:
            OSError: the process of last resort cannot be started.
        """
        limit = self._times.limit
        if limit is None or self._thread is not None:
            return
        report = _Report(os.dup(2), self._describe, self._memory_command, self._times)
        # Behind this thread's own limits, an alarm whose every part hangs included.
        guard = _Guard(limit + self._times.grace + report.longest, report.fd)
        stall = StallClock(limit, self._times.grace, self._clock())
        self._thread = threading.Thread(target=self._watch, args=(stall, report, guard), name=_NAME, daemon=True)
        self._thread.start()

    def beat(self, active: bool = True) -> None:
        """Something moved: a dispatch or a verdict. Costs a microsecond.

        ``active``: something runs or waits now. False stops the clock until the next beat: nothing is left to do, or
        nothing is meant to move (a session that is paused, a test of somebody else's that runs in this process).
        """
        self._beat = Beat(self._clock(), active)

    def finished(self) -> None:
        """The main thread has come back from the run, alarm or not. Ends the thread; can be called again."""
        self._finished.set()
        if self._thread is not None:
            self._thread.join(self._times.part)  # at once, unless it is in the middle of an alarm

    def _watch(self, stall: StallClock, report: _Report, guard: _Guard) -> None:
        with guard:
            while not self._finished.wait(stall.wait()):
                guard.feed()
                step = stall.look(self._clock(), self._beat)
                if step is Step.ALARM:
                    self._alarm(report, stall.limit)
                    stall.answered(self._clock())
                elif step is Step.EXIT:
                    report.say(f"the main thread did not come back within {stall.grace:g} s: exit code {EXIT_CODE}")
                    os._exit(EXIT_CODE)
        report.close()

    def _alarm(self, report: _Report, limit: float) -> None:
        reason = f"no case was started and none ended for {limit:g} s, though some were running or waiting"
        report.write(reason)
        if self._finished.is_set():
            return
        # First the flag: a main thread that the end of a slot sets free must not start the next case.
        report.attempt("ask the run to stop", lambda: self._stop(reason))
        report.say("the slots are killed, and the run ends with exit code 1")
        # Not waited for: it may hang, and the clock goes on.
        report.begin("kill the slots", lambda: self._kill(reason))


class _Report:
    """Writes to the real stderr, every part in a thread of its own that is left behind if it hangs."""

    def __init__(
        self, fd: int, describe: Callable[[], str], memory_command: Sequence[str], times: WatchdogTimes
    ) -> None:
        self.fd = fd
        self._describe = describe
        self._memory_command = memory_command
        self._times = times
        # Made now: in a process in trouble it might not be to be had.
        self._stacks = tempfile.TemporaryFile(prefix="paddleapi-")  # noqa: SIM115  closed by close()
        self._threads: list[threading.Thread] = []

    @property
    def longest(self) -> float:
        """What an alarm can take, in seconds, if everything hangs."""
        return 6 * self._times.part + self._times.memory

    def write(self, reason: str) -> None:
        """The whole report. Takes at most the limits of its parts."""
        self.say(reason)
        self.attempt("tell the slots' states", lambda: self._write(f"slots:\n{self._describe()}\n"))
        self.attempt("dump the stacks", self._write_stacks)
        self.attempt("read the devices' memory", self._write_memory, self._times.memory + self._times.part)

    def say(self, text: str) -> None:
        """One line that says who speaks."""
        self.attempt("write", lambda: self._write(f"\npytest-paddleapi watchdog: {text}\n"))

    def attempt(self, what: str, action: Callable[[], None], seconds: float | None = None) -> None:
        """Do it, and wait for its end for ``seconds`` (a part's limit)."""
        self.begin(what, action).join(self._times.part if seconds is None else seconds)

    def begin(self, what: str, action: Callable[[], None]) -> threading.Thread:
        """Do it in a thread of its own; where it fails, that is written."""

        def run() -> None:
            try:
                action()
            except Exception as exc:  # noqa: BLE001  the owner's callbacks may raise anything; the rest must go on
                self._write(f"(could not {what}: {type(exc).__name__}: {exc})\n")

        thread = threading.Thread(target=run, name=f"{_NAME}: {what}", daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def close(self) -> None:
        """Close the files, unless a thread that was left behind may still use them."""
        if not any(thread.is_alive() for thread in self._threads):
            os.close(self.fd)
            self._stacks.close()

    def _write(self, text: str) -> None:
        view = memoryview(text.encode("utf-8", "backslashreplace"))
        with contextlib.suppress(OSError):  # stderr is closed: there is nobody to tell
            while view:
                view = view[os.write(self.fd, view) :]

    def _write_stacks(self) -> None:
        # Through a file: faulthandler keeps the interpreter lock while it writes, and a full pipe would stop us all.
        faulthandler.dump_traceback(self._stacks, all_threads=True)
        self._stacks.seek(0)
        self._write(f"Python's stacks:\n{self._stacks.read().decode('utf-8', 'replace')}\n")

    def _write_memory(self) -> None:
        self._write("devices:\n")
        # Straight to the real stderr: no pipe that something which outlives the child could keep open.
        process = subprocess.Popen(
            self._memory_command,
            stdin=subprocess.DEVNULL,
            stdout=self.fd,
            stderr=self.fd,
            start_new_session=True,
        )
        try:
            process.wait(self._times.memory)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            self._write(f"(the devices' memory was not told within {self._times.memory:g} s)\n")
            # It may hang in the driver, where not even SIGKILL ends it; if so, this thread stays behind with it.
            process.wait()


class _Guard:
    """The process of last resort, and the pipe through which it hears that threads still run here."""

    def __init__(self, seconds: float, fd: int) -> None:
        read, self._pipe = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._pipe, False)
        command = [sys.executable, "-I", "-S", last_resort.__file__, str(os.getpid()), str(seconds)]
        try:
            self._process = subprocess.Popen(
                command, stdin=read, stdout=subprocess.DEVNULL, stderr=fd, start_new_session=True
            )
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(read)

    def feed(self) -> None:
        """Say that this thread runs."""
        with contextlib.suppress(OSError):  # it is gone (somebody killed it), or full because it is stopped
            os.write(self._pipe, b".")

    def __enter__(self) -> _Guard:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._pipe)
        # It ends with its input; a stopped one is not waited for.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2.0)
