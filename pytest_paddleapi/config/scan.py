"""The look at a line before the Python parser sees it.

``ast`` accepts all of Python: chains of operators, calls or lambdas of any length are built into a tree before anyone
can say that they have no meaning here. This pass lets through only text whose tree is shallow: its depth is bounded by
the brackets (:data:`MAX_DEPTH`) and by the few signs between two separators (:data:`MAX_SIGNS`). What it refuses, it
refuses in the same words and at the same column under every version of Python.
"""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass
from typing import NoReturn

from .errors import ConfigSyntaxError

#: Brackets within brackets; real calls reach 5.
MAX_DEPTH = 32
#: Dots and signs between two commas or brackets: ``-1.5e-05-2.5e-05j`` has 6, the longest API name 5.
MAX_SIGNS = 12
#: A float64 written out in full has 309 before the point.
MAX_DIGITS = 400

_WORDS_WITH_MEANING = frozenset({"None", "True", "False"})
_KEYWORDS = frozenset(keyword.kwlist) - _WORDS_WITH_MEANING
_PAIRS = {")": "(", "]": "[", "}": "{"}
_BODY = r"(?:[^{quote}\\\r\n]|\\(?:\r\n|.))*"
_TOKEN = re.compile(
    # Whole tensors and whole names before a value are most of a line: one step instead of ten.
    r"(?P<tensor>(?<![\w.])Tensor\(\[[0-9, ]*\],\"\w+\"\))"
    r"|(?P<triple>\"\"\"|''')"
    rf'|(?P<string>"{_BODY.format(quote=chr(34))}"|\'{_BODY.format(quote=chr(39))}\')'
    r"|(?P<quote>[\"'])"
    r"|(?P<comment>#[^\r\n]*)"
    r"|(?P<open>[(\[{])"
    r"|(?P<close>[)\]}])"
    r"|(?P<comma>,)"
    r"|(?P<sign>[-+.])"
    r"|(?P<word>\w+)"
    r"|(?P<other>[^\s\w])",
    re.DOTALL,
)
_NUMBER = re.compile(r"[0-9][0-9_]*(?:[eE][0-9_]*)?[jJ]?|0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+")
# \N{...} would look a character up in a table; the others are escapes that Python cannot decode.
_HEX = "[0-9A-Fa-f]"
_ESCAPE_FAULT = rf"N|x(?!{_HEX}{{2}})|u(?!{_HEX}{{4}})|U(?!00(?:0{_HEX}|10){_HEX}{{4}})"
_BAD_ESCAPE = re.compile(rf"(?:[^\\]|\\(?!{_ESCAPE_FAULT}).)*?(\\(?:{_ESCAPE_FAULT}))", re.DOTALL)
_UNREADABLE = re.compile("[\0\ud800-\udfff]")
_PUNCTUATION = frozenset(":=")


def readable_source(text: str) -> str:
    """``text`` as Python that ``ast`` may parse: the word before the bracket of each ``list[...]`` becomes blanks.

    Every character keeps its column.

    Raises:
        ConfigSyntaxError: brackets do not match, or something stands there that no value of the language begins with.
    """
    _check_characters(text)
    return _Scan(text).run()


def _check_characters(text: str) -> None:
    if text.isascii() and "\0" not in text:
        return
    bad = _UNREADABLE.search(text)
    if bad is None:
        return
    what = "a NUL byte" if bad.group() == "\0" else "a byte that is not UTF-8"
    raise ConfigSyntaxError(text, bad.start(), f"{what} stands in the line")


@dataclass(slots=True)
class _Open:
    """A bracket that is open, and the argument of the bracket around it that it belongs to."""

    bracket: str
    column: int
    argument: int | None
    named: bool
    #: One of the arguments within this bracket has a name.
    has_named: bool = False


class _Scan:
    """One pass from left to right; ``previous`` is the kind of the token before."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.opened: list[_Open] = []
        self.lists: list[int] = []
        self.signs = 0
        self.previous = "start"
        self.word = ""
        self.word_column = 0
        #: Where the argument begins that is being read (None: nothing of it yet), and whether it has a name.
        self.argument: int | None = None
        self.named = False

    def run(self) -> str:
        done = False
        for match in _TOKEN.finditer(self.text):
            kind, token, column = match.lastgroup or "", match.group(), match.start()
            if kind == "comment":
                continue
            if done:
                self.fail(column, "expected one call and nothing after it")
            self.step(kind, token, column)
            self.previous = "close" if kind == "tensor" else kind
            done = kind == "close" and not self.opened
        if self.opened:
            last = self.opened[-1]
            self.fail(last.column, f"{last.bracket!r} is never closed; the line may be cut off")
        return self.blanked()

    def step(self, kind: str, token: str, column: int) -> None:
        if kind in ("comma", "close"):
            if self.opened and self.argument is not None:
                self.end_argument(self.opened[-1])
            self.signs, self.argument, self.named = 0, None, False
            if kind == "close":
                self.close(token, column)
            return
        if self.previous == "close" or (self.previous == "string" and token != ":"):
            self.fail(column, "expected a comma or a closing bracket")
        if self.argument is None:
            self.argument = column
        if kind == "sign":
            self.signs += 1
            if self.signs > MAX_SIGNS:
                self.fail(column, f"more than {MAX_SIGNS} dots and signs without a comma or bracket")
        elif kind == "word":
            self.see_word(token, column)
        elif kind == "tensor":
            if self.previous == "word":
                self.fail(column, "expected a comma or a closing bracket")
        elif kind == "open":
            self.open(token, column)
        elif kind == "string":
            self.see_string(token, column)
        elif kind == "other":
            self.see_other(token, column)
        elif kind == "triple":
            self.fail(column, "a triple-quoted string is not in the config language")
        else:
            self.fail(column, "the string is never closed; the line may be cut off")

    def end_argument(self, within: _Open) -> None:
        if self.named:
            within.has_named = True
        elif within.has_named and self.argument is not None:
            self.fail(self.argument, "an argument without a name stands after one with a name")

    def open(self, bracket: str, column: int) -> None:
        if bracket == "[" and self.previous == "word":
            if self.word != "list":
                self.fail(column, "a list is written list[...] or [...], and nothing else is indexed")
            self.lists.append(self.word_column)
        if len(self.opened) == MAX_DEPTH:
            self.fail(column, f"nested deeper than {MAX_DEPTH} levels")
        self.opened.append(_Open(bracket, column, self.argument, self.named))
        self.signs, self.argument, self.named = 0, None, False

    def close(self, bracket: str, column: int) -> None:
        if not self.opened:
            self.fail(column, f"{bracket!r} closes nothing")
        opener = self.opened.pop()
        if opener.bracket != _PAIRS[bracket]:
            self.fail(column, f"{bracket!r} does not close the {opener.bracket!r} in column {opener.column + 1}")
        self.argument, self.named = opener.argument, opener.named

    def see_word(self, word: str, column: int) -> None:
        if word in _KEYWORDS:
            self.fail(column, f"{word!r} is not in the config language")
        if self.previous == "word":
            self.fail(column, "expected a comma or a closing bracket")
        if word[0].isdigit():
            self.see_number(word, column)
        self.word, self.word_column = word, column

    def see_number(self, word: str, column: int) -> None:
        """``word`` may be a part: what stands between a point or a sign and the next."""
        if len(word) > MAX_DIGITS:
            self.fail(column, f"a number of more than {MAX_DIGITS} digits")
        if _NUMBER.fullmatch(word) is None:
            self.fail(column, f"{word[:20]!r} is not a number")
        whole = self.previous != "sign" and not self.text.startswith(".", column + len(word))
        if whole and word[0] == "0" and word.strip("0_").isdigit():
            self.fail(column, "a number begins with a zero")

    def see_string(self, token: str, column: int) -> None:
        if self.previous == "word":
            if self.word_column + len(self.word) == column:
                self.fail(self.word_column, f"a string with the prefix {self.word[:8]!r} is not in the config language")
            self.fail(column, "expected a comma or a closing bracket")
        if "\\" in token and (bad := _BAD_ESCAPE.match(token)):
            self.fail(column + bad.start(1), f"the escape {bad.group(1)} is not in the config language or is cut short")

    def see_other(self, token: str, column: int) -> None:
        if token not in _PUNCTUATION:
            shown = repr(token) if token.isprintable() else f"the character U+{ord(token):04X}"
            self.fail(column, f"{shown} is not in the config language")
        if self.previous == "other":
            self.fail(column, f"{token!r} is not expected here")
        self.named |= token == "="

    def blanked(self) -> str:
        parts, done = [], 0
        for column in self.lists:
            parts += [self.text[done:column], "    "]
            done = column + len("list")
        return "".join([*parts, self.text[done:]])

    def fail(self, column: int, reason: str) -> NoReturn:
        raise ConfigSyntaxError(self.text, column, reason)
