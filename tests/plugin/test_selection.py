"""Ids and everything that selects by them (collection only: no framework is imported)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import PASS, PASS_2, UNPARSED, Session

Run = Callable[..., Session]
Configs = Callable[..., Path]


def collected(session: Session) -> list[str]:
    """Node ids in the output of ``--collect-only -q``."""
    return [line for line in session.result.outlines if "::" in line and not line.startswith(" ")]


def test_id_is_file_api_and_canonical_arguments(run: Run, configs: Configs) -> None:
    configs("a.txt", 'paddle.abs(Tensor([2],"float32"), )', 'paddle.add(x=Tensor( [1 , 2],"float32"),y=1, )')
    session = run("--paddleapi-configs=a.txt", "--accuracy", "--collect-only", "-q")
    assert collected(session) == [
        'a.txt::paddle.abs[Tensor([2],"float32")]',
        'a.txt::paddle.add[x=Tensor([1, 2],"float32"), y=1]',
    ]


def test_folder_glob_and_repeated_paths_are_each_collected_once(run: Run, configs: Configs) -> None:
    configs("c/b.txt", PASS)
    configs("c/deep/a.txt", PASS_2)
    configs("c/not-a-config.md", PASS)
    session = run("--paddleapi-configs=c", "--paddleapi-configs=c/*.txt", "--accuracy", "--collect-only", "-q")
    assert [line.split("::")[0] for line in collected(session)] == ["c/b.txt", "c/deep/a.txt"]


def test_duplicates_and_skipped_text_are_counted_in_the_header(run: Run, configs: Configs) -> None:
    configs("a.txt", "# comment", "", PASS, PASS.replace(" ", ""), "some text", "paddle")
    configs("b.txt", PASS, PASS_2)
    session = run("--paddleapi-configs=a.txt", "--paddleapi-configs=b.txt", "--accuracy", "--collect-only")
    session.result.stdout.fnmatch_lines(["*2 configs from 2 files, left out: 2 duplicates, 2 lines without a config*"])


def test_path_that_matches_nothing_is_a_usage_error(run: Run) -> None:
    session = run("--paddleapi-configs=absent.txt", "--accuracy")
    assert session.result.ret == pytest.ExitCode.USAGE_ERROR
    session.result.stderr.fnmatch_lines(["*--paddleapi-configs*absent.txt*"])


@pytest.mark.parametrize("modes", [[], ["--accuracy", "--paddle-only"]])
def test_no_mode_or_two_is_a_usage_error_that_names_all(run: Run, configs: Configs, modes: list[str]) -> None:
    configs("a.txt", PASS)
    session = run("--paddleapi-configs=a.txt", *modes)
    assert session.result.ret == pytest.ExitCode.USAGE_ERROR
    session.result.stderr.fnmatch_lines(["*--accuracy*--paddle-only*"])


def test_a_mode_without_configs_says_how_to_give_some(run: Run) -> None:
    session = run("--accuracy")
    assert session.result.ret == pytest.ExitCode.USAGE_ERROR
    session.result.stderr.fnmatch_lines(["*nothing to run*--paddleapi-configs=PATH*"])


@pytest.mark.any_version
@pytest.mark.parametrize(
    ("option", "word"),
    [
        ("--paddleapi-timeout=0", "timeout"),
        ("--paddleapi-atol=-1", "atol"),
        ("--paddleapi-rtol=nan", "rtol"),
        ("--paddleapi-memory-limit=lots", "not a size"),
        ("--paddleapi-memory-limit=16", "is 16GiB meant?"),
        ("--paddleapi-memory-limit=inf", "not a size"),
        ("--paddleapi-seed=99999999999999999999999", "at most"),
        ("--paddleapi-threads=100000000000000000000", "at most"),
        ("--paddleapi-timeout=1e300", "at most"),
        ("--paddleapi-tolerances=absent.yaml", "absent.yaml: No such file"),
        ("--paddleapi-ledger=absent/ledger", "make the folder above it first"),
        ("--paddleapi-ledger=a.txt", "a.txt"),
        ("--paddleapi-config= ", "is empty"),
    ],
)
def test_wrong_option_values_are_usage_errors(run: Run, configs: Configs, option: str, word: str) -> None:
    configs("a.txt", PASS)
    session = run("--paddleapi-configs=a.txt", "--accuracy", option)
    assert session.result.ret == pytest.ExitCode.USAGE_ERROR
    assert word in session.result.stderr.str()


@pytest.mark.any_version
@pytest.mark.parametrize(
    ("entry", "word"),
    [
        ("paddle.exp:float33: {atol: 1, rtol: 1}", "no dtype 'float33'; there are bfloat16"),
        ("paddle.exp: {atol: much, rtol: 1}", "paddle.exp: Expected `float`"),
        ("exp: {atol: 1, rtol: 1}", "must be a Paddle API"),
    ],
)
def test_a_wrong_tolerance_is_named(
    run: Run, configs: Configs, pytester: pytest.Pytester, entry: str, word: str
) -> None:
    configs("a.txt", PASS)
    (pytester.path / "t.yaml").write_text(entry + "\n")
    session = run("--paddleapi-configs=a.txt", "--accuracy", "--paddleapi-tolerances=t.yaml")
    assert session.result.ret == pytest.ExitCode.USAGE_ERROR
    assert word in session.result.stderr.str()


def test_a_node_id_may_be_spelt_as_in_the_file(run: Run, configs: Configs) -> None:
    long = f"paddle.concat([{', '.join([PASS.partition('(')[2][:-1]] * 12)}], )"
    configs("a.txt", PASS, PASS_2, long)
    for name in (f"{PASS[:-1]} , )", PASS.replace("(", "[", 1)[:-1].replace(" ", "") + "]", long):
        session = run("--accuracy", f"a.txt::{name}", "--collect-only", "-q")
        assert len(collected(session)) == 1, session.out
        assert collected(session)[0].startswith(f"a.txt::{name.partition('(')[0].partition('[')[0]}[")


@pytest.mark.parametrize("name", ["a::b.txt", "a[1].txt", "a\udcff.txt"])
def test_a_file_that_can_have_no_node_ids_is_named(run: Run, configs: Configs, name: str, workers: str) -> None:
    configs(f"c/{name}", PASS)
    session = run("--accuracy", "--paddleapi-configs=c", workers)
    assert session.result.ret == pytest.ExitCode.USAGE_ERROR
    session.result.stderr.fnmatch_lines(["*can make no node ids for *rename it*"])


def test_a_config_file_may_have_any_suffix(run: Run, configs: Configs, workers: str) -> None:
    configs("cases.py", PASS, PASS_2)
    limit = "--paddleapi-memory-limit=100MiB"
    session = run("--accuracy", "--paddleapi-configs=cases.py", workers, limit)
    assert list(session.verdicts().values()) == ["oversize", "oversize"]
    assert set(run("--accuracy", "--paddleapi-configs=cases.py", workers).verdicts().values()) == {"pass"}


def test_skip_marks_of_a_conftest_hold(run: Run, configs: Configs, pytester: pytest.Pytester, workers: str) -> None:
    configs("a.txt", PASS, PASS_2)
    pytester.makeconftest(
        """
        import pytest
        def pytest_collection_modifyitems(items):
            items[0].add_marker(pytest.mark.skip(reason="not today"))
        """
    )
    session = run("--accuracy", "--paddleapi-configs=a.txt", workers, "-rs")
    session.result.assert_outcomes(passed=1, skipped=1)
    assert "skipped by a mark: not today" in session.out


def test_a_folder_as_argument_is_told_the_option(run: Run, configs: Configs) -> None:
    configs("c/a.txt", PASS)
    session = run("--accuracy", "c")
    assert session.result.ret == pytest.ExitCode.USAGE_ERROR
    session.result.stderr.fnmatch_lines(["*below c: --paddleapi-configs=c"])


def test_configs_of_the_command_line_are_counted(run: Run) -> None:
    session = run("--accuracy", f"--paddleapi-config={PASS}", f"--paddleapi-config={PASS_2}", "-k", "abs")
    session.result.assert_outcomes(passed=1, deselected=1)
    session.result.stdout.fnmatch_lines(
        ["*2 configs from the command line", "collected 2 items / 1 deselected / 1 selected"]
    )


@pytest.mark.any_version
def test_fixed_tolerance_options_clash_with_dtype_and_bitwise(run: Run, configs: Configs) -> None:
    configs("a.txt", PASS)
    for clash in (["--paddleapi-tolerance=dtype"], ["--paddleapi-bitwise"]):
        session = run("--paddleapi-configs=a.txt", "--accuracy", "--paddleapi-atol=1", *clash)
        assert session.result.ret == pytest.ExitCode.USAGE_ERROR


def test_keyword_selects_by_api_and_dtype(run: Run, configs: Configs) -> None:
    configs(
        "a.txt",
        'paddle.nn.functional.softmax(Tensor([2],"float16"))',
        'paddle.nn.functional.softmax(Tensor([2],"float32"))',
        'paddle.abs(Tensor([2],"float16"))',
    )
    session = run("--paddleapi-configs=a.txt", "--accuracy", "--collect-only", "-q", "-k", "softmax and float16")
    assert collected(session) == ['a.txt::paddle.nn.functional.softmax[Tensor([2],"float16")]']


def test_keyword_finds_the_dtype_of_a_shortened_name(run: Run, configs: Configs) -> None:
    many = ",".join(['Tensor([2],"float32")'] * 30 + ['Tensor([2],"float64")'])
    configs("a.txt", f"paddle.concat(list[{many},])", PASS)
    session = run("--paddleapi-configs=a.txt", "--accuracy", "--collect-only", "-q", "-k", "float64")
    assert len(collected(session)) == 1


def test_marker_expression_selects_by_mode(run: Run, configs: Configs) -> None:
    configs("a.txt", PASS)
    for expression, count in (("paddleapi", 1), ("not paddleapi", 0)):
        session = run("--paddleapi-configs=a.txt", "--accuracy", "--collect-only", "-q", "-m", expression)
        assert len(collected(session)) == count


def test_a_node_id_pasted_back_selects_one_case_and_an_api_prefix_all_of_it(run: Run, configs: Configs) -> None:
    configs("a.txt", 'paddle.abs(Tensor([2],"float32"))', 'paddle.abs(Tensor([3],"float32"))', PASS_2)
    one = 'a.txt::paddle.abs[Tensor([3],"float32")]'
    for extra in ([], ["--paddleapi-configs=a.txt"]):
        assert collected(run(*extra, "--accuracy", "--collect-only", "-q", one)) == [one]
    both = collected(run("--accuracy", "--collect-only", "-q", "a.txt::paddle.abs"))
    assert [line[:18] for line in both] == ["a.txt::paddle.abs["] * 2


def test_a_node_id_in_an_argument_file_selects_it(run: Run, configs: Configs, pytester: pytest.Pytester) -> None:
    configs("a.txt", PASS, PASS_2)
    wanted = f"a.txt::{PASS_2.replace('(', '[', 1)[:-1]}]"
    (pytester.path / "ids").write_text(f"{wanted}\n")
    assert collected(run("--accuracy", "--collect-only", "-q", "@ids")) == [wanted]


def test_deselect_takes_a_node_id(run: Run, configs: Configs) -> None:
    configs("a.txt", 'paddle.abs(Tensor([2],"float32"))', PASS_2)
    session = run(
        "--paddleapi-configs=a.txt",
        "--accuracy",
        "--collect-only",
        "-q",
        '--deselect=a.txt::paddle.abs[Tensor([2],"float32")]',
    )
    assert len(collected(session)) == 1


def test_command_line_configs_are_items_beside_files_and_their_ids_select_them(run: Run, configs: Configs) -> None:
    configs("a.txt", PASS)
    session = run("--paddleapi-configs=a.txt", f"--paddleapi-config={PASS_2}", "--accuracy", "--collect-only", "-q")
    names = collected(session)
    assert [name.split("::")[0] for name in names] == ["a.txt", "<command line>"]
    again = run("--accuracy", "--collect-only", "-q", names[1])
    assert collected(again) == [names[1]]


def test_long_arguments_are_shortened_to_a_hash_of_the_whole(run: Run, configs: Configs) -> None:
    arguments = f"list[{','.join(['1'] * 16_000)}]"
    configs("a.txt", f"paddle.shape({arguments})")
    (name,) = collected(run("--paddleapi-configs=a.txt", "--accuracy", "--collect-only", "-q"))
    assert len(name) < 300
    digest = hashlib.sha256(arguments.encode()).hexdigest()[:8]
    assert name.endswith(f"#{digest}]")


def test_odd_characters_make_printable_ids(run: Run, configs: Configs) -> None:
    configs(
        "a.txt",
        'paddle.abs("a::b[c]", \'q"uote\')',
        'paddle.abs("tab\\there")',
        'paddle.abs("caf\u00e9 \u4e2d")',
        "paddle.abs('\udcff\udcfe')",
        "paddle.abs('\x1b[31m')",
    )
    session = run("--paddleapi-configs=a.txt", "--accuracy", "--collect-only", "-q")
    names = collected(session)
    assert len(names) == 5
    assert all(name.isprintable() and name.endswith("]") for name in names)
    names[0].encode("utf-8")
    for name in names:
        assert collected(run("--accuracy", "--collect-only", "-q", name)) == [name]


def test_lines_that_do_not_parse_are_items_too(run: Run, configs: Configs) -> None:
    configs("a.txt", UNPARSED, PASS)
    assert len(collected(run("--paddleapi-configs=a.txt", "--accuracy", "--collect-only", "-q"))) == 2


def test_doctest_does_not_collect_a_config_file_again(run: Run, configs: Configs) -> None:
    configs("a.txt", PASS, ">>> 1 + 1", "3")
    session = run("a.txt", "--accuracy", "--collect-only", "-q", "--doctest-glob=*.txt")
    assert len(collected(session)) == 1


def test_without_our_options_nothing_is_done_and_nothing_heavy_imported(
    run: Run, configs: Configs, pytester: pytest.Pytester
) -> None:
    configs("a.txt", PASS)
    pytester.makepyfile(
        test_plain="""
        import sys

        def test_nothing_heavy():
            for name in ("paddle", "torch", "numpy", "psutil"):
                assert name not in sys.modules
            assert not [n for n in sys.modules if n.startswith("pytest_paddleapi.s")]
        """
    )
    result = pytester.runpytest_subprocess("test_plain.py", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)
