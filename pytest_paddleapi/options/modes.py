"""The modes: their options, and what each of them is to the rest of the plugin."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from ..process.messages import Mode

__all__ = ["MODES", "ModeInfo", "add_mode_options", "one_mode"]


class ModeInfo(NamedTuple):
    """What is known of a mode before anything runs."""

    #: As it is typed.
    option: str
    #: Its line in the help, and in the header of the docs.
    text: str


MODES: dict[Mode, ModeInfo] = {
    Mode.ACCURACY: ModeInfo("--accuracy", "compare Paddle with the Torch reference: outputs, then gradients"),
    Mode.ACCURACY_STABLE: ModeInfo(
        "--accuracy-stable", "as --accuracy, both frameworks twice, and compare each with itself bit by bit"
    ),
    Mode.ACCURACY_DUAL_GPU: ModeInfo(
        "--accuracy-dual-gpu", "as --accuracy, computing on one device and comparing on a second one"
    ),
    Mode.ACCURACY_STABLE_DUAL_GPU: ModeInfo(
        "--accuracy-stable-dual-gpu",
        "as --accuracy-stable, computing on one device and comparing on a second one",
    ),
    Mode.PADDLE_ONLY: ModeInfo("--paddle-only", "run Paddle alone: the call and its backward give well-formed results"),
    Mode.PADDLE_CINN: ModeInfo("--paddle-cinn", "compare eager Paddle with the (compiled) static graph of the call"),
    Mode.PADDLE_CUSTOM_DEVICE: ModeInfo("--paddle-custom-device", "compare Paddle on a custom device with the CPU"),
    Mode.PADDLE_PERFORMANCE: ModeInfo("--paddle-gpu-performance", "time Paddle: forward and backward"),
    Mode.TORCH_PERFORMANCE: ModeInfo("--torch-gpu-performance", "time the Torch reference: forward and backward"),
    Mode.PADDLE_TORCH_PERFORMANCE: ModeInfo(
        "--paddle-torch-gpu-performance", "time Paddle and the Torch reference: forward, backward, and their ratio"
    ),
    Mode.CUSTOM_DEVICE_VS_GPU: ModeInfo(
        "--custom-device-vs-gpu", "compare Paddle on this machine with Paddle on another one, by stored results"
    ),
}


def add_mode_options(parser: pytest.Parser) -> None:
    """Register the modes, and the options that say how a mode runs."""
    modes = parser.getgroup("paddleapi modes", "Paddle API cases: modes (exactly one)")
    for mode, info in MODES.items():
        modes.addoption(
            info.option, dest="paddleapi_modes", action="append_const", const=mode, default=[], help=f"{info.text}."
        )


def one_mode(chosen: list[Mode]) -> Mode:
    """The mode that was asked for.

    Raises:
        pytest.UsageError: none was, or several; it names all of them.
    """
    names = ", ".join(info.option for info in MODES.values())
    distinct = list(dict.fromkeys(chosen))
    if not distinct:
        raise pytest.UsageError(f"Paddle API cases need a mode: give exactly one of {names}")
    if len(distinct) > 1:
        given = " and ".join(MODES[mode].option for mode in distinct)
        raise pytest.UsageError(f"{given} were given together: give exactly one of {names}")
    return distinct[0]
