"""What a session runs: every case of its files once, in their order, each in as few bytes as it takes."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from .canonical import canonical_text
from .errors import ConfigSyntaxError
from .files import Line, LineKind, printable, read_lines

#: Stands for a file where configs come from ``--paddleapi-config``.
COMMAND_LINE = "<command line>"
#: Longer arguments are cut in a case's name.
MAX_ARGUMENTS = 200
#: Skipped lines that are kept as samples, and the characters kept of each.
MAX_SAMPLES = 5
SAMPLE_WIDTH = 80

#: Digits of the hash in a name: as few as tell it from all others.
_DIGITS = (0, 8, 16, 32, 64)
_LEADING_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
#: The API of a text that does not even begin with a name.
_NO_NAME = "config"
_TENSOR_DTYPE = re.compile(r'\bTensor\(\[[0-9, ]*\],"(\w+)"\)')


class Case(NamedTuple):
    """One config of a manifest.

    Attributes:
        file: the path of the file, or :data:`COMMAND_LINE`.
        line: where it stands first, from 1; on the command line, which option it is.
        canonical: the canonical text; of a line that is not in the language, the text itself.
        text: the text as written, without blanks around it, in its first spelling.
        api: the name of the API; of a line that is not in the language, what of a name it begins with.
        error: why the line is not in the language, quoting it; None for a line that is.
        short_name: the node name where it does not follow from ``canonical``.
    """

    file: str
    line: int
    canonical: str
    text: str
    api: str
    error: str | None = None
    short_name: str | None = None

    @property
    def name(self) -> str:
        """``api[arguments]``: the name of the pytest item, printable and unique in its manifest."""
        return _plain_name(self) if self.short_name is None else self.short_name

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes of the tensors, each once, in the order written."""
        return tuple(dict.fromkeys(_TENSOR_DTYPE.findall(self.canonical)))

    @property
    def place(self) -> str:
        """``FILE:LINE``, or which option it is, printable."""
        return f"{printable(self.file)}:{self.line}" if self.file != COMMAND_LINE else "--paddleapi-config"

    @property
    def printable_text(self) -> str:
        """The text as written, with an escape for every character that does not print."""
        return printable(self.text)


class SkippedLine(NamedTuple):
    """A line that is no config; ``text`` is its beginning, printable."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{printable(self.file)}:{self.line}: {self.text}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The cases of a session, in the order in which they are to run.

    Attributes:
        cases: every case once.
        by_file: the places in ``cases`` of a file (by its resolved path) and of :data:`COMMAND_LINE`.
        skipped: how many lines are no config.
        skipped_samples: the first few of them.
        duplicates: how many configs were left out because their canonical text stood earlier.
    """

    cases: Sequence[Case]
    by_file: Mapping[Path | str, range]
    skipped: int
    skipped_samples: tuple[SkippedLine, ...]
    duplicates: int
    _by_canonical: Mapping[str, Case]
    _by_short_name: Mapping[str, Case]

    def find(self, name: str) -> Case | None:
        """The case whose node name is ``name``."""
        case = self._by_short_name.get(name)
        if case is None:
            api, bracket, rest = name.partition("[")
            if bracket and rest.endswith("]"):
                case = self._by_canonical.get(f"{api}({rest[:-1]})")
        return case if case is not None and case.name == name else None

    def find_text(self, text: str) -> Case | None:
        """The case that a config means, in whatever spelling."""
        try:
            return self._by_canonical.get(canonical_text(text))
        except ConfigSyntaxError:
            return self._by_canonical.get(text)


def build_manifest(files: Iterable[Path], extra_configs: Sequence[str] = ()) -> Manifest:
    """Read the files and then the texts of ``--paddleapi-config``, once each.

    Raises:
        ConfigFileError: a file cannot be read.
    """
    builder = _Builder()
    for path in files:
        resolved = path.resolve()
        if resolved not in builder.by_file:
            builder.add(resolved, str(path), read_lines(path))
    if extra_configs:
        lines = (Line(place, text.strip(), LineKind.CONFIG) for place, text in enumerate(extra_configs, 1))
        builder.add(COMMAND_LINE, COMMAND_LINE, lines)
    return builder.manifest()


class _Builder:
    """A manifest in the making."""

    def __init__(self) -> None:
        self.cases: list[Case] = []
        self.by_canonical: dict[str, Case] = {}
        self.by_file: dict[Path | str, range] = {}
        self.irregular: list[int] = []
        self.skipped = 0
        self.samples: list[SkippedLine] = []
        self.duplicates = 0

    def add(self, key: Path | str, file: str, lines: Iterable[Line]) -> None:
        first = len(self.cases)
        for number, text, kind in lines:
            if kind is LineKind.CONFIG:
                self.add_config(file, number, text)
            else:
                self.skipped += 1
                if len(self.samples) < MAX_SAMPLES:
                    self.samples.append(SkippedLine(file, number, printable(text[:SAMPLE_WIDTH])[:SAMPLE_WIDTH]))
        self.by_file[key] = range(first, len(self.cases))

    def add_config(self, file: str, line: int, text: str) -> None:
        error = None
        try:
            canonical = canonical_text(text)
            api = canonical[: canonical.index("(")]
        except ConfigSyntaxError as exc:
            error = str(exc)
            canonical = text
            api = _leading_name(text)
        if canonical in self.by_canonical:
            self.duplicates += 1
            return
        if canonical == text:
            text = canonical  # one string, not two that are equal
        case = Case(file, line, canonical, text, sys.intern(api), error)
        if not _is_regular(case):
            self.irregular.append(len(self.cases))
        self.by_canonical[canonical] = case
        self.cases.append(case)

    def manifest(self) -> Manifest:
        by_short_name = self.name_irregular()
        return Manifest(
            cases=tuple(self.cases),
            by_file=self.by_file,
            skipped=self.skipped,
            skipped_samples=tuple(self.samples),
            duplicates=self.duplicates,
            _by_canonical=self.by_canonical,
            _by_short_name=by_short_name,
        )

    def name_irregular(self) -> dict[str, Case]:
        """Names for the cases whose name is not their canonical text, whatever the order of the lines."""
        named: dict[str, Case] = {}
        pending = self.irregular
        for digits in _DIGITS:
            groups: dict[str | None, list[int]] = {}
            for place in pending:
                groups.setdefault(_short_name(self.cases[place], digits), []).append(place)
            pending = []
            for name, places in groups.items():
                if name is None or len(places) > 1 or name in named or self.is_regular_name(name):
                    pending += places
                    continue
                case = self.cases[places[0]]._replace(short_name=name)
                self.cases[places[0]] = named[name] = self.by_canonical[case.canonical] = case
        return named

    def is_regular_name(self, name: str) -> bool:
        api, _, rest = name.partition("[")
        case = self.by_canonical.get(f"{api}({rest[:-1]})")
        return case is not None and _is_regular(case)


def _is_regular(case: Case) -> bool:
    """The name is the canonical text with brackets for parentheses."""
    length = len(case.canonical) - len(case.api) - len("()")
    return case.error is None and length <= MAX_ARGUMENTS and case.canonical.isprintable()


def _plain_name(case: Case) -> str:
    return f"{case.api}[{case.canonical[len(case.api) + 1 : -1]}]"


def _short_name(case: Case, digits: int) -> str | None:
    """A name for a case that is not regular; None where one without a hash would not do.

    The hash is that of the canonical arguments; of a line that is not in the language, of all that follows the name of
    the API, so that a parenthesis more or less makes another hash.
    """
    rest = case.canonical.removeprefix(case.api)
    arguments = rest.removeprefix("(").removesuffix(")")
    if digits == 0:
        complete = len(arguments) <= MAX_ARGUMENTS and arguments.isprintable()
        return f"{case.api}[{arguments}]" if complete else None
    whole = arguments if case.error is None else rest
    digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()
    shown = printable(arguments[:MAX_ARGUMENTS])[:MAX_ARGUMENTS]
    return f"{case.api}[{shown}#{digest[:digits]}]"


def _leading_name(text: str) -> str:
    match = _LEADING_NAME.match(text)
    return _NO_NAME if match is None else match.group()
