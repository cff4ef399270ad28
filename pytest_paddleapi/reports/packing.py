"""The data of a report as its page reads them: columns, each text once, compressed."""

from __future__ import annotations

import base64
import json
import math
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .collecting import Collected
from .dtypes import leading_dtype
from .texts import cut, widest
from .tolerance import excess, number

__all__ = ["FORMAT", "pack", "page_data"]

#: Of the object that :func:`page_data` makes; the page's script refuses any other.
FORMAT = 1
#: Digits that are kept of a measurement: more would be noise, and noise does not compress.
_DIGITS = 4
#: Of zlib; the highest makes files 3 % smaller in four times the time.
_LEVEL = 6

Rows = list[dict[str, Any]]

#: Columns of a case that repeat: kept as an index into a list of the different ones.
_CODED = ("api", "verdict", "outcome", "mode", "device", "slot", "file", "tolerance")
_COUNTS = (
    "line",
    "attempts",
    "session",
    "lease_bytes",
    "estimated_bytes",
    "peak_bytes",
    "compared_outputs",
    "compared_gradients",
    "compared_elements",
)
_CODED_OF_TRY = ("device", "slot", "outcome")


class Coded:
    """A column as indices into its different values, in the order in which they first come; -1 for None."""

    def __init__(self, values: Iterable[str | None]) -> None:
        known: dict[str, int] = {}
        self.index = [-1 if value is None else known.setdefault(value, len(known)) for value in values]
        self.values = list(known)

    def as_data(self) -> dict[str, Any]:
        """As it stands in the page."""
        return {"values": self.values, "index": self.index}


def page_data(collected: Collected, *, written: float | None = None) -> dict[str, Any]:
    """The object that the page shows; ``written`` is when, in seconds since 1970 (now).

    Columns of cases are lists of one length: numbers (None where there is none), or :class:`Coded`. ``extra`` has the
    other numeric properties, such as measured times, by name, as a list of case numbers and one of values.
    """
    cases = collected.cases
    return {
        "format": FORMAT,
        "written": time.time() if written is None else written,
        "folder": str(collected.folder),
        "sessions": [_session(session) for session in collected.sessions],
        "cases": _case_columns(cases),
        "extra": _numeric_extras(cases),
        "notes": _coded(cases, lambda row: _note(row)),
        "tries": _try_columns(collected.tries),
        "comparison": _comparison(collected),
    }


def pack(data: Mapping[str, Any]) -> str:
    """Base64 of a zlib stream of ASCII JSON: whatever a text holds, nothing of it can become markup."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode("ascii"), _LEVEL)).decode("ascii")


def _case_columns(cases: Rows) -> dict[str, Any]:
    most = widest({row["said"] for row in cases})
    columns: dict[str, Any] = {name: _named(cases, name) for name in _CODED}
    columns |= {name: [row.get(name) for row in cases] for name in _COUNTS}
    columns |= {
        "config": [row["config"] for row in cases],
        "prefix": _named(cases, "command"),
        "dtype": _coded(cases, lambda row: leading_dtype(row["config"])),
        "text": _coded(cases, lambda row: cut(row["said"], most) or None),
        "takes_config": [int(row["takes_config"]) for row in cases],
        "seconds": [rounded(row.get("seconds")) for row in cases],
        "max_abs_diff": [_difference(row.get("max_abs_diff")) for row in cases],
        "max_rel_diff": [_difference(row.get("max_rel_diff")) for row in cases],
        "excess": [
            _difference(excess(row.get("max_abs_diff"), row.get("max_rel_diff"), row.get("tolerance"))) for row in cases
        ],
    }
    return columns


def _try_columns(tries: Rows) -> dict[str, Any]:
    """Times in milliseconds since the first attempt of all."""
    starts = [_started(row) for row in tries]
    origin = min(starts, default=0.0)
    columns: dict[str, Any] = {name: _named(tries, name) for name in _CODED_OF_TRY}
    columns |= {
        name: [row.get(name) for row in tries] for name in ("session", "lease_bytes", "estimated_bytes", "peak_bytes")
    }
    columns |= {
        "origin": origin,
        "start": [round((start - origin) * 1000) for start in starts],
        "end": [round((row["ended"] - origin) * 1000) for row in tries],
        # A file of the first version has no start: what is drawn then is the case's own time.
        "exact": [int(row.get("started") is not None) for row in tries],
    }
    return columns


def _started(row: Mapping[str, Any]) -> float:
    started = row.get("started")
    return float(started if started is not None else row["ended"] - (row.get("seconds") or 0.0))


def _comparison(collected: Collected) -> dict[str, Any] | None:
    found = collected.comparison
    if found is None:
        return None
    return {
        "folder": str(collected.earlier),
        "sessions": [_session(session) for session in collected.earlier_sessions],
        "change": Coded(found.changes).as_data(),
        "verdict": Coded(None if row is None else row["verdict"] for row in found.before).as_data(),
        "seconds": [None if row is None else rounded(row.get("seconds")) for row in found.before],
        "extra": _numeric_extras([{} if row is None else row for row in found.before]),
        "gone": dict(found.gone),
    }


def _session(session: Mapping[str, Any]) -> dict[str, Any]:
    left_out = ("conditions", "options_hash", "devices", "options")
    kept = {name: value for name, value in session.items() if name not in left_out}
    return {**kept, "devices": json.loads(session["devices"]), "options": json.loads(session["options"])}


def _numeric_extras(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, tuple[list[int], list[float]]] = {}
    for place, row in enumerate(rows):
        for name, value in row.get("extra", {}).items():
            if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
                places, values = found.setdefault(name, ([], []))
                places.append(place)
                values.append(rounded(value) or 0.0)
    return {name: {"cases": places, "values": values} for name, (places, values) in sorted(found.items())}


def _note(row: Mapping[str, Any]) -> str | None:
    """Properties that are text, such as ``notes``, as lines."""
    texts = {name: value for name, value in row.get("extra", {}).items() if isinstance(value, str)}
    return "\n".join(value if name == "notes" else f"{name}: {value}" for name, value in texts.items()) or None


def _coded(rows: Rows, value: Callable[[dict[str, Any]], str | None]) -> dict[str, Any]:
    return Coded(map(value, rows)).as_data()


def _named(rows: Rows, name: str) -> dict[str, Any]:
    return Coded(None if (value := row.get(name)) is None else str(value) for row in rows).as_data()


def _difference(value: Any) -> float | str | None:
    """A number that JSON can hold; ``nan`` and ``inf`` as text."""
    found = number(value)
    if found is None or math.isfinite(found):
        return rounded(found)
    return "nan" if math.isnan(found) else "inf"


def rounded(value: float | None) -> float | None:
    """With so many digits as say something."""
    return None if value is None else float(f"{value:.{_DIGITS}g}")
