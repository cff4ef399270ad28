"""Defaults that more than one module needs."""

#: Seconds; the limit of one case.
DEFAULT_TIMEOUT = 1800.0
