"""What the summary counts."""

from __future__ import annotations

from pytest_paddleapi.tally import Tally


def test_verdicts_reruns_and_the_worst_apis() -> None:
    tally = Tally()
    assert not tally and list(tally.lines()) == list(tally.worst()) == []
    for _ in range(3):
        tally.add("paddle.a", "pass", failed=False)
    for verdict in ("timeout", "oom", "timeout"):
        tally.add("paddle.b", verdict, failed=True)
    tally.add("paddle.b", "pass", failed=False)
    tally.add("paddle.a", "oom", failed=True)
    tally.add("paddle.known", "oom", failed=False)
    tally.reruns = 2
    assert tally and list(tally.lines()) == ["       4  pass", "       3  oom", "       2  timeout", "       2  reruns"]
    assert list(tally.worst()) == [
        "APIs with the most failures:",
        "       3  of 4  paddle.b (2 timeout, 1 oom)",
        "       1  of 4  paddle.a (1 oom)",
    ]


def test_ten_are_named() -> None:
    tally = Tally()
    for n in range(13):
        tally.add(f"paddle.f{n:02}", "oom", failed=True)
    lines = list(tally.worst())
    assert len(lines) == 12 and lines[-1] == "          ... and 3 more"
