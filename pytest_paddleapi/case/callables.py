"""From the name in a config to Paddle's object; and what a config may not call, whatever the mode."""

from __future__ import annotations

import importlib
import inspect
import sys
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

import paddle

#: What runs code that it is given, reads or writes files, opens connections or changes the whole process. A config is
#: data that comes from elsewhere, and must not be able to do any of it.
CLOSED = (
    "DataParallel",
    "Model",
    "amp",
    "audio.backends",
    "audio.datasets",
    "audio.info",
    "audio.load",
    "audio.save",
    "base",
    "batch",
    "callbacks",
    "cost_model",
    "dataset",
    "device",
    "distributed",
    "framework",
    "hapi",
    "hub",
    "incubate.asp",
    "incubate.autotune",
    "incubate.checkpoint",
    "incubate.distributed",
    "incubate.multiprocessing",
    "inference",
    "io",
    "jit",
    "load",
    "onnx",
    "profiler",
    "quantization",
    "reader",
    "save",
    "static",
    "sysconfig",
    "text.datasets",
    "utils",
    "vision.datasets",
    "vision.image",
    "vision.models",
    "vision.ops.read_file",
)


class MissingApiError(Exception):
    """The installed Paddle has no such name."""


class ClosedApiError(Exception):
    """The name leads to what a config may not call."""


@lru_cache(maxsize=4096)
def paddle_function(api: str) -> Any:
    """The Paddle object that ``api`` names.

    Raises:
        MissingApiError: there is none in this build.
        ClosedApiError: it is none of Paddle's own functions of tensors.
    """
    parts = api.split(".")
    if parts[:-1] == ["paddle", "Tensor"]:
        return tensor_method(parts[-1])
    inside = ".".join(parts[1:])
    if parts[0] != "paddle" or any(inside == name or inside.startswith(f"{name}.") for name in CLOSED):
        raise ClosedApiError(f"{api} is not called from a config: it could change files or the process, or run code")
    if any(part.startswith("__") for part in parts):
        raise ClosedApiError(f"{api} is not called from a config: only paddle.Tensor has operators with such names")
    found: Any = paddle
    for index, part in enumerate(parts[1:], 1):
        # A function may stand in front of the module of its name, as ``paddle.tensor`` does.
        found = sys.modules.get(".".join(parts[:index]), found)
        if not (inspect.ismodule(found) or inspect.isclass(found)):
            raise ClosedApiError(f"{api} is not called from a config: {'.'.join(parts[:index])} is no module or class")
        if not hasattr(found, part) and inspect.ismodule(found):
            try:
                importlib.import_module(".".join(parts[: index + 1]))
            except ImportError:
                # not a module either: getattr below says so
                break
        if not hasattr(found, part):
            break
        found = getattr(found, part)
        if not _is_paddles(found):
            raise ClosedApiError(f"{api} is not called from a config: {'.'.join(parts[: index + 1])} is not Paddle's")
    else:
        return found
    raise missing_api(found, parts[:index], part, api)


def _is_paddles(found: Any) -> bool:
    """False for what Paddle's modules import from elsewhere: ``paddle.tensor.math.np``, ``paddle.os``."""
    name = found.__name__ if inspect.ismodule(found) else getattr(found, "__module__", None)
    # Slots of C types (``paddle.Tensor.__hash__``) know no module; they are reached through a class that was checked.
    return name is None or (isinstance(name, str) and name.partition(".")[0] == "paddle")


def tensor_method(name: str) -> Any:
    """The method or operator ``paddle.Tensor.`` ``name``.

    Looked up on the class alone: a dunder of Tensor may live in a metaclass, or be Python's own.

    Raises:
        MissingApiError: there is none in this build.
    """
    found = getattr(paddle.Tensor, name, None)
    if found is None:
        raise missing_api(paddle.Tensor, ["paddle", "Tensor"], name, f"paddle.Tensor.{name}")
    return found


def missing_api(parent: Any, above: list[str], name: str, api: str) -> MissingApiError:
    """The error for an API whose part ``name`` the object ``parent`` does not have, with what is near to it."""
    near = get_close_matches(name, [n for n in dir(parent) if not n.startswith("_")], n=2)
    guess = f"; did you mean {' or '.join('.'.join([*above, found]) for found in near)}?" if near else ""
    return MissingApiError(f"Paddle {paddle.__version__} has no {api}{guess}")


@lru_cache(maxsize=4096)
def paddle_signature(api: str) -> inspect.Signature | None:
    """The signature of a Paddle function; None where it has none that Python can read."""
    try:
        return inspect.signature(paddle_function(api))
    except (MissingApiError, ClosedApiError, TypeError, ValueError):
        return None
