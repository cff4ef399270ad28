"""Errors about config text and config files."""

from __future__ import annotations

import unicodedata

from ..errors import PaddleApiError

_WINDOW = 60


class ConfigSyntaxError(PaddleApiError):
    """The line is not in the config language; ``column`` counts characters from 0.

    The message quotes the part of the line around the fault and points at it.
    """

    def __init__(self, text: str, column: int, reason: str) -> None:
        self.text = text
        self.column = max(0, min(column, len(text)))
        self.reason = reason
        super().__init__(text, column, reason)

    def __str__(self) -> str:
        start = max(0, self.column - _WINDOW)
        end = min(len(self.text), self.column + _WINDOW)
        head = "..." if start else ""
        tail = "..." if end < len(self.text) else ""
        quoted = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in self.text[start:end])
        caret = " " * (len(head) + sum(map(_cells, quoted[: self.column - start]))) + "^"
        return f"{self.reason} (column {self.column + 1})\n  {head}{quoted}{tail}\n  {caret}"


def _cells(char: str) -> int:
    """How many cells of a terminal the character takes, so that the caret stands under the fault."""
    if char.isascii():
        return 1
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


class ConfigFileError(PaddleApiError):
    """A config path matches nothing or cannot be read."""
