"""Several JUnit files of pytest made into one, testcase by testcase, so that large ones need no memory."""

from __future__ import annotations

import contextlib
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import quoteattr

from .errors import ResultsError

__all__ = ["MergedXml", "merge_junit"]

_COUNTS = ("errors", "failures", "skipped", "tests")
#: What counts where under a testcase.
_KINDS = {"error": "errors", "failure": "failures", "skipped": "skipped"}


@dataclass
class MergedXml:
    """What came of it."""

    testcases: int = 0
    #: Testcases that stood in several files.
    shared: int = 0


@dataclass
class _Suite:
    """What a file says of itself; ``keys`` are its testcases."""

    path: Path
    attributes: dict[str, str] = field(default_factory=dict)
    outer: dict[str, str] = field(default_factory=dict)
    keys: set[tuple[str, str]] = field(default_factory=set)
    properties: list[str] = field(default_factory=list)


def merge_junit(out: Path, sources: Sequence[Path], *, force: bool = False) -> MergedXml:
    """Write ``out``, whole or not at all: one suite with the testcases of all ``sources``, in their order.

    Of a testcase that stands in several files (class name and name), that of the file whose suite began last is kept.

    Raises:
        ResultsError: a source is no JUnit file of pytest or cannot be read; ``out`` is there without ``force``, or
            cannot be written.
    """
    if os.path.lexists(out) and not force:
        raise ResultsError(out, "it is there already; give another name, or --force to replace it")
    suites = [_survey(path) for path in sources]
    winner: dict[tuple[str, str], int] = {}
    merged = MergedXml()
    for number in sorted(range(len(suites)), key=lambda n: (suites[n].attributes.get("timestamp", ""), n)):
        merged.shared += sum(key in winner for key in suites[number].keys)
        winner.update(dict.fromkeys(suites[number].keys, number))
    partial = out.with_name(f"{out.name}.{os.getpid()}.partial")
    try:
        with partial.open("x", encoding="utf-8") as file:
            merged.testcases = _write(file.write, suites, winner, _totals(suites, winner))
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, out)
    except OSError as exc:
        raise ResultsError(out, f"it cannot be written: {exc.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
    return merged


def _survey(path: Path) -> _Suite:
    suite = _Suite(path)
    for kind, element in _elements(path):
        if kind == "suite" and suite.attributes:
            raise ResultsError(path, "it has several test suites; only JUnit files as pytest writes them are merged")
        if kind == "suite":
            suite.attributes = dict(element.attrib)
        elif kind == "outer":
            suite.outer = dict(element.attrib)
        elif kind == "property":
            suite.properties.append(ElementTree.tostring(element, encoding="unicode").strip())
        else:
            suite.keys.add(_key(element))
    if not suite.attributes:
        raise ResultsError(path, "it has no test suite: it is no JUnit file")
    return suite


def _elements(path: Path) -> Iterator[tuple[str, ElementTree.Element]]:
    """``outer`` and ``suite`` (with their attributes alone), then ``property`` and ``testcase``, each whole.

    Raises:
        ResultsError: it cannot be read, or is no XML.
    """
    depth: list[ElementTree.Element] = []
    try:
        for event, element in ElementTree.iterparse(path, events=("start", "end")):
            if event == "start":
                if not depth and element.tag not in ("testsuites", "testsuite"):
                    raise ResultsError(path, f"its root is <{element.tag}>: it is no JUnit file")
                if element.tag in ("testsuites", "testsuite") and len(depth) < 2:
                    yield ("outer" if element.tag == "testsuites" else "suite"), element
                depth.append(element)
                continue
            depth.pop()
            if element.tag == "testcase" and depth and depth[-1].tag == "testsuite":
                yield "testcase", element
                depth[-1].remove(element)
            elif element.tag == "properties" and depth and depth[-1].tag == "testsuite":
                for child in element:
                    yield "property", child
                depth[-1].remove(element)
    except ElementTree.ParseError as exc:
        raise ResultsError(path, f"it is no XML, or it is cut off: {exc}") from None
    except OSError as exc:
        raise ResultsError(path, exc.strerror or str(exc)) from None


def _key(testcase: ElementTree.Element) -> tuple[str, str]:
    return testcase.get("classname", ""), testcase.get("name", "")


def _totals(suites: Sequence[_Suite], winner: dict[tuple[str, str], int]) -> dict[str, float]:
    """The sums of what the files say, less the testcases that are not kept.

    Not a count of what is kept, so that pytest's own rules of counting stay.
    """
    totals: dict[str, float] = dict.fromkeys(_COUNTS, 0)
    totals["time"] = 0.0
    for number, suite in enumerate(suites):
        for name in totals:
            try:
                totals[name] += float(suite.attributes.get(name, "0"))
            except ValueError:
                raise ResultsError(
                    suite.path, f"its {name} is {suite.attributes[name]!r}, which is no number"
                ) from None
        if all(winner[key] == number for key in suite.keys):
            continue
        for kind, element in _elements(suite.path):
            if kind == "testcase" and winner[_key(element)] != number:
                for child in element:
                    if child.tag in _KINDS:
                        totals[_KINDS[child.tag]] -= 1
                totals["tests"] -= 1
    return totals


def _write(
    write: Callable[[str], object],
    suites: Sequence[_Suite],
    winner: dict[tuple[str, str], int],
    totals: dict[str, float],
) -> int:
    first = min(suites, key=lambda suite: suite.attributes.get("timestamp", ""))
    attributes = {**first.attributes, **{name: str(int(totals[name])) for name in _COUNTS}}
    attributes["time"] = f"{totals['time']:.3f}"
    hosts = dict.fromkeys(suite.attributes["hostname"] for suite in suites if "hostname" in suite.attributes)
    if hosts:
        attributes["hostname"] = ",".join(hosts)
    write('<?xml version="1.0" encoding="utf-8"?>')
    write(f"<testsuites{_attributes(first.outer)}><testsuite{_attributes(attributes)}>")
    if properties := dict.fromkeys(text for suite in suites for text in suite.properties):
        write(f"<properties>{''.join(properties)}</properties>")
    count = 0
    for number, suite in enumerate(suites):
        for kind, element in _elements(suite.path):
            if kind == "testcase" and winner[_key(element)] == number:
                element.tail = None
                write(ElementTree.tostring(element, encoding="unicode"))
                count += 1
    write("</testsuite></testsuites>")
    return count


def _attributes(attributes: dict[str, str]) -> str:
    entities = {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
    return "".join(f" {name}={quoteattr(value, entities)}" for name, value in attributes.items())
