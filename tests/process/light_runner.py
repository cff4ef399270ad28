"""A runner for tests that imports no framework: its config is ``STAGE ACTION [ARGUMENTS]``.

It follows the contract of ``CaseRunner``, but what an action raises is let through on purpose.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from pytest_paddleapi.process.messages import CaseOptions, CaseResult, Measured, RunCase, Stage, Verdict

ORDER = [Stage.INPUTS, Stage.REFERENCE, Stage.PADDLE, Stage.COMPARISON]
_LIBC = ctypes.CDLL(None)


def say(where: str, *words: str) -> None:
    text = " ".join(words)
    if where == "c":
        _LIBC.printf(b"%s\n", text.encode())
    else:
        print(text, file=sys.stderr if where == "err" else sys.stdout)


def say_and_die() -> None:
    print("last of Python")
    _LIBC.printf(b"last of C\n")
    ctypes.string_at(0)


def print_for_ever() -> None:
    line = b"x" * 65535 + b"\n"
    os.write(1, b"the very first line\n")
    while True:
        os.write(1, line)


def print_much(mib: str) -> None:
    print("the very first line")
    for _ in range(int(mib)):
        os.write(1, b"y" * (1 << 20))
    print("the very last line")


def flood(mib: str, seconds: str) -> None:
    """Print much and then nothing, so that all of it may have been trimmed away before the end."""
    for _ in range(int(mib)):
        os.write(1, b"x" * (1 << 20))
    time.sleep(float(seconds))


def grandchild(how: str, note: str) -> None:
    """Leave a process behind: in the group, or (``setsid``) in a session of its own, or orphaned twice over."""
    script = "import os,sys,time;open(sys.argv[1],'w').write(str(os.getpid()));time.sleep(600)"
    command = [sys.executable, "-S", "-c", script, note]
    if how == "orphan":
        command = ["sh", "-c", 'setsid "$@" & sleep 0.2', "sh", *command]
        subprocess.run(command, check=True)
    else:
        subprocess.Popen(command, start_new_session=how == "setsid")
    while not os.path.exists(note) or not os.path.getsize(note):
        time.sleep(0.01)


def garbage() -> None:
    """What a C++ bug that writes into a foreign descriptor would do to the channel."""
    for name in os.listdir("/proc/self/fd"):
        if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
            os.write(int(name), b"\xff" * 64)
    time.sleep(600)


def hang_in_c() -> None:
    """Sleep in C with the GIL held, so that no other Python code of this process can run."""
    while True:
        ctypes.PyDLL(None).sleep(600)  # a signal ends it early


ACTIONS: dict[str, Callable[..., Any]] = {
    "pass": lambda: None,
    "say": say,
    "say_and_die": say_and_die,
    "print_for_ever": print_for_ever,
    "print_much": print_much,
    "flood": flood,
    "damage": lambda: os.environ.__setitem__("DAMAGED", "1"),
    "damaged": lambda: os.abort() if os.environ.get("DAMAGED") else None,
    "closed": lambda: (os.closerange(3, 4096), time.sleep(60)),
    "grandchild": grandchild,
    "garbage": garbage,
    "hang": hang_in_c,
    "segfault": lambda: ctypes.string_at(0),
    "sleep": lambda seconds: time.sleep(float(seconds)),
    "kill": lambda number: os.kill(os.getpid(), int(number)),
    "exit": lambda code: os._exit(int(code)),
    "sys_exit": lambda code: sys.exit(int(code)),
    "raise_bytes": lambda: (_ for _ in ()).throw(RuntimeError(b"caf\xe9".decode("utf-8", "surrogateescape"))),
    "raise_long": lambda: (_ for _ in ()).throw(RuntimeError("the beginning " + "x" * 20_000_000 + " the end")),
    "raise": lambda *words: (_ for _ in ()).throw(RuntimeError(" ".join(words))),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "limits": lambda: print(*_soft_limits()),
    "environment": lambda name: print(os.environ.get(name)),
    "stdin": lambda: print(repr(sys.stdin.read())),
    "leaders": lambda: print(os.getpid() == os.getsid(0) == os.getpgid(0)),
}


def _soft_limits() -> list[int]:
    import resource

    return [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_CORE, resource.RLIMIT_DATA)]


class LightRunner:
    """Enters every stage up to the config's, where it acts."""

    actions = ACTIONS

    def __init__(self, options: CaseOptions) -> None:
        self.options = options
        self.cases = 0

    def run(self, request: RunCase, enter: Callable[[Stage], None]) -> CaseResult:
        self.cases += 1
        wanted, action, *arguments = request.config.split()
        stages = ORDER if wanted == "starting" else ORDER[: ORDER.index(Stage(wanted)) + 1]
        if wanted == "starting":
            self.actions[action](*arguments)
        for stage in stages:
            enter(stage)
        if action == "fatal":
            return CaseResult(request.token, Verdict.PADDLE_CUDA, "CUDA error(700)", fatal=True)
        if action == "verdict":
            return CaseResult(request.token, Verdict(arguments[0]), " ".join(arguments[1:]))
        if wanted != "starting":
            self.actions[action](*arguments)
        text = f"cases {self.cases}, seed {self.options.seed}"
        return CaseResult(request.token, Verdict.PASS, text, Measured(compared_outputs=1))


class UnreadyRunner(LightRunner):
    """Its start-up fails as the device's name says: with a message, by a crash, or by never ending."""

    def __init__(self, options: CaseOptions) -> None:
        super().__init__(options)
        if options.device == "lost":
            raise RuntimeError("CUDA error(46), all CUDA-capable devices are busy or unavailable.")
        if options.device == "broken":
            raise RuntimeError("no such luck")
        if options.device == "crash":
            print("last words", file=sys.stderr)
            ctypes.string_at(0)
        if options.device == "hang":
            hang_in_c()


class HangingImport:
    """Its zygote, or its spare, never becomes ready."""

    @staticmethod
    def warm_up() -> None:
        hang_in_c()


class CrashingImport:
    """Its zygote, or its spare, dies while it loads."""

    @staticmethod
    def warm_up() -> None:
        print("last words of an import", file=sys.stderr)
        ctypes.string_at(0)


def note(word: str) -> None:
    """Add a line to the file that the environment names: the word, this process, and the time."""
    with open(os.environ["NOTES"], "a") as file:
        file.write(f"{word} {os.getpid()} {time.monotonic()}\n")


class NotingRunner(LightRunner):
    """Notes when it loads, and when it prepares its device; both take a while."""

    def __init__(self, options: CaseOptions) -> None:
        note("prepares")
        time.sleep(0.3)
        super().__init__(options)
        note("prepared")

    @staticmethod
    def warm_up() -> None:
        note("loads")
        time.sleep(0.2)
        note("loaded")


class FailingLater(LightRunner):
    """Its second load fails, and only that one."""

    @staticmethod
    def warm_up() -> None:
        note("loads")
        with open(os.environ["NOTES"]) as file:
            if len(file.readlines()) == 2:
                raise RuntimeError("no second time")


class HangingLater(LightRunner):
    """Its second load never ends."""

    @staticmethod
    def warm_up() -> None:
        note("loads")
        with open(os.environ["NOTES"]) as file:
            if len(file.readlines()) == 2:
                hang_in_c()
