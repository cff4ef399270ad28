"""What running one framework gives, and how an exception reads."""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass, field
from typing import Any

import torch

_PADDLE_SUMMARY = re.compile(r"-{10,}\nError Message Summary:\n-{10,}\n(.*)", re.DOTALL)
_LONGEST = 4000


@dataclass
class SideResult:
    """One framework's results in the structure that was returned.

    They are Torch tensors on the host; in the dual modes, until they are compared, what :mod:`.holding` makes of them.
    """

    outputs: Any
    changed: dict[str, Any] = field(default_factory=dict)
    gradients: dict[str, torch.Tensor] = field(default_factory=dict)
    #: By flattened output, then changed arguments: the gradient that was fed in, None where there is none.
    cotangents: tuple[torch.Tensor | None, ...] = ()
    notes: list[str] = field(default_factory=list)
    #: What automatic mixed precision lowered a part of it to; None where it did not.
    computed_in: torch.dtype | None = None
    #: The call worked, its backward run raised this.
    backward_error: BaseException | None = None


def error_text(exc: BaseException) -> str:
    """One line that says what was raised, then the frames; Paddle's C++ stack is left out."""
    message = str(exc)
    summary = _PADDLE_SUMMARY.search(message)
    if summary:
        message = summary.group(1)
    message = message.strip() or "(no message)"
    frames = traceback.format_list(traceback.extract_tb(exc.__traceback__)[-4:])
    text = f"{type(exc).__name__}: {message}"
    if len(text) > _LONGEST:
        text = text[: _LONGEST // 2] + "\n... (shortened) ...\n" + text[-_LONGEST // 2 :]
    return text + ("\n" + "".join(frames).rstrip() if frames else "")


def first_line(text: str, longest: int = 300) -> str:
    """The first line, shortened."""
    line = text.strip().split("\n", 1)[0]
    return line if len(line) <= longest else line[: longest - 3] + "..."
