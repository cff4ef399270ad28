"""Bounded capture of what a child writes."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from pytest_paddleapi.process.output import OutputFile


@pytest.fixture
def output() -> Iterator[OutputFile]:
    file = OutputFile()
    yield file
    file.close()


def test_text_is_taken_once(output: OutputFile) -> None:
    os.write(output.fd, "première ligne\n".encode())
    assert output.take() == "première ligne\n"
    assert output.take() == ""
    os.write(output.fd, b"next\n")
    assert output.take() == "next\n"


def test_peeking_takes_nothing(output: OutputFile) -> None:
    os.write(output.fd, b"words")
    assert output.peek() == output.peek() == output.take() == "words"


def test_bytes_that_are_no_text_are_replaced(output: OutputFile) -> None:
    os.write(output.fd, b"a\xff\xfeb")
    assert output.take() == "a��b"


def test_long_text_keeps_its_head_and_tail_and_says_what_is_missing(output: OutputFile) -> None:
    os.write(output.fd, b"first\n" + b"x" * 1_000_000 + b"\nlast")
    text = output.take()
    assert text.startswith("first\n")
    assert text.endswith("\nlast")
    assert f"{1_000_011 - 96 * 1024} bytes left out" in text


def test_trimming_frees_the_disk_and_keeps_the_head(output: OutputFile) -> None:
    os.write(output.fd, b"first\n")
    for _ in range(20):
        os.write(output.fd, b"y" * (1 << 20))
        output.trim()
        assert output.size() <= 9 << 20
    os.write(output.fd, b"last")
    text = output.take()
    assert text.startswith("first\n")
    assert text.endswith("last")
    assert f"{(20 << 20) + 10 - 96 * 1024} bytes left out" in text


def test_the_file_has_no_name(output: OutputFile) -> None:
    assert os.readlink(f"/proc/self/fd/{output.fd}").endswith("(deleted)")
    assert os.fstat(output.fd).st_mode & 0o777 == 0o600


def test_text_since_an_offset(output: OutputFile) -> None:
    os.write(output.fd, b"before")
    offset = output.size()
    os.write(output.fd, b"after")
    assert output.since(offset) == "after"
