"""What ``results`` prints, a writer a format. Each takes the attempts, one dict each, and the sessions they are of."""

from __future__ import annotations

import csv
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..config.files import printable
from ..results.rows import MEASURED

__all__ = ["WRITERS"]

Rows = Iterable[Mapping[str, Any]]

_CSV_COLUMNS = (
    "config",
    "verdict",
    "attempts",
    "api",
    "mode",
    "device_kind",
    "device",
    "session",
    "outcome",
    "ended",
    "file",
    "line",
    *MEASURED,
    "text",
)
#: As many characters of a failure as fit beside the config.
_WIDTH = 120


def _text(rows: Rows, sessions: Rows) -> None:
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row["verdict"]] += 1
        tries = f"  ({row['attempts']} attempts)" if row["attempts"] > 1 else ""
        print(f"{row['verdict']:16}{row.get('seconds') or 0:9.3f} s  {printable(row['config'])}{tries}")
        if said := _why(row):
            print(f"{'':16}{said}")
    print(
        f"{sum(counts.values())} shown: {', '.join(f'{n} {verdict}' for verdict, n in counts.most_common()) or 'none'}"
    )
    for session in sessions:
        print(_session(session))


def _jsonl(rows: Rows, sessions: Rows) -> None:
    for row in rows:
        print(json.dumps(row))


def _csv(rows: Rows, sessions: Rows) -> None:
    writer = csv.DictWriter(sys.stdout, _CSV_COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def _markdown(rows: Rows, sessions: Rows) -> None:
    print("| verdict | attempts | seconds | config | text |")
    print("| --- | ---: | ---: | --- | --- |")
    for row in rows:
        cells = (
            row["verdict"],
            row["attempts"],
            f"{row.get('seconds') or 0:.3f}",
            _code(row["config"]),
            _cell(_why(row)),
        )
        print(f"| {' | '.join(map(str, cells))} |")


WRITERS: dict[str, Callable[[Rows, Rows], None]] = {"text": _text, "jsonl": _jsonl, "csv": _csv, "markdown": _markdown}


def _why(row: Mapping[str, Any]) -> str:
    """The first line of what is said about an attempt, without the verdict."""
    first = printable(row.get("text", "").strip().split("\n", 1)[0])
    first = first.removeprefix("Skipped: ").removeprefix(f"{row['verdict']}: ")
    return first if len(first) <= _WIDTH else f"{first[: _WIDTH - 1]}…"


def _session(session: Mapping[str, Any]) -> str:
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(session["started"]))
    status = session["exit_status"]
    end = "runs, or was killed" if session["ended"] is None else f"exit status {status}"
    devices = ", ".join(json.loads(session["devices"])) or session["device_kind"]
    return (
        f"session {session['id']}: {started}, {session['mode']} on {devices} ({session['device_kind']}) of "
        f"{session['host']}, paddle {session['paddle']}, torch {session['torch']}, {end}"
    )


def _code(text: str) -> str:
    """In backquotes, within a cell: a bar would end the cell even there."""
    shown = printable(text).replace("|", "\\|")
    return f"`` {shown} ``" if "`" in shown else f"`{shown}`"


def _cell(text: str) -> str:
    for special in "\\|`*_<[":
        text = text.replace(special, f"\\{special}")
    return text
