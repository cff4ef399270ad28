"""Verdicts as pytest outcomes, in real sessions with real frameworks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import BOTH_ERROR, INEXACT, PASS, PASS_2, UNKNOWN, UNPARSED, UNSUPPORTED, Session

Run = Callable[..., Session]
Configs = Callable[..., Path]

ALL = (PASS, UNSUPPORTED, BOTH_ERROR, UNKNOWN, UNPARSED, PASS_2)
VERDICTS = {
    PASS: "pass",
    UNSUPPORTED: "not_supported",
    BOTH_ERROR: "both_error",
    UNKNOWN: "config_convert",
    UNPARSED: "config_parse",
    PASS_2: "pass",
}


def test_every_kind_of_verdict_and_one_testcase_each(run: Run, configs: Configs, workers: str) -> None:
    configs("a.txt", *ALL)
    session = run("--paddleapi-configs=a.txt", "--accuracy", workers, "-rA")
    assert session.result.ret == pytest.ExitCode.TESTS_FAILED
    session.result.assert_outcomes(passed=2, skipped=3, errors=1)
    assert session.verdicts() == VERDICTS
    assert len(session.testcases) == len(ALL)
    kinds = {case.get("name"): [child.tag for child in case if child.tag != "properties"] for case in session.testcases}
    assert kinds['paddle.abs[Tensor([2, 3],"float32")]'] == []
    assert kinds['paddle.abs[Tensor([2],"float16")]'] == ["skipped"]
    assert "both refuse the call: Torch" in session.out
    assert "has no paddle.no_such_function" in session.out


@pytest.mark.any_version
def test_properties_say_what_was_compared(run: Run, configs: Configs, workers: str) -> None:
    configs("a.txt", 'paddle.add(Tensor([2, 3],"float32"), Tensor([3],"float64"))', PASS)
    session = run("--paddleapi-configs=a.txt", "--accuracy", workers)
    by_config = {p["config"]: p for p in session.properties()}
    found = by_config[PASS]
    assert (found["api"], found["mode"], found["device"], found["attempts"]) == ("paddle.abs", "accuracy", "cpu", "1")
    assert (found["compared_outputs"], found["compared_gradients"], found["compared_elements"]) == ("1", "1", "12")
    assert float(found["seconds"]) > 0
    assert int(found["estimated_bytes"]) > 0
    assert float(found["max_abs_diff"]) == 0
    assert "10 x Torch's table" in found["tolerance"]


def test_a_failure_names_difference_tolerance_config_and_command(
    run: Run, configs: Configs, pytester: pytest.Pytester
) -> None:
    configs("a.txt", INEXACT)
    session = run("--paddleapi-configs=a.txt", "--accuracy", "--paddleapi-bitwise", "-n0")
    session.result.assert_outcomes(failed=1)
    session.result.stdout.fnmatch_lines(
        [
            "paddle_accuracy: *elements differ (*",
            "*worst absolute difference*Paddle*, Torch*",
            "*worst relative difference*",
            "*tolerance: atol 0, rtol 0 (bitwise)*",
            "config: paddle.logsumexp(*",
            "reproduce: pytest --accuracy --paddleapi-bitwise '--paddleapi-config=paddle.logsumexp(*",
            "FAILED a.txt::paddle.logsumexp* - paddle_accuracy:*",
        ]
    )
    command = next(line for line in session.result.outlines if line.startswith("reproduce: "))
    again = pytester.run(
        "sh", "-c", command.removeprefix("reproduce: ").replace("pytest", f"{sys.executable} -m pytest", 1)
    )
    assert again.ret == pytest.ExitCode.TESTS_FAILED
    again.stdout.fnmatch_lines(["paddle_accuracy: *elements differ (*"])


def test_a_failure_says_where_it_stands_and_how_it_was_run(run: Run, configs: Configs) -> None:
    configs("c/a.txt", "# comment", INEXACT, UNSUPPORTED)
    options = ("--paddleapi-bitwise", "--paddleapi-timeout=77", "--paddleapi-threads=1")
    session = run("--paddleapi-configs=c", "--accuracy", *options, "-rs")
    session.result.stdout.fnmatch_lines(
        ["from: *a.txt:2", "reproduce: *--paddleapi-bitwise --paddleapi-timeout=77 --paddleapi-threads=1 *"]
    )
    session.result.stdout.fnmatch_lines(["SKIPPED [[]1] *a.txt:3: not_supported: *"])


@pytest.mark.slow
@pytest.mark.any_version
def test_a_misspelt_api_is_told_what_is_near(run: Run, configs: Configs) -> None:
    wrong = [PASS.replace("abs", name) for name in ("abss", "Tensor.abss", "nn.functionl.relu")]
    configs("a.txt", *wrong, PASS.replace("paddle.abs", "paddle.nn.ReLU"))
    session = run("--paddleapi-configs=a.txt", "--accuracy", "-rs")
    for guess in ("paddle.abs", "paddle.Tensor.abs", "paddle.nn.functional"):
        assert f"did you mean {guess}" in session.out
    assert "it is a class, and a config calls functions" in session.out
    alone = run("--paddleapi-configs=a.txt", "--paddle-only", "-rs", "-k", "abss")
    assert "did you mean paddle.abs" in alone.out


def test_last_failed_reruns_what_failed_and_only_that(run: Run, configs: Configs, workers: str) -> None:
    configs("a.txt", PASS, UNPARSED, PASS_2)
    assert run("--paddleapi-configs=a.txt", "--accuracy", workers).result.ret == pytest.ExitCode.TESTS_FAILED
    again = run("--paddleapi-configs=a.txt", "--accuracy", workers, "--lf")
    again.result.assert_outcomes(errors=1)
    assert list(again.verdicts()) == [UNPARSED]


def test_failed_first_and_stepwise(run: Run, configs: Configs) -> None:
    configs("a.txt", PASS, UNPARSED, PASS_2)
    session = run("--paddleapi-configs=a.txt", "--accuracy", "--sw")
    session.result.assert_outcomes(passed=1, errors=1)
    session = run("--paddleapi-configs=a.txt", "--accuracy", "--sw", "-v")
    session.result.assert_outcomes(errors=1, deselected=1)
    session = run("--paddleapi-configs=a.txt", "--accuracy", "--ff", "-v")
    assert next(iter(session.verdicts())) == UNPARSED
    assert len(session.verdicts()) == 3


@pytest.mark.parametrize("option", ["-x", "--maxfail=1"])
def test_stopping_at_the_first_failure(run: Run, configs: Configs, workers: str, option: str) -> None:
    configs("a.txt", UNPARSED, *(PASS.replace("3", str(n)) for n in range(3, 33)))
    session = run("--paddleapi-configs=a.txt", "--accuracy", workers, option)
    assert session.result.ret != 0
    # What was in flight on the other worker may end; nothing more is started.
    assert len(session.verdicts()) <= 3
    assert "stopping after 1 failures" in session.out


@pytest.mark.any_version
def test_missing_kernels_fail_on_request(run: Run, configs: Configs) -> None:
    configs("a.txt", UNSUPPORTED)
    session = run("--paddleapi-configs=a.txt", "--accuracy", "--paddleapi-unsupported=fail")
    session.result.assert_outcomes(failed=1)


@pytest.mark.any_version
def test_paddle_only_needs_no_reference(run: Run, configs: Configs, workers: str) -> None:
    configs("a.txt", PASS, 'paddle.add(Tensor([2],"float32"), Tensor([3],"float32"))')
    session = run("--paddleapi-configs=a.txt", "--paddle-only", workers)
    assert sorted(session.verdicts().values()) == ["paddle_error", "pass"]


@pytest.mark.slow
@pytest.mark.any_version
def test_tolerance_file_by_api_and_dtype(run: Run, configs: Configs, pytester: pytest.Pytester) -> None:
    configs("a.txt", INEXACT)
    (pytester.path / "t.yaml").write_text("paddle.logsumexp: {atol: 1e-3, rtol: 1e-3}\n")
    session = run("--paddleapi-configs=a.txt", "--accuracy", "--paddleapi-bitwise", "--paddleapi-tolerances=t.yaml")
    (found,) = session.properties()
    assert found["verdict"] == "pass"
    assert "tolerances file, paddle.logsumexp" in found["tolerance"]


@pytest.mark.any_version
def test_fixed_tolerance_and_recorded_decade(run: Run, configs: Configs) -> None:
    configs("a.txt", INEXACT)
    session = run("--paddleapi-configs=a.txt", "--accuracy", "--paddleapi-atol=0.5", "--paddleapi-record-tolerance")
    (found,) = session.properties()
    assert "atol 0.5, rtol 0.01 (fixed)" in found["tolerance"]
    assert "tightest tolerance: 1e-" in found["notes"]


@pytest.mark.slow
@pytest.mark.any_version
def test_inputs_depend_on_the_seed_only(run: Run, configs: Configs) -> None:
    """The same difference, bit for bit, whatever stands beside the case or which worker runs it."""
    configs("a.txt", INEXACT)
    configs("b.txt", PASS, PASS_2, INEXACT)

    def difference(*args: str) -> tuple[str, str]:
        found = {p["config"]: p for p in run("--accuracy", *args).properties()}[INEXACT]
        return found["max_abs_diff"], found["max_rel_diff"]

    alone = difference("--paddleapi-configs=a.txt")
    assert difference("--paddleapi-configs=b.txt", "-n2") == alone
    assert difference("--paddleapi-configs=a.txt", "--paddleapi-seed=7") != alone


def test_captured_output_of_a_case_is_in_its_sections(run: Run, configs: Configs) -> None:
    """Paddle warns on stderr when it promotes dtypes; what a case process prints is kept with its case."""
    configs("a.txt", 'paddle.add(Tensor([2],"float32"), Tensor([2],"float64"))', PASS)
    session = run("--paddleapi-configs=a.txt", "--accuracy", "-n0", "-rP")
    assert "Captured stderr call" in session.out
    assert "type promotion" in session.out


def test_ordinary_tests_and_cases_share_a_session(
    run: Run, configs: Configs, pytester: pytest.Pytester, workers: str
) -> None:
    configs("a.txt", PASS, PASS_2)
    pytester.makepyfile(
        test_plain="""
        import pytest

        made = []

        @pytest.fixture(scope="module")
        def module_thing():
            made.append(1)
            yield len(made)

        def test_one(module_thing):
            assert module_thing == 1

        def test_two(module_thing):
            assert module_thing == 1

        def test_fails():
            assert 0
        """
    )
    session = run("test_plain.py", "--paddleapi-configs=a.txt", "--accuracy", workers)
    session.result.assert_outcomes(passed=4, failed=1)
    assert len(session.testcases) == 5


def test_durations_lists_cases(run: Run, configs: Configs) -> None:
    configs("a.txt", PASS)
    session = run("--paddleapi-configs=a.txt", "--accuracy", "--durations=3", "--durations-min=0", "-vv")
    session.result.stdout.fnmatch_lines(["*s call*a.txt::paddle.abs*"])


def test_without_xdist_the_plugin_works(run: Run, configs: Configs) -> None:
    configs("a.txt", PASS)
    session = run("--paddleapi-configs=a.txt", "--accuracy", "-p", "no:xdist")
    session.result.assert_outcomes(passed=1)


def test_odd_characters_and_long_lines_run(run: Run, configs: Configs, workers: str) -> None:
    ones = ",".join(["1"] * 8_000)
    configs(
        "a.txt",
        "paddle.abs('\udcff\udcfe')",
        "paddle.abs('\x1b[31m\x00')",
        f'paddle.reshape(Tensor([1],"float32"), list[{ones}])',
        'paddle.abs("a::b[c]")',
    )
    session = run("--paddleapi-configs=a.txt", "--accuracy", workers)
    assert len(session.testcases) == 4
    assert all(p.get("verdict") for p in session.properties())


def test_auto_workers_are_the_cores(run: Run, configs: Configs) -> None:
    import os

    configs("a.txt", PASS)
    session = run("--paddleapi-configs=a.txt", "--accuracy", "-n", "auto")
    session.result.assert_outcomes(passed=1)
    assert f"{len(os.sched_getaffinity(0))} workers" in session.out


def test_an_oversize_case_is_skipped_and_never_run(run: Run, configs: Configs, workers: str) -> None:
    configs("a.txt", 'paddle.abs(Tensor([1000000, 1000000],"float32"))', PASS)
    session = run("--paddleapi-configs=a.txt", "--accuracy", workers)
    session.result.assert_outcomes(passed=1, skipped=1)
    (found,) = (p for p in session.properties() if p["verdict"] == "oversize")
    assert int(found["estimated_bytes"]) >= 4 * 10**12
    assert found["attempts"] == "0"


def test_configs_outside_the_root_folder_are_scheduled_like_others(
    run: Run, configs: Configs, pytester: pytest.Pytester, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "far.txt"
    outside.write_text(f"{PASS}\n{UNPARSED}\n")
    session = run(f"--paddleapi-configs={outside}", "--accuracy", "-n2", f"--rootdir={pytester.path}")
    assert session.verdicts() == {PASS: "pass", UNPARSED: "config_parse"}
    assert [case.get("classname") for case in session.testcases] != ["", ""]
    again = run(f"--paddleapi-configs={outside}", "--accuracy", "--lf", f"--rootdir={pytester.path}")
    assert list(again.verdicts()) == [UNPARSED]
