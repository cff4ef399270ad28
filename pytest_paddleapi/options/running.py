"""The options that say how a mode runs: on what its kernels run, where inputs are drawn and results compared."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ..process.messages import CaseOptions, Mode
from .modes import MODES

__all__ = ["add_running_options", "fit_to_devices", "read_running_options", "running_notes", "running_words"]

BACKENDS = ("numpy", "torch", "paddle")
STATIC_BACKENDS = ("auto", "CINN", "none")
#: Modes that measure the device itself, or compare it with the CPU: there Paddle cannot be put on the CPU.
_NEEDS_DEVICE = ("performance", "custom-device")
_CINN_VERSION = re.compile(r"^cinn_version\s*=\s*['\"](.*)['\"]", re.MULTILINE)


def add_running_options(parser: pytest.Parser) -> None:
    """Register them."""
    add = parser.getgroup("paddleapi running", "Paddle API cases: how a mode runs").addoption
    add(
        "--paddleapi-static-backend",
        choices=STATIC_BACKENDS,
        default=None,
        help="What --paddle-cinn compiles the static graph with: auto (CINN where it is there, else nothing; default), "
        "CINN, or none.",
    )
    add("--paddleapi-test-backward", action="store_true", help="With --paddle-cinn: compare gradients too.")
    add("--paddleapi-test-cpu", action="store_true", help="Run Paddle's kernels on the CPU, and only them.")
    add(
        "--paddleapi-gpu-mode",
        action="store_true",
        help="Draw inputs and compare results on Torch's device, and keep its cache between cases.",
    )
    add("--paddleapi-amp", action="store_true", help="Run both sides under automatic mixed precision (level O1).")
    add(
        "--paddleapi-input-backend",
        choices=BACKENDS,
        default=None,
        help="What draws the random numbers of inputs (default: numpy; with --paddleapi-gpu-mode torch).",
    )


def read_running_options(config: pytest.Config, case: CaseOptions) -> CaseOptions:
    """``case`` with them.

    Raises:
        pytest.UsageError: they do not go together, or not with the mode.
    """
    option, mode = config.option, case.mode
    _check(option, mode)
    # What is held and compared on a second device has no use for a detour by the host.
    gpu_mode = option.paddleapi_gpu_mode or mode.pairs
    cache_inputs = case.cache_inputs
    if cache_inputs and gpu_mode:
        cache_inputs = False
        if not hasattr(config, "workerinput"):
            text = "--paddleapi-cache-inputs is ignored with --paddleapi-gpu-mode: its inputs are drawn on the device"
            config.issue_config_time_warning(pytest.PytestConfigWarning(text), stacklevel=2)
    return msgspec.structs.replace(
        case,
        cache_inputs=cache_inputs,
        test_backward=option.paddleapi_test_backward if mode is Mode.PADDLE_CINN else case.test_backward,
        static_backend=(option.paddleapi_static_backend or "auto") if mode is Mode.PADDLE_CINN else "none",
        test_cpu=option.paddleapi_test_cpu,
        gpu_mode=gpu_mode,
        amp=option.paddleapi_amp,
        input_backend=option.paddleapi_input_backend or ("torch" if gpu_mode else "numpy"),
    )


def _check(option: Any, mode: Mode) -> None:
    name = MODES[mode].option
    if option.paddleapi_static_backend and mode is not Mode.PADDLE_CINN:
        raise pytest.UsageError(
            f"--paddleapi-static-backend is about static graphs, and {name} has none: leave it out, or give "
            "--paddle-cinn"
        )
    if option.paddleapi_test_backward and option.paddleapi_no_backward:
        raise pytest.UsageError(
            "--paddleapi-test-backward asks for gradients, --paddleapi-no-backward leaves them out: give one of them"
        )
    if option.paddleapi_test_cpu and any(word in mode.value for word in _NEEDS_DEVICE):
        raise pytest.UsageError(
            f"--paddleapi-test-cpu puts Paddle on the CPU, and {name} is about its kernels on the device: "
            "leave one of them out"
        )


def fit_to_devices(case: CaseOptions, kind: str) -> CaseOptions:
    """``case`` for devices of this ``kind``; what was left open (``auto``) is decided.

    Raises:
        pytest.UsageError: these devices, or the installed Paddle, cannot do what the mode wants.
    """
    if case.mode is Mode.PADDLE_CUSTOM_DEVICE and kind in ("cpu", "nvidia"):
        found = "the host's CPU" if kind == "cpu" else "NVIDIA GPUs"
        raise pytest.UsageError(
            f"{MODES[case.mode].option} compares a custom device (or XPU) with the CPU, and the selected devices are "
            f"{found}: install the device's plug-in for Paddle (or Paddle's build for XPU), or choose it with "
            "--paddleapi-device=KIND"
        )
    if case.mode is not Mode.PADDLE_CINN or case.static_backend == "none":
        return case
    why_not = _why_no_cinn(case, kind)
    if why_not and case.static_backend == "CINN":
        raise pytest.UsageError(f"--paddleapi-static-backend=CINN: {why_not}")
    return msgspec.structs.replace(case, static_backend="none" if why_not else "CINN")


def _why_no_cinn(case: CaseOptions, kind: str) -> str:
    """Why the static graph cannot be compiled by CINN; empty if it can.

    Paddle takes it on NVIDIA GPUs alone (``cinn_is_available`` in paddle/jit/dy2static/utils.py).
    """
    if not has_cinn():
        return (
            "the installed Paddle is built without CINN: install a GPU build of Paddle 3 that has it (the README says "
            "where to look), or give auto or none"
        )
    if kind != "nvidia" or case.test_cpu:
        return "Paddle compiles with CINN for NVIDIA GPUs only, and its kernels run elsewhere: give auto or none"
    return ""


def has_cinn() -> bool:
    """The installed Paddle is built with CINN, as its version file says. Nothing is imported for it."""
    spec = importlib.util.find_spec("paddle")
    if spec is None or spec.origin is None:
        return False
    try:
        text = (Path(spec.origin).parent / "version" / "__init__.py").read_text(encoding="utf-8")
    except OSError:
        return False  # a build from source may have none; without its word nothing is promised
    found = _CINN_VERSION.search(text)
    return found is not None and found.group(1) not in ("False", "None", "")


def running_notes(case: CaseOptions, kind: str) -> Iterator[str]:
    """What the session's header says of them."""
    if case.mode is Mode.PADDLE_CINN:
        plain = "the plain static graph, without a compiler"
        yield f"static graph: {'compiled by CINN' if case.static_backend == 'CINN' else plain}{_why_plain(case, kind)}"
    if case.test_cpu:
        yield "Paddle's kernels on the CPU"
    if case.gpu_mode:
        yield "inputs are drawn and results compared on Torch's device"
    if case.amp:
        yield "automatic mixed precision on both sides"
    if case.input_backend != "numpy":
        yield f"inputs are drawn by {case.input_backend}"


def _why_plain(case: CaseOptions, kind: str) -> str:
    if case.static_backend == "CINN":
        return ""
    if not has_cinn():
        return " (this Paddle is built without CINN)"
    return "" if kind == "nvidia" else " (CINN compiles for NVIDIA GPUs only)"


def running_words(case: CaseOptions) -> Iterator[str]:
    """Those that are not at their default, as words of a command line."""
    if case.mode is Mode.PADDLE_CINN:
        yield f"--paddleapi-static-backend={case.static_backend}"
        if case.test_backward:
            yield "--paddleapi-test-backward"
    elif not case.test_backward:
        yield "--paddleapi-no-backward"
    if case.test_cpu:
        yield "--paddleapi-test-cpu"
    if case.gpu_mode:
        yield "--paddleapi-gpu-mode"
    if case.amp:
        yield "--paddleapi-amp"
    if case.input_backend != ("torch" if case.gpu_mode else "numpy"):
        yield f"--paddleapi-input-backend={case.input_backend}"
