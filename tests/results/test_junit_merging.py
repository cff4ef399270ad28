"""Several JUnit files made into one."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from pytest_paddleapi.results.errors import ResultsError
from pytest_paddleapi.results.junit_merging import merge_junit

TESTS = """
import pytest

@pytest.mark.parametrize("x", ["a", "<&>", "d\\ne", "\\x01", "é", 'q"'])
def test_passes(x, record_property):
    record_property("config", x)

def test_fails():
    print("said")
    assert "<" == "&"

def test_skipped():
    pytest.skip("no")

@pytest.fixture
def broken():
    yield
    raise RuntimeError("in teardown")

def test_fails_twice(broken):
    assert 0

def test_error(nothing):
    pass
"""


def suite(path: Path) -> ElementTree.Element:
    (found,) = ElementTree.parse(path).getroot().findall("testsuite")
    return found


def content(path: Path) -> tuple[dict[str, str], list[str]]:
    """Everything but times, order and where it ran."""
    found = suite(path)
    for case in found:
        case.attrib.pop("time")
    apart = {name: value for name, value in found.attrib.items() if name not in ("time", "timestamp")}
    return apart, sorted(ElementTree.tostring(case, encoding="unicode") for case in found)


def written(path: Path, timestamp: str, **outcomes: str) -> Path:
    cases = "".join(
        f'<testcase classname="a" name="{name}" time="1.0">{f"<{kind}/>" if kind else ""}</testcase>'
        for name, kind in outcomes.items()
    )
    counts = {kind: list(outcomes.values()).count(tag) for kind, tag in (("failures", "failure"), ("errors", "error"))}
    path.write_text(
        f'<testsuites><testsuite name="pytest" errors="{counts["errors"]}" failures="{counts["failures"]}" skipped="0" '
        f'tests="{len(outcomes)}" time="2.5" timestamp="{timestamp}" hostname="h">{cases}</testsuite></testsuites>'
    )
    return path


def test_files_of_parts_make_the_file_of_the_whole(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makepyfile(test_a=TESTS, test_b="def test_b(): pass\n")
    for name, choice in (
        ("whole", []),
        ("one", ["-k", "passes or error"]),
        ("two", ["-k", "not passes and not error"]),
    ):
        pytester.runpytest_inprocess(f"--junitxml={name}.xml", *choice)
    out = pytester.path / "all.xml"
    merged = merge_junit(out, [pytester.path / "two.xml", pytester.path / "one.xml"])
    assert content(out) == content(pytester.path / "whole.xml")
    assert (len(suite(out)), merged.testcases, merged.shared) == (12, 12, 0)
    assert out.read_text().startswith(
        '<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite '
    )
    assert [path.name for path in pytester.path.glob("all.xml*")] == ["all.xml"]


def test_of_a_testcase_in_two_files_that_of_the_later_one_counts(tmp_path: Path) -> None:
    late = written(tmp_path / "late.xml", "2026-01-02T00:00:00", f="", g="failure")
    early = written(tmp_path / "early.xml", "2026-01-01T00:00:00", f="failure", h="error")
    merged = merge_junit(tmp_path / "all.xml", [late, early])
    found = suite(tmp_path / "all.xml")
    assert {case.get("name"): [child.tag for child in case] for case in found} == {
        "f": [],
        "g": ["failure"],
        "h": ["error"],
    }
    assert (merged.testcases, merged.shared) == (3, 1)
    assert {name: found.get(name) for name in ("tests", "failures", "errors", "time", "timestamp", "hostname")} == {
        "tests": "3",
        "failures": "1",
        "errors": "1",
        "time": "5.000",
        "timestamp": "2026-01-01T00:00:00",
        "hostname": "h",
    }


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "no XML, or it is cut off"),
        ("<testsuites><testsuite tests='1'><testcase name='a'/>", "no XML, or it is cut off"),
        ("<html></html>", "its root is <html>"),
        ("<testsuites/>", "it has no test suite"),
        ("<testsuites><testsuite tests='x' name='p'/></testsuites>", "its tests is 'x'"),
        ("<testsuites><testsuite name='p'/><testsuite name='q'/></testsuites>", "several test suites"),
        (None, "No such file"),
    ],
)
def test_a_source_that_is_none_is_named_and_nothing_is_made(tmp_path: Path, text: str | None, word: str) -> None:
    good, bad = written(tmp_path / "good.xml", "2026", f=""), tmp_path / "bad.xml"
    if text is not None:
        bad.write_text(text)
    with pytest.raises(ResultsError) as raised:
        merge_junit(tmp_path / "all.xml", [good, bad])
    assert word in str(raised.value) and str(raised.value).startswith(str(bad))
    assert not list(tmp_path.glob("all.xml*"))


def test_what_is_there_is_replaced_only_by_force(tmp_path: Path) -> None:
    good, out = written(tmp_path / "good.xml", "2026", f=""), tmp_path / "all.xml"
    out.write_text("mine")
    with pytest.raises(ResultsError, match="--force"):
        merge_junit(out, [good])
    assert out.read_text() == "mine"
    merge_junit(out, [good], force=True)
    assert suite(out).get("tests") == "1"
