"""Bounded capture of what a child writes."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from pytest_paddleapi.process import kernel
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


def test_trimming_frees_memory_and_keeps_the_head(output: OutputFile) -> None:
    os.write(output.fd, b"first\n")
    for _ in range(20):
        os.write(output.fd, b"y" * (1 << 20))
        output.trim()
        assert output.held() <= 9 << 20
    os.write(output.fd, b"last")
    text = output.take()
    assert text.startswith("first\n")
    assert text.endswith("last")
    assert f"{(20 << 20) + 10 - 96 * 1024} bytes left out" in text


@pytest.mark.parametrize("late", [1, 70_000, 3 << 20])
def test_what_is_written_while_the_middle_is_given_back_is_not_lost(
    output: OutputFile, late: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.write(output.fd, b"first\n" + b"y" * (20 << 20))
    real = kernel.punch_hole

    def slow(fd: int, offset: int, length: int) -> None:
        os.write(fd, b"z" * late + b"\nlast before")
        real(fd, offset, length)
        os.write(fd, b"\nlast after")

    monkeypatch.setattr(kernel, "punch_hole", slow)
    output.trim()
    assert output.take().endswith("z\nlast before\nlast after")


def test_the_next_text_starts_anew_after_a_long_one(output: OutputFile) -> None:
    os.write(output.fd, b"y" * (20 << 20))
    output.trim()
    output.take()
    assert output.held() == 0
    os.write(output.fd, b"first\n" + b"z" * (20 << 20) + b"\nlast")
    output.trim()
    text = output.take()
    assert (text[:6], text[-5:]) == ("first\n", "\nlast")


def test_the_file_has_no_name_and_takes_no_disk(output: OutputFile) -> None:
    assert os.readlink(f"/proc/self/fd/{output.fd}").startswith("/memfd:")


def test_text_since_an_offset(output: OutputFile) -> None:
    os.write(output.fd, b"before")
    offset = output.size()
    os.write(output.fd, b"after")
    assert output.since(offset) == "after"
