"""Numbers as people read them."""

from __future__ import annotations

import pytest

from pytest_paddleapi.commands.ledger_text import duration, size

GIB = 1 << 30


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "?"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (64 << 20, "64 MiB"),
        (GIB, "1.0 GiB"),
        (-GIB - GIB // 2, "-1.5 GiB"),
        (2000 * GIB, "2000.0 GiB"),
    ],
)
def test_sizes(number: int | None, text: str) -> None:
    assert size(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (99, "99 s"), (300, "5 min"), (7200, "2.0 h"), (3 * 86400, "3.0 d")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
