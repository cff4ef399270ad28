"""An estimator without frameworks, for tests: what it does is in the name of the API."""

from __future__ import annotations

import os
import signal
import time

from pytest_paddleapi.process.messages import CaseOptions

#: What it answers, beside the bytes of the options.
ANSWER = 12345


class LightEstimator:
    """Answers 12345 bytes, or does harm."""

    def __init__(self, options: CaseOptions, *, torch_on_device: bool, caches_kept: bool) -> None:
        self.extra = 2 * torch_on_device + caches_kept

    def __call__(self, config: str) -> tuple[int, str]:
        api = config.partition("(")[0]
        if api == "paddle.hang":
            time.sleep(600)
        elif api == "paddle.crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        elif api == "paddle.raises":
            raise RuntimeError("a fault of the estimator")
        elif api == "paddle.memory":
            bytearray(4 << 30)
        return ANSWER + self.extra, "operator"


class Unmakeable:
    """One that fails at once, as where Torch is missing."""

    def __init__(self, options: CaseOptions, *, torch_on_device: bool, caches_kept: bool) -> None:
        raise ImportError("no module named torch, or so")
