"""Makes some of Paddle's functions slower, for real: on ``PYTHONPATH`` of a session, this is imported by its processes.

``SLOWED`` has names below ``paddle``, with commas; each call of them takes ``SLOWED_BY`` times as long, the rest of it
in a busy loop.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import os
import sys
import time
from types import ModuleType
from typing import Any


def slowed(function: Any, factor: float) -> Any:
    """The function, and after it as much idle work as makes up the factor."""

    @functools.wraps(function)  # also __module__, without which it would not count as Paddle's own
    def slow(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        result = function(*args, **kwargs)
        end = start + factor * (time.perf_counter() - start)
        while time.perf_counter() < end:
            pass
        return result

    return slow


class _Loader(importlib.abc.Loader):
    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """As the real one does."""
        return self.inner.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        """Load Paddle, then replace the functions."""
        self.inner.exec_module(module)
        for name in filter(None, os.environ.get("SLOWED", "").split(",")):
            *path, last = name.split(".")
            place = functools.reduce(getattr, path, module)
            setattr(place, last, slowed(getattr(place, last), float(os.environ["SLOWED_BY"])))


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """For ``paddle`` only: what the other finders say, with a loader around theirs."""
        if name != "paddle":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


if os.environ.get("SLOWED"):
    sys.meta_path.insert(0, _Finder())
