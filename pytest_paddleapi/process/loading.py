"""Imports what a case process needs and says how it went. Runs in a zygote, a keeper or a spare."""

from __future__ import annotations

import faulthandler
import gc
import importlib
import importlib.util
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from typing import Any

from . import kernel
from .framing import Channel
from .messages import Load, Loaded, LoadFailed, ToLauncher

#: The end of a traceback says most.
_LONGEST_TRACEBACK = 4000


def show_stacks() -> None:
    """Before an import that may crash or hang: its stack goes to stderr, which the worker shows."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)


def receive_load(channel: Channel[ToLauncher]) -> Load:
    """The first message; the process exits if it is another."""
    request = channel.receive()
    if not isinstance(request, Load):
        raise SystemExit(f"the first message must be Load, not {type(request).__name__}")
    return request


def load(channel: Channel[ToLauncher], request: Load) -> Any:
    """Import the modules, then the runner, and answer with Loaded or LoadFailed; the process exits after the latter."""
    start = time.monotonic()
    # Nothing that an import makes is garbage, and looking for some in it takes a fifth of the time.
    gc.disable()
    module, _, name = request.runner.partition(":")
    versions = _import(channel, (*request.modules, module))
    runner = getattr(sys.modules[module], name)
    warm_up = getattr(runner, "warm_up", None)
    if warm_up is not None:
        try:
            warm_up()
        except Exception:  # noqa: BLE001 - as above
            channel.send(LoadFailed(request.runner, traceback.format_exc()[-_LONGEST_TRACEBACK:], False))
            raise SystemExit(1) from None
    _keep_what_is_there()
    channel.send(Loaded(os.getpid(), time.monotonic() - start, kernel.threads(), versions))
    return runner


def load_shared(channel: Channel[ToLauncher], request: Load) -> None:
    """Import what survives a fork; the process exits with LoadFailed where it cannot be."""
    gc.disable()
    _import(channel, request.modules[: request.shared])
    _keep_what_is_there()


def _import(channel: Channel[ToLauncher], modules: Sequence[str]) -> dict[str, str]:
    versions: dict[str, str] = {}
    for wanted in modules:
        try:
            imported = importlib.import_module(wanted)
        except Exception:  # noqa: BLE001 - any failure of an import is told to the worker, which shows it to the user
            missing = importlib.util.find_spec(wanted.partition(".")[0]) is None
            channel.send(LoadFailed(wanted, traceback.format_exc()[-_LONGEST_TRACEBACK:], missing))
            raise SystemExit(1) from None
        versions[wanted] = str(getattr(imported, "__version__", ""))
    return versions


def _keep_what_is_there() -> None:
    gc.enable()
    gc.collect()
    # What is imported now is never garbage: later collections need not look at it, and the pages stay
    # shared after a fork.
    gc.freeze()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the frameworks may have put a handler of theirs
