"""Secrets out of what is shown: in URLs, and in what a library says of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

__all__ = ["redact", "scrub"]

_USER = re.compile(r"(?<=://)[^/@\s]+@")
_QUERY = re.compile(r"\?[^\s'\"]*")
#: Names of environment variables whose values are secrets.
_SECRET_NAME = re.compile(r"SECRET|TOKEN|PASSW|ACCESS_?KEY|CREDENTIAL|API_?KEY", re.IGNORECASE)
#: A shorter value is found by chance in any text, and protects nothing.
_SHORTEST = 8


def redact(url: str) -> str:
    """The URL without what may be a secret in it: user and password, and the query."""
    if "://" not in url:
        return url  # a path
    return _QUERY.sub("?***", _USER.sub("***@", url))


def scrub(text: str, urls: Iterable[str] = ()) -> str:
    """A text with these URLs, their secret parts, and the values of secret environment variables, made unreadable."""
    for url in urls:
        if "://" not in url:
            continue
        text = text.replace(url, redact(url))
        for part in (*_USER.findall(url), *_QUERY.findall(url)):
            found = part.rstrip("@").lstrip("?")
            for secret in {found, *re.split(r"[:&=]", found)}:
                if len(secret) >= _SHORTEST:
                    text = text.replace(secret, "***")
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and _SECRET_NAME.search(name):
            text = text.replace(value, "***")
    return text
