"""``--paddleapi-baseline``, in real sessions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_paddleapi.results.baseline import read_baseline

from .conftest import INEXACT, PASS, PASS_2, UNPARSED, UNSUPPORTED, Session

Run = Callable[..., Session]
Configs = Callable[..., Path]

BITWISE = ("--paddleapi-configs=a.txt", "--accuracy", "--paddleapi-bitwise", "-rA")


@pytest.fixture
def baseline(pytester: pytest.Pytester) -> Callable[..., Path]:
    def write(*entries: str) -> Path:
        path = pytester.path / "known.baseline"
        path.write_text("# what is known\n" + "".join(f"{entry}\n" for entry in entries), encoding="utf-8")
        return path

    return write


def test_known_failures_are_expected_and_passes_named(
    run: Run, configs: Configs, baseline: Callable[..., Path], workers: str
) -> None:
    configs("a.txt", INEXACT, PASS, PASS_2, UNPARSED, UNSUPPORTED)
    baseline(
        f"{INEXACT}\tpaddle_accuracy\tthe last bit",
        f"{PASS}\tpaddle_error",
        f"{UNPARSED}\tconfig_parse",
        f"{UNSUPPORTED}\tpaddle_error",
        "paddle.gone()\toom",
    )
    session = run(*BITWISE, "--paddleapi-baseline=known.baseline", workers)
    assert session.result.ret == pytest.ExitCode.OK
    session.result.assert_outcomes(xfailed=2, xpassed=1, passed=1, skipped=1)
    assert "the baseline lists paddle_accuracy: the last bit" in session.out
    session.result.stdout.fnmatch_lines(
        [
            "*1  in the baseline, but passed:",
            f"*{PASS.replace('[', '[[]')}",
            "*no config of this session:",
            "*paddle.gone()",
        ]
    )
    assert session.verdicts()[INEXACT] == "paddle_accuracy"
    assert len(session.testcases) == 5


def test_another_verdict_than_the_listed_one_fails(run: Run, configs: Configs, baseline: Callable[..., Path]) -> None:
    configs("a.txt", INEXACT)
    baseline(f"{INEXACT}\ttimeout")
    session = run(*BITWISE, "--paddleapi-baseline=known.baseline", "-n0")
    session.result.assert_outcomes(failed=1)
    assert "the baseline lists timeout; this time it is paddle_accuracy" in session.out


def test_with_xfail_strict_a_pass_fails(
    run: Run, configs: Configs, baseline: Callable[..., Path], pytester: pytest.Pytester
) -> None:
    pytester.makeini("[pytest]\nxfail_strict = true\n")
    configs("a.txt", PASS)
    baseline(f"{PASS}\toom")
    session = run(*BITWISE, "--paddleapi-baseline=known.baseline", "-n0")
    session.result.assert_outcomes(failed=1)
    assert "[XPASS(strict)] the baseline lists oom, and it passes" in session.out


def test_an_update_makes_the_next_run_green(
    run: Run, configs: Configs, baseline: Callable[..., Path], workers: str
) -> None:
    configs("a.txt", INEXACT, PASS, UNPARSED)
    path = baseline(f"{PASS}\toom", "paddle.gone()\toom\tkept")
    options = (*BITWISE, "--paddleapi-baseline=known.baseline")
    first = run(*options, "--paddleapi-update-baseline", workers)
    first.result.assert_outcomes(failed=1, errors=1, xpassed=1)
    assert "3 entries, 2 added, 1 removed, 0 changed" in first.out
    head, gone, *added = path.read_text(encoding="utf-8").splitlines()
    assert (head, gone) == ("# what is known", "paddle.gone()\toom\tkept")
    assert sorted(added) == sorted([f"{INEXACT}\tpaddle_accuracy", f"{UNPARSED}\tconfig_parse"])
    second = run(*options, workers)
    assert second.result.ret == pytest.ExitCode.OK
    second.result.assert_outcomes(xfailed=2, passed=1)


@pytest.mark.any_version
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--paddleapi-baseline=none.baseline"], "*--paddleapi-baseline: *none.baseline: No such file*"),
        (["--paddleapi-update-baseline"], "*give --paddleapi-baseline=FILE too"),
    ],
)
def test_usage_errors(run: Run, configs: Configs, options: list[str], message: str) -> None:
    configs("a.txt", PASS)
    session = run(*BITWISE, *options, "-n0")
    assert session.result.ret == pytest.ExitCode.USAGE_ERROR
    session.result.stderr.fnmatch_lines([message])


SHIPPED = Path(__file__).parents[2] / "example_configs" / "known_differences.baseline"


@pytest.mark.any_version
def test_the_known_differences_of_this_paddle_are_as_listed(run: Run, configs: Configs) -> None:
    known = read_baseline(SHIPPED)
    configs("a.txt", *(entry.config for entry in known.entries.values()))
    session = run("--accuracy", "--paddleapi-configs=a.txt", f"--paddleapi-baseline={SHIPPED}", "-n2")
    assert session.result.ret == pytest.ExitCode.OK, session.out
    session.result.assert_outcomes(xfailed=len(known.entries))
