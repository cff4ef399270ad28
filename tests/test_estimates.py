"""Which source of a case's size wins."""

from __future__ import annotations

import time
from pathlib import Path

from pytest_paddleapi.config import parse_call
from pytest_paddleapi.config.device_sizes import guess_device_bytes
from pytest_paddleapi.config.sizes import estimate_host_bytes
from pytest_paddleapi.estimates import Estimates
from pytest_paddleapi.process.messages import CaseOptions, Mode

BIG = 'paddle.nn.functional.relu(Tensor([1024, 1024, 512],"float32"))'


def settled(estimates: Estimates, config: str, seconds: float = 60.0) -> int:
    deadline = time.monotonic() + seconds
    while (found := estimates.of(config)) is None:
        assert time.monotonic() < deadline, "no estimate came"
        time.sleep(0.05)
    return found


def test_on_the_host_shapes_are_known_at_once() -> None:
    estimates = Estimates(CaseOptions(), "cpu", learned=None)
    assert estimates.of(BIG) == estimate_host_bytes(parse_call(BIG))
    assert estimates.of("no config") == 0


def test_on_the_host_a_mode_that_runs_twice_takes_more() -> None:
    twice = Estimates(CaseOptions(mode=Mode.ACCURACY_STABLE), "cpu", learned=None)
    # Per tensor: inputs and both gradients, both results and what was fed into them.
    assert twice.of(BIG) == estimate_host_bytes(parse_call(BIG)) + 6 * (2 << 30)


def test_a_large_peak_is_learned_and_used_by_the_next_session(tmp_path: Path) -> None:
    file = tmp_path / "peaks.sqlite"
    first = Estimates(CaseOptions(), "cpu", learned=file)
    first.learn(BIG, 3 << 30)
    first.learn('paddle.abs(Tensor([2],"float32"))', 1 << 20)
    first.close()
    second = Estimates(CaseOptions(), "cpu", learned=file)
    assert (3 << 30) < second.of(BIG) <= 1.11 * (3 << 30)  # type: ignore[operator]
    assert second.of('paddle.abs(Tensor([2],"float32"))') < 1 << 20  # type: ignore[operator]
    second.close()


def test_a_small_peak_is_learned_where_the_estimate_was_large(tmp_path: Path) -> None:
    file = tmp_path / "peaks.sqlite"
    first = Estimates(CaseOptions(), "cpu", learned=file)
    assert first.of(BIG) > 1 << 30  # type: ignore[operator]
    first.learn(BIG, 100 << 20)
    first.close()
    second = Estimates(CaseOptions(), "cpu", learned=file)
    assert (100 << 20) < second.of(BIG) <= 111 << 20  # type: ignore[operator]
    second.close()


def test_a_peak_of_nothing_was_not_measured(tmp_path: Path) -> None:
    file = tmp_path / "peaks.sqlite"
    first = Estimates(CaseOptions(), "cpu", learned=file)
    known = first.of(BIG)
    first.learn(BIG, 0)
    first.close()
    second = Estimates(CaseOptions(), "cpu", learned=file)
    assert second.of(BIG) == known
    second.close()


def test_peaks_of_another_mode_or_kind_do_not_count(tmp_path: Path) -> None:
    file = tmp_path / "peaks.sqlite"
    gpu = Estimates(CaseOptions(), "nvidia", learned=file)
    gpu.learn(BIG, 50 << 30)
    gpu.close()
    host = Estimates(CaseOptions(), "cpu", learned=file)
    assert host.of(BIG) == estimate_host_bytes(parse_call(BIG))
    host.close()


def test_on_a_device_the_operator_is_asked_and_the_answer_takes_a_while() -> None:
    estimates = Estimates(CaseOptions(), "nvidia", learned=None)
    try:
        assert estimates.of(BIG) is None
        assert estimates.now(BIG) == guess_device_bytes(parse_call(BIG), backward=True)
        size = settled(estimates, BIG)
        tensor = 4 * 1024 * 1024 * 512
        assert 3 * tensor <= size <= 6 * tensor
        assert estimates.of('paddle.abs(Tensor([2],"float32"))') is not None  # surely small
    finally:
        estimates.close()
