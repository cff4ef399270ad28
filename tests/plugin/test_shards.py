"""``--paddleapi-shard`` in sessions, beside everything else that chooses."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_paddleapi.commands import main
from pytest_paddleapi.results.folder import ResultsFolder
from pytest_paddleapi.results.reading import ResultsReader
from pytest_paddleapi.results.rows import Attempt, Environment
from pytest_paddleapi.results.store import ResultsStore
from pytest_paddleapi.results.verdicts import Verdict

from .conftest import BOTH_ERROR, INEXACT, PASS, UNKNOWN, UNPARSED, UNSUPPORTED, Session

Run = Callable[..., Session]
Configs = Callable[..., Path]
Look = Callable[..., list[str]]

LINES = tuple(
    f'paddle.{name}(Tensor([{n}],"{dtype}"))'
    for name in ("abs", "exp")
    for n in range(2, 7)
    for dtype in ("float32", "float64")
)
FILE = "--paddleapi-configs=a.txt"


@pytest.fixture
def look(pytester: pytest.Pytester) -> Look:
    """The node ids of what a command would run, and its other lines. In this process: nothing is run."""

    def collect(*args: str) -> list[str]:
        options = ("--accuracy", "--paddleapi-device=cpu", "--collect-only", "-q", "-p", "no:hypothesispytest")
        return pytester.runpytest_inprocess(*options, *args).outlines

    return collect


def ids(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith(("a.txt::", "<command line>::"))]


def record(folder: Path, seconds: dict[str, float], mode: str = "accuracy") -> None:
    """A store as an earlier session left it."""
    store = ResultsStore(ResultsFolder(folder))
    store.begin(Environment(mode, "cpu", ("x",), "host", "3", "2", "0", "9", "3.11"))
    for line, taken in seconds.items():
        api = line.partition("(")[0]
        store.record(Attempt(line, line, api, Verdict.PASS, "passed", 1, 1.0, "a.txt", 1, measured={"seconds": taken}))
    store.finish(0)
    store.close()


def test_shards_divide_whatever_else_chooses(configs: Configs, look: Look, pytester: pytest.Pytester) -> None:
    configs("a.txt", *LINES, UNPARSED, LINES[0], LINES[0].replace("(Tensor", "( Tensor"))
    whole = ids(look(FILE))
    assert len(whole) == 21

    def shards(*args: str) -> list[list[str]]:
        return [ids(look(FILE, *args, f"--paddleapi-shard={k}/3")) for k in (1, 2, 3)]

    parts = shards()
    assert sorted(name for part in parts for name in part) == sorted(whole)
    assert all(part == [name for name in whole if name in part] for part in parts)

    few = shards("-k", "exp and float64")
    assert few == [[name for name in part if "exp" in name and "float64" in name] for part in parts]
    # Pasted back, a node id is run by the shard that it is of, and by no other one.
    pasted = [ids(look(whole[4], f"--paddleapi-shard={k}/3")) for k in (1, 2, 3)]
    assert pasted == [[whole[4]] if whole[4] in part else [] for part in parts]
    assert [ids(look(f"--paddleapi-config={LINES[4]}", f"--paddleapi-shard={k}/3")) for k in (1, 2, 3)] == [
        [f"<command line>::{whole[4].partition('::')[2]}"] if whole[4] in part else [] for part in parts
    ]
    # A line more moves none of the others.
    configs("a.txt", PASS, *LINES, UNPARSED)
    assert [[name for name in part if name in whole] for part in shards()] == parts


def test_the_header_says_what_was_left_out_and_why(configs: Configs, look: Look, pytester: pytest.Pytester) -> None:
    configs("a.txt", *LINES)
    result = pytester.runpytest_inprocess(
        "--accuracy", "--collect-only", FILE, "--paddleapi-shard=2/3", "-p", "no:hypothesispytest"
    )
    own = len(ids(look(FILE, "--paddleapi-shard=2/3")))
    result.stdout.fnmatch_lines(
        [
            f"paddleapi: 20 configs from 1 file, left out: in other shards {20 - own}",
            f"paddleapi: shard 2/3: {own} of 20 cases, by a hash of each config",
        ]
    )
    result.stdout.fnmatch_lines([f"*{own}/20 tests collected ({20 - own} deselected)*"])


def test_a_record_that_all_shards_have_balances_them(configs: Configs, look: Look, pytester: pytest.Pytester) -> None:
    configs("a.txt", *LINES, PASS)
    costs = dict(zip(LINES, (100.0, 50.0, 50.0, *[1.0] * 17)))
    record(pytester.path / "record", costs)

    def shard(k: int) -> list[str]:
        return ids(look(FILE, f"--paddleapi-shard={k}/3", "--paddleapi-shard-costs=record"))

    parts = [shard(k) for k in (1, 2, 3)]
    assert sum(map(len, parts)) == 21
    of = {name.partition("::")[2].replace("[", "(", 1)[:-1] + ")": k for k, part in enumerate(parts) for name in part}
    assert len({of[line] for line in LINES[:3]}) == 3
    loads = [sum(costs[line] for line in LINES if of[line] == k) for k in range(3)]
    assert sorted(loads) == [58.0, 59.0, 100.0]
    # Neither lines that are gone nor new ones move what the record knows.
    configs("a.txt", *LINES[5:], *(f'paddle.neg(Tensor([{n}],"int32"))' for n in range(9)))
    later = [set(shard(k)) for k in (1, 2, 3)]
    assert all(name in later[k] for k, part in enumerate(parts) for name in part if name in set().union(*later))
    lines = pytester.runpytest_inprocess(
        "--accuracy", "--collect-only", FILE, "--paddleapi-shard=1/3", "--paddleapi-shard-costs=record"
    ).outlines
    assert any("15 of these 24 by their times in" in line for line in lines)


def test_by_sizes_the_heavy_ones_are_spread(configs: Configs, look: Look) -> None:
    heavy = [f'paddle.abs(Tensor([{n}, 1000000],"float32"))' for n in range(11, 15)]
    configs("a.txt", *LINES, *heavy)
    parts = [ids(look(FILE, f"--paddleapi-shard={k}/4", "--paddleapi-shard-costs=sizes")) for k in (1, 2, 3, 4)]
    assert sum(map(len, parts)) == 24
    assert [sum("1000000" in name for name in part) for part in parts] == [1, 1, 1, 1]


def test_resumed_shards_leave_out_what_is_decided(configs: Configs, look: Look, run: Run) -> None:
    configs("a.txt", UNPARSED, *(f"paddle.abs(Tensor([{n}," for n in range(3, 12)))
    options = (FILE, "--paddleapi-shard=1/2", "--paddleapi-results=r", "--paddleapi-device=cpu")
    first = run(*options, "--accuracy", "-n2")
    own = len(first.testcases)
    first.result.assert_outcomes(errors=own)
    assert 0 < own < 10
    assert ids(look(*options, "--paddleapi-resume")) == []
    assert len(ids(look(*options, "--paddleapi-retest=config_parse"))) == own
    assert len(ids(look(*options, "--lf"))) == own
    configs("a.txt", UNPARSED, *(f"paddle.abs(Tensor([{n}," for n in range(3, 22)))
    lines = look(*options, "--paddleapi-resume")
    every = look(*options)
    assert len(ids(lines)) == len(ids(every)) - own
    assert not {p["config"] for p in first.properties()} & {name.partition("::")[2] for name in ids(lines)}


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--paddleapi-shard=3/2"], "--paddleapi-shard=3/2: there is no shard 3 of 2"),
        (["--paddleapi-shard=2"], "write K/N"),
        (["--paddleapi-shard-costs=r"], "give --paddleapi-shard=K/N too"),
        (["--paddleapi-shard=1/2", "--paddleapi-shard-costs="], "is empty"),
        (["--paddleapi-shard=1/2", "--paddleapi-shard-costs=none"], "--paddleapi-shard-costs: "),
        (["--paddleapi-shard=1/2", "--paddleapi-shard-costs=other"], "no case of the mode 'accuracy' has a time there"),
        (["--paddleapi-shard=1/2", "--paddleapi-shard-costs=r", "--paddleapi-results=r"], "this session writes to"),
        (["--paddleapi-shard=1/2", "--paddleapi-shard-costs=.pytest_cache/d/paddleapi/results"], "this session writes"),
    ],
)
def test_what_cannot_divide_is_a_usage_error(
    configs: Configs, pytester: pytest.Pytester, options: list[str], word: str
) -> None:
    configs("a.txt", *LINES)
    record(pytester.path / "other", {LINES[0]: 1.0}, mode="paddle_only")
    result = pytester.runpytest_inprocess("--accuracy", "--collect-only", FILE, *options, "-p", "no:hypothesispytest")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert word in result.stderr.str()


@pytest.mark.slow  # four sessions of real cases, one after another
def test_merged_shards_are_the_unsharded_run(configs: Configs, pytester: pytest.Pytester, run: Run) -> None:
    lines = (
        *LINES,
        *(line.replace("abs", "neg").replace("exp", "sin") for line in LINES[:14]),
        PASS,
        BOTH_ERROR,
        INEXACT,
        UNPARSED,
        UNSUPPORTED,
        UNKNOWN,
    )
    configs("a.txt", *lines)
    options = (FILE, "--accuracy", "--paddleapi-bitwise", "--paddleapi-device=cpu", "-n0")
    assert len(lines) == 40
    run(*options, "--paddleapi-results=whole").xml.rename(pytester.path / "whole.xml")
    for k in (1, 2, 3):
        session = run(*options, f"--paddleapi-results=r{k}", f"--paddleapi-shard={k}/3")
        session.xml.rename(pytester.path / f"r{k}.xml")
    assert main(["merge", "all", "r3", "r1", "r2"]) == 0
    assert main(["merge", "all.xml", "r1.xml", "r2.xml", "r3.xml"]) == 0
    assert kept("all") == kept("whole")
    assert len(kept("all")) == 40
    assert cases_of(pytester.path / "all.xml") == cases_of(pytester.path / "whole.xml")
    whole, merged = (ElementTree.parse(name).getroot()[0].attrib for name in ("whole.xml", "all.xml"))
    assert {**whole, "time": "", "timestamp": ""} == {**merged, "time": "", "timestamp": ""}


#: When a case ran, how long it took and what its process held are measured anew in each run.
MEASURED_ANEW = ("started", "ended", "seconds", "peak_bytes")


def kept(folder: str) -> dict[str, dict[str, object]]:
    with ResultsReader(Path(folder)) as reader:
        return {
            row["config"]: {name: value for name, value in row.items() if name not in ("session", *MEASURED_ANEW)}
            for row in reader.attempts(every=True)
        }


def cases_of(path: Path) -> list[str]:
    found = ElementTree.parse(path).getroot()[0]
    for case in found:
        case.attrib.pop("time")
        for properties in case.findall("properties"):
            for entry in list(properties):
                if entry.get("name") in MEASURED_ANEW:
                    properties.remove(entry)
    return sorted(ElementTree.tostring(case, encoding="unicode") for case in found)
