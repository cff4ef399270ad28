"""The performance modes in whole sessions, and the comparison of two of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_paddleapi.options.performance import check_torch_device
from pytest_paddleapi.performance import Performance
from pytest_paddleapi.process.messages import Mode

from .conftest import PASS, PASS_2, UNKNOWN, Session

pytestmark = pytest.mark.any_version

Run = Callable[..., Session]
Configs = Callable[..., Path]
QUICK = "--paddleapi-timing-seconds=0.02"


def test_times_are_shown_kept_and_compared(run: Run, configs: Configs) -> None:
    configs("a.txt", PASS, PASS_2, UNKNOWN)
    given = ("--paddleapi-configs=a.txt", "--paddle-torch-gpu-performance", QUICK, "--paddleapi-results=old")
    first = run(*given, "-n2")
    first.result.assert_outcomes(passed=2, skipped=1)
    assert "WARNING: 2 workers share the CPU" in first.out
    assert "slowest, medians in ms:" in first.out
    assert "worst ratios, Paddle's time by Torch's:" in first.out
    found = {p["config"]: p for p in first.properties()}[PASS]
    for name in ("paddle_forward_ms", "paddle_backward_ms", "torch_forward_ms", "torch_backward_ms", "ratio"):
        assert float(found[name]) > 0
    second = run(*given, "--paddleapi-compare=old/results.sqlite", "--paddleapi-timing-lines=1", "-n0")
    second.result.assert_outcomes(passed=2, skipped=1)
    assert "8 times of 2 configs are in both; 0 configs are only there, 0 only here" in second.out
    assert "share the CPU" not in second.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--accuracy", "--paddleapi-compare=old"), "--paddleapi-compare is for a performance mode"),
        (("--paddle-gpu-performance", "--paddleapi-compare=old"), "--paddleapi-compare=old: there is no such file"),
        (("--torch-gpu-performance", "--paddleapi-timing-seconds=nan"), "--paddleapi-timing-seconds=nan is out of"),
        (("--paddle-gpu-performance", "--paddleapi-compare-change=5"), "has nothing to compare with"),
        (("--paddle-gpu-performance", "--accuracy"), "give exactly one of"),
    ],
)
def test_wrong_usage_says_what_to_do(run: Run, configs: Configs, arguments: tuple[str, ...], says: str) -> None:
    configs("a.txt", PASS)
    session = run("--paddleapi-configs=a.txt", "--collect-only", *arguments)
    assert session.result.ret == pytest.ExitCode.USAGE_ERROR
    assert says in session.result.stderr.str()


def test_torch_is_not_timed_on_the_host_in_place_of_a_device() -> None:
    with pytest.raises(pytest.UsageError, match="give --paddle-gpu-performance"):
        check_torch_device(Mode.PADDLE_TORCH_PERFORMANCE, "custom", ("cpu",))
    check_torch_device(Mode.PADDLE_PERFORMANCE, "custom", ("cpu",))
    check_torch_device(Mode.TORCH_PERFORMANCE, "cpu", ("cpu",))
    check_torch_device(Mode.PADDLE_TORCH_PERFORMANCE, "nvidia", ("cuda:0",))


def test_tables_keep_the_greatest_and_the_lines_asked_for() -> None:
    options = SimpleNamespace(
        performance=SimpleNamespace(lines=2, compare=None, change=0.05),
        mode=Mode.PADDLE_TORCH_PERFORMANCE,
        case=SimpleNamespace(threads=1),
    )
    shown = Performance(options, controls=True)  # type: ignore[arg-type]
    for number in range(10):
        times = {f"paddle_forward_{part}": float(1 + number) for part in ("ms", "ms_low", "ms_high", "ms_p10")}
        case = SimpleNamespace(canonical=f"c{number}", printable_text=f"paddle.f({number})")
        properties = {"verdict": "pass", "paddle_forward_samples": 20, "ratio": 2.0 - 0.2 * number, **times}
        shown.add(case, properties)  # type: ignore[arg-type]
    lines = list(shown.lines())
    assert lines[0] == "timed: 10 cases"
    assert lines[1] == "Paddle's time by Torch's: 4 under 0.9, 1 from 0.9 to 1.1, 5 over 1.1"
    assert [line.split()[-1] for line in lines[4:6]] == ["paddle.f(9)", "paddle.f(8)"]
    assert [line.split()[-1] for line in lines[-2:]] == ["paddle.f(0)", "paddle.f(1)"]
