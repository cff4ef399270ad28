"""What two failures must have in common to be the same one."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..process.messages import CaseResult
from ..results.verdicts import Verdict

#: Not failures; there is nothing to keep.
FINE = frozenset(
    {
        Verdict.PASS,
        Verdict.CONFIG_PARSE,
        Verdict.CONFIG_INPUT,
        Verdict.CONFIG_CONVERT,
        Verdict.NOT_COMPARABLE,
        Verdict.OVERSIZE,
        Verdict.DEFERRED,
        Verdict.EXTERNAL_KILL,
    }
)
_INDEX = re.compile(r"\[[^\]]*\]")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_QUOTED = re.compile(r"[\"'`][^\"'`]*[\"'`]")
_DEATH = re.compile(r"SIG[A-Z0-9]+|exited with code \d+")
_STAGE = re.compile(r"\(stage: (\w+)\)")
_LONGEST = 120


class Signature(NamedTuple):
    """A verdict; which result it is about, or who raised; and what is wrong with it."""

    verdict: Verdict
    where: str = ""
    what: str = ""

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.verdict.value, self.where, self.what)))


def signature_of(result: CaseResult) -> Signature:
    """The kind of a result.

    Of a difference: the first output or gradient that differs (places in lists left out, because lists get shorter),
    and whether in values, dtype, shape or kind. Of an exception: side, type and message, without its numbers. Of a
    death: signal and stage; of a timeout: the stage.
    """
    text, verdict = result.text, result.verdict
    first = text.partition("\n")[0]
    if verdict in (Verdict.PADDLE_ACCURACY, Verdict.PADDLE_UNSTABLE):
        where, _, rest = first.partition(": ")
        return Signature(verdict, _INDEX.sub("[]", where), _difference(rest))
    if verdict is Verdict.PADDLE_CRASH or (verdict is Verdict.TORCH_ERROR and " raised " not in first):
        death = _DEATH.search(first)
        return Signature(verdict, _stage(first), death.group() if death else _words(first))
    if verdict is Verdict.TIMEOUT:
        return Signature(verdict, _stage(first))
    side, raised, message = first.partition(" raised ")
    if not raised:
        side, _, message = first.partition(": ")
    return Signature(verdict, side if len(side) < 40 else "", _words(message))


def _difference(text: str) -> str:
    if "elements differ" in text:
        return "values"
    kinds = [kind for kind in ("shape", "dtype") if re.search(rf"\b{kind}\b", text)]
    return " and ".join(kinds) if kinds else _words(text)


def _stage(text: str) -> str:
    found = _STAGE.search(text)
    return found.group(1) if found else ""


def _words(text: str) -> str:
    """A message without what changes with the sizes of its arguments."""
    for pattern in (_INDEX, _QUOTED, _NUMBER):
        text = pattern.sub("_", text)
    return " ".join(text.split())[:_LONGEST]
