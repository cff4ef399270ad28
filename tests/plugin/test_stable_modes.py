"""``--accuracy-stable`` in real sessions, and the dual modes where there is no GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import PASS, UNPARSED, Session

pytestmark = pytest.mark.any_version

#: Its kernel for the CPU takes std::random_device, whatever paddle.seed says.
UNSTABLE = 'paddle.nn.functional.class_center_sample(Tensor([20],"int64"), 1000, 400)'


def test_an_unstable_api_fails_with_what_differs_and_how_to_see_it_again(
    run: Callable[..., Session], configs: Callable[..., Path]
) -> None:
    configs("a.txt", PASS, UNSTABLE, UNPARSED)
    session = run("--paddleapi-configs=a.txt", "--accuracy-stable", "-n0")
    session.result.assert_outcomes(passed=1, failed=1, errors=1)
    assert session.verdicts() == {PASS: "pass", UNSTABLE: "paddle_unstable", UNPARSED: "config_parse"}
    by_config = {found["config"]: found for found in session.properties()}
    assert by_config[PASS]["mode"] == "accuracy-stable"
    assert by_config[PASS]["comparisons"] == "paddle-torch, paddle-paddle, torch-torch"
    assert "failed_comparisons" not in by_config[PASS]
    assert by_config[UNSTABLE]["failed_comparisons"] == "paddle-paddle"
    session.result.stdout.fnmatch_lines(
        [
            "paddle_unstable: paddle-paddle: output?1?: * of 400 elements differ*",
            "  worst absolute difference * first run *, second run *",
            "  tolerance: atol 0, rtol 0 (exact dtype)",
            "failed comparisons: paddle-paddle",
            "config: paddle.nn.functional.class_center_sample*",
            "reproduce: pytest --accuracy-stable '--paddleapi-config=paddle.nn.functional.class_center_sample*",
        ]
    )


@pytest.mark.parametrize("mode", ["--accuracy-dual-gpu", "--accuracy-stable-dual-gpu"])
def test_a_dual_mode_without_gpus_is_a_usage_error(run: Callable[..., Session], mode: str) -> None:
    session = run(f"--paddleapi-config={PASS}", mode, "--paddleapi-device=cpu")
    assert session.result.ret == pytest.ExitCode.USAGE_ERROR
    error = "ERROR: --paddleapi-device: this mode needs two GPUs, and there is no GPU here*"
    session.result.stderr.fnmatch_lines([error])
