"""Whether a session has Paddle API cases."""

from __future__ import annotations

import pytest

__all__ = ["is_active"]


def is_active(config: pytest.Config) -> bool:
    """True where the command line asks for Paddle API cases."""
    option = config.option
    return bool(option.paddleapi_modes or option.paddleapi_configs or option.paddleapi_config)
