"""Measured peaks: the largest counts, sessions share the file, and a broken file costs nothing but its contents."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_paddleapi.results.learned import SAFETY_FACTOR, LearnedPeaks

CONFIG = 'paddle.abs(Tensor([2],"float32"), )'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "peaks.sqlite"


@pytest.fixture
def peaks(path: Path) -> Iterator[LearnedPeaks]:
    made = LearnedPeaks(path)
    yield made
    made.close()


def test_nothing_is_known_of_what_was_never_measured(peaks: LearnedPeaks) -> None:
    assert peaks.peak(CONFIG, "accuracy", "nvidia") is None
    assert peaks.estimate(CONFIG, "accuracy", "nvidia") is None


def test_the_largest_peak_counts(peaks: LearnedPeaks) -> None:
    for size in (100, 300, 200):
        peaks.record(CONFIG, "accuracy", "nvidia", size)
    assert peaks.peak(CONFIG, "accuracy", "nvidia") == 300


def test_config_mode_and_kind_are_told_apart(peaks: LearnedPeaks) -> None:
    peaks.record(CONFIG, "accuracy", "nvidia", 1)
    peaks.record(CONFIG, "paddle-only", "nvidia", 2)
    peaks.record(CONFIG, "accuracy", "xpu", 3)
    peaks.record(CONFIG.replace("2", "3"), "accuracy", "nvidia", 4)
    assert [peaks.peak(CONFIG, *place) for place in [("accuracy", "nvidia"), ("paddle-only", "nvidia")]] == [1, 2]
    assert peaks.peak(CONFIG, "accuracy", "xpu") == 3


def test_an_estimate_is_the_peak_with_the_safety_factor(peaks: LearnedPeaks) -> None:
    peaks.record(CONFIG, "accuracy", "nvidia", 1 << 30)
    found = peaks.estimate(CONFIG, "accuracy", "nvidia")
    assert found is not None
    assert 0 <= found - (1 << 30) * SAFETY_FACTOR <= 1


def test_peaks_outlive_the_session_that_measured_them(path: Path, peaks: LearnedPeaks) -> None:
    peaks.record(CONFIG, "accuracy", "nvidia", 5)
    peaks.close()
    assert LearnedPeaks(path).peak(CONFIG, "accuracy", "nvidia") == 5


def test_a_negative_peak_is_a_fault_of_the_caller(peaks: LearnedPeaks) -> None:
    with pytest.raises(ValueError, match="-1 bytes"):
        peaks.record(CONFIG, "accuracy", "nvidia", -1)


def test_the_file_is_the_users_own(path: Path, peaks: LearnedPeaks) -> None:
    peaks.record(CONFIG, "accuracy", "nvidia", 5)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_two_processes_that_write_at_once_lose_nothing(path: Path, peaks: LearnedPeaks) -> None:
    code = (
        "import sys, warnings; from pathlib import Path; from pytest_paddleapi.results.learned import LearnedPeaks\n"
        "warnings.simplefilter('error'); peaks = LearnedPeaks(Path(sys.argv[1])); own = sys.argv[2]\n"
        "for number in range(200):\n"
        "    peaks.record(f'own {own} {number}', 'accuracy', 'nvidia', number)\n"
        "    peaks.record('shared', 'accuracy', 'nvidia', 1000 * number + int(own))\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path), str(own)]) for own in (1, 2)]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert peaks.peak("shared", "accuracy", "nvidia") == 199_002
    for own in (1, 2):
        assert [peaks.peak(f"own {own} {number}", "accuracy", "nvidia") for number in range(200)] == list(range(200))


def test_a_writer_that_is_killed_leaves_a_file_that_others_use(path: Path, peaks: LearnedPeaks) -> None:
    code = (
        "import itertools, sys; from pathlib import Path; from pytest_paddleapi.results.learned import LearnedPeaks\n"
        "peaks = LearnedPeaks(Path(sys.argv[1]))\n"
        "for number in itertools.count(1):\n"
        "    peaks.record('killed', 'accuracy', 'nvidia', number); print(number, flush=True)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    for _ in range(20):
        said = int(writer.stdout.readline())
    writer.kill()
    writer.wait()
    writer.stdout.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        peaks.record(CONFIG, "accuracy", "nvidia", 5)
        found = peaks.peak("killed", "accuracy", "nvidia")
    assert found is not None
    assert found >= said


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_set_aside_with_a_warning(path: Path, peaks: LearnedPeaks, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.warns(UserWarning, match=r"peaks\.sqlite: .*damaged.*set aside as"):
        peaks.record(CONFIG, "accuracy", "nvidia", 7)
    assert peaks.peak(CONFIG, "accuracy", "nvidia") == 7
    (aside,) = path.parent.glob("peaks.sqlite.damaged-*[0-9]")
    assert aside.read_bytes() == content


def test_a_file_of_another_version_is_set_aside(path: Path, peaks: LearnedPeaks) -> None:
    peaks.record(CONFIG, "accuracy", "nvidia", 7)
    assert peaks._connection is not None
    peaks._connection.execute("pragma user_version = 99")
    peaks.close()
    with pytest.warns(UserWarning, match="it has version 99"):
        assert peaks.peak(CONFIG, "accuracy", "nvidia") is None


def test_a_place_that_cannot_be_written_is_told_once_and_stops_nothing(tmp_path: Path) -> None:
    peaks = LearnedPeaks(tmp_path / "no such folder" / "peaks.sqlite")
    with pytest.warns(UserWarning, match="cannot be used"):
        peaks.record(CONFIG, "accuracy", "nvidia", 7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert peaks.peak(CONFIG, "accuracy", "nvidia") is None


def test_a_planted_link_is_not_followed(path: Path, peaks: LearnedPeaks, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    os.symlink(target, path)
    with pytest.warns(UserWarning, match="cannot be used"):
        peaks.record(CONFIG, "accuracy", "nvidia", 7)
    assert not target.exists()
