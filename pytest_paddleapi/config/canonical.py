"""From the text of a line to its canonical text, fast.

Captured lines differ from their canonical text by trailing commas only, and there are hundreds of thousands of them.
:func:`canonical_text` recognises such a line with one regular expression and drops the commas; every other line it
parses and prints. Why both ways give one result:

* The expression describes the printer's own spelling of a subset of the language: no blanks except the one after each
  argument and each dimension, integers without leading zeros or ``-0``, double-quoted strings of characters that the
  printer does not escape, ``slice`` with three values, containers within containers once. The only freedom is a comma
  before the bracket that closes a container or the call.
* Three things that the expression cannot say are checked after it: a float must be written as Python writes it
  (``repr(float(token)) == token``), a name may be given once only, and no name may be a keyword of Python.
* The strings of the subset hold no ``]`` and no ``)``, so a comma before one of them is never inside a string.

So on the subset ``parse_call`` accepts the text, and ``print_call`` of it is the text without these commas. Where any
condition fails the answer comes from the parser. ``tests/config/test_canonical.py`` compares both ways.
"""

from __future__ import annotations

import keyword
import re

from .model import ITEMSIZE
from .parse import DTYPE_NAMES, TYPE_NAMES, parse_call
from .printing import print_call

#: Longer lines are rare, and parsed.
_MAX_FAST = 100_000
#: Parts of an API's name, fewer than the parser lets through.
_MAX_PARTS = 10

_INT = r"(?:-?[1-9][0-9]{0,17}|0)"
_FLOAT = r"-?[0-9]+(?:\.[0-9]+(?:e[-+][0-9]+)?|e[-+][0-9]+)"
_DIM = r"(?:[1-9][0-9]{0,17}|0)"
_TENSOR = rf'Tensor\(\[(?:{_DIM}(?:, {_DIM})*)?\],"(?:{"|".join(ITEMSIZE)})"\)'
_STRING = r'"[A-Za-z0-9_ .:,;<>+*/=!?@#%^&|~$({}\[-]*"'
_SLICE_PART = rf"(?:None|{_INT})"
_DTYPE = rf"(?:Dtype|VarType)\((?:{'|'.join(sorted(DTYPE_NAMES))})\)"
_TYPE = rf"type\((?:{'|'.join(re.escape(name) for name in sorted(TYPE_NAMES))})\)"
_ATOM = "|".join(
    [
        _TENSOR,
        rf"{_INT}(?![0-9.e])",
        _STRING,
        "None|True|False",
        _FLOAT,
        rf"slice\({_SLICE_PART},{_SLICE_PART},{_SLICE_PART}\)",
        _DTYPE,
        _TYPE,
        "Ellipsis|nan|-?inf",
    ]
)


def _containers(element: str) -> str:
    return rf"list\[(?:(?:{element})(?:,|(?=\])))*\]|tuple\((?:(?:{element})(?:,|(?=\))))*\)"


_VALUE = f"(?:{_ATOM}|{_containers(f'{_ATOM}|{_containers(_ATOM)}')})"
_NAME = "[A-Za-z_][A-Za-z0-9_]*"
_USUAL = re.compile(rf"(paddle(?:\.{_NAME}){{1,{_MAX_PARTS}}})\((?:{_VALUE}, )*(?:{_NAME}={_VALUE}, )*\)")
_FLOATS = re.compile(_FLOAT)
_NAMES = re.compile(rf"(?<=[( ]){_NAME}(?==)")
_RESERVED = frozenset(keyword.kwlist) | {"__debug__"}


def canonical_text(text: str) -> str:
    """The canonical text of a line without blanks around it.

    Raises:
        ConfigSyntaxError: the line is not in the language.
    """
    usual = usual_spelling(text)
    return print_call(parse_call(text)) if usual is None else usual


def usual_spelling(text: str) -> str | None:
    """The canonical text of a line in the usual spelling; None for a line that must be parsed."""
    if len(text) > _MAX_FAST:
        return None
    if not text.endswith(", )"):
        if not text.endswith(")") or text.endswith("()"):
            return None
        text = text[:-1] + ", )"
    match = _USUAL.fullmatch(text)
    if match is None or not _RESERVED.isdisjoint(match.group(1).split(".")):
        return None
    arguments = text[match.end(1) :]
    # Most lines have no float: two quick looks save the search.
    if ("." in arguments or "e-" in arguments or "e+" in arguments) and not all(
        repr(float(token)) == token for token in _FLOATS.findall(arguments)
    ):
        return None
    if "=" in arguments:
        names = _NAMES.findall(arguments)
        if len(set(names)) < len(names) or not _RESERVED.isdisjoint(names):
            return None
    return f"{text[:-3]})".replace(",]", "]").replace(",)", ")")
