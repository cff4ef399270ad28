"""The options that say how a mode runs, as a user types them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import BOTH_ERROR, PASS, PASS_2, Session

pytestmark = pytest.mark.any_version

Run = Callable[..., Session]
Configs = Callable[..., Path]

ONLY_EAGER = 'paddle.Tensor.tolist(Tensor([2],"float32"))'


def test_eager_paddle_with_the_static_graph(run: Run, configs: Configs) -> None:
    configs("a.txt", PASS, BOTH_ERROR, ONLY_EAGER)
    session = run("--paddleapi-configs=a.txt", "--paddle-cinn", "--paddleapi-test-backward", "-n0")
    assert session.verdicts() == {PASS: "pass", BOTH_ERROR: "both_error", ONLY_EAGER: "paddle_error"}
    assert "paddleapi: --paddle-cinn on cpu" in session.out
    assert "static graph: the plain static graph, without a compiler (this Paddle is built without CINN)" in session.out
    found = next(p for p in session.properties() if p["config"] == PASS)
    assert (found["mode"], found["compared_gradients"], found["graph_operations"]) == ("paddle-cinn", "1", "1")
    assert (
        "reproduce: pytest --paddle-cinn --paddleapi-static-backend=none --paddleapi-test-backward "
        "'--paddleapi-config=paddle.Tensor.tolist(" in session.out
    )


@pytest.mark.slow
def test_all_the_switches_at_once(run: Run, configs: Configs) -> None:
    configs("a.txt", PASS, PASS_2)
    switches = ("--paddleapi-test-cpu", "--paddleapi-gpu-mode", "--paddleapi-amp", "--paddleapi-input-backend=paddle")
    session = run("--paddleapi-configs=a.txt", "--accuracy", *switches, "--paddleapi-cache-inputs", "-n2")
    assert session.result.ret == pytest.ExitCode.OK
    assert session.verdicts() == {PASS: "pass", PASS_2: "pass"}
    assert "--paddleapi-cache-inputs is ignored with --paddleapi-gpu-mode" in session.out
    for note in (
        "Paddle's kernels on the CPU",
        "inputs are drawn and results compared on Torch's device",
        "automatic mixed precision on both sides",
        "inputs are drawn by paddle",
    ):
        assert f"paddleapi: {note}" in session.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--paddle-cinn", "--paddleapi-static-backend=CINN"], "built without CINN: install a GPU build"),
        (["--accuracy", "--paddleapi-static-backend=none"], "--accuracy has none: leave it out, or give --paddle-cinn"),
        (["--paddle-cinn", "--paddleapi-test-backward", "--paddleapi-no-backward"], "give one of them"),
        (["--paddle-custom-device"], "compares a custom device (or XPU) with the CPU, and the selected devices are"),
        (["--paddle-custom-device", "--paddleapi-test-cpu"], "--paddle-custom-device is about its kernels"),
        (["--accuracy", "--paddleapi-input-backend=jax"], "invalid choice: 'jax'"),
    ],
)
def test_what_does_not_go_together_is_a_usage_error(
    arguments: list[str], says: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    result = pytester.runpytest_inprocess(f"--paddleapi-config={PASS}", "--paddleapi-device=cpu", "-n0", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert says in result.stderr.str()
