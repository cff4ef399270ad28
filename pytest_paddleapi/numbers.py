"""``--paddleapi-set NAME=VALUE``: the numbers of admission and of slots, each of which can be changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, TypeVar

import pytest

from .admission.rules import DEVICE_RULES, AdmissionRules
from .process.slot import StartRules

__all__ = ["Numbers", "read_numbers"]

FLAG = "--paddleapi-set"
#: These have an option of their own.
_ELSEWHERE = {"pressure_seconds": "--paddleapi-pressure-timeout"}

Rules = TypeVar("Rules", AdmissionRules, StartRules)


@dataclass(frozen=True)
class Numbers:
    """Both sets of rules, as the user wants them: admission on the host and on other devices, and starts."""

    host: AdmissionRules = field(default_factory=AdmissionRules)
    devices: AdmissionRules = DEVICE_RULES
    starts: StartRules = field(default_factory=StartRules)

    def admission(self, kind: str, *, keeps_cache: bool = False) -> AdmissionRules:
        """Those for cases on this kind of device; ``keeps_cache``: processes keep freed memory for their next case."""
        if kind == "cpu":
            return self.host
        # On its way back it would never arrive, and the next case be refused for it.
        return dataclasses.replace(self.devices, inherit_held=True) if keeps_cache else self.devices


def read_numbers(given: Sequence[str], size: Callable[[str, str], int]) -> Numbers:
    """Numbers from ``NAME=VALUE`` texts; ``size`` reads a text such as ``1GiB``, for the option that it is told.

    Raises:
        pytest.UsageError: there is no such number, or it cannot have this value.
    """
    known = {f.name for rules in (AdmissionRules, StartRules) for f in dataclasses.fields(rules)}
    values: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if name in _ELSEWHERE:
            raise pytest.UsageError(f"{FLAG} {text}: give {_ELSEWHERE[name]} instead")
        if not equals or name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(known))}"
            raise pytest.UsageError(f"{FLAG} {text}: write NAME=VALUE with the name of a number; {hint}")
        if name in values:
            raise pytest.UsageError(f"{FLAG} {text}: {name} is given twice")
        values[name] = value
    return Numbers(
        _changed(AdmissionRules(), values, size),
        _changed(DEVICE_RULES, values, size),
        _changed(StartRules(), values, size),
    )


def _changed(rules: Rules, values: dict[str, str], size: Callable[[str, str], int]) -> Rules:
    names = {f.name for f in dataclasses.fields(rules)}
    wanted = {name: value for name, value in values.items() if name in names}
    try:
        return dataclasses.replace(rules, **{n: _value(n, v, getattr(rules, n), size) for n, v in wanted.items()})
    except ValueError as exc:
        raise pytest.UsageError(f"{FLAG} {' '.join(f'{n}={v}' for n, v in wanted.items())}: {exc}") from None


def _value(name: str, text: str, default: Any, size: Callable[[str, str], int]) -> Any:
    try:
        if isinstance(default, tuple):
            return tuple(float(part) for part in text.split(","))
        if isinstance(default, bool):
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        if isinstance(default, int):
            return int(text)
        return float(text) if isinstance(default, float) else text
    except (ValueError, KeyError):
        if name.endswith("_bytes"):
            return size(text, f"{FLAG} {name}")
        raise ValueError(f"{name} is like {default}, which {text!r} is not") from None
