"""The base of every error that this package raises on purpose."""

from __future__ import annotations


class PaddleApiError(Exception):
    """Something that the user can act on; the message says what, where, and what to do."""
