"""The options of a session that decide a case's verdict, to be typed again."""

from __future__ import annotations

import pytest

from .defaults import DEFAULT_TIMEOUT
from .golden import golden_words
from .model import RunOptions
from .modes import MODES
from .performance import decisive_timing
from .running import running_words
from .sanitizer import sanitizer_words

__all__ = ["decisive"]


def decisive(config: pytest.Config, options: RunOptions) -> list[str]:
    """The mode and every option that is not at its default, as words of a command line."""
    case, tolerance, given = options.case, options.case.tolerance, config.option
    parts = [MODES[options.mode].option]
    parts += golden_words(case.golden)
    if case.seed:
        parts.append(f"--paddleapi-seed={case.seed}")
    if tolerance.kind == "bitwise":
        parts.append("--paddleapi-bitwise")
    elif tolerance.kind == "fixed":
        parts += [f"--paddleapi-atol={tolerance.atol:g}", f"--paddleapi-rtol={tolerance.rtol:g}"]
    if given.paddleapi_tolerances:
        parts.append(f"--paddleapi-tolerances={given.paddleapi_tolerances}")
    parts += running_words(case)
    if case.cache_inputs:
        parts.append("--paddleapi-cache-inputs")
    if options.timeout != DEFAULT_TIMEOUT:
        parts.append(f"--paddleapi-timeout={options.timeout:g}")
    parts += decisive_timing(case.timing)
    if given.paddleapi_threads:
        parts.append(f"--paddleapi-threads={given.paddleapi_threads}")
    if options.unsupported_fails:
        parts.append("--paddleapi-unsupported=fail")
    return parts + sanitizer_words(given)
