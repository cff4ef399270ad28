"""What a case said, cut to what a report can carry, and the command that runs it again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["MOST_CHARACTERS", "MOST_IN_ALL", "command_of", "cut", "said", "widest"]

#: Of one failure: its text as most people read it. The whole stands in the results file.
MOST_CHARACTERS = 8_000
#: Of all texts together, each different one counted once. Compressed ten to twenty times they are a few MB, and a
#: browser reads them in a fraction of a second; a run in which everything fails must not make a file nobody can open.
MOST_IN_ALL = 24_000_000
#: Of each captured stream, its end.
_MOST_CAPTURED = 2_000

#: The end of a failure's text, which repeats what the report has of each case anyway.
_TAIL = re.compile(r"\n*^config: .*\nfrom: .*\n(?:reproduce: (?P<command>.*))?\s*\Z", re.MULTILINE)
_CONFIG_OPTION = re.compile(r"\s'?--paddleapi-config=")


def said(row: Mapping[str, Any], *, captured: bool) -> str:
    """What an attempt said, without the lines that name config and command; with ``captured`` also the end of what
    it printed."""
    text = _TAIL.sub("", str(row.get("text", ""))).removeprefix("Skipped: ").strip("\n")
    parts = [text] if text else []
    for name in ("stdout", "stderr"):
        if captured and (printed := str(row.get(name, "")).strip("\n")):
            kept = printed if len(printed) <= _MOST_CAPTURED else f"...{printed[-_MOST_CAPTURED:]}"
            parts.append(f"--- captured {name} ---\n{kept}")
    return "\n\n".join(parts)


def command_of(row: Mapping[str, Any], session: Mapping[str, Any]) -> tuple[str, bool]:
    """The command that runs a case again, and whether its config is still to be put behind it.

    A line that is no config is run by its node id, which its own text has; every other case as its session did, or,
    where that was not noted, as its text says.
    """
    found = _TAIL.search(str(row.get("text", "")))
    typed = (found.group("command") or "").strip() if found is not None else ""
    option = _CONFIG_OPTION.search(typed)
    if typed and option is None:
        return typed, False
    noted = session.get("command")
    if noted:
        return str(noted), True
    return (typed[: option.start()] if option is not None else f"pytest --{session['mode']}"), True


def widest(texts: Iterable[str], most_in_all: int = MOST_IN_ALL) -> int:
    """How many characters each text may keep, at most :data:`MOST_CHARACTERS`, so that all keep ``most_in_all``."""
    lengths = Counter(min(len(text), MOST_CHARACTERS) for text in texts)
    left, many = most_in_all, sum(lengths.values())
    for length, count in sorted(lengths.items()):
        if length * many > left:
            return left // many
        left -= length * count
        many -= count
    return MOST_CHARACTERS


def cut(text: str, most: int) -> str:
    """At most about ``most`` characters, two thirds of them from the beginning."""
    if len(text) <= most:
        return text
    head = most * 2 // 3
    tail = most - head
    end = text[-tail:] if tail else ""
    return f"{text[:head]}\n... {len(text) - most} characters left out; the results file has them ...\n{end}"
