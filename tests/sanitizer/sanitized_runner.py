"""A runner whose device is a sanitizer's stand-in: what a case asks of it is done when the device is synchronised."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from light_runner import ACTIONS, LightRunner  # type: ignore[import-not-found]

_asked: list[str] = []


def _write(*names: str) -> None:
    os.write(int(os.environ["STANDIN_SANITIZER_FD"]), "".join(f"{name}\n" for name in names).encode())


def _now_and_die(name: str) -> None:
    _write(name)
    os.abort()


class SanitizedRunner(LightRunner):  # type: ignore[misc]
    """Further actions: ``kernel NAMES`` (found when its stage ends), ``now NAMES``, ``now_and_die NAME``."""

    actions: ClassVar[Any] = {
        **ACTIONS,
        "kernel": lambda *names: _asked.extend(names),
        "now": _write,
        "now_and_die": _now_and_die,
    }

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        _write("probe")  # as every start of CUDA

    def synchronize(self) -> None:
        """What was asked is done now."""
        if _asked:
            _write(*_asked)
            _asked.clear()
