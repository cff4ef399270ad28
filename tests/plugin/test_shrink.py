"""``--paddleapi-shrink``, in real sessions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import PASS, UNPARSED, UNSUPPORTED, Session

pytestmark = pytest.mark.any_version

Run = Callable[..., Session]
Configs = Callable[..., Path]

FAILS = 'paddle.linalg.eigh(Tensor([4, 5, 5],"float32"), UPLO="L")'


def test_failures_are_made_small_at_the_end(run: Run, configs: Configs) -> None:
    configs("a.txt", PASS, FAILS, UNSUPPORTED, UNPARSED)
    session = run("--accuracy", "--paddleapi-configs=a.txt", "--paddleapi-shrink", "-n0")
    session.result.stdout.fnmatch_lines(
        [
            "*Paddle API failures, made small*",
            'paddle.linalg.eigh(Tensor([[]2, 2, 2],"float32"))',
            "    paddle_accuracy, gradient of x, values; 100 elements became 8 in * runs, from",
            f"    {FAILS.replace('[', '[[]')}",
        ]
    )
    # What passes, is skipped or is no config has nothing to shrink.
    tail = session.out.partition("failures, made small")[2]
    assert tail.count("elements became") == 1
    assert session.result.ret == 1


def test_without_failures_nothing_is_shrunk(run: Run, configs: Configs) -> None:
    configs("a.txt", PASS)
    session = run("--accuracy", "--paddleapi-configs=a.txt", "--paddleapi-shrink", "-n1")
    assert session.result.ret == 0
    assert "made small" not in session.out
