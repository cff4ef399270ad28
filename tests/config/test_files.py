"""Which files a pattern names, and what lines a file has."""

from __future__ import annotations

import os
import random
import socket
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_paddleapi.config import ConfigFileError
from pytest_paddleapi.config.files import Line, LineKind, find_files, printable, read_lines
from pytest_paddleapi.config.parse import MAX_LINE

NOBODY = 65534


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """b.txt, a.txt, sub/c.txt, sub/deep/d.txt, sub/.hidden.txt, notes.md."""
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    for name in ("b.txt", "a.txt", "sub/c.txt", "sub/deep/d.txt", "sub/.hidden.txt", "notes.md"):
        (tmp_path / name).write_text("paddle.abs(1)\n")
    return tmp_path


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root may read everything; nobody else may enter a temporary folder of root's."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def found(tree: Path, *patterns: str) -> list[str]:
    return [path.relative_to(tree).as_posix() for path in find_files(patterns, tree)]


def refusal(tree: Path, *patterns: str) -> str:
    with pytest.raises(ConfigFileError) as caught:
        find_files(patterns, tree)
    return str(caught.value)


# Finding ------------------------------------------------------------------------------------------


def test_a_file_is_found_relative_to_the_folder_or_absolute(tree: Path) -> None:
    assert find_files(["b.txt", str(tree / "a.txt")], tree) == [tree / "b.txt", tree / "a.txt"]


def test_a_file_may_have_any_suffix_when_it_is_named(tree: Path) -> None:
    assert found(tree, "notes.md") == ["notes.md"]


def test_a_folder_gives_every_text_file_below_it_sorted(tree: Path) -> None:
    assert found(tree, ".") == ["a.txt", "b.txt", "sub/.hidden.txt", "sub/c.txt", "sub/deep/d.txt"]


def test_the_order_of_patterns_is_kept_and_a_file_counts_once(tree: Path) -> None:
    assert found(tree, "sub/c.txt", "b.txt", "./sub/../b.txt", ".", str(tree / "a.txt")) == [
        "sub/c.txt",
        "b.txt",
        "a.txt",
        "sub/.hidden.txt",
        "sub/deep/d.txt",
    ]


def test_one_file_under_two_names_counts_once(tree: Path) -> None:
    (tree / "link.txt").symlink_to("a.txt")
    os.link(tree / "b.txt", tree / "hard.txt")
    assert found(tree, "a.txt", "b.txt", "link.txt", "hard.txt") == ["a.txt", "b.txt"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.txt", ["a.txt", "b.txt"]),
        ("[b-z].txt", ["b.txt"]),
        ("?.txt", ["a.txt", "b.txt"]),
        ("*/*.txt", ["sub/c.txt"]),
        ("**/*.txt", ["a.txt", "b.txt", "sub/c.txt", "sub/deep/d.txt"]),
        ("**/d.txt", ["sub/deep/d.txt"]),
        ("s*/**/[cd].txt", ["sub/c.txt", "sub/deep/d.txt"]),
        ("sub/**", ["sub/.hidden.txt", "sub/c.txt", "sub/deep/d.txt"]),
        ("*.md", ["notes.md"]),
        ("sub/.h*", ["sub/.hidden.txt"]),
        ("*/deep", ["sub/deep/d.txt"]),
    ],
)
def test_a_glob_gives_what_it_matches_sorted(tree: Path, pattern: str, expected: list[str]) -> None:
    assert found(tree, pattern) == expected
    assert found(tree, str(tree / pattern)) == expected


def test_a_file_whose_name_looks_like_a_glob_is_that_file(tree: Path) -> None:
    (tree / "a[1].txt").write_text("")
    (tree / "a1.txt").write_text("")
    assert found(tree, "a[1].txt") == ["a[1].txt"]


def test_a_folder_whose_name_looks_like_a_glob_is_that_folder(tree: Path) -> None:
    folder = tree / "run[1]"
    folder.mkdir()
    (folder / "a.txt").write_text("")
    (folder / "b.cfg").write_text("")
    assert find_files(["*.txt"], folder) == [folder / "a.txt"]
    assert find_files([str(folder / "*.cfg")], tree) == [folder / "b.cfg"]
    assert "'?.txt/x' matches no file" in refusal(folder, "?.txt/x")


def test_the_home_folder_is_a_tilde(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tree / "sub"))
    assert found(tree, "~/c.txt") == ["sub/c.txt"]


def test_a_folder_named_like_a_text_file_is_a_folder(tree: Path) -> None:
    (tree / "x.txt").mkdir()
    (tree / "x.txt" / "e.txt").write_text("")
    assert found(tree, "x.txt") == ["x.txt/e.txt"]
    assert "x.txt/e.txt" in found(tree, ".")
    assert found(tree, "x*.txt") == ["x.txt/e.txt"]


def test_linked_folders_are_entered_and_a_circle_of_links_ends(tree: Path) -> None:
    outside = tree / "outside"
    outside.mkdir()
    (outside / "o.txt").write_text("")
    (tree / "sub" / "up").symlink_to("..")
    (tree / "sub" / "other").symlink_to(outside)
    assert sorted(found(tree, "sub")) == [
        "sub/.hidden.txt",
        "sub/c.txt",
        "sub/deep/d.txt",
        "sub/other/o.txt",
        "sub/up/a.txt",
        "sub/up/b.txt",
    ]
    assert len(found(tree, "**/*.txt")) == 5


def test_a_link_that_leads_nowhere_or_in_a_circle_is_an_error_that_names_it(tree: Path) -> None:
    (tree / "dead.txt").symlink_to("gone.txt")
    assert refusal(tree, "dead.txt") == f"the symbolic link {tree}/dead.txt leads nowhere"
    assert "dead.txt" in refusal(tree, ".")
    (tree / "dead.txt").unlink()
    (tree / "loop.txt").symlink_to("loop.txt")
    assert "loop.txt: Too many levels of symbolic links" in refusal(tree, "loop.txt")
    assert "loop.txt" in refusal(tree, ".")


def test_a_dead_link_that_is_no_text_file_is_nobodys_business(tree: Path) -> None:
    (tree / "latest").symlink_to("gone")
    (tree / "loop").symlink_to("loop")
    assert "a.txt" in found(tree, ".")
    assert "a.txt" in found(tree, "**/*.txt")


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("aa.txt", ["'aa.txt' does not exist", "did you mean 'a.txt'"]),
        ("sub/deap/d.txt", ["'sub/deap/d.txt' does not exist", "there is no 'deap' in", "did you mean 'deep'?"]),
        ("sbu", ["did you mean 'sub'?"]),
        ("quite-different", ["'quite-different' does not exist"]),
        ("a.txt/b.txt", ["'a.txt/b.txt' does not exist"]),
        ("*.cfg", ["'*.cfg' matches no file"]),
        ("sbu/**/*.txt", ["'sbu/**/*.txt' does not exist", "there is no 'sbu'", "did you mean 'sub'?"]),
        ("sub/**/*.cfg", ["matches no file"]),
        ("", ["is no path"]),
        ("  ", ["is no path"]),
        ("a\0b", ["'a\\x00b' is no path"]),
        ("x" * 300, ["File name too long"]),
        ("name\udc80", ["'name\\udc80' does not exist"]),
    ],
)
def test_a_pattern_that_matches_nothing_is_an_error_that_names_it(tree: Path, pattern: str, parts: list[str]) -> None:
    message = refusal(tree, "a.txt", pattern)
    for part in parts:
        assert part in message
    assert message.encode()
    assert message.isprintable()
    assert ("did you mean" in message) == any("did you mean" in part for part in parts)


def test_a_folder_without_text_files_is_an_error(tree: Path) -> None:
    (tree / "empty").mkdir()
    assert refusal(tree, "empty") == f"the config folder {tree}/empty holds no *.txt file"


def test_what_is_neither_file_nor_folder_is_an_error(tree: Path) -> None:
    os.mkfifo(tree / "pipe.txt")
    assert "pipe.txt is neither a file nor a folder" in refusal(tree, "pipe.txt")
    assert "pipe.txt" in refusal(tree, ".")


def test_a_socket_that_is_no_text_file_is_passed_over(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        assert "a.txt" in found(tree, ".")


def test_a_folder_that_may_not_be_read_is_an_error_that_says_so(tree: Path) -> None:
    (tree / "sub").chmod(0)
    try:
        with unprivileged():
            assert "Permission denied" in refusal(tree, "sub")
            assert "Permission denied" in refusal(tree, "sub/**/d.txt")
            assert "Permission denied" in refusal(tree, ".")
    finally:
        (tree / "sub").chmod(0o755)


# Reading ------------------------------------------------------------------------------------------


def lines_of(path: Path, content: bytes) -> list[Line]:
    path.write_bytes(content)
    return list(read_lines(path))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.txt"


def test_blank_lines_and_comments_are_passed_over_and_counted_in_the_numbers(path: Path) -> None:
    content = b"# head\n\n  \t\npaddle.abs(1)\n   # more\n  paddle.abs(2)  \nnothing\n"
    assert lines_of(path, content) == [
        Line(4, "paddle.abs(1)", LineKind.CONFIG),
        Line(6, "paddle.abs(2)", LineKind.CONFIG),
        Line(7, "nothing", LineKind.SKIPPED),
    ]


@pytest.mark.parametrize(
    "content", [b"\xef\xbb\xbfpaddle.abs(1)\r\npaddle.abs(2)\r\n", b"paddle.abs(1)\npaddle.abs(2)"]
)
def test_a_byte_order_mark_line_ends_and_a_missing_last_one_do_not_matter(path: Path, content: bytes) -> None:
    assert [line.text for line in lines_of(path, content)] == ["paddle.abs(1)", "paddle.abs(2)"]
    assert [line.kind for line in read_lines(path)] == [LineKind.CONFIG] * 2


def test_text_beyond_ascii_is_utf_8(path: Path) -> None:
    assert lines_of(path, 'paddle.abs("größe 漢")'.encode())[0].text == 'paddle.abs("größe 漢")'


def test_bytes_that_are_not_utf_8_are_kept(path: Path) -> None:
    (line,) = lines_of(path, b'paddle.abs("\xff\xfe")\n')
    assert line.text == 'paddle.abs("\udcff\udcfe")'
    assert line.text.encode("utf-8", "surrogateescape") == b'paddle.abs("\xff\xfe")'


@pytest.mark.parametrize(
    "text", ["Paddle.abs(1)", "paddle", "paddle_abs(1)", "torch.abs(1)", "import paddle", "1: paddle.abs(1)", "\x1a"]
)
def test_what_does_not_begin_with_paddle_and_a_point_is_skipped_text(path: Path, text: str) -> None:
    assert lines_of(path, text.encode()) == [Line(1, text, LineKind.SKIPPED)]


def test_an_empty_file_has_no_lines(path: Path) -> None:
    assert lines_of(path, b"") == []
    assert lines_of(path, b"\xef\xbb\xbf") == []


def test_nul_bytes_are_kept(path: Path) -> None:
    first, second = lines_of(path, b'paddle.abs("\0")\n\0\0\n')
    assert first == Line(1, 'paddle.abs("\0")', LineKind.CONFIG)
    assert second == Line(2, "\0\0", LineKind.SKIPPED)


def test_binary_junk_is_skipped_text(path: Path) -> None:
    junk = random.Random(3).randbytes(200_000)
    lines = lines_of(path, b"PK\x03\x04" + junk)
    assert lines
    assert {line.kind for line in lines} == {LineKind.SKIPPED}


def test_a_file_that_is_utf_16_is_an_error_that_says_so(path: Path) -> None:
    with pytest.raises(ConfigFileError, match=r"x\.txt is UTF-16; config files are UTF-8"):
        lines_of(path, "paddle.abs(1)\n".encode("utf-16"))


def test_a_folder_and_a_file_that_is_not_there_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigFileError, match=r"cannot read the config file .*: Is a directory"):
        list(read_lines(tmp_path))
    with pytest.raises(ConfigFileError, match=r"gone\.txt: No such file or directory"):
        list(read_lines(tmp_path / "gone.txt"))


def test_a_file_that_may_not_be_read_is_an_error(path: Path) -> None:
    path.write_text("paddle.abs(1)")
    path.chmod(0)
    with unprivileged(), pytest.raises(ConfigFileError, match=r"x\.txt: Permission denied"):
        list(read_lines(path))


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that opens and cannot be read")
def test_a_file_that_fails_while_it_is_read_is_an_error() -> None:
    with pytest.raises(ConfigFileError, match=r"/proc/self/mem: Input/output error"):
        list(read_lines(Path("/proc/self/mem")))


def test_lines_are_read_one_at_a_time(path: Path) -> None:
    with path.open("w") as file:
        for number in range(50_000):
            file.write(f'paddle.abs(Tensor([{number}, 100, 100],"float32"), )\n')
    tracemalloc.start()
    count = sum(1 for _ in read_lines(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 50_000
    assert peak < 2**20


def test_of_an_endless_line_only_the_beginning_is_kept(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b"paddle.abs(")
        for _ in range(20):
            file.write(b"1," * 2**20)
        file.write(b")\npaddle.abs(2)\n")
    tracemalloc.start()
    first, second = read_lines(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(first.text) == MAX_LINE + 1
    assert second == Line(2, "paddle.abs(2)", LineKind.CONFIG)
    assert peak < 8 * 2**20


def test_a_line_of_just_the_longest_length_is_kept_whole(path: Path) -> None:
    text = "paddle.abs(" + "1" * (MAX_LINE - 12) + ")"
    first, second = lines_of(path, f"{text}\r\npaddle.abs(2)\r\n".encode())
    assert first.text == text
    assert second.number == 2


def test_printable_escapes_what_does_not_print() -> None:
    assert printable("a b\té\u200b\udc80\U000e0001") == "a b\\té\\u200b\\udc80\\U000e0001"
