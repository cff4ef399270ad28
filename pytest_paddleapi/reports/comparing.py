"""What became of each case since an earlier folder of results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["BAD", "Comparison", "compare"]

#: pytest's outcomes that make a run fail.
BAD = frozenset({"failed", "error"})

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Comparison:
    """``changes`` and ``before`` have a word and the earlier row (or None) of each present case, in their order.

    The words: ``new`` (fails, and did not), ``fixed`` (passes, and failed), ``changed`` (another verdict otherwise),
    ``same``, ``added`` (was not there). ``gone`` counts by verdict the earlier cases that are not here.
    """

    changes: tuple[str, ...]
    before: tuple[Row | None, ...]
    gone: Mapping[str, int]


def compare(now: list[dict[str, Any]], earlier: list[dict[str, Any]]) -> Comparison:
    """Match the last attempts of two folders by canonical config and mode."""
    left: dict[tuple[str, str], Row] = {(row["canonical"], row["mode"]): row for row in earlier}
    before: list[Row | None] = [left.pop((row["canonical"], row["mode"]), None) for row in now]
    changes = tuple(_change(row, old) for row, old in zip(now, before))
    return Comparison(changes, tuple(before), Counter(row["verdict"] for row in left.values()))


def _change(now: Row, before: Row | None) -> str:
    if before is None:
        return "added"
    was_bad, is_bad = before["outcome"] in BAD, now["outcome"] in BAD
    if is_bad and not was_bad:
        return "new"
    if was_bad and now["outcome"] in ("passed", "xpassed"):
        return "fixed"
    return "same" if now["verdict"] == before["verdict"] else "changed"
