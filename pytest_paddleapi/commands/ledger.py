"""``ledger``: who holds what on this host; ``ledger pause`` and ``ledger resume``.

The ledger's mutex is held for one short look and never while a device is read, so that neither a driver that hangs
nor a kill of this command stops anybody. The memory is therefore a few milliseconds younger than the leases.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ..devices.host import HostDevice
from ..gpu_admission import (
    DEVICE_RULES,
    AdmissionRules,
    LedgerError,
    LedgerFolderError,
    LedgerSnapshot,
    SessionState,
    default_folder,
    pause_session,
    read_ledger,
    resume_session,
)
from .host_memory import HostMemory
from .ledger_text import render
from .ledger_view import LedgerView, make_view

__all__ = ["add_arguments", "choose_sessions", "run"]

#: Often enough to follow cases that take seconds, too seldom to cost anything (a look takes milliseconds).
WATCH_SECONDS = 2.0

#: One look in all; longer than a slow driver takes to answer for the first time.
LIMIT_SECONDS = 30.0

_EVERY = "all"
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``ledger``, ``ledger pause`` and ``ledger resume``."""
    _add_folder(parser, default=None)
    parser.add_argument(
        "--watch",
        nargs="?",
        type=_seconds,
        const=WATCH_SECONDS,
        metavar="SECONDS",
        help=f"show it again and again, every SECONDS ({WATCH_SECONDS:g}), until interrupted",
    )
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="text (default), or one JSON object a line"
    )
    parser.add_argument(
        "--device", default="auto", metavar="NAME", help="the kind of device whose memory is read (default: auto)"
    )
    parser.add_argument(
        "--limit",
        type=_seconds,
        default=LIMIT_SECONDS,
        metavar="SECONDS",
        help=f"what one look may take in all, whatever hangs (default: {LIMIT_SECONDS:g})",
    )
    actions = parser.add_subparsers(dest="action", metavar="pause|resume")
    for name, text in (
        ("pause", "ask a session to admit nothing, let its cases end and give its devices back"),
        ("resume", "let a paused session go on"),
    ):
        action = actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        action.add_argument("session", help=f"its name or a unique beginning of it, or '{_EVERY}'")
        # Suppressed, or its default would replace what stands before the action.
        _add_folder(action, default=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Do what the arguments say.

    Raises:
        LedgerError: the ledger cannot be read, or there is no such session.
        CommandUsageError: no kind of device has that name.
    """
    folder = None if arguments.ledger is None else Path(arguments.ledger).expanduser()
    _check_given(folder)
    if arguments.action is not None:
        return _set_paused(arguments.session, folder, pause=arguments.action == "pause")
    memory = HostMemory(arguments.device)
    memory.check()
    if arguments.watch is None:
        _show(_look(folder, memory, arguments.limit), arguments.format)
        return 0
    return _watch(folder, memory, arguments)


def choose_sessions(wanted: str, snapshot: LedgerSnapshot) -> list[SessionState]:
    """The sessions that ``wanted`` means: every one, or the one whose name it is or begins.

    The part of a name that all have in common can be left out.

    Raises:
        LedgerError: it means none, or more than one.
    """
    sessions = list(snapshot.sessions)
    if wanted == _EVERY:
        return sessions
    exact = [session for session in sessions if session.name == wanted]
    names = ", ".join(session.name for session in sessions) or "none"
    begun = [session for session in sessions if wanted and _begins(session.name, wanted)]
    if not exact and not begun:
        raise LedgerError(snapshot.folder, f"no live session is called {wanted!r}; there are: {names}")
    if not exact and len(begun) > 1:
        meant = ", ".join(session.name for session in begun)
        raise LedgerError(
            snapshot.folder, f"{wanted!r} could mean {len(begun)} sessions: {meant}; give more of the name"
        )
    return exact or begun


def _begins(name: str, wanted: str) -> bool:
    return name.startswith(wanted) or name.partition("-")[2].startswith(wanted)


def _set_paused(wanted: str, folder: Path | None, *, pause: bool) -> int:
    snapshot, notes = _read(folder, LIMIT_SECONDS)
    _warn(notes)
    chosen = choose_sessions(wanted, snapshot)
    if not chosen:
        print(f"no session is alive in {snapshot.folder}: nothing to {'pause' if pause else 'resume'}")
    for session in chosen:
        try:
            (pause_session if pause else resume_session)(session.name, folder)
        except LedgerError:
            if wanted != _EVERY or _is_alive(session.name, folder):
                raise
            print(f"{session.name} has ended meanwhile")
        else:
            print(f"{session.name}: {_said(session.paused, pause)}")
    return 0


def _is_alive(name: str, folder: Path | None) -> bool:
    return any(session.name == name for session in read_ledger(folder).sessions)


def _said(was_paused: bool, pause: bool) -> str:
    if was_paused == pause:
        return "was paused already" if pause else "was not paused"
    if pause:
        return "is asked to pause: it admits nothing more, lets its cases end, and gives its devices back"
    return "may go on"


def _watch(folder: Path | None, memory: HostMemory, arguments: argparse.Namespace) -> int:
    clear = arguments.format == "text" and sys.stdout.isatty()
    first = True
    try:
        while True:
            view = _look(folder, memory, arguments.limit)
            if clear:
                sys.stdout.write(_CLEAR)
            elif not first and arguments.format == "text":
                sys.stdout.write("\n")
            _show(view, arguments.format)
            sys.stdout.flush()
            first = False
            time.sleep(arguments.watch)
    except KeyboardInterrupt:
        return 0  # how one stops watching


def _look(folder: Path | None, memory: HostMemory, seconds: float) -> LedgerView:
    deadline = time.monotonic() + seconds
    snapshot, notes = _read(folder, seconds)
    leases = [lease for session in snapshot.sessions for lease in session.leases]
    devices = memory.read(leases, deadline - time.monotonic())
    return make_view(snapshot, memory.kind, devices, [*notes, *memory.trouble], time.time(), _rules)


def _rules(device: str) -> AdmissionRules:
    return AdmissionRules() if device == HostDevice().uuid else DEVICE_RULES


def _read(folder: Path | None, seconds: float) -> tuple[LedgerSnapshot, list[str]]:
    """The ledger, and what it warned of: a damaged file, or a folder that was cleaned away."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        snapshot = read_ledger(folder, wait=seconds)
    return snapshot, [str(warning.message) for warning in caught]


def _check_given(folder: Path | None) -> None:
    """Reading makes the folder if it is not there, which for a mistyped name would hide the mistake."""
    if folder is not None and not folder.exists():
        why = f"does not exist, so no session uses it; this user's own ledger is {default_folder()}"
        raise LedgerFolderError(str(folder), why)


def _show(view: LedgerView, form: str) -> None:
    if form == "json":
        print(msgspec.json.encode(view).decode("utf-8"))
        return
    _warn(view.notes)
    sys.stdout.write(render(view))


def _warn(notes: Sequence[str]) -> None:
    for note in notes:
        print(f"warning: {note}", file=sys.stderr)


def _add_folder(parser: argparse.ArgumentParser, default: object) -> None:
    parser.add_argument(
        "--ledger",
        default=default,
        metavar="DIR",
        help="the ledger's folder, as given to pytest's --paddleapi-ledger (default: this user's own)",
    )


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return value
